"""Samples of what the steps have done. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import msgspec
import pendulum

from sluice.clients.lake.base import Lake, update_object
from sluice.config.pipeline import Pipeline
from sluice.errors import LakeUnavailable, SluiceError
from sluice.flow.load.work import LoadResult
from sluice.flow.verify.anomaly import Anomaly
from sluice.manifest import Manifest, read_count
from sluice.metrics import meter
from sluice.metrics.meter import Metered, MetricSample, sample
from sluice.metrics.table import METRICS
from sluice.slices import Slice, SliceRange, utc
from sluice.state.notes import TIMINGS, FreshTable, quantile
from sluice.state.status import UnitStatus
from sluice.stored_json import readable_lines

OTHERS = "_others"  # StatsD takes no brackets
SAMPLED = 20
EVENT = "_event"  # a rejected row as a whole, of no column


def landed(pipeline: Pipeline, manifests: Iterable[Manifest]) -> Iterator[MetricSample]:
    """Yields what a landing has brought: `manifests` are those that it wrote."""
    by_cluster: dict[str, list[Manifest]] = {}
    for manifest in manifests:
        by_cluster.setdefault(manifest.cluster, []).append(manifest)
    for cluster, cluster_manifests in by_cluster.items():
        labels = {"pipeline": pipeline.name, "cluster": cluster}
        for name, value in _totals(pipeline, cluster_manifests).items():
            yield sample(name, value, **labels)
        yield sample("types_landed", len({t for m in cluster_manifests for t in m.rows_by_type()}), **labels)
        yield from landing_shape(pipeline, cluster_manifests, labels)
        for reason, count in _summed(m.refused_by_reason() for m in cluster_manifests).items():
            yield sample("rejected_records", count, reason=reason, **labels)
        for kind, count in _configured(
            pipeline, _summed(m.rows_by_type() for m in cluster_manifests)
        ).items():
            yield sample("rows_landed", count, type=kind, **labels)
        lost: Counter[str] = Counter()
        for loss in (loss for m in cluster_manifests for loss in m.lost):
            lost[loss.topic] += loss.until - loss.start
        for topic, count in lost.items():
            yield sample("offsets_lost", count, topic=topic, **labels)


def _totals(pipeline: Pipeline, manifests: Sequence[Manifest]) -> dict[str, int]:
    files = [file for m in manifests for file in m.files]
    rejected = [file for m in manifests for file in m.rejected]
    return {
        "units_landed": len(manifests),
        "units_relanded": sum(m.generation > 1 for m in manifests),
        "reads": sum(read_count(m.ranges, pipeline.rows_per_task) for m in manifests),
        "records_read": sum(m.read for m in manifests),
        "records_parsed": sum(m.parsed for m in manifests),
        "tombstones": sum(m.tombstones for m in manifests),
        "records_erased": sum(m.erased for m in manifests),
        "rows_late": sum(m.late for m in manifests),
        "offset_gaps": sum(m.gaps for m in manifests),
        "files_landed": len(files),
        "bytes_landed": sum(file.bytes for file in files),
        "files_rejected": len(rejected),
        "bytes_rejected": sum(file.bytes for file in rejected),
        "event_hours_landed": len({(m.slice, file.hour) for m in manifests for file in m.files}),
        **landing_totals(manifests),
    }


def written(pipeline: str, manifests: Sequence[Manifest], driver: Metered) -> Iterator[MetricSample]:
    """Yields the bytes of all files that a landing has written into the lake, as a multiple of those that its
    manifests name: the others were merged into larger ones, or are of tasks that were retried."""
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
        "rejected_rows": "rejected_rows",
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
    """Yields the rejected rows by column, and how a load was done: its statements and blocks, its pace, the
    shares that do not fit, and of `inserted`, the rows that all its INSERTs wrote, how many stay. One that
    found nothing to do has none."""
    labels = {"pipeline": pipeline, "table": table}
    rows, rejected_rows = (
        sum(getattr(unit, name) for unit in result.loaded) for name in ("rows", "rejected_rows")
    )
    yield from rejected(pipeline, table, by_column)
    if not result.loaded:
        return
    yield sample("values_defaulted", result.defaulted, **labels)
    for check, count in result.failed.items():
        yield sample("rows_failing_check", count, **labels, check=check)
    yield sample("load_statements", result.statements, **labels)
    yield sample("load_blocks", result.blocks, **labels)
    yield sample("load_seconds", seconds, **labels)
    yield sample("load_rows_per_second", (rows + rejected_rows) / max(seconds, 0.001), **labels)
    yield sample("rows_per_block", (rows + rejected_rows) / max(result.blocks, 1), **labels)
    if rows + rejected_rows:
        if inserted:
            yield sample("rows_written_per_row_kept", inserted / (rows + rejected_rows), **labels)
        yield sample("rejected_share", rejected_rows / (rows + rejected_rows), **labels)
        for column, count in by_column:
            share = count / (rows + rejected_rows)
            yield sample("column_rejected_share", share, column=column or EVENT, **labels)


def rejected(pipeline: str, table: str, by_column: Iterable[tuple[str, int]]) -> Iterator[MetricSample]:
    for column, count in by_column:
        yield sample("rejected_rows_by_column", count, pipeline=pipeline, table=table, column=column or EVENT)


def fresh(pipeline: str, fresh_tables: Iterable[FreshTable]) -> Iterator[MetricSample]:
    """Yields the age of SAMPLED records of each unit and table, one for each equal share of its records: a
    histogram of them is that of all records, hour by hour."""
    for fresh_table in fresh_tables:
        for n in range(SAMPLED):
            age = quantile(fresh_table.delays, (n + 0.5) / SAMPLED)
            if age is not None:
                yield sample("freshness_seconds", max(age, 0.0), pipeline=pipeline, table=fresh_table.table)


def read_back(pipeline: str, statuses: Sequence[UnitStatus], compared: int) -> Iterator[MetricSample]:
    """Yields what a verify has read of units, and how many rows of them it has compared."""
    files = [file for status in statuses if status.manifest for file in status.manifest.held_files]
    yield sample("files_verified", len(files), pipeline=pipeline)
    yield sample("bytes_verified", sum(file.bytes for file in files), pipeline=pipeline)
    yield sample("rows_compared", compared, pipeline=pipeline)
    rows: Counter[str] = Counter()
    for status in statuses:
        rows.update({table: row.rows for table, row in status.tables.items()})
    for table, count in rows.items():
        yield sample("rows_verified", count, pipeline=pipeline, table=table)


def verified(pipeline: str, units: int, records: int, anomalies: Iterable[Anomaly]) -> Iterator[MetricSample]:
    yield sample("units_verified", units, pipeline=pipeline)
    yield sample("records_verified", records, pipeline=pipeline)
    for kind, count in Counter(str(anomaly.kind) for anomaly in anomalies).items():
        yield sample("anomalies_found", count, pipeline=pipeline, kind=kind)


def _summed(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count_by_name in counts:
        total.update(count_by_name)
    return total


def _configured(pipeline: Pipeline, counts: Counter[str]) -> dict[str, int]:
    """Returns the types that the pipeline file names, and the others together: an exporter keeps every label
    value that it has ever seen, and types of data never end."""
    shown = {kind: counts[kind] for kind in pipeline.types if counts[kind]}
    others = counts.total() - sum(shown.values())
    return {**shown, OTHERS: others + shown.get(OTHERS, 0)} if others else shown


# Metrics of a landing's files, partitions and fields, beside its counts. Pure.
SMALL_BYTES = 1 << 20


def landing_totals(manifests: Sequence[Manifest]) -> dict[str, int]:
    """Returns counters of one cluster's manifests."""
    counts = [file for m in manifests for table in m.traffic for file in table.files]
    return {
        "offsets_landed": sum(r.offsets for m in manifests for r in m.ranges),
        "units_empty": sum(m.read == 0 for m in manifests),
        "records_empty": sum(m.empty for m in manifests),
        "files_small": sum(file.bytes < SMALL_BYTES for m in manifests for file in m.files),
        "event_hours_late": len(
            {(m.slice, f.hour) for m in manifests for f in m.files if f.hour < m.slice[:13]}
        ),
        "counts_landed": sum(file.rows for file in counts),
        "bytes_counts": sum(file.bytes for file in counts),
    }


