"""Rejected records by where, reason and column. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from sluice.slices import Slice, Unit

Kind = Literal["record", "row"]


@dataclass(frozen=True, order=True)
class RejectionCause:
    """Why records were rejected: `rejected_records` by the landing, or a `unfit` of a table's column."""

    kind: Kind
    table: str
    column: str
    reason: str


@dataclass(frozen=True)
class Rejection:
    """How many records of a unit one cause has rejected; of some the lake has `forgotten` the bytes."""

    unit: Unit
    cause: RejectionCause
    records: int
    forgotten: int = 0

    @property
    def held(self) -> int:
        return self.records - self.forgotten


@dataclass(frozen=True)
class RejectionFilter:
    """Which rejections are asked for. A column, type or table is asked of rejected rows alone: of an rejected
    record neither is known. `tables` are target tables, None all of them."""

    reason: str = ""
    column: str = ""
    type: str = ""
    tables: frozenset[str] | None = None

    @property
    def rejected_records(self) -> bool:
        """Returns whether an rejected record may match."""
        return not self.column and not self.type and self.tables is None

    def takes(self, reason: str) -> bool:
        return self.reason.casefold() in reason.casefold()


@dataclass
class RejectedGroup:
    """All rejections of one cause. `first` and `last` are the slices that have the first and the last,
    `last_held` the last one of which the lake holds the bytes."""

    cause: RejectionCause
    first: Slice
    last: Slice
    records: int = 0
    slices: int = 0
    forgotten: int = 0
    last_held: Slice | None = None

    def add(self, rejection: Rejection) -> None:
        """Takes the next one: they come in the order of their slices."""
        if not self.records or rejection.unit.slice != self.last:
            self.slices += 1
        self.last = rejection.unit.slice
        self.records += rejection.records
        self.forgotten += rejection.forgotten
        if rejection.held:
            self.last_held = rejection.unit.slice


@dataclass
class RejectionTally:
    """Sums rejections up by cause while they are read, so that a year of them takes little memory."""

    groups: dict[RejectionCause, RejectedGroup] = field(default_factory=dict)

    def add(self, rejections: Iterable[Rejection]) -> None:
        for rejection in rejections:
            slice_ = rejection.unit.slice
            self.groups.setdefault(rejection.cause, RejectedGroup(rejection.cause, slice_, slice_)).add(
                rejection
            )

    def records(self, cause: RejectionCause) -> int:
        return self.groups[cause].records if cause in self.groups else 0

    @property
    def sorted(self) -> list[RejectedGroup]:
        """Returns the groups with most records first."""
        return sorted(self.groups.values(), key=lambda group: (-group.records, group.cause))
