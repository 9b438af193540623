"""Endpoints of the cards of a pipeline: lag, plots, anomalies, problems, tables, changes, retention, runs.

What is asked of Kafka, ClickHouse and the lake is kept for some seconds, so that many who look at a page ask
as often as one.
"""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from fastapi import APIRouter
from sqlalchemy import func, select

from sluice.airflow.api.access import Readable
from sluice.airflow.api.pipelines import EndQuery, Start, memory
from sluice.airflow.api.runs import kept_timings, past_backfills, runs_in, started_by_people
from sluice.airflow.pipelines import watch_dag_id
from sluice.clients.lake.open import brief_lake
from sluice.config.pipeline import Pipeline
from sluice.flow.verify.verdict import Verification, read_verdict
from sluice.page.changes import Changes, ComparedFields, changes_of_pipeline, compare_fields, read_changes
from sluice.page.models import Model
from sluice.page.overview import first_instant
from sluice.page.retention import Retention, read_keeping, read_retention, retention_of
from sluice.page.rows import HOURLY, RequestedRange, bounded
from sluice.page.run_history import Runs
from sluice.page.status_cache import TimedCache
from sluice.page.tables import Tables, progress_of_tables, table_facts, tables_now
from sluice.page.traffic import (
    MOST_HOURS,
    SPAN,
    Freshness,
    LagNow,
    LagTrend,
    LateTable,
    Series,
    Sizes,
    freshness_of,
    lag_now,
    landed_amounts,
    late_table,
    long_series_of,
    series_of,
    sizes_of,
    trend_of,
)
from sluice.plan.lag import Lag, ask_topics, lag_of, offsets_only, older_unread
from sluice.slices import SliceRange, floor, iso, parse_instant
from sluice.state.departed_tables import departed_tables
from sluice.state.months import read_summaries
from sluice.state.notes import FRESH, read_lag, tables_of
from sluice.state.system_tables import read_claims
from sluice.watch.expected import HISTORY_DAYS
from sluice.watch.problems import watch_remedy

cards = APIRouter()
_WEEK = timedelta(days=7)
_LATE_SPAN = timedelta(days=3)
_tables: TimedCache[Tables] = TimedCache(10)
_changes: TimedCache[Changes] = TimedCache(10)
_fields: TimedCache[ComparedFields] = TimedCache(300, error_seconds=10)
_sizes: TimedCache[Sizes] = TimedCache(10)
_retention: TimedCache[Retention] = TimedCache(60)


@cards.get("/pipelines/{pipeline}/lag")
def lag(pipeline: Readable) -> Lag:
    now = pendulum.now("UTC")
    slices = SliceRange.widen(now - timedelta(days=2), now, pipeline.slice)
    lake, statuses = brief_lake(pipeline), [offsets_only(status) for status in memory.walk(pipeline, slices)]
    boundaries = memory.of(pipeline).boundaries(lake)
    topics, errors = ask_topics(pipeline, boundaries)
    older = older_unread(pipeline, lake, slices.start, boundaries)
    return lag_of(statuses, topics, errors, now, boundaries, older)


@cards.get("/pipelines/{pipeline}/series")
def series(pipeline: Readable, start: Start, end: EndQuery = "now") -> Series:
    slices = _complete_range(pipeline, start, end)
    if slices.end - slices.start <= HOURLY:
        return series_of(memory.walk(pipeline, slices))
    return long_series_of(slices, read_summaries(brief_lake(pipeline), slices))


@cards.get("/pipelines/{pipeline}/late")
def late(pipeline: Readable, start: Start, end: EndQuery = "now") -> LateTable:
    """Answers the late events of the last three days of the range."""
    slices = _complete_range(pipeline, start, end)
    first = max(slices.start, slices.end - _LATE_SPAN)
    return late_table(memory.walk(pipeline, SliceRange.widen(first, slices.end, pipeline.slice)))


