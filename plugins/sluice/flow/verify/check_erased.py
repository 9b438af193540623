"""What landed by an older erasure list than the one that stands, and was not searched since. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.repairs import Repairs


def check_erased(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    for status, manifest in facts.landed:
        number = facts.unerased.get(status.unit)
        if number is not None:
            yield Anomaly(
                AnomalyKind.NOT_ERASED,
                f"nothing that entry {number} of the erasure list names",
                f"manifest {manifest.id}, which landed without it and was not searched",
                command=repairs.erase_pending(),
                advice="or an erasure is at work, or was stopped: the same erasure, asked for again, goes on",
                slice=status.unit.slice.id,
                cluster=status.unit.cluster,
            )
