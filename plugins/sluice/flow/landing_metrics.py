"""What a landing brought beside its counts: how its files, partitions and fields are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.metrics.sink import MetricSample, sample
from sluice.slices import Slice, utc

SMALL_BYTES = 1 << 20


def landing_totals(own: Sequence[Manifest]) -> dict[str, int]:
    """Returns counters of one cluster's manifests."""
    counts = [file for m in own for table in m.traffic for file in table.files]
    return {
        "offsets_landed": sum(r.offsets for m in own for r in m.ranges),
        "units_empty": sum(m.read == 0 for m in own),
        "records_empty": sum(m.empty for m in own),
        "files_small": sum(file.bytes < SMALL_BYTES for m in own for file in m.files),
        "event_hours_late": len({(m.slice, f.hour) for m in own for f in m.files if f.hour < m.slice[:13]}),
        "counts_landed": sum(file.rows for file in counts),
        "bytes_counts": sum(file.bytes for file in counts),
    }


def landing_shape(
    pipeline: Pipeline, own: Sequence[Manifest], known: Mapping[str, str]
) -> Iterator[MetricSample]:
    """Yields the gauges of one cluster's manifests, and how long after its end each slice landed first."""
    files = [file for m in own for file in m.files]
    rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
    partitions: Counter[tuple[str, int]] = Counter()
    for part in (part for m in own for part in m.counts):
        partitions[part.topic, part.partition] += part.read
    yield sample("partitions_landed", len(partitions), **known)
    if partitions.total():
        skew = max(partitions.values()) * len(partitions) / partitions.total()
        yield sample("partition_skew", skew, **known)
    if rows:
        yield sample("bytes_per_row", size / rows, **known)
        yield sample("rows_per_file", rows / len(files), **known)
        yield sample("largest_file_bytes", max(file.bytes for file in files), **known)
    for name in pipeline.types:
        fields = {field for m in own for one in m.fields if one.type == name for field in one.fields}
        if fields:
            yield sample("fields_landed", len(fields), type=name, **known)
    for m in own:
        if m.generation == 1 and m.landed_at:
            end = Slice.from_id(m.slice, pipeline.slice).end
            late = (utc(datetime.fromisoformat(m.landed_at)) - end).total_seconds()
            yield sample("landing_delay_seconds", max(late, 0.0), **known)
