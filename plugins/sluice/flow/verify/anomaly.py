"""An anomaly: an equation that does not hold, where, and the command that repairs it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class AnomalyKind(StrEnum):
    """What can be broken. The values are stored and counted by: they do not change."""

    # slices
    INCOMPLETE = "incomplete"  # over, and not landed, not loaded or stale
    LOSS = "loss"  # Kafka no longer has, or had, some of its offsets
    STALLED = "stalled partition"
    # offsets
    GAP = "gap"
    OVERLAP = "overlap"
    BACKWARD = "backward move"
    OFFSETS = "offsets"  # a manifest's are not those of its boundaries
    LACKING = "lacking topic"  # the pipeline file named it only after the slice had landed
    # counts of one manifest
    READ = "records read"
    LANDED = "rows landed"
    REJECTED_RECORDS = "records rejected"
    MOSTLY_REJECTED = "mostly rejected"  # one reason has rejected more than `rejected.fail_above`
    # the lake
    MANIFEST = "unreadable manifest"
    FILE_MISSING = "file missing"
    FILE_NOT_MOVED = "file not moved"
    FILE_SIZE = "file size"
    FILE_CHECKSUM = "file checksum"
    FILE_UNKNOWN = "unknown file"  # no manifest lists it
    ATTEMPT = "old attempt"  # files of an attempt that no manifest names, a week old
    NOT_ERASED = "not erased"  # it landed without an entry of the erasure list, and was not searched since
    # the lake's rows
    ROW_PAYLOAD = "unreadable payload"
    ROW_TYPE = "wrong type"
    ROW_HOUR = "wrong event hour"
    ROW_IDENTITY = "wrong identity"  # another cluster or offset than the unit's, twice, or not at all
    # ClickHouse
    TABLE_MISSING = "table missing"
    LEDGER = "ledger"  # its row does not add up to what landed
    ROWS_MISSING = "rows missing"
    ROWS_EXTRA = "rows too many"
    VALUES = "values differ"  # from what the lake gives
    ROWS_DUPLICATE = "duplicate rows"
    ROWS_FOREIGN = "foreign rows"  # offsets that the unit did not read
    ROWS_UNCOVERED = "uncovered rows"  # no ledger row covers them
    REJECTED_ROWS = "rejected_rows"
    REJECTED_VALUES = "rejected rows differ"  # from those that the lake gives
    COUNTS = "traffic counts"  # they do not sum up to the rows that landed
    VIEW = "view"  # a table that a materialized view writes to
    VIEW_MISSING = "view missing"  # it fed a table until the last load
    READERS_VIEW = "readers' view"  # it does not show the committed slices
    MISPLACED = "misplaced rows"  # they belong on another shard
    LEFT = "left shard"  # one that is not in the pipeline file any more, and still holds rows


LAKE_ROW_KINDS = (
    AnomalyKind.ROW_PAYLOAD,
    AnomalyKind.ROW_TYPE,
    AnomalyKind.ROW_HOUR,
    AnomalyKind.ROW_IDENTITY,
)
# What only a comparison of rows can find, and a comparison of counts cannot clear.
ROW_KINDS = (*LAKE_ROW_KINDS, AnomalyKind.VALUES, AnomalyKind.REJECTED_VALUES)
# What manifests, listings and counts by hour show, which the watch reads each time.
CHEAP_KINDS = frozenset(
    {
        *(AnomalyKind.GAP, AnomalyKind.OVERLAP, AnomalyKind.BACKWARD, AnomalyKind.OFFSETS),
        *(AnomalyKind.READ, AnomalyKind.LANDED, AnomalyKind.REJECTED_RECORDS),
        *(AnomalyKind.MANIFEST, AnomalyKind.FILE_MISSING, AnomalyKind.FILE_SIZE, AnomalyKind.FILE_UNKNOWN),
        *(AnomalyKind.TABLE_MISSING, AnomalyKind.READERS_VIEW, AnomalyKind.LEDGER, AnomalyKind.COUNTS),
        *(AnomalyKind.ROWS_MISSING, AnomalyKind.ROWS_EXTRA, AnomalyKind.ROWS_UNCOVERED),
        *(AnomalyKind.REJECTED_ROWS, AnomalyKind.VIEW_MISSING),
    }
)
# The hour is exact: a run logs it, and goes on. One that is mostly rejected ends it when all else is done.
QUIET_KINDS = (
    *(AnomalyKind.NOT_ERASED, AnomalyKind.LACKING, AnomalyKind.MOSTLY_REJECTED),
    AnomalyKind.VIEW_MISSING,
)


@dataclass(frozen=True)
class Anomaly:
    """`expected` and `seen` are short texts with the exact counts. Empty place fields do not apply.

    `command` is run as it stands and repairs it; where it is empty, `advice` says why there is none and what
    a person can do. `later` is the command that repairs it once every target table is there. `cause`: the
    missing table that alone explains it. `offsets` is `[first, end)` of one partition; `slice` a slice's id;
    `file` a key in the lake.
    """

    kind: AnomalyKind
    expected: str
    seen: str
    command: str = ""
    advice: str = ""
    slice: str = ""
    cluster: str = ""
    topic: str = ""
    partition: int | None = None
    offsets: tuple[int, int] | None = None
    type: str = ""
    table: str = ""
    file: str = ""
    shard: str = ""
    later: str = ""
    cause: str = ""

    @property
    def place(self) -> str:
        """`table e.clicks, slice 2026-11-20T10Z/dc1, type click`: all place fields that apply."""
        parts = [f"table {self.table}"] if self.table else []
        parts += [f"shard {self.shard}"] if self.shard else []
        parts += [f"file {self.file}"] if self.file else []
        unit = "/".join(filter(None, (self.slice, self.cluster)))
        parts += [f"slice {unit}" if self.slice else f"cluster {unit}"] if unit else []
        if self.topic:
            partition = "" if self.partition is None else f"/{self.partition}"
            parts.append(f"{self.topic}{partition}")
        parts += [f"offsets [{self.offsets[0]}, {self.offsets[1]})"] if self.offsets else []
        parts += [f"type {self.type}"] if self.type else []
        return ", ".join(parts)

    @property
    def message(self) -> str:
        return f"expected {self.expected}, seen {self.seen}"

    @property
    def key(self) -> str:
        """Identifies the anomaly: it is the same in every verification, however its counts change."""
        unit = "/".join((self.slice, self.cluster, self.topic, str(self.partition)))
        shard = (self.shard,) if self.shard else ()
        return "|".join((self.kind, unit, self.type, self.table, self.file, *shard))

    def __str__(self) -> str:
        repair = "; ".join(filter(None, (self.command and f"repair: {self.command}", self.advice)))
        return f"{self.kind}: {self.place}: {self.message}; {repair}"

    def as_dict(self) -> dict[str, Any]:
        """Returns every field, `place` and `message`, for JSON."""
        return {**asdict(self), "kind": str(self.kind), "place": self.place, "message": self.message}
