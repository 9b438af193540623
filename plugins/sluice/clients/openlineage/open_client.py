"""Opens the OpenLineage client as its own configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openlineage.client import OpenLineageClient
from openlineage.client.uuid import generate_new_uuid

from sluice.clients.openlineage.delivery import Sender
from sluice.clients.openlineage.run_events import run_event

_SILENT = "noop"
_CONSOLE = "console"


def open_sender(config: Mapping[str, Any] | None = None) -> Sender | None:
    """What sends an event, or None where no transport is configured. `config` is the content of an
    openlineage.yml; the client adds what the environment says. Nothing is sent or asked yet.

    Raises what the client raises for a configuration that it does not understand.
    """
    client = OpenLineageClient(config=_without_git(config or {}))
    by_default = client.transport.kind == _CONSOLE and (client.config.transport or {}).get("type") != _CONSOLE
    if by_default or client.transport.kind == _SILENT:
        return None
    return Sender(lambda event: client.emit(run_event(event)), client.close, lambda: str(generate_new_uuid()))


def _without_git(config: Mapping[str, Any]) -> dict[str, Any]:
    """The client takes the Git repository of the working folder for the job's source, and would send the
    address of its remote as it stands there, with a token where it has one."""
    facets = {**config.get("facets", {}), "source_code_location": {"disabled": True}}
    return {**config, "facets": facets}