def landing_shape(
    pipeline: Pipeline, manifests: Sequence[Manifest], labels: Mapping[str, str]
) -> Iterator[MetricSample]:
    """Yields the gauges of one cluster's manifests, and how long after its end each slice landed first."""
    files = [file for m in manifests for file in m.files]
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    partitions: Counter[tuple[str, int]] = Counter()
    for count in (count for m in manifests for count in m.counts):
        partitions[count.topic, count.partition] += count.read
    yield sample("partitions_landed", len(partitions), **labels)
    if partitions.total():
        skew = max(partitions.values()) * len(partitions) / partitions.total()
        yield sample("partition_skew", skew, **labels)
    if rows:
        yield sample("bytes_per_row", size / rows, **labels)
        yield sample("rows_per_file", rows / len(files), **labels)
        yield sample("largest_file_bytes", max(file.bytes for file in files), **labels)
    for name in pipeline.types:
        fields = {
            field
            for m in manifests
            for type_fields in m.fields
            if type_fields.type == name
            for field in type_fields.fields
        }
        if fields:
            yield sample("fields_landed", len(fields), type=name, **labels)
    for m in manifests:
        if m.generation == 1:
            end = Slice.from_id(m.slice, pipeline.slice).end
            delay = (utc(datetime.fromisoformat(m.landed_at)) - end).total_seconds()
            yield sample("landing_delay_seconds", max(delay, 0.0), **labels)


