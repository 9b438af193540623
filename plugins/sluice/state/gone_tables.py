"""Tables that are not there, and what of a unit's state does not hold without them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState


@dataclass(frozen=True)
class GoneTable:
    """A table that a server lacks. `target` is the target that nothing is loaded into without it: the table
    itself, or the source of a view that writes to it."""

    table: str
    target: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.table}: {self.reason}; {self.remedy}"


def without_tables(statuses: Iterable[UnitStatus], gone: Collection[GoneTable]) -> list[UnitStatus]:
    """Returns the statuses with those units `landed` whose rows are not where the ledger says: a target, or a
    table that a view of it writes to, is gone."""
    tables, targets = {one.table for one in gone}, {one.target for one in gone}
    return [
        replace(
            status,
            state=UnitState.LANDED,
            tables={name: row for name, row in status.tables.items() if name not in tables},
        )
        if status.state.done and targets & status.tables.keys()
        else status
        for status in statuses
    ]
