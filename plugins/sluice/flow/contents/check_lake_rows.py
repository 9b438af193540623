"""Reads files of the lake and says which rows of them are not what their payloads say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.lake.base import Lake
from sluice.config.event import Event
from sluice.config.pipeline import Pipeline
from sluice.flow.contents.read_rows import FileColumns, read
from sluice.flow.contents.recompute import FileJudge, TypeFolder, WrongRows, misplaced, ranges_of
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import LandedFile, Manifest, TopicPartitionKey
from sluice.runtime import deeper
from sluice.slices import Unit
from sluice.state.rules import RulesReader


@dataclass
class LakeContents:
    """Anomalies of a lake's rows; `rows` were checked."""

    rows: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)


def check_unit(
    pipeline: Pipeline, lake: Lake, unit: Unit, manifest: Manifest, repairs: Repairs
) -> LakeContents:
    """Checks every row of every file of a unit. A file that is missing, or has another size or checksum, is
    an anomaly here, too; one that the lake has forgotten is left out. Raises what the lake raises."""
    contents, identities = LakeContents(), IdentityCounter(manifest)
    events = events_of(pipeline, lake, manifest)
    all_read = not manifest.forgotten_files
    for file in (*manifest.held_events, *manifest.held_rejected):
        try:
            with deeper():
                contents.anomalies += _file(events, lake, manifest, file, identities, contents, unit, repairs)
        except (OSError, pa.ArrowException, ValueError) as error:
            all_read = False
            contents.anomalies.append(unreadable(unit, file, error, repairs))
    if all_read:
        contents.anomalies += [_of_unit(unit, fault, repairs) for fault in identities.faults()]
    return contents


def events_of(pipeline: Pipeline, lake: Lake, manifest: Manifest) -> list[Event]:
    """Returns where type and time are in the unit's payloads: by the rules of its landing, and by those of
    each
    retry of its rejected records; where the lake has lost these, by the pipeline file."""
    reader = RulesReader(lake)
    rules = [reader.landing(digest) for digest in (manifest.rules, *manifest.retried)]
    return [known.event for known in rules if known is not None] or [pipeline.event]


def _file(
    events: Sequence[Event],
    lake: Lake,
    manifest: Manifest,
    file: LandedFile,
    identities: IdentityCounter,
    contents: LakeContents,
    unit: Unit,
    repairs: Repairs,
) -> list[Anomaly]:
    with lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
        parts = _noted(
            read(
                parquet, headers=any(e.type.header is not None or e.time.header is not None for e in events)
            ),
            identities,
            contents,
        )
        if not file.hour:
            wrong = list(_rejected(manifest, parts))
        else:
            judge = FileJudge(events, manifest, TypeFolder.of(file.key))
            for rows in parts:
                judge.take(rows)
            wrong = [*judge.wrong.values(), *_counts(file, judge)]
    return [of_file(unit, file, fault, repairs) for fault in wrong]


def _noted(
    parts: Iterable[FileColumns], identities: IdentityCounter, contents: LakeContents
) -> Iterator[FileColumns]:
    for rows in parts:
        identities.take(rows)
        contents.rows += len(rows)
        yield rows


def _rejected(manifest: Manifest, parts: Iterable[FileColumns]) -> Iterator[WrongRows]:
    """Yields the first row of another unit; the unit's sums count the others."""
    ranges = ranges_of(manifest)
    for rows in parts:
        for number in range(len(rows)):
            for kind, expected, seen in misplaced(manifest, ranges, rows, number):
                place = (rows.topics[number], rows.partitions[number])
                yield WrongRows(kind, expected, seen, place, rows.offsets[number])
                return


def _counts(file: LandedFile, judge: FileJudge) -> Iterator[WrongRows]:
    if dict(judge.types) != dict(file.types()):
        expected = ", ".join(f"{rows:,} {name!r}" for name, rows in sorted(file.types().items()))
        seen = ", ".join(f"{rows:,} {name!r}" for name, rows in sorted(judge.types.items()))
        yield WrongRows(AnomalyKind.ROW_TYPE, f"rows of types {expected}", seen, ("", -1), -1)


def of_file(unit: Unit, file: LandedFile, wrong: WrongRows, repairs: Repairs) -> Anomaly:
    topic, partition = wrong.place
    located = wrong.offset >= 0
    return Anomaly(
        wrong.kind,
        expected=wrong.expected,
        seen=f"{wrong.seen}; so in {wrong.rows:,} rows of the file" if located else wrong.seen,
        command=repairs.reland(unit.slice),
        slice=unit.slice.id,
        cluster=unit.cluster,
        topic=topic,
        partition=partition if located else None,
        offsets=(wrong.offset, wrong.offset + 1) if located else None,
        type=file.type or "",
        file=file.key,
    )


def _of_unit(unit: Unit, fault: Fault, repairs: Repairs) -> Anomaly:
    topic, partition = fault.place or ("", None)
    return Anomaly(
        AnomalyKind.ROW_IDENTITY,
        expected=fault.expected,
        seen=fault.seen,
        command=repairs.reland(unit.slice),
        slice=unit.slice.id,
        cluster=unit.cluster,
        topic=topic,
        partition=partition,
        offsets=None if fault.offset is None else (fault.offset, fault.offset + 1),
    )


