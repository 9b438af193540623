"""How a command ends that did all it could, and one of several clusters is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.cli.output import progress
from sluice.errors import SluiceError
from sluice.pipeline import Pipeline
from sluice.status import UnitStatus
from sluice.waiting import waiting


def refuse_missing(
    spec: Pipeline,
    found: Sequence[UnitStatus],
    mode: str,
    token: str,
    silent: Mapping[str, SluiceError] | None = None,
) -> None:
    """Raises ClusterWaits for the first cluster of which something has not landed; the others are told.

    `silent` says why clusters could not be resolved; one that went away later is asked again.
    """
    from sluice.kafka.knock import knock_at

    left, known = waiting(spec, found, mode, token), silent or {}
    causes = {**known, **knock_at(spec, [part.cluster for part in left if part.cluster not in known])}
    errors = [part.error(spec, causes[part.cluster], mode) for part in left]
    for error in errors[1:]:
        progress(str(error))
    if errors:
        raise errors[0]