# What the driver of a landing has counted, handed over through the lake to the task that waits for it.
#
# `_timings/<day>-drivers.ndjson` has a line for each driver that ended on that UTC day, also where it failed.
# As with all timings, it is no evidence of anything.


@dataclass(frozen=True)
class DriverMeter:
    """Of the driver that landed `[start, until)`, of one `cluster` only where one was named."""

    start: str
    until: str
    cluster: str
    ended: Annotated[datetime, msgspec.Meta(tz=True)]
    metered: Metered


_DECODER = msgspec.json.Decoder(DriverMeter)


def key_of(day: date) -> str:
    return f"{TIMINGS}{day:%Y-%m-%d}-drivers.ndjson"


@contextmanager
def handing_over(lake: Lake, slices: SliceRange, cluster: str) -> Iterator[None]:
    """Hands over what is counted inside, also when that fails. Raises what the lake raises."""
    try:
        yield
    except SluiceError:
        with suppress(LakeUnavailable):  # the error that stopped the landing is the one to raise
            _hand_over(lake, slices, cluster, meter.take())
        raise
    _hand_over(lake, slices, cluster, meter.take())


def _hand_over(lake: Lake, slices: SliceRange, cluster: str, metered: Metered) -> None:
    if not (metered.counts or metered.times):
        return
    ended = datetime.now(UTC)
    start, until = slices.start.isoformat(), slices.end.isoformat()
    driver_meter = DriverMeter(start, until, cluster, ended, metered)
    line = msgspec.json.encode(driver_meter) + b"\n"
    update_object(lake, key_of(ended.date()), lambda data: (data or b"") + line)


def handed_over(lake: Lake, slices: SliceRange, cluster: str, since: datetime) -> Metered:
    """Returns what drivers of the range have handed over since an instant. Metrics that this Sluice does not
    have, because another version counted them, and lines that it cannot read are left out."""
    began, today = utc(since), pendulum.now("UTC").date()
    days = [began.date() + timedelta(days=number) for number in range((today - began.date()).days + 1)]
    meters = [
        one.metered
        for one in (one for day in days for one in _of_day(lake, day))
        if (one.start, one.until, one.cluster) == (slices.start.isoformat(), slices.end.isoformat(), cluster)
        and one.ended >= began
    ]
    return Metered(
        tuple(count for one in meters for count in one.counts if count[0] in METRICS),
        tuple(time for one in meters for time in one.times if time[0] in METRICS),
    )


def _of_day(lake: Lake, day: date) -> list[DriverMeter]:
    stored = lake.read(key_of(day))
    return [] if stored is None else list(readable_lines(_DECODER, stored.data))
