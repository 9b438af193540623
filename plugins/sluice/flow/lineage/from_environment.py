"""Where a command's events go: what the OpenLineage client's own variables and files say."""

from __future__ import annotations

from sluice.clients.openlineage.open_client import configured, namespace, parent
from sluice.errors import WrongUse
from sluice.flow.lineage.runs import Destination


def from_environment() -> Destination | None:
    """None where no transport is configured. Raises what the client raises; WrongUse where it is missing."""
    if not configured():
        return None
    try:
        from sluice.clients.openlineage.open_client import open_sender
    except ModuleNotFoundError as error:
        raise WrongUse("openlineage-python is not installed: sluice[lineage] brings it") from error
    sender = open_sender()
    return None if sender is None else Destination(sender, namespace(), parent())
