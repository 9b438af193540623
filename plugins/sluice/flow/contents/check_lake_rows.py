"""Reads files of the lake and says which rows of them are not what their payloads say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.lake.base import Lake
from sluice.config.event import Event
from sluice.config.pipeline import Pipeline
from sluice.flow.contents.identities import Fault, IdentityCounter
from sluice.flow.contents.read_rows import FileColumns, read
from sluice.flow.contents.recompute import FileJudge, TypeFolder, WrongRows, misplaced, ranges_of
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import LandedFile, Manifest
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
    retry of its rejected records. A manifest that names none is judged by the pipeline file."""
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
            read(parquet, headers=any(e.type.header is not None for e in events)), identities, contents
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
