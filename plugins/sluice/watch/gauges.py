"""The gauges of one run of the watch. A gauge that is no longer set keeps its last value, so those of
labels that are known are set also where they are 0."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.causes import causes_of
from sluice.flow.verify.facts import lacking, targets_of
from sluice.metrics.meter import MetricSample, sample
from sluice.plan.backlog import Backlog
from sluice.slices import utc
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.watch.expected import RowHistory, expected, habit_of
from sluice.watch.observe import WATCHED, Observation
from sluice.watch.problems import LogStart, ProblemKind, ProblemSource
from sluice.watch.retention import FOR_EVER_SECONDS, threats
from sluice.watch.watch import Watched

MOST_PARTITIONS = 200


def watched(pipeline: Pipeline, outcome: Watched, lake_url: str, now: datetime) -> Iterator[MetricSample]:
    """Yields every gauge of one run of the watch, of which `outcome` is the result."""
    observation, name = outcome.observation, pipeline.name
    yield sample("watch_runs", 1, pipeline=name)
    yield from _hours(pipeline, observation, outcome.log_starts, now)
    yield from _partitions(name, observation)
    yield from _wrong(name, outcome, now)
    yield from _server(pipeline, observation)
    yield from newest_slices(pipeline, observation)
    yield sample("causes_open", len(causes_of(observation.verdict.anomalies)), pipeline=name)
    if lake_url.startswith("file://") and (folder := Path(lake_url.removeprefix("file://"))).exists():
        yield sample("lake_free_bytes", shutil.disk_usage(folder).free, pipeline=name)


def _hours(
    pipeline: Pipeline, observation: Observation, earlier: Mapping[str, LogStart], now: datetime
) -> Iterator[MetricSample]:
    name, statuses = pipeline.name, observation.statuses
    states = Counter(str(status.state) for status in statuses)
    for state in UnitState:
        yield sample("units_in_state", states[str(state)], pipeline=name, state=state)
    lost = sum(state is UnitState.EXPIRED for state in observation.older.states.values())
    yield sample("units_expired", states[str(UnitState.EXPIRED)] + lost, pipeline=name)
    yield sample("boundary_entries", observation.boundaries.entries, pipeline=name)
    deletions = [
        threat.at for threat in threats((*observation.oldest, *statuses), observation.topics, earlier, now)
    ]
    if deletions or ProblemSource.KAFKA not in observation.silent:
        left = (min(deletions) - now).total_seconds() if deletions else FOR_EVER_SECONDS
        yield sample("retention_seconds_left", left, pipeline=name)
    if observation.server is not None:
        yield from _complete(pipeline, statuses, observation.older, now)
    landed = [status for status in statuses if status.manifest is not None]
    if landed:
        newest = max(s.unit.slice.end for s in landed)
        yield sample("newest_landed_timestamp", newest.timestamp(), pipeline=name)
    for status in _newest(landed):
        rows = sum(status.manifest.rows_by_type().values()) if status.manifest else 0
        yield sample("rows_per_slice", rows, pipeline=name, cluster=status.unit.cluster)


def _complete(
    pipeline: Pipeline, statuses: Sequence[UnitStatus], older: Backlog, now: datetime
) -> Iterator[MetricSample]:
    """Yields the gauges that need the ledger."""
    name = pipeline.name
    open_slices = {s.unit.slice for s in statuses if not s.state.done and s.state is not UnitState.NOT_OVER}
    yield sample("hours_behind", len(open_slices) + len(older.slices), pipeline=name)
    done = [s.unit.slice.end for s in statuses if s.state.done]
    if done:
        yield sample("newest_complete_timestamp", max(done).timestamp(), pipeline=name)
        yield sample("lag_seconds", (now - max(done)).total_seconds(), pipeline=name)
    targets = targets_of(pipeline)
    landed = [s for s in statuses if s.manifest is not None and not s.state.done]
    behind = Counter(table for status in landed for table in lacking(pipeline, targets, status))
    for table in targets:
        yield sample("table_units_behind", behind[table], pipeline=name, table=table)


def _newest(statuses: Iterable[UnitStatus]) -> list[UnitStatus]:
    """Returns the newest unit of each cluster."""
    return list({status.unit.cluster: status for status in sorted(statuses, key=lambda s: s.unit)}.values())


def _partitions(name: str, observation: Observation) -> Iterator[MetricSample]:
    """Yields the lag, and what is known of the partitions that are furthest behind. Of one that is no longer
    among them the last values stay, until the receiver drops them."""
    partitions = sorted(observation.lag.partitions, key=lambda p: -p.records)
    if not observation.lag.errors:
        yield sample("lag_records", sum(p.records for p in partitions), pipeline=name)
        yield sample("lacking_records", sum(p.lacking for p in partitions), pipeline=name)
        yield sample("outside_records", sum(p.outside for p in partitions), pipeline=name)
    for cluster, count in Counter(p.cluster for p in partitions).items():
        yield sample("partitions", count, pipeline=name, cluster=cluster)
    for p in partitions[:MOST_PARTITIONS]:
        labels = {"pipeline": name, "cluster": p.cluster, "topic": p.topic, "partition": p.partition}
        yield sample("partition_lag_records", p.records, **labels)
        yield sample("partition_rate", p.rate, **labels)
        yield sample("partition_log_start", p.log_start, **labels)
        yield sample("partition_log_end", p.log_end, **labels)
        if p.seconds is not None:
            yield sample("partition_lag_seconds", p.seconds, **labels)


def _wrong(name: str, outcome: Watched, now: datetime) -> Iterator[MetricSample]:
    problems_by_kind = Counter(str(problem.kind) for problem in outcome.problems)
    for problem_kind in ProblemKind:
        yield sample("problems_open", problems_by_kind[str(problem_kind)], pipeline=name, kind=problem_kind)
    yield sample("partitions_still", problems_by_kind[str(ProblemKind.STILL)], pipeline=name)
    anomalies_by_kind = Counter(anomaly.kind for anomaly in outcome.observation.verdict.anomalies)
    for kind in AnomalyKind:
        yield sample("anomalies_open", anomalies_by_kind[str(kind)], pipeline=name, kind=kind)
    for source in (ProblemSource.KAFKA, ProblemSource.CLICKHOUSE):
        yield sample("unavailable", int(source in outcome.observation.silent), pipeline=name, source=source)
    yield sample("alarms_sent", len(outcome.sent), pipeline=name)
    yield sample("alarms_raised", sum(raised for raised, _ in outcome.sent.values()), pipeline=name)
    yield sample("alarms_cleared", sum(over for _, over in outcome.sent.values()), pipeline=name)
    if outcome.observation.verdict.verifications:
        last = utc(datetime.fromisoformat(outcome.observation.verdict.verifications[-1].at))
        yield sample("verify_age_seconds", (now - last).total_seconds(), pipeline=name)


def _server(pipeline: Pipeline, observation: Observation) -> Iterator[MetricSample]:
    if observation.server is None:
        return
    name = pipeline.name
    errors = {error.code: error.count for error in observation.server.errors}
    for code in WATCHED:
        yield sample("server_errors", errors.get(code, 0), pipeline=name, code=code)
    parts, queues = dict(observation.server.parts), dict(observation.server.queues)
    for target in pipeline.targets:
        yield sample("table_parts", parts.get(target.table, 0), pipeline=name, table=target.table)
        yield sample("replication_queue", queues.get(target.table, 0), pipeline=name, table=target.table)
    for disk in observation.server.disks:
        yield sample("server_disk_free_bytes", disk.free, pipeline=name, disk=disk.name)
        yield sample("server_disk_total_bytes", disk.total, pipeline=name, disk=disk.name)


# Gauges of the newest landed slices: their size, how much of them fits, and what was expected. Pure.
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
            yield sample("slice_rejected_share", manifest.refused / (rows + manifest.refused), **labels)
        if rows:
            yield sample("slice_late_share", manifest.late / rows, **labels)


def _tables(name: str, statuses: Iterable[UnitStatus]) -> Iterator[MetricSample]:
    newest = {t: row for s in sorted(statuses, key=lambda s: s.unit) for t, row in s.tables.items()}
    for table, row in newest.items():
        yield sample("table_slice_rows", row.rows, pipeline=name, table=table)
        if row.rows + row.rejected_rows:
            share = row.rejected_rows / (row.rows + row.rejected_rows)
            yield sample("table_rejected_share", share, pipeline=name, table=table)


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
