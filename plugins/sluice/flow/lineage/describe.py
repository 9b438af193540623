"""The datasets of each step: which ones by the pipeline file, and what it did to them by its result. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sluice.clients.clickhouse.tables import Column
from sluice.clients.openlineage.values import ColumnSource, Dataset, DatasetName, Datasets, Offsets
from sluice.config.pipeline import Pipeline, Target
from sluice.flow.lineage.places import Places, TopicKey
from sluice.flow.load.casts.columns import HOLDERS, LAKE
from sluice.manifest import Manifest, OffsetRange


@dataclass(frozen=True)
class StepFacts:
    """What a step has read and written: `ranges` of Kafka by cluster, manifests that it wrote or verified,
    rows that it put into a table (None: it loads none), and that table's columns."""

    ranges: Mapping[str, Sequence[OffsetRange]] | None = None
    manifests: Sequence[Manifest] | None = None
    rows: int | None = None
    columns: Sequence[Column] = ()


NOTHING = StepFacts()


def datasets(
    step: str, pipeline: Pipeline, places: Places, table: str = "", facts: StepFacts = NOTHING
) -> Datasets:
    """Returns the datasets of one run of `step`; without facts their names alone. `table`: a target."""
    lake = Dataset(places.lake)
    if step == "resolve":
        return Datasets(_topics(places, facts))
    if step == "land":
        return Datasets(_topics(places, facts), (_with_files(lake, facts),))
    if step == "load":
        return _loaded(next(t for t in pipeline.targets if t.table == table), places, facts)
    tables = [Dataset(at) for target in pipeline.targets for at in places.tables(target.table)]
    if step == "verify":
        return Datasets((*_topics(places, facts), _with_files(lake, facts), *tables))
    return Datasets((lake, *tables))  # publish marks hours, and writes no data


def _topics(places: Places, facts: StepFacts) -> tuple[Dataset, ...]:
    records: dict[TopicKey, int] = {}
    for manifest in facts.manifests or ():
        for count in manifest.counts:
            key = (manifest.cluster, count.topic)
            records[key] = records.get(key, 0) + count.read
    ranges = facts.ranges or _ranges(facts.manifests or ())
    return tuple(
        Dataset(
            name,
            rows=None if facts.manifests is None else records.get((cluster, topic), 0),
            offsets=_offsets(part for part in ranges.get(cluster, ()) if part.topic == topic),
        )
        for (cluster, topic), name in places.topics.items()
    )


def _ranges(manifests: Iterable[Manifest]) -> dict[str, list[OffsetRange]]:
    ranges: dict[str, list[OffsetRange]] = {}
    for manifest in manifests:
        ranges.setdefault(manifest.cluster, []).extend(manifest.ranges)
    return ranges


def _offsets(ranges: Iterable[OffsetRange]) -> tuple[Offsets, ...]:
    """Returns the offsets from the first to the last slice of the step, by partition."""
    edges: dict[int, tuple[int, int]] = {}
    for part in ranges:
        start, until = edges.get(part.partition, (part.start, part.until))
        edges[part.partition] = (min(start, part.start), max(until, part.until))
    return tuple(Offsets(partition, *edge) for partition, edge in sorted(edges.items()))


def _with_files(lake: Dataset, facts: StepFacts) -> Dataset:
    """Adds the rows of events, and the files that hold them."""
    if facts.manifests is None:
        return lake
    files = [file for manifest in facts.manifests for file in manifest.files]
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    return replace(lake, rows=rows, size=size, files=len(files))


def _loaded(target: Target, places: Places, facts: StepFacts) -> Datasets:
    rollup = target.rollup
    sources = [places.lake] if rollup is None else list(places.tables(rollup.source))
    columns = tuple((column.name, column.type) for column in facts.columns if column.kind != "EPHEMERAL")
    filled = sources_of(target, facts.columns, places.lake)
    tables = places.tables(target.table)
    # The result has the rows of all shards together.
    rows = facts.rows if len(tables) == 1 else None
    outputs = (Dataset(at, rows=rows, columns=columns, sources=filled) for at in tables)
    return Datasets(tuple(map(Dataset, sources)), tuple(outputs))


# Which field fills which column of a table. Pure.
def sources_of(target: Target, columns: Iterable[Column], lake: DatasetName) -> dict[str, ColumnSource]:
    """Returns the source of each column that a load fills; a field of the event is a dotted path.

    Columns of counts and rollups have none: they are computed of many rows, and a SELECT is not taken apart.
    """
    if target.counted or target.rollup is not None:
        return {}
    sources = {}
    for column in columns:
        if column.name in LAKE:
            sources[column.name] = ColumnSource(lake, column.name)
        elif column.filled and column.name not in HOLDERS:
            path = target.columns.get(column.name, column.name)
            sources[column.name] = ColumnSource(lake, path, cast=column.type)
    return sources