@cards.get("/pipelines/{pipeline}/freshness")
def freshness(pipeline: Readable) -> Freshness:
    now = pendulum.now("UTC")
    slices = SliceRange.widen(now - SPAN, now, pipeline.slice)
    fresh_tables = tables_of(slices, FRESH.read(brief_lake(pipeline), slices))
    return freshness_of([target.table for target in pipeline.targets], fresh_tables, now)


class Checks(Model):
    """When verify and the watch last looked: `verified` is None where nothing was; `watched` when the watch
    DAG last began, empty when it never did; `paused`: it does not run. `remedy`: what a person does where
    nobody watches."""

    verified: Verification | None
    watched: str
    paused: bool
    watch_dag: str
    remedy: str = ""


@cards.get("/pipelines/{pipeline}/checks")
def checks(pipeline: Readable, session: SessionDep) -> Checks:
    """Answers who has looked for what the overview's findings say."""
    dag_id = watch_dag_id(pipeline.name)
    verifications = read_verdict(brief_lake(pipeline)).verifications
    last = session.scalar(select(func.max(DagRun.start_date)).where(DagRun.dag_id == dag_id))
    paused = session.scalar(select(DagModel.is_paused).where(DagModel.dag_id == dag_id))
    return Checks(
        verified=verifications[-1] if verifications else None,
        watched=iso(last),
        paused=paused is not False,
        watch_dag=dag_id,
        remedy=watch_remedy(dag_id, paused is not False, last is not None),
    )


@cards.get("/pipelines/{pipeline}/tables")
def tables(pipeline: Readable, start: Start, end: EndQuery = "now") -> Tables:
    """Answers the tables over at most the last eight days of the range."""
    slices = _newest(_range(pipeline, start, end), HOURLY)
    known = pipeline.name, slices, memory.of(pipeline).gone  # a table that is there again is seen at once
    return _tables.get(known, lambda: _read_tables(pipeline, slices))


def _read_tables(pipeline: Pipeline, slices: SliceRange) -> Tables:
    servers, lake = memory.clients.servers(pipeline), brief_lake(pipeline)
    first = first_instant(pipeline, memory.of(pipeline).boundaries(lake))
    progress = progress_of_tables(pipeline, memory.walk(pipeline, slices), first, pendulum.now("UTC"))
    clients, names = (
        [server.client for server in servers if server.client],
        [t.table for t in pipeline.targets],
    )
    claims = [(client, read_claims(client, pipeline, lake.url, names)) for client in clients]
    errors = [str(server.error) for server in servers if server.error]
    wrong = {one.table for one in read_verdict(lake).anomalies if one.breaks and one.table}
    now = tables_now([(client, claim.own) for client, claim in claims], pipeline, lake.url, slices)
    return Tables(
        start=slices.start.isoformat(),
        end=slices.end.isoformat(),
        tables=table_facts(progress, now, memory.clients.gone(pipeline), wrong),
        errors=[*errors, *dict.fromkeys(taken.public for _, claim in claims for taken in claim.taken)],
        departed=[f"{one}: {one.remedy}" for one in departed_tables(clients, pipeline, lake.url)],
    )


@cards.get("/pipelines/{pipeline}/lag_trend")
def lag_trend(pipeline: Readable, start: Start, end: EndQuery = "now") -> LagTrend:
    """Answers the lag of past hours, at most of three months."""
    slices = _newest(_range(pipeline, start, end), timedelta(days=93))
    return trend_of(read_lag(brief_lake(pipeline), slices), slices)


@cards.get("/pipelines/{pipeline}/changes")
def changes(pipeline: Readable, session: SessionDep) -> Changes:
    """Answers the changes of the last seven days. Fields were compared at most five minutes ago; the answer
    says when."""
    end = floor(pendulum.now("UTC"), pipeline.slice) + pipeline.slice
    slices = SliceRange(floor(end - _WEEK, pipeline.slice), end, pipeline.slice)
    lake = brief_lake(pipeline)
    key = (pipeline.name, slices)

    def ask() -> Changes:
        compared = _fields.get(key, lambda: compare_fields(pipeline, lake, memory, slices))
        runs = started_by_people(session, pipeline, slices)
        return changes_of_pipeline(read_changes(pipeline, lake, memory, slices, compared, runs))

    return _changes.get(key, ask)