def unreadable(unit: Unit, file: LandedFile, error: Exception, repairs: Repairs) -> Anomaly:
    return Anomaly(
        AnomalyKind.ROW_PAYLOAD,
        expected="a file whose rows can be read",
        seen=" ".join(str(error).split())[:200] or type(error).__name__,
        command=repairs.reland(unit.slice),
        slice=unit.slice.id,
        cluster=unit.cluster,
        type=file.type or "",
        file=file.key,
    )


# Which records a unit's files hold: each once, and each either landed or rejected. Pure.
WHOLE = 1 << 62
"""Stands for a record that was rejected as a whole: no number of a row, which is an Int32."""


@dataclass(frozen=True)
class Fault:
    """What does not add up, in one partition or (without a place) in all of the unit."""

    expected: str
    seen: str
    place: TopicPartitionKey | None = None
    offset: int | None = None


@dataclass(frozen=True)
class PartitionRows:
    """The rows of a partition, sorted by offset and number. `first`: of its record; `again`: as the one
    before."""

    offsets: np.ndarray
    numbers: np.ndarray
    first: np.ndarray
    again: np.ndarray

    @classmethod
    def of(cls, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> PartitionRows:
        offsets, numbers = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        order = np.lexsort((numbers, offsets))
        offsets, numbers = offsets[order], numbers[order]
        first = np.ones(len(offsets), bool)
        first[1:] = offsets[1:] != offsets[:-1]
        again = ~first
        again[1:] &= numbers[1:] == numbers[:-1]
        return cls(offsets, numbers, first, again)


@dataclass
class IdentityCounter:
    """Takes all rows of a unit, nine bytes for each, and 16 where messages are arrays; `reasons` of its
    rejected rows and records."""

    manifest: Manifest
    landed: Counter[TopicPartitionKey] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._parts: defaultdict[TopicPartitionKey, list[tuple[np.ndarray, np.ndarray]]] = defaultdict(list)

    def take(self, rows: FileColumns) -> None:
        self.reasons.update(rows.reasons or ())
        positions_by_place: defaultdict[TopicPartitionKey, list[int]] = defaultdict(list)
        for position, place in enumerate(zip(rows.topics, rows.partitions, strict=True)):
            positions_by_place[place].append(position)
        offsets, numbers = np.array(rows.offsets, np.int64), self._numbers(rows)
        for place, positions in positions_by_place.items():
            self._parts[place].append((offsets[positions], numbers[positions]))
            if rows.reasons is None:
                self.landed[place] += len(positions)

    def _numbers(self, rows: FileColumns) -> np.ndarray:
        missing = WHOLE if rows.reasons is not None and self.manifest.rows is not None else 0
        given = rows.numbers or [None] * len(rows)
        numbers = np.array([missing if number is None else number for number in given], np.int64)
        return numbers if numbers.any() else numbers.astype(np.int8)

    def faults(self) -> Iterator[Fault]:
        """Yields what does not add up, once the last row of the unit was taken."""
        records = 0
        for place, parts in sorted(self._parts.items()):
            rows = PartitionRows.of(parts)
            yield from _twice(place, rows)
            yield from _gaps(place, rows, self._erased_rows(place))
            records += int(rows.first.sum())
        gone = sum(self.manifest.forgotten_by_reason().values())
        expected_records = self.manifest.read - self.manifest.empty - self.manifest.erased - gone
        if records != expected_records:
            yield Fault(f"{expected_records:,} records in its files", f"{records:,}")
        for reason in sorted({*self.reasons, *self.manifest.kept_by_reason()}):
            expected, seen = self.manifest.kept_by_reason().get(reason, 0), self.reasons[reason]
            if expected != seen:
                yield Fault(f"{expected:,} rejected as {reason!r}", f"{seen:,}")
        yield from self._partitions()

    def _erased_rows(self, place: TopicPartitionKey) -> int:
        """Returns how many rows of records may be missing: others keep their numbers."""
        return sum(c.rows_erased for c in self.manifest.counts if (c.topic, c.partition) == place)

    def _partitions(self) -> Iterator[Fault]:
        for count in self.manifest.counts:
            rows = count.read - count.rejected_records - count.erased if count.rows is None else count.rows
            expected, place = rows - count.rejected_elements, (count.topic, count.partition)
            if expected != self.landed[place]:
                yield Fault(f"{expected:,} rows landed", f"{self.landed[place]:,}", place)


def _twice(place: TopicPartitionKey, rows: PartitionRows) -> Iterator[Fault]:
    repeated = np.flatnonzero(rows.again)
    if len(repeated):
        yield Fault("each record once", f"{len(repeated):,} more", place, int(rows.offsets[repeated[0]]))


def _gaps(place: TopicPartitionKey, rows: PartitionRows, erased: int) -> Iterator[Fault]:
    """The rows of a record are numbered from 0 on, and `erased` ones leave gaps; one that was rejected as a
    whole has no number."""
    before = np.concatenate(([-1], rows.numbers[:-1]))
    before[rows.first] = -1
    missing = np.where(rows.again, 0, rows.numbers - before - 1)
    missing[rows.first & (rows.numbers == WHOLE)] = 0
    wrong = np.flatnonzero(missing)
    if (missing < 0).any() or missing.sum(dtype=float) > erased:
        offset = int(rows.offsets[wrong[0]])
        yield Fault("rows numbered from 0 on", f"{len(wrong):,} that follow on none", place, offset)
