"""The steps `resolve → land → load → verify → publish` as plain functions over a range of slices.

Airflow's tasks and `sluice run` call the same ones. Each is safe to repeat at any time: what is done is
read from the lake and ClickHouse, never from the caller.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pendulum

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.clickhouse.sql import render
from sluice.clients.kafka.topic_facts import open_inquiry
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import check_new, open_lake
from sluice.config.files import file_text
from sluice.config.pipeline import Pipeline, Tables
from sluice.errors import EndInFuture, SluiceError
from sluice.flow import metrics
from sluice.flow.contents.compare import ContentsReport, auditor
from sluice.flow.land.submit import SubmitSpec, spark_submit_arguments
from sluice.flow.land.task.decode import schema_of
from sluice.flow.lineage import observed
from sluice.flow.load.evolve.evolve import check_may_add, new_columns
from sluice.flow.load.shards import load_shards
from sluice.flow.load.target_checks import inspect_target, required
from sluice.flow.load.work import LoadResult
from sluice.flow.metrics import handed_over
from sluice.flow.publish import proven_hours as whole_hours_in
from sluice.flow.publish import publish_range as publish
from sluice.flow.resolve.resolve import preview, raise_if_all, resolve
from sluice.flow.verify.anomaly import QUIET_KINDS, Anomaly, AnomalyKind
from sluice.flow.verify.audit import audit
from sluice.flow.verify.causes import error_of, failing, lacked_elsewhere, not_published
from sluice.flow.verify.check_rejected import error_of_rejected, held_back
from sluice.flow.verify.facts import narrowed
from sluice.flow.verify.repairs import as_printed
from sluice.flow.verify.verdict import lake_damage, note_verified, read_verdict, within
from sluice.metrics import meter
from sluice.plan.batches import spells
from sluice.plan.dry_run import DryRun, mask_lines
from sluice.plan.estimate import TimeEstimate, estimate_time, rates, startup_of, whole_commands
from sluice.plan.modes import CHANGES_RULES, mode_of
from sluice.plan.plan import PlannedWork, refuse_forgotten, work_of
from sluice.safe_text import Say, line
from sluice.slices import Slice, SliceRange, Unit, floor
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.file_moves import finish_moves
from sluice.state.manifests import read_manifests
from sluice.state.months import note
from sluice.state.notes import (
    TOPICS,
    fresh_of,
    newest,
    note_fresh,
    note_version,
    read_versions,
    tables_of,
    timed,
)
from sluice.state.rules import Difference, LandingRules, RulesReader, difference_lines, differs, digest_of
from sluice.state.shard_definitions import check_alike
from sluice.state.status import UnitStatus
from sluice.state.survey import survey, survey_past
from sluice.state.system_tables import check_owner, create_system_tables
from sluice.state.units import known_topics, units_of

# Reads in what landed units differ from the pipeline file: the adapter of `sluice.state.rules`.


def rule_differences(
    pipeline: Pipeline, lake: Lake, statuses: Iterable[UnitStatus]
) -> dict[Unit, tuple[Difference, ...]]:
    """Returns the differences of each landed unit that a run can still change.

    Raises SchemaRefused, and what the lake raises.
    """
    now, rules = LandingRules.of(pipeline, _schema(pipeline)), RulesReader(lake)
    return {
        status.unit: differs(pipeline, status.manifest, status.tables, now, rules, required)
        for status in statuses
        if status.manifest is not None and not status.gone and not status.forgotten_on
    }


def rule_lines(pipeline: Pipeline, lake: Lake, statuses: Iterable[UnitStatus]) -> list[str]:
    """Returns a line for each difference. Raises as `rule_differences`."""
    return difference_lines(rule_differences(pipeline, lake, statuses))


def _schema(pipeline: Pipeline) -> bytes | None:
    if pipeline.event.format.schema_file is None:
        return None
    return schema_of(pipeline.event)


# The rules of the pipeline file as it is now.
def rules_now(pipeline: Pipeline) -> str:
    """Returns the digest of the rules by which a record would become rows now. Raises SchemaRefused."""
    return digest_of(LandingRules.of(pipeline, schema_of(pipeline.event)))


log = logging.getLogger(__name__)


def hourly_range(pipeline: Pipeline, own: SliceRange) -> SliceRange:
    """Returns the range of the run of `own`: `lookback` back from its end, not before `start`.

    Of older ones `sluice.flow.choose_backlog` takes a part.
    """
    start = floor(own.end - pipeline.lookback, pipeline.slice)
    if pipeline.since is not None:
        start = max(start, pendulum.instance(pipeline.since))
    return SliceRange(min(start, own.start), own.end, pipeline.slice)


def settled_at(pipeline: Pipeline, slices: SliceRange) -> datetime:
    """Returns when the last of the slices has been over for `settle`: records that were on their way are in
    it."""
    return slices.end + pipeline.settle


@observed("resolve")
def resolve_range(pipeline: Pipeline, slices: SliceRange) -> dict[str, Any]:
    """Stores every boundary of the range that is missing. `waiting` holds the error of each cluster that
    could not be asked: the others' boundaries are stored, and the range goes on with them.
    `stamped_ahead` and `held` have a line for each record from the future, and for each open transaction;
    `topics` has what a pattern has come to name, and what is gone.

    Raises EndInFuture when the range is not over, and what Kafka raises when no cluster could be asked.
    """
    now = pendulum.now("UTC")
    if slices.end > now:
        raise EndInFuture(f"{slices.end:%Y-%m-%dT%H:%MZ}", f"{now:%Y-%m-%dT%H:%M:%SZ}")
    lake = open_lake(pipeline)
    check_new(pipeline, lake)
    with timed(lake, "resolve", slices) as count:
        resolution = resolve(pipeline, lake, list(slices), now)
        raise_if_all(pipeline, resolution.unreachable)
        count({"units": resolution.stored, "rows": 0})
    meter.count("boundaries_resolved", resolution.stored, pipeline=pipeline.name)
    meter.count("future_records", len(resolution.future), pipeline=pipeline.name)
    edges = {"from": str(slices.start), "to": str(slices.end)}
    said = {"topics": resolution.changes, "stamped_ahead": resolution.future, "held": resolution.held}
    remarks = {name: list(map(str, lines)) for name, lines in said.items()}
    return {"slices": len(slices), **edges, **remarks, "waiting": dict(resolution.unreachable)}


def check_targets(pipeline: Pipeline, tables: Tables | None = None) -> None:
    """Raises TargetRefused for the first target table that could not be loaded, or whose shards differ, of
    `tables` where they are chosen; writes nothing to any. A rollup holds up no other table: its own load
    refuses it."""
    lake, chosen = open_lake(pipeline), pipeline.chosen(tables)
    sources = [target for target in chosen if target.rollup is None]
    with connect_shards(pipeline) as servers:
        for target in sources or chosen:
            check_alike(servers, target, lake)
        for server in [server for server in servers if server.client]:
            client = server.reached
            for target in sources or chosen:
                target_table, _ = inspect_target(client, pipeline, target, checks=False)
                check_may_add(client, pipeline, target, target_table)
            create_system_tables(client, pipeline.command("verify"), replicated=bool(server.shard.replicas))
            for target in chosen:
                check_owner(client, pipeline, lake.url, target)


def work_in(pipeline: Pipeline, slices: SliceRange, mode: str, tables: Tables | None = None) -> PlannedWork:
    """Returns what is to be landed, for all tables, and loaded, into `tables` or all.

    Raises FilesForgotten.
    """
    statuses = survey(pipeline, slices)
    refuse_forgotten(pipeline, statuses, mode, tables)
    note(open_lake(pipeline), statuses)
    return work_of(narrowed(pipeline, statuses, tables), mode)


def estimated_time(pipeline: Pipeline, work: PlannedWork) -> TimeEstimate:
    """Estimates the time by the rates of earlier runs of the pipeline, with what a command takes beside its
    steps."""
    timings = newest(open_lake(pipeline), pendulum.now("UTC"))
    startup = startup_of(whole_commands(timings), timings)
    return estimate_time(work, rates(timings)).with_startup(startup)


@observed("land")
def land_range(
    pipeline: Pipeline,
    config: Path,
    slices: SliceRange,
    mode: str,
    token: str,
    submit: Callable[[SubmitSpec], int],
    cluster: str = "",
    accept_loss: bool = False,
) -> int:
    """Lands the range, or one `cluster`, with one Spark application, which `submit` runs to its end.
    `accept_loss`: rows that are there may be rejected. Returns its exit code. Raises what `submit` and
    its arguments raise."""
    job = spark_submit_arguments(
        pipeline, config, slices, mode, token, cluster=cluster, accept_loss=accept_loss
    )
    with counted_landing(pipeline, slices, cluster=cluster):
        return submit(job)


@observed("load")
def load_table(
    pipeline: Pipeline,
    table: str,
    slices: SliceRange,
    mode: str,
    token: str,
    say: Say,
    only: Collection[Unit] | None = None,
) -> dict[str, Any]:
    """Loads what has landed of the range, or of `only`, into one table. Raises what `sluice.load` raises.

    A lander that died after its manifest has not moved every file: that is finished first.
    """
    target = next(t for t in pipeline.targets if t.table == table)
    lake = open_lake(pipeline)
    rejected, started, inserted = list[tuple[str, int]](), time.monotonic(), meter.total("insert_rows")

    def keep(client: Client, result: LoadResult) -> None:
        rejected.extend(_rejected(client, result))

    with timed(lake, "load", slices, table=table, mode=mode, run=token) as count:
        range_units = units_of(pipeline, slices, BoundaryLog(lake).read())
        units = list(finish_moves(lake, [unit for unit in range_units if only is None or unit in only]))
        result = load_shards(
            pipeline, target, units, lake, mode=mode_of(mode), token=token, on_progress=say, then=keep
        )
        summary = result.summary()
        rows, refused = summary["rows"], summary["rejected_rows"]
        count({"units": summary["loaded"], "rows": rows + refused, "rejected": refused})
    meter.emit(metrics.loaded(pipeline.name, table, summary))
    took, written = time.monotonic() - started, meter.total("insert_rows") - inserted
    meter.emit(metrics.load_shape(pipeline.name, table, result, took, rejected, written))
    return {"table": table, **summary}


def _rejected(client: Client, result: LoadResult) -> list[tuple[str, int]]:
    """Returns the rejected rows of this load, by column."""
    slices = {int(unit.unit.slice.start.timestamp()) for unit in result.loaded if unit.rejected_rows}
    parameters = {"target": result.table, "slices": sorted(slices)}
    return [(c, n) for c, n in client.rows(render("load/rejected_by_column"), parameters)] if slices else []


@observed("verify")
def verify_range(pipeline: Pipeline, slices: SliceRange, tables: Tables | None = None) -> list[UnitStatus]:
    """Returns the state of each unit, and keeps the verdict. Whatever `tables` the run loads, all are read;
    that others lack what it was not asked to load is no error.

    That one of several clusters has not landed breaks none: `sluice.waiting` says so, cluster by cluster.

    Raises: Conservation when an equation of the range does not hold; Busy when they hold, and units were
        landed or loaded until verify's patience was over.
    """
    with timed(open_lake(pipeline), "verify", slices) as count:
        statuses, findings, notes, pending = audit(pipeline, slices)
        wrong = [finding for finding in findings if finding.kind is not AnomalyKind.MOSTLY_REJECTED]
        contents = ContentsReport() if wrong else auditor(pipeline).sample(statuses)
        damage = lake_damage(read_verdict(open_lake(pipeline)), contents.covered)
        findings = as_printed(pipeline, statuses, [*findings, *contents.anomalies], damage)
        count({"units": len(statuses), "rows": records_of(statuses)})
    meter.emit(metrics.verified(pipeline.name, len(statuses), records_of(statuses), findings))
    meter.emit(metrics.read_back(pipeline.name, statuses, contents.rows))
    now, covered, left_out = pendulum.now("UTC"), contents.covered, contents.uncompared
    note_verified(open_lake(pipeline), slices, statuses, findings, now, covered, pending, left_out)
    note_freshness(pipeline, statuses, findings, pendulum.now("UTC"))
    for text in (*notes, *contents.busy, *contents.blocked):
        log.info("verify %s: %s", pipeline.name, line(text))
    for finding in [finding for finding in findings if finding.kind in QUIET_KINDS]:
        log.warning("%s", line(str(finding)))
    broken = failing(pipeline, findings, statuses, tables)
    verify = pipeline.command("verify", *slices.words)
    if (error := error_of(broken, statuses, pending, verify)) is not None:
        raise error
    return statuses


@observed("publish")
def publish_range(
    pipeline: Pipeline,
    slices: SliceRange,
    statuses: Sequence[UnitStatus] | None = None,
    tables: Tables | None = None,
) -> list[dict[str, Any]]:
    """Publishes the range as `sluice.flow.publish` does, but for slices that are mostly rejected; of a run
    into some `tables` only those that no other table lacks."""
    held = held_back(read_verdict(open_lake(pipeline)))
    if tables is None and not any(slice_.id in held for slice_ in slices):
        return publish(pipeline, slices, statuses, held)
    statuses = survey_past(pipeline, slices) if statuses is None else statuses
    lacked, published = lacked_elsewhere(pipeline, statuses, tables), list[dict[str, Any]]()
    if said := not_published(pipeline, lacked):
        log.info("publish %s: %s", pipeline.name, line(said))
    for spell in spells(slice_ for slice_ in slices if slice_ not in lacked and slice_.id not in held):
        of_spell = [s for s in statuses if spell.start <= s.unit.slice.start < spell.end]
        published += publish(pipeline, spell, of_spell, held)
    return published


def refuse_rejected(pipeline: Pipeline, slices: SliceRange) -> None:
    """Ends a run that is verified and published. Raises MostlyRejected for slices that were held back."""
    if error := error_of_rejected(within(read_verdict(open_lake(pipeline)), slices)):
        raise error


def proven_hours(pipeline: Pipeline, slices: SliceRange) -> list[pendulum.DateTime]:
    """Returns the event hours as `sluice.flow.publish` does, without those of slices that are held back."""
    return whole_hours_in(pipeline, slices, held_back(read_verdict(open_lake(pipeline))))


def records_of(statuses: Iterable[UnitStatus]) -> int:
    """Returns how many records of Kafka have landed."""
    return sum(status.manifest.read for status in statuses if status.manifest)


def dry_run(pipeline: Pipeline, slices: SliceRange, mode: str, tables: Tables | None = None) -> DryRun:
    """Returns what a run over the range would do, and how long it would take; changes nothing."""
    previewed = preview(pipeline, slices, mode)
    statuses = narrowed(pipeline, previewed.statuses, tables)
    work, mask = work_of(statuses, mode), tuple(mask_lines(pipeline, statuses))
    time, new = estimated_time(pipeline, work), new_columns(pipeline, statuses, mode_of(mode), tables)
    kept = mode not in CHANGES_RULES and tables is None
    other = rule_lines(pipeline, open_lake(pipeline), statuses) if kept else []
    return DryRun(statuses, previewed.unreachable, mode, pipeline.on_expired, work, time, new, mask, other)


# Measures what a landing has committed, where samples are taken.
@contextmanager
def counted_landing(pipeline: Pipeline, slices: SliceRange, cluster: str = "") -> Iterator[None]:
    """Measures what is landed inside, where samples are taken: the manifests that were not there before, also
    when the rest failed, and what the driver has counted. `cluster`: only this one is landed."""
    if not meter.taken():
        yield
        return
    started = datetime.now(UTC)
    lake, units = open_lake(pipeline), units_of(pipeline, slices)
    before = {unit: manifest.id for unit, manifest in read_manifests(lake, units).items()}
    try:
        yield
    finally:
        after = read_manifests(lake, units)
        landed = [m for unit, m in after.items() if before.get(unit) != m.id]
        driver = handed_over(lake, slices, cluster, started)
        meter.put(driver)
        meter.emit(metrics.landed(pipeline, landed))
        meter.emit(metrics.written(pipeline.name, landed, driver))


# Stores what a verify has made available for the first time, and sends it as metrics.
_HARMLESS = (AnomalyKind.INCOMPLETE, *QUIET_KINDS)


def note_freshness(
    pipeline: Pipeline,
    statuses: Iterable[UnitStatus],
    findings: Iterable[Anomaly],
    now: datetime,
) -> None:
    """Stores when the newest hours were first verified, and sends how old their records were then. What is
    older than `lookback` is history that somebody loads, and says nothing of freshness.

    Raises: LakeUnavailable.
    """
    read_statuses = list(statuses)
    broken = {
        (anomaly.slice, anomaly.cluster, anomaly.table)
        for anomaly in findings
        if anomaly.kind not in _HARMLESS
    }
    first = note_fresh(open_lake(pipeline), fresh_of(read_statuses, broken, now - pipeline.lookback, now))
    slices: list[Slice] = sorted(
        {status.unit.slice for status in read_statuses if status.unit.slice.id in first}
    )
    meter.emit(metrics.fresh(pipeline.name, tables_of(slices, first)))


# Keeps the text of a run's pipeline file in the lake, and how long Kafka keeps its topics.
def note_file(pipeline: Pipeline, path: Path, silent: Collection[str] = ()) -> None:
    """Writes nothing while the file at `path`, Sluice and topics are those of the run before. `silent`
    clusters do not answer: what is known of them stays."""
    lake, now = open_lake(pipeline), pendulum.now("UTC")
    note_version(lake, file_text(path), now)
    try:
        note_topics(pipeline, lake, silent, now)
    except SluiceError as error:
        log.info("how long Kafka keeps topics is not noted: %s", line(str(error)))


def note_topics(pipeline: Pipeline, lake: Lake, silent: Collection[str], now: datetime) -> None:
    """Raises what the lake and Kafka raise."""
    boundaries, versions = BoundaryLog(lake).read(), read_versions(lake, TOPICS)
    known = versions[-1].text.splitlines() if versions else []
    lines = [one for one in known if one.partition("/")[0] in silent]
    for cluster in (one for one in pipeline.kafka if one.cluster not in silent):
        with open_inquiry(cluster) as inquiry:
            found = inquiry.retention(known_topics(cluster, boundaries))
        lines += [topic_line(cluster.cluster, topic, settings) for topic, settings in found.items()]
    note_version(lake, "\n".join(sorted(filter(None, lines))), now, TOPICS)


def topic_line(cluster: str, topic: str, settings: Mapping[str, str]) -> str:
    """Returns `dc1/bids retention.ms=86400000`; empty where nothing is known."""
    words = [f"{name}={value}" for name, value in sorted(settings.items())]
    return " ".join([f"{cluster}/{topic}", *words]) if words else ""
