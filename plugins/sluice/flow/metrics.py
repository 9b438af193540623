"""What steps have done, as samples. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sluice.clients.kafka.read_ranges import read_count
from sluice.config.pipeline import Pipeline
from sluice.flow.landing_metrics import landing_shape, landing_totals
from sluice.flow.load.work import LoadResult
from sluice.flow.verify.anomaly import Anomaly
from sluice.manifest import Manifest
from sluice.metrics.meter import Metered
from sluice.metrics.sink import MetricSample, sample
from sluice.state.freshness import FreshTable, quantile
from sluice.state.status import UnitStatus

OTHERS = "_others"  # StatsD takes no brackets
SAMPLED = 20
EVENT = "_event"  # a misfit as a whole, of no column


def landed(pipeline: Pipeline, manifests: Iterable[Manifest]) -> Iterator[MetricSample]:
    """Yields what a landing has brought: `manifests` are those that it wrote."""
    by_cluster: dict[str, list[Manifest]] = {}
    for manifest in manifests:
        by_cluster.setdefault(manifest.cluster, []).append(manifest)
    for cluster, own in by_cluster.items():
        known = {"pipeline": pipeline.name, "cluster": cluster}
        for name, value in _totals(pipeline, own).items():
            yield sample(name, value, **known)
        yield sample("types_landed", len({t for m in own for t in m.rows_by_type()}), **known)
        yield from landing_shape(pipeline, own, known)
        for reason, count in _summed(m.refused_by_reason() for m in own).items():
            yield sample("records_unparsed", count, reason=reason, **known)
        for kind, count in _configured(pipeline, _summed(m.rows_by_type() for m in own)).items():
            yield sample("rows_landed", count, type=kind, **known)
        lost: Counter[str] = Counter()
        for loss in (loss for m in own for loss in m.lost):
            lost[loss.topic] += loss.until - loss.start
        for topic, count in lost.items():
            yield sample("offsets_lost", count, topic=topic, **known)


def _totals(pipeline: Pipeline, own: Sequence[Manifest]) -> dict[str, int]:
    files = [file for m in own for file in m.files]
    rejected = [file for m in own for file in m.rejected]
    return {
        "units_landed": len(own),
        "units_relanded": sum(m.generation > 1 for m in own),
        "reads": sum(read_count(m.ranges, pipeline.rows_per_read) for m in own),
        "records_read": sum(m.read for m in own),
        "records_parsed": sum(m.parsed for m in own),
        "records_erased": sum(m.erased for m in own),
        "rows_late": sum(m.late for m in own),
        "offset_holes": sum(m.holes for m in own),
        "files_landed": len(files),
        "bytes_landed": sum(file.bytes for file in files),
        "files_rejected": len(rejected),
        "bytes_rejected": sum(file.bytes for file in rejected),
        "event_hours_landed": len({(m.slice, file.hour) for m in own for file in m.files}),
        **landing_totals(own),
    }


def written(pipeline: str, manifests: Sequence[Manifest], driver: Metered) -> Iterator[MetricSample]:
    """Yields the bytes of all files that a landing has written into the lake, as a multiple of those that its
    manifests name: the others were merged into larger ones, or were those of tasks that were tried again."""
    kept = sum(file.bytes for m in manifests for file in m.all_files)
    discarded = sum(value for name, _, value in driver.counts if name == "bytes_discarded")
    if kept:
        yield sample("bytes_written_per_byte_kept", (kept + discarded) / kept, pipeline=pipeline)


def loaded(pipeline: str, table: str, summary: Mapping[str, int]) -> Iterator[MetricSample]:
    """`summary` is that of a `LoadResult`."""
    names = {
        "loaded": "units_loaded",
        "skipped": "units_skipped",
        "rows": "rows_loaded",
        "misfits": "rows_misfit",
    }
    for key, name in names.items():
        yield sample(name, summary[key], pipeline=pipeline, table=table)


def load_shape(
    pipeline: str,
    table: str,
    result: LoadResult,
    seconds: float,
    by_column: Sequence[tuple[str, int]],
    inserted: int = 0,
) -> Iterator[MetricSample]:
    """Yields the misfits by column, and how a load was done: its statements and blocks, its pace, the shares
    that do not fit, and of `inserted`, the rows that all its INSERTs wrote, how many stay. One that found
    nothing to do has none."""
    known = {"pipeline": pipeline, "table": table}
    rows, misfits = (sum(getattr(unit, name) for unit in result.loaded) for name in ("rows", "misfits"))
    yield from rejected(pipeline, table, by_column)
    if not result.loaded:
        return
    yield sample("load_statements", result.statements, **known)
    yield sample("load_blocks", result.blocks, **known)
    yield sample("load_seconds", seconds, **known)
    yield sample("load_rows_per_second", (rows + misfits) / max(seconds, 0.001), **known)
    yield sample("rows_per_block", (rows + misfits) / max(result.blocks, 1), **known)
    if rows + misfits:
        if inserted:
            yield sample("rows_written_per_row_kept", inserted / (rows + misfits), **known)
        yield sample("misfit_share", misfits / (rows + misfits), **known)
        for column, count in by_column:
            share = count / (rows + misfits)
            yield sample("column_misfit_share", share, column=column or EVENT, **known)


def rejected(pipeline: str, table: str, by_column: Iterable[tuple[str, int]]) -> Iterator[MetricSample]:
    for column, count in by_column:
        yield sample("rows_rejected", count, pipeline=pipeline, table=table, column=column or EVENT)


def fresh(pipeline: str, found: Iterable[FreshTable]) -> Iterator[MetricSample]:
    """Yields the age of SAMPLED records of each unit and table, one for each equal share of its records: a
    histogram of them is that of all records, hour by hour."""
    for one in found:
        for n in range(SAMPLED):
            age = quantile(one.delays, (n + 0.5) / SAMPLED)
            if age is not None:
                yield sample("freshness_seconds", max(age, 0.0), pipeline=pipeline, table=one.table)


def read_back(pipeline: str, found: Sequence[UnitStatus], compared: int) -> Iterator[MetricSample]:
    """Yields what a verify has read of units, and how many rows of them it has compared."""
    files = [file for status in found if status.manifest for file in status.manifest.held_files]
    yield sample("files_verified", len(files), pipeline=pipeline)
    yield sample("bytes_verified", sum(file.bytes for file in files), pipeline=pipeline)
    yield sample("rows_compared", compared, pipeline=pipeline)
    rows: Counter[str] = Counter()
    for status in found:
        rows.update({table: row.rows for table, row in status.tables.items()})
    for table, count in rows.items():
        yield sample("rows_verified", count, pipeline=pipeline, table=table)


def verified(pipeline: str, units: int, records: int, found: Iterable[Anomaly]) -> Iterator[MetricSample]:
    yield sample("units_verified", units, pipeline=pipeline)
    yield sample("records_verified", records, pipeline=pipeline)
    for kind, count in Counter(str(one.kind) for one in found).items():
        yield sample("anomalies_found", count, pipeline=pipeline, kind=kind)


def _summed(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total


def _configured(pipeline: Pipeline, counts: Counter[str]) -> dict[str, int]:
    """Returns the types that the pipeline file names, and the others together: an exporter keeps every label
    value that it has ever seen, and types of data never end."""
    shown = {kind: counts[kind] for kind in pipeline.types if counts[kind]}
    rest = counts.total() - sum(shown.values())
    return {**shown, OTHERS: rest + shown.get(OTHERS, 0)} if rest else shown
