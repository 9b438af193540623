"""Gauges of the newest landed slices: their size, how much of them fits, and what was expected. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sluice.config.pipeline import Pipeline
from sluice.metrics.sink import MetricSample, sample
from sluice.state.status import UnitStatus
from sluice.watch.expected import expected, habit_of
from sluice.watch.observe import Observation
from sluice.watch.row_history import RowHistory


def newest_slices(pipeline: Pipeline, observation: Observation) -> Iterator[MetricSample]:
    """Yields the gauges of each cluster's newest landed unit, of each table's newest commit, and of all."""
    yield from _units(pipeline.name, observation)
    yield from _tables(pipeline.name, observation.statuses)
    yield from _usual(pipeline, observation.rows)
    yield sample("schema_changes", len(observation.changes), pipeline=pipeline.name)
    yield sample("columns_added", len(observation.added), pipeline=pipeline.name)
    if not observation.lag.errors:
        held = [part.held for part in observation.lag.partitions if part.held]
        yield sample("transactions_open", len(held), pipeline=pipeline.name)
        yield sample("records_held", sum(held), pipeline=pipeline.name)
    if observation.server is not None:
        missing = {table for table, _ in observation.server.missing}
        yield sample("tables_missing", len(missing), pipeline=pipeline.name)


def _units(name: str, observation: Observation) -> Iterator[MetricSample]:
    landed = sorted(observation.landed.items(), key=lambda item: item[0])
    newest = {unit.cluster: manifest for unit, manifest in landed}
    for cluster, manifest in newest.items():
        labels, files = {"pipeline": name, "cluster": cluster}, manifest.files
        yield sample("slice_bytes", sum(file.bytes for file in files), **labels)
        yield sample("slice_files", len(files), **labels)
        yield sample("slice_types", len(manifest.rows_by_type()), **labels)
        rows = sum(file.rows for file in files)
        if rows + manifest.refused:
            yield sample("slice_unparsed_share", manifest.refused / (rows + manifest.refused), **labels)
        if rows:
            yield sample("slice_late_share", manifest.late / rows, **labels)


def _tables(name: str, statuses: Iterable[UnitStatus]) -> Iterator[MetricSample]:
    newest = {t: row for s in sorted(statuses, key=lambda s: s.unit) for t, row in s.tables.items()}
    for table, row in newest.items():
        yield sample("table_slice_rows", row.rows, pipeline=name, table=table)
        if row.rows + row.misfits:
            share = row.misfits / (row.rows + row.misfits)
            yield sample("table_misfit_share", share, pipeline=name, table=table)


def _usual(pipeline: Pipeline, history: RowHistory) -> Iterator[MetricSample]:
    name = pipeline.name
    yield sample("history_slices", len(history.slices), pipeline=name)
    if not history.slices:
        return
    newest, total = max(history.slices), history.total()
    at, newest_rows = int(newest.start.timestamp()), history.slices[newest]
    yield sample("rows_seen", newest_rows.rows, pipeline=name)
    for kind in pipeline.types:
        if kind in newest_rows.types or newest_rows.has_all:
            yield sample("type_rows_seen", newest_rows.types.get(kind, 0), pipeline=name, type=kind)
    usual = expected(at, total, habit_of(total, at))
    if usual is not None:
        yield sample("rows_expected", usual.count, pipeline=name)
        if usual.low is not None:
            yield sample("rows_usual_least", usual.low, pipeline=name)
