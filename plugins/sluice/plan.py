"""What a backfill would do to each unit, as data and as a line. Pure."""

from __future__ import annotations

from typing import Any

from sluice.state import State
from sluice.status import UnitStatus

_FILL = {
    State.NOT_OVER: "wait",
    State.MISSING: "land and load",
    State.EXPIRED: "fail: expired",
    State.LANDED: "load",
    State.STALE: "load",
    State.COMPLETE: "nothing",
    State.COMPLETE_WITH_LOSS: "nothing",
}


def action(status: UnitStatus, mode: str, on_expired: str = "fail") -> str:
    """What `mode` does to a unit in this state."""
    if status.state is State.NOT_OVER:
        return "wait"
    if mode == "reland" and status.manifest is not None:
        return "refuse: expired" if status.losses else "land and load again"
    if mode == "reload" and status.manifest is not None:
        return "load again"
    if status.state is State.EXPIRED and on_expired == "land_rest":
        return "land what is left and load"
    return _FILL[status.state]


def describe(status: UnitStatus, mode: str, on_expired: str = "fail") -> str:
    """One line: unit, state, action, offsets, reads, what Kafka no longer has."""
    lost = "".join(
        f", Kafka no longer has {'' if loss.exact else 'at most '}[{loss.start}, {loss.until}) "
        f"of {loss.topic}/{loss.partition}"
        for loss in status.losses
    )
    lacking = f", lacks topics {', '.join(status.lacking)} (reland brings them)" if status.lacking else ""
    return (
        f"{status.unit}: {status.state} → {action(status, mode, on_expired)}; {status.offsets:,} offsets, "
        f"{status.reads} reads{lost}{lacking}"
    )


def as_json(status: UnitStatus, mode: str, on_expired: str = "fail") -> dict[str, Any]:
    return {
        "slice": status.unit.slice.id,
        "cluster": status.unit.cluster,
        "state": str(status.state),
        "action": action(status, mode, on_expired),
        "offsets": status.offsets,
        "rows": status.manifest.read if status.manifest else status.offsets,
        "reads": status.reads,
        "ranges": [
            {"topic": r.topic, "partition": r.partition, "from": r.start, "until": r.until}
            for r in status.ranges or ()
        ],
        "expired": [
            {"topic": x.topic, "partition": x.partition, "from": x.start, "until": x.until, "exact": x.exact}
            for x in status.losses
        ],
        "lacking_topics": list(status.lacking),
    }
