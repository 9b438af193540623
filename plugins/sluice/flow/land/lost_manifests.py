"""A unit that has landed is never landed as if it had not: its manifest may be lost, and its files are there.

Such a unit is landed anew only if Kafka still has every record that its files hold, also of topics that have
left the pipeline file. The new files are of a later generation, so none is overwritten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow.parquet as pq

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.errors import ManifestLost, WouldReject
from sluice.flow.land.read_plan import UnitRead
from sluice.manifest import OffsetRange
from sluice.slices import Unit

OffsetSpans = Mapping[tuple[str, int], tuple[int, int]]
"""By (topic, partition): the first offset and the one after the last."""


@dataclass(frozen=True)
class LostManifest:
    """What is left of a unit's landing: the manifest's id, its place and the command that does without it,
    and of the files their generation, the offsets of their records and how many rows landed."""

    id: str
    place: str
    reland: str
    generation: int
    spans: OffsetSpans
    rows: int

    def unreadable(self, left: Iterable[OffsetRange]) -> OffsetRange | None:
        """Returns offsets of the files that are not among those `left` to read; None if all are."""
        readable = {(r.topic, r.partition): r for r in left}
        for (topic, partition), (start, until) in sorted(self.spans.items()):
            there = readable.get((topic, partition), OffsetRange(topic, "", partition, until, until))
            if start < there.start:
                return OffsetRange(topic, "", partition, start, min(until, there.start))
            if there.until < until:
                return OffsetRange(topic, "", partition, max(start, there.until), until)
        return None


@dataclass(frozen=True)
class LostManifests:
    """`accept_loss`: what Kafka no longer has of the units is given up."""

    units: Mapping[Unit, LostManifest] = field(default_factory=dict)
    accept_loss: bool = False

    def topics(self, unit: Unit, named: Iterable[str]) -> tuple[str, ...]:
        """Returns `named` and the topics of the unit's files."""
        found = self.units.get(unit)
        return tuple(dict.fromkeys((*named, *(topic for topic, _ in (found.spans if found else ())))))

    def check(self, unit: Unit, left: Iterable[OffsetRange]) -> None:
        """Raises ManifestLost if the unit's files have records that are not `left` to read."""
        found = None if self.accept_loss else self.units.get(unit)
        lacking = None if found is None else found.unreadable(left)
        if found is not None and lacking is not None:
            partition = f"{unit.cluster}/{lacking.topic}/{lacking.partition}"
            raise ManifestLost(str(unit), found.place, lacking.start, lacking.until, partition, found.reland)

    def check_rows(self, unit: Unit, rows: int) -> None:
        """Raises WouldReject if fewer `rows` land now than the unit's files have: by other rules."""
        found = None if self.accept_loss else self.units.get(unit)
        if found is not None and rows < found.rows:
            of = f"by the rules of now; its manifest, which named those of then, is lost: {found.place}"
            raise WouldReject(str(unit), found.rows - rows, found.rows, "unknown", of)

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
    """Returns those of `units`, which have no manifest, that have landed all the same. A landing's `_SUCCESS`
    says so; then their files are looked for. Raises what the lake raises."""
    marks = {layout.slice_success(unit.slice.id, unit.cluster): unit for unit in units}
    marked = {item.key: marks[item.key] for item in lake.present(marks)} if marks else {}
    files: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for prefix in ("type=", f"{layout.REJECTED}/") if marked else ():
        for item in lake.list(prefix):
            if name := layout.parse_name(item.key):
                files[name.slice, name.cluster].append((name.generation, item.key))
    found = {}
    for key, unit in marked.items():
        stored, own = lake.read(key), files[unit.slice.id, unit.cluster]
        newest = max((generation for generation, _ in own), default=0)
        spans, rows = _contents(lake, (key for generation, key in own if generation == newest))
        found[unit] = LostManifest(
            id=stored.data.decode() if stored is not None else "",
            place=f"{lake.url}/{layout.manifest(unit.slice.id, unit.cluster)}",
            reland=lake.command("run", *unit.slice.words, "--mode", "reland", "--yes"),
            generation=newest,
            spans=spans,
            rows=rows,
        )
    return LostManifests(found, accept_loss)


def _contents(lake: Lake, keys: Iterable[str]) -> tuple[OffsetSpans, int]:
    """Returns the offsets of files, and the rows of those that are not of `_rejected/`."""
    spans: dict[tuple[str, int], tuple[int, int]] = {}
    rows = 0
    for key in keys:
        with lake.local(key) as path, pq.ParquetFile(path) as parquet:
            table = parquet.read(columns=["_topic", "_partition", "_offset"])
        rows += 0 if key.startswith(f"{layout.REJECTED}/") else len(table)
        grouped = table.group_by(["_topic", "_partition"]).aggregate([("_offset", "min"), ("_offset", "max")])
        for row in grouped.to_pylist():
            place = str(row["_topic"]), int(row["_partition"])
            start, until = spans.get(place, (row["_offset_min"], 0))
            spans[place] = min(start, row["_offset_min"]), max(until, row["_offset_max"] + 1)
    return spans, rows
