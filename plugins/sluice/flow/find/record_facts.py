"""What was read about one record: the facts that decide the answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sluice.flow.find.record_place import RecordPlace, SeatedOffset
from sluice.manifest import Manifest


@dataclass(frozen=True)
class PartitionEdges:
    """What Kafka says of the record's partition now. `stable`: the last stable offset, `end` the end of the
    log. `error`: why nothing is known."""

    start: int = 0
    stable: int = 0
    end: int = 0
    error: str = ""


@dataclass(frozen=True)
class LakeRow:
    """A row of the lake: the file, which of its row groups, and which row of that, all from 0.

    A row of events has a `type`, a rejected one a `reason`. `number` is its place in an array; `event_time`
    is missing in files of older versions. `stamp` is the record's own time, in ms: any number.
    """

    place: RecordPlace
    file: str
    row_group: int
    row: int
    type: str | None = None
    reason: str | None = None
    event_time: datetime | None = None
    stamp: int | None = None
    number: int | None = None


@dataclass(frozen=True)
class TableRecord:
    """What one table has of a record.

    `commit`: "committed", "stale" (of another manifest than the lake's), "not loaded", or "unavailable" with
    an `error`. `landed` rows of the record are of types that the table takes; 0 where its files are
    forgotten. `rows` is None where the table has no columns that tell one record from another. `misfits` are
    (column, reason, the row in its array), a bounded number of them; `misfit_rows` counts the rows of all.
    `lasting`: the table keeps each row that it got.
    """

    table: str
    commit: str
    committed_at: datetime | None = None
    rows: int | None = None
    misfits: tuple[tuple[str, str, int], ...] = ()
    misfit_rows: int = 0
    error: str = ""
    landed: int = 1
    lasting: bool = True

    @property
    def expected(self) -> int:
        """The rows that it has to have, once its slice is loaded."""
        return self.landed - self.misfit_rows


@dataclass(frozen=True)
class RecordFacts:
    """`seat` is None where no boundary knows the partition, and `kafka` where it was not asked.

    `unreadable`: files of the manifest that are missing or damaged, and why. `rows` are those that were
    looked for: of an array there may be more.
    """

    place: RecordPlace
    seat: SeatedOffset | None
    manifest: Manifest | None = None
    rows: tuple[LakeRow, ...] = ()
    unreadable: tuple[str, ...] = ()
    tables: tuple[TableRecord, ...] = ()
    kafka: PartitionEdges | None = None

    @property
    def partly_read(self) -> bool:
        """Returns whether a file that cannot be read may hold further rows of the record."""
        return bool(self.unreadable) and self.manifest is not None and self.manifest.rows is not None

    @property
    def found(self) -> bool:
        """Returns whether the lake or a table has something of the record."""
        return bool(self.rows) or any(table.rows or table.misfits for table in self.tables)
