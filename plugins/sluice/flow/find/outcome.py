"""Decides from the facts about a record where it is. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import pendulum

from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.manifest import TOMBSTONE, Manifest, PartitionCount
from sluice.slices import Slice, SliceRange
from sluice.state.boundaries.boundary import TopicBoundaries
from sluice.state.boundaries.model import Boundaries

# A record's place in Kafka, and the slice that stored boundaries give it.

_PLACE = re.compile(r"([A-Za-z0-9._-]{1,249}):(\d{1,10}):(\d{1,19})", re.ASCII)
_MOST_PARTITION, _MOST_OFFSET = (1 << 31) - 1, (1 << 63) - 1


@dataclass(frozen=True, order=True)
class RecordPlace:
    """Where a record is in Kafka."""

    cluster: str
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic}:{self.partition}:{self.offset}"


def read_place(text: str) -> tuple[str, int, int]:
    """Returns (topic, partition, offset) of `bids:3:10482`. Raises WrongUse for anything else."""
    found = _PLACE.fullmatch(text)
    if found is not None:
        partition, offset = int(found[2]), int(found[3])
        if partition <= _MOST_PARTITION and offset <= _MOST_OFFSET:
            return found[1], partition, offset
    raise WrongUse(f"{text[:60]!r} is no TOPIC:PARTITION:OFFSET such as bids:3:10482")


@dataclass(frozen=True)
class OffsetLocation:
    """Where the boundaries of one topic id put an offset.

    Without a `slice` it lies between the instants `after` and `before`, which are further apart than a slice,
    or beyond the boundaries: then one of them is None. `left`: its slice is read from the topic that was
    recreated under the same name.
    """

    uuid: str
    slice: Slice | None
    after: pendulum.DateTime | None = None
    before: pendulum.DateTime | None = None
    left: bool = False


def locations_of(boundaries: Boundaries, place: RecordPlace) -> list[OffsetLocation]:
    """Returns where the offset is, by each topic id that the boundary log knows, the newest first; a topic id
    that is gone only where a slice holds the offset. Empty where the log does not know the partition."""
    return list(_locations(boundaries, place))


def _locations(boundaries: Boundaries, place: RecordPlace) -> Iterator[OffsetLocation]:
    eras = boundaries.eras.get((place.cluster, place.topic), ())
    for number, era in enumerate(reversed(eras)):
        block = boundaries.blocks.get((place.cluster, place.topic, era.uuid))
        if block is None or place.partition not in block.columns:
            continue
        location = _location(boundaries, block, place)
        if number == 0 or location.slice is not None:
            yield location


def _location(boundaries: Boundaries, block: TopicBoundaries, place: RecordPlace) -> OffsetLocation:
    column, instants = block.columns[place.partition], block.instants
    # Per partition offsets never fall as instants rise.
    row = bisect_right(range(len(instants)), place.offset, key=column.offset)
    after = pendulum.from_timestamp(instants[row - 1]) if row else None
    before = pendulum.from_timestamp(instants[row]) if row < len(instants) else None
    length = boundaries.length
    if after is None or before is None or length is None or before - after != length:
        return OffsetLocation(block.uuid, None, after, before)
    slice_ = Slice(after, length)
    left = not _reads(boundaries, slice_, block.uuid, place)
    return OffsetLocation(block.uuid, slice_, after, before, left)


def _reads(boundaries: Boundaries, slice_: Slice, uuid: str, place: RecordPlace) -> bool:
    """Returns whether the slice is read from this topic id."""
    ranges = boundaries.ranges(slice_, place.cluster, [place.topic]) or ()
    return any(
        r.uuid == uuid and r.partition == place.partition and r.start <= place.offset < r.until
        for r in ranges
    )


class Outcome(StrEnum):
    IN_TABLE = "in its table"
    NOT_LOADED = "landed, not loaded yet"
    NO_TABLE = "landed, in no table"
    REJECTED_ROW = "landed, a value does not fit"
    ABSENT = "landed, not in its table"
    TWICE = "landed, too often in its table"
    UNKNOWN = "landed, tables unknown"
    REJECTED = "rejected"
    TOMBSTONE = "a tombstone"
    GAP = "a gap"
    EMPTY = "an empty array"
    EMPTY_OR_GAP = "an empty array or a gap"
    ERASED = "erased"
    ERASED_OR_NONE = "erased, or without a row"
    LOST = "expired"
    LACKING = "not read"
    LEFT_BEHIND = "left behind"
    NOT_LANDED = "not landed yet"
    NO_SLICE = "not in a slice yet"
    HELD = "behind an open transaction"
    BEFORE = "before the first slice"
    BEYOND = "beyond the log's end"
    NOWHERE = "missing"
    UNREADABLE = "not readable"
    FORGOTTEN = "its file is forgotten"
    BYTES_FORGOTTEN = "rejected, its bytes are forgotten"
    BYTES_FORGOTTEN_OR_NONE = "rejected and forgotten, or without a row"


_SAID = {
    Outcome.IN_TABLE: "each table that takes its type has it",
    Outcome.NOT_LOADED: "it is in the lake, and a table has not loaded its slice: `{run}` does",
    Outcome.NO_TABLE: "no table takes its type; it is in the lake alone",
    Outcome.REJECTED_ROW: "a value does not fit its column: it is in sluice.rejected, and not in the table",
    Outcome.ABSENT: "its slice is loaded, and the table has no row of it: `{verify}` names the repair",
    Outcome.TWICE: "the table has more rows of it than landed: `{verify}` names the repair",
    Outcome.UNKNOWN: "it is in the lake, and ClickHouse does not answer",
    Outcome.REJECTED: "it could not become a row: its bytes are in _rejected/ with the reason",
    Outcome.TOMBSTONE: "the record has no value, which gives no row; what else it has is in _rejected/",
    Outcome.GAP: "Kafka shows no record there: a transaction's marker, an aborted record, or one that was "
    "compacted away",
    Outcome.EMPTY: "the message is an array without elements, which is no row",
    Outcome.EMPTY_OR_GAP: "its slice has empty arrays and offsets without a record, and this is one of them",
    Outcome.ERASED: "it is on the erasure list, and was left out of its slice",
    Outcome.ERASED_OR_NONE: "its slice has erased records, and empty arrays or offsets without a record: "
    "this is one of them",
    Outcome.LOST: "Kafka had deleted it before its slice landed",
    Outcome.LACKING: "its slice landed before the pipeline read its topic or partition: `{reland}` brings it",
    Outcome.LEFT_BEHIND: "its topic was recreated, and its slice is read from the new one: it is lost",
    Outcome.NOT_LANDED: "its slice is resolved and has not landed: `{run}` lands it",
    Outcome.NO_SLICE: "no slice that is resolved holds it: a run over its hour reads it; if that hour landed "
    "without its topic, a `reland` of the hour does",
    Outcome.HELD: "its transaction is open: it is read when that ends",
    Outcome.BEFORE: "it is older than the first slice of its topic, and is not read; if its hour landed "
    "before the pipeline read the topic, a `reland` of the hour brings it",
    Outcome.BEYOND: "the log ends before it: there is no such record yet",
    Outcome.NOWHERE: "its slice landed without it, and nothing says why: `{contents}` names the repair",
    Outcome.UNREADABLE: "a file of its slice cannot be read: `{verify}` names the repair",
    Outcome.FORGOTTEN: "its slice landed, and the lake has forgotten the files, as `keep` in the pipeline "
    "file says; what tables have of it is below",
    Outcome.BYTES_FORGOTTEN: "it could not become a row, and the lake has forgotten its bytes, as `keep` in "
    "the pipeline file says",
    Outcome.BYTES_FORGOTTEN_OR_NONE: "its partition has rejected records whose bytes the lake has forgotten, "
    "and its slice has erased records, empty arrays or offsets without a record: this is one of them",
}


def meaning(outcome: Outcome, pipeline: Pipeline, facts: RecordFacts) -> str:
    """Returns what the outcome means, and what to do where something is to be done."""
    held = facts.location.slice if facts.location else None
    words = SliceRange(held.start, held.end).words if held else ()
    return _SAID[outcome].format(
        run=pipeline.command("run", *words),
        reland=pipeline.command("run", *words, "--mode", "reland"),
        verify=pipeline.command("verify", *words),
        contents=pipeline.command("verify", *words, "--contents"),
    )


def outcome_of(facts: RecordFacts) -> Outcome:
    """Decides where the record is. A landed row counts before a rejected one: an array may have both."""
    if facts.rows:
        landed = [row for row in facts.rows if row.type is not None]
        tombstone = all(row.reason == TOMBSTONE for row in facts.rows)
        return _of_tables(facts) if landed else Outcome.TOMBSTONE if tombstone else Outcome.REJECTED
    if facts.location is None or facts.location.slice is None:
        return _outside(facts)
    if facts.location.left:
        return Outcome.LEFT_BEHIND
    if facts.manifest is None:
        return Outcome.LOST if _expired(facts) else Outcome.NOT_LANDED
    return _not_found(facts, facts.manifest)


def _of_tables(facts: RecordFacts) -> Outcome:
    if not facts.tables:
        return Outcome.NO_TABLE
    if any(table.commit == "unavailable" for table in facts.tables):
        return Outcome.UNKNOWN
    if any(table.commit != "committed" for table in facts.tables):
        return Outcome.NOT_LOADED
    judged = [table for table in facts.tables if table.lasting and table.rows is not None]
    held = [(table.rows or 0, table.expected) for table in judged]
    if any(rows > expected for rows, expected in held):
        return Outcome.UNREADABLE if facts.partly_read else Outcome.TWICE
    if any(rows < expected for rows, expected in held):
        return Outcome.ABSENT
    return Outcome.REJECTED_ROW if any(table.rejected_rows for table in facts.tables) else Outcome.IN_TABLE


def _not_found(facts: RecordFacts, manifest: Manifest) -> Outcome:
    place = facts.place
    ranges = [r for r in manifest.ranges if (r.topic, r.partition) == (place.topic, place.partition)]
    lost = [r for r in manifest.lost if (r.topic, r.partition) == (place.topic, place.partition)]
    if any(loss.start <= place.offset < loss.until for loss in lost):
        return Outcome.LOST
    if not any(r.start <= place.offset < r.until for r in ranges):
        return Outcome.LACKING
    if manifest.forgotten_on:
        return Outcome.FORGOTTEN
    if facts.unreadable:
        return Outcome.UNREADABLE
    if any(manifest.forgotten_in(c) for c in manifest.counts if _is_of(c, place)):
        other_reason = manifest.erased or manifest.gaps or manifest.empty
        return Outcome.BYTES_FORGOTTEN_OR_NONE if other_reason else Outcome.BYTES_FORGOTTEN
    if manifest.erased:
        return Outcome.ERASED_OR_NONE if manifest.gaps or manifest.empty else Outcome.ERASED
    if manifest.gaps and manifest.empty:
        return Outcome.EMPTY_OR_GAP
    if manifest.gaps:
        return Outcome.GAP
    return Outcome.EMPTY if manifest.empty else Outcome.NOWHERE


def _is_of(count: PartitionCount, place: RecordPlace) -> bool:
    return (count.topic, count.partition) == (place.topic, place.partition)


def _outside(facts: RecordFacts) -> Outcome:
    """Decides for an offset that no resolved slice holds."""
    kafka, location = facts.kafka, facts.location
    if location is not None and location.after is None:
        return Outcome.BEFORE
    if kafka is None or kafka.error:
        return Outcome.NO_SLICE
    return _in_kafka(facts.place.offset, kafka)


def _in_kafka(offset: int, kafka: PartitionEdges) -> Outcome:
    if offset >= kafka.end:
        return Outcome.BEYOND
    if offset >= kafka.stable:
        return Outcome.HELD
    return Outcome.LOST if offset < kafka.start else Outcome.NO_SLICE


def _expired(facts: RecordFacts) -> bool:
    kafka = facts.kafka
    return kafka is not None and not kafka.error and facts.place.offset < kafka.start


# What was read about one record: the facts that decide the answer.
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

    A row of events has a `type`, a rejected one a `reason`. `number` is its place in an array; a
    rejected one has no `event_time`. `stamp` is the record's own time, in ms: any number.
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
    forgotten. `rows` is None where the table has no columns that tell one record from another.
    `rejected_rows` are (column, reason, the row in its array), a bounded number of them; `unfit_rows` counts
    the rows of all. `lasting`: the table keeps each row that it got."""

    table: str
    commit: str
    committed_at: datetime | None = None
    rows: int | None = None
    rejected_rows: tuple[tuple[str, str, int], ...] = ()
    unfit_rows: int = 0
    error: str = ""
    landed: int = 1
    lasting: bool = True

    @property
    def expected(self) -> int:
        """The rows that it has to have, once its slice is loaded."""
        return self.landed - self.unfit_rows


@dataclass(frozen=True)
class RecordFacts:
    """`location` is None where no boundary knows the partition, and `kafka` where it was not asked.

    `unreadable`: files of the manifest that are missing or damaged, and why. `rows` are those that were
    looked for: of an array there may be more.
    """

    place: RecordPlace
    location: OffsetLocation | None
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
        return bool(self.rows) or any(table.rows or table.rejected_rows for table in self.tables)