@cards.get("/pipelines/{pipeline}/retention")
def retention(pipeline: Readable) -> Retention:
    """Asks Kafka, at most once a minute."""

    def ask() -> Retention:
        now, lake = pendulum.now("UTC"), brief_lake(pipeline)
        boundaries = memory.of(pipeline).boundaries(lake)
        clock = retention_of(read_retention(pipeline, lake, boundaries, now), now)
        return clock.model_copy(update={"keep": read_keeping(pipeline, lake, boundaries, now)})

    return _retention.get(pipeline.name, ask)


@cards.get("/pipelines/{pipeline}/sizes")
def sizes(pipeline: Readable) -> Sizes:
    """Answers the sizes of the last 48 complete slices, by the summaries of the last six weeks."""
    end = floor(pendulum.now("UTC"), pipeline.slice)
    return _sizes.get((pipeline.name, end), lambda: _read_sizes(pipeline, end))


def _read_sizes(pipeline: Pipeline, end: pendulum.DateTime) -> Sizes:
    lake = brief_lake(pipeline)
    newest = SliceRange(end - MOST_HOURS * pipeline.slice, end, pipeline.slice)
    learned = SliceRange.widen(newest.start - timedelta(days=HISTORY_DAYS), end, pipeline.slice)
    noted = read_summaries(lake, learned, memory.of(pipeline).months)
    first = (newest.start - _WEEK).date()
    days = [first + timedelta(days=number) for number in range((end.date() - first).days + 1)]
    return Sizes(hours=sizes_of(newest, landed_amounts(learned, noted), kept_timings(lake, days)))


@cards.get("/pipelines/{pipeline}/runs")
def runs(pipeline: Readable, session: SessionDep, start: Start, end: EndQuery = "now") -> Runs:
    """Answers the runs of at most the last eight days of the range, the newest first."""
    return runs_in(session, pipeline, _newest(_range(pipeline, start, end), HOURLY))


@cards.get("/pipelines/{pipeline}/backfills")
def backfills(pipeline: Readable, session: SessionDep) -> Runs:
    """Answers the newest runs of the backfill DAG, of any day."""
    return past_backfills(session, pipeline)


def _complete_range(pipeline: Pipeline, start: str, end: str) -> SliceRange:
    """Returns the range; `now` is the end of the last complete slice. Raises WrongUse for texts that name
    none."""
    now = pendulum.now("UTC")
    first, last = (parse_instant(text, now, pipeline.slice) for text in (start, end))
    return bounded(SliceRange.widen(first, last, pipeline.slice))


def _range(pipeline: Pipeline, start: str, end: str) -> SliceRange:
    """Returns the range; `end` may be `now`, `start` an age such as `48h`. Raises WrongUse for texts that
    name none."""
    return bounded(RequestedRange.of(start, end, pendulum.now("UTC")).slices(pipeline.slice))


def _newest(slices: SliceRange, most: timedelta) -> SliceRange:
    return SliceRange(max(slices.start, slices.end - most), slices.end, slices.length)


# What the overview's cards ask for after the first paint: how far each pipeline is behind Kafka now.
FRESH_SECONDS = 30
lags: TimedCache[LagNow] = TimedCache(FRESH_SECONDS)


@cards.get("/pipelines/{pipeline}/lag-now")
def lag_of_card(pipeline: Readable) -> LagNow:
    """Asks Kafka at most once in FRESH_SECONDS, for all readers. Raises what the lake and ClickHouse
    raise."""
    return lags.get(pipeline.name, lambda: lag_now(lag(pipeline)))
