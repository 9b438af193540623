"""The hourly DAG's tasks on a worker whose clock is behind the scheduler's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pendulum
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow import tasks
from sluice.airflow.run_params import to_xcom
from sluice.errors import ClockBehind, EndInFuture
from sluice.flow import steps
from sluice.slices import SliceRange
from tests.dags.pipeline_texts import TWO_TABLES

END = pendulum.datetime(2026, 11, 20, 11)
OWN = SliceRange(END.subtract(hours=1), END)


@pytest.fixture
def ads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "ads.yaml").write_text(TWO_TABLES)
    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path))
    return "ads"


def behind(monkeypatch: pytest.MonkeyPatch, minutes: int, started: pendulum.DateTime = END) -> None:
    """The worker's clock; the scheduler's says `started`."""
    run = SimpleNamespace(run_after=END, start_date=started)
    context = {
        "data_interval_start": OWN.start,
        "data_interval_end": END,
        "dag_run": run,
        "params": {},
        "dag": DAG("ads"),
    }
    monkeypatch.setattr(tasks, "get_current_context", lambda: context)
    monkeypatch.setattr(pendulum, "now", lambda tz=None: END.subtract(minutes=minutes))


def test_the_run_begins_and_waits_for_its_own_clock(ads: str, monkeypatch: pytest.MonkeyPatch):
    behind(monkeypatch, minutes=10)
    assert tasks.plan_hour.function(ads)["to"] == to_xcom(OWN)["to"]
    assert tasks.settle.function(ads, to_xcom(OWN)) is False
    behind(monkeypatch, minutes=-3)
    assert tasks.settle.function(ads, to_xcom(OWN)) is True


def test_an_hour_that_is_not_over_by_the_schedulers_clock_either_is_refused(ads, monkeypatch):
    behind(monkeypatch, minutes=10, started=END.subtract(minutes=1))
    with pytest.raises(AirflowFailException, match="is not over yet"):
        tasks.plan_hour.function(ads)


def test_a_resolve_on_another_worker_is_tried_again(ads, monkeypatch):
    def resolve_range(*_: object) -> None:
        raise EndInFuture("2026-11-20T11:00Z", "2026-11-20T10:50:00Z")

    behind(monkeypatch, minutes=10)
    monkeypatch.setattr(steps, "resolve_range", resolve_range)
    for task in (tasks.resolve, tasks.resolve_hour):
        with pytest.raises(ClockBehind, match=r"clock of this worker \(.*\) is behind"):
            task.function(ads, to_xcom(OWN))
