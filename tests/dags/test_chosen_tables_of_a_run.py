"""A backfill's param `tables`: each task of the DAG does as `--table` does, or is skipped."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from structlog.testing import capture_logs

from sluice.airflow import metrics, pipeline_dags, tasks
from sluice.errors import MostlyRejected
from sluice.flow import steps
from sluice.metrics.meter import MetricSample
from sluice.plan.dry_run import DryRun
from sluice.plan.estimate import TimeEstimate
from sluice.plan.plan import work_of
from tests.dags.pipeline_texts import TWO_TABLES

RANGE = {"from": "2026-11-20T10:00:00Z", "to": "2026-11-20T11:00:00Z"}
SQL = "SELECT count() AS n FROM {source}"
FILE = TWO_TABLES + "rollups: {ads.per_hour: {from: ads.bids, sql: r.sql}}\n"
BIDS = frozenset({"ads.bids", "ads.per_hour"})
"""The table that is chosen, and its rollup."""

Do = Callable[..., object]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple]:
    """What each step was called with, instead of what it does."""
    called: dict[str, tuple] = {}

    def note(name: str, answer: Any) -> None:
        monkeypatch.setattr(steps, name, lambda *given: called.update({name: given}) or answer)

    monkeypatch.setattr("sluice.flow.steps.note_file", lambda *_: None)
    note("check_targets", None)
    note("dry_run", DryRun((), {}, "fill", "fail", work_of((), "fill"), TimeEstimate({}, ())))
    monkeypatch.setattr("sluice.watch.obstacles.read_obstacles", lambda *_: ["a load is in its way"])
    note("resolve_range", {"waiting": {}})
    note("work_in", SimpleNamespace(batches=(), units=0, rows=0))
    note("load_table", {"rows": 1})
    note("verify_range", [])
    note("refuse_rejected", None)
    note("publish_range", [])
    monkeypatch.setattr(tasks, "emit_events", lambda *_: None)
    monkeypatch.setattr(tasks, "announce_hours", lambda *_: None)
    return called


@pytest.fixture
def do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Do:
    """Runs one task of the backfill DAG as Airflow does, with a run's conf."""
    (tmp_path / "ads.yaml").write_text(FILE)
    (tmp_path / "r.sql").write_text(SQL)
    dag = pipeline_dags(tmp_path)["ads_backfill"]

    def do(task_id: str, *given: object, **conf: object) -> object:
        task = dag.get_task(task_id)
        params = process_params(dag, task, {**RANGE, **conf}, suppress_exception=False)
        ti = SimpleNamespace(xcom_push=lambda key, value: None, xcom_pull=lambda **_: None)
        context = {"dag": dag, "params": params, "run_id": "r", "ti": ti, "outlet_events": MagicMock()}
        monkeypatch.setattr(tasks, "get_current_context", lambda: context)
        return task.python_callable("ads", *given)

    return do


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[MetricSample]:
    taken: list[MetricSample] = []
    monkeypatch.setattr(metrics, "to_airflow", taken.append)
    return taken


def test_the_log_of_a_step_begins_with_the_version(do: Do, called: dict[str, tuple]):
    with capture_logs() as logs:
        do("plan")
        do("batch.verify", RANGE)
    begun = [one for one in logs if one["event"] == "sluice"]
    assert [(one["version"], one["step"], one["pipeline"]) for one in begun] == [
        (version("sluice"), "plan", "ads"),
        (version("sluice"), "verify", "ads"),
    ]
    assert logs[0] == begun[0]


def test_each_step_is_for_the_tables_and_their_rollups(do: Do, called: dict[str, tuple]):
    only = {"tables": ["ads.bids"]}
    do("plan", **only)
    do("resolve", RANGE, **only)
    do("batch.verify", RANGE, **only)
    assert [called[name][-1] for name in ("check_targets", "work_in", "verify_range")] == [BIDS] * 3
    called.clear()
    do("verify_all", RANGE, **only)
    do("plan", dry_run=True, **only)
    assert [called[name][-1] for name in ("verify_range", "dry_run")] == [BIDS] * 2


def test_without_a_choice_it_is_all_of_them(do: Do, called: dict[str, tuple]):
    for nothing in ({}, {"tables": []}, {"tables": None}, {"tables": ["ads.bids", "ads.clicks"]}):
        do("plan", **nothing)
        do("resolve", RANGE, **nothing)
        do("batch.verify", RANGE, **nothing)
        assert [called[name][-1] for name in ("check_targets", "work_in", "verify_range")] == [None] * 3


def test_an_hour_that_is_mostly_rejected_fails_the_run_when_all_else_is_published(
    do: Do, called: dict[str, tuple], monkeypatch: pytest.MonkeyPatch
):
    def refuse(*_: object) -> None:
        raise MostlyRejected("slice x", "3 of 3 records: not JSON", "mend it")

    monkeypatch.setattr(steps, "refuse_rejected", refuse)
    do("batch.verify", RANGE)
    do("batch.publish", RANGE)
    with pytest.raises(AirflowFailException, match="^mostly rejected: slice x: 3 of 3 records: not JSON"):
        do("verify_all", RANGE)


def load(table: str) -> tuple[str, str, dict[str, str]]:
    return f"batch.load.{table}", table, RANGE


def test_tables_are_loaded_or_skipped_and_whole_hours_are_published(
    do: Do, called, taken: list[MetricSample]
):
    for table in sorted(BIDS):
        do(*load(table), tables=["ads.bids"])
        assert called.pop("load_table")[1] == table
    with pytest.raises(AirflowSkipException, match="the run is for other tables: ads.bids, ads.per_hour"):
        do(*load("ads.clicks"), tables=["ads.bids"])
    do("batch.publish", RANGE, tables=["ads.bids"])
    assert called.pop("publish_range")[-1] == BIDS
    assert called == {}
    outcomes = {one.labels["outcome"] for one in taken if "outcome" in one.labels}
    assert outcomes == {"done"}


def test_a_reland_of_some_tables_is_refused_before_anything_is_done(do: Do, called: dict[str, tuple]):
    for more in ({}, {"dry_run": True}):
        with pytest.raises(AirflowFailException, match="mode reland replaces the hours in the lake"):
            do("plan", mode="reland", tables=["ads.bids"], **more)
    assert called == {}
