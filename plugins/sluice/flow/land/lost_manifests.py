"""A unit that has landed is never landed as if it had not: its manifest may be lost, and its files are there.

Such a unit is landed anew only if Kafka still has every record that its files hold, also of topics that have
left the pipeline file. The new files are of a later generation, so none is overwritten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.errors import ManifestLost
from sluice.flow.land.read_plan import UnitRead
from sluice.manifest import OffsetRange
from sluice.slices import Unit
from sluice.state.manifests import read_manifests

OffsetSpans = Mapping[tuple[str, int], tuple[int, int]]
"""By (topic, partition): the first offset and the one after the last."""


@dataclass(frozen=True)
class LostManifest:
    """What is left of a unit's landing: the manifest's id and place, the command that does without it, and
    the files' newest generation, the offsets of their records, and their rows. `unreadable`: which file
    cannot be read. A unit that was amended has files of several generations."""

    unit: Unit
    id: str
    place: str
    reland: str
    generation: int
    spans: OffsetSpans
    rows: int
    unreadable: str = ""

    def lacking(self, left: Iterable[OffsetRange]) -> str:
        """Returns why the files may hold records that are not `left` to read; empty if all are."""
        if self.unreadable:
            return f"{self.unreadable}, so nobody knows which records it has"
        readable = {(r.topic, r.partition): (r.start, r.until) for r in left}
        for (topic, partition), (start, until) in sorted(self.spans.items()):
            first, end = readable.get((topic, partition), (until, until))
            if start < first or end < until:
                gone = (start, min(until, first)) if start < first else (max(start, end), until)
                place = f"{self.unit.cluster}/{topic}/{partition}"
                return f"Kafka no longer has offsets [{gone[0]}, {gone[1]}) of {place}, which its files hold"
        return ""

    def refusal(self, why: str) -> ManifestLost:
        return ManifestLost(str(self.unit), self.place, why, self.reland)


@dataclass(frozen=True)
class LostManifests:
    """`accept_loss`: what cannot land again of the units is given up."""

    units: Mapping[Unit, LostManifest] = field(default_factory=dict)
    accept_loss: bool = False

    def topics(self, unit: Unit, named: Iterable[str]) -> tuple[str, ...]:
        """Returns `named` and the topics of the unit's files."""
        found = self.units.get(unit)
        return tuple(dict.fromkeys((*named, *(topic for topic, _ in (found.spans if found else ())))))

    def check(self, unit: Unit, left: Iterable[OffsetRange]) -> None:
        """Raises ManifestLost if the unit's files may have records that are not `left` to read."""
        found = None if self.accept_loss else self.units.get(unit)
        if found is not None and (why := found.lacking(left)):
            raise found.refusal(why)

    def check_rows(self, unit: Unit, rows: int) -> None:
        """Raises ManifestLost if fewer `rows` land now than the unit's files have: by other rules."""
        found = None if self.accept_loss else self.units.get(unit)
        if found is not None and rows < found.rows:
            fewer = f"{found.rows - rows:,} of its {found.rows:,} rows"
            raise found.refusal(f"the pipeline file as it is now would reject {fewer}")

    def accepting(self, pipeline: Pipeline, unit: Unit) -> Pipeline:
        """Returns the pipeline; if the unit's losses are accepted, one that lands what is left."""
        accepts = self.accept_loss and unit in self.units
        return pipeline.model_copy(update={"on_expired": "land_rest"}) if accepts else pipeline

    def after(self, read: UnitRead) -> UnitRead:
        """Returns the read whose landing comes after the lost one, and amends it if losses are accepted: then
        tables give their rows up, too."""
        found = self.units.get(read.unit)
        if found is None:
            return read
        amends = (found.id,) if self.accept_loss and found.id else ()
        return replace(read, generation=found.generation, amends=amends)


def lost_manifests(lake: Lake, units: Iterable[Unit], accept_loss: bool) -> LostManifests:
    """Returns those of `units`, seen without a manifest, that have landed all the same. A landing's
    `_SUCCESS` says so; then their files are looked for. Raises what the lake raises."""
    marks = {layout.slice_success(unit.slice.id, unit.cluster): unit for unit in units}
    marked = {marks[item.key]: item.key for item in lake.present(marks)} if marks else {}
    for unit in read_manifests(lake, marked):
        del marked[unit]  # another run has landed it just now
    files: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for prefix in ("type=", f"{layout.REJECTED}/") if marked else ():
        for item in lake.list(prefix):
            if name := layout.parse_name(item.key):
                files[name.slice, name.cluster].append((name.generation, item.key))
    found = {}
    for unit, mark in marked.items():
        stored, own = lake.read(mark), files[unit.slice.id, unit.cluster]
        spans, rows, unreadable = _contents(lake, [key for _, key in own])
        found[unit] = LostManifest(
            unit=unit,
            id=stored.data.decode() if stored is not None else "",
            place=f"{lake.url}/{layout.manifest(unit.slice.id, unit.cluster)}",
            reland=lake.command("run", *unit.slice.words, "--mode", "reland", "--yes"),
            generation=max((generation for generation, _ in own), default=0),
            spans=spans,
            rows=rows,
            unreadable=unreadable,
        )
    return LostManifests(found, accept_loss)


def _contents(lake: Lake, keys: Iterable[str]) -> tuple[OffsetSpans, int, str]:
    """Returns the offsets in files, the rows of those outside `_rejected/`, and which cannot be read."""
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    rows, unreadable = 0, ""
    for key in keys:
        try:
            with lake.local(key) as path, pq.ParquetFile(path) as parquet:
                table = parquet.read(columns=["_topic", "_partition", "_offset"])
            by_partition = table.group_by(["_topic", "_partition"])
        except (FileNotFoundError, OSError, pa.ArrowException, KeyError):
            unreadable = unreadable or f"its file {key} cannot be read"
            continue
        rows += 0 if key.startswith(f"{layout.REJECTED}/") else len(table)
        for row in by_partition.aggregate([("_offset", "min"), ("_offset", "max")]).to_pylist():
            place = str(row["_topic"]), int(row["_partition"])
            start, until = spans.get(place, (row["_offset_min"], 0))
            spans[place] = min(start, row["_offset_min"]), max(until, row["_offset_max"] + 1)
    return spans, rows, unreadable
