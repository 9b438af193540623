"""Metrics of a landing's files, partitions and fields, beside its counts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.metrics.sink import MetricSample, sample
from sluice.slices import Slice, utc

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
        if m.generation == 1 and m.landed_at:
            end = Slice.from_id(m.slice, pipeline.slice).end
            delay = (utc(datetime.fromisoformat(m.landed_at)) - end).total_seconds()
            yield sample("landing_delay_seconds", max(delay, 0.0), **labels)
