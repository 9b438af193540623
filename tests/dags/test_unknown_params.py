"""A param that a DAG does not have ends its run before anything is done: Airflow itself passes any on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pendulum
import pytest
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow import pipeline_dags, tasks
from sluice.airflow.run_params import refuse_unknown
from sluice.errors import WrongUse
from sluice.flow import steps
from sluice.plan.dry_run import DryRun
from sluice.plan.estimate import TimeEstimate
from sluice.plan.plan import work_of
from tests.dags.pipeline_texts import TWO_TABLES

RANGE = {"from": "2026-11-20T10:00Z", "to": "2026-11-20T11:00Z"}
END = pendulum.datetime(2026, 11, 20, 11)


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the first task of a DAG as Airflow does, with a run's conf; returns the steps that it called."""
    (tmp_path / "ads.yaml").write_text(TWO_TABLES)
    dags, called = pipeline_dags(tmp_path), []
    monkeypatch.setattr(steps, "check_targets", lambda *_: called.append("check"))
    nothing = DryRun((), {}, "fill", "fail", work_of((), "fill"), TimeEstimate({}, ()))
    monkeypatch.setattr(steps, "dry_run", lambda *_: called.append("dry run") or nothing)
    monkeypatch.setattr("sluice.watch.obstacles.read_obstacles", lambda *_: [])
    monkeypatch.setattr(steps, "hourly_range", lambda _, slices: called.append("range") or slices)

    def begin(dag_id: str, conf: dict[str, object]) -> list[str]:
        dag = dags[dag_id]
        task = dag.get_task("plan")
        params = process_params(dag, task, conf, suppress_exception=False)
        run = SimpleNamespace(run_after=END, start_date=END)
        edges = {"data_interval_start": END.subtract(hours=1), "data_interval_end": END}
        ti = SimpleNamespace(xcom_push=lambda key, value: None)
        context = {"dag": dag, "params": params, "dag_run": run, "ti": ti, **edges}
        monkeypatch.setattr(tasks, "get_current_context", lambda: context)
        task.python_callable("ads")
        return called

    return begin


@pytest.mark.parametrize(
    ("dag_id", "conf", "told"),
    [
        (
            "ads_backfill",
            {"dry-run": True},
            "dry-run, did you mean 'dry_run'?; this DAG takes from",
        ),
        (
            "ads_backfill",
            {"Mode": "reload"},
            "Mode, did you mean 'mode'?; this DAG takes from",
        ),
        ("ads_backfill", {"x\x1b": 1, "a": 2}, r"a, x\x1b; this DAG takes from"),
        ("ads", {"mode": "reland"}, "mode; this DAG takes none: nothing was done"),
    ],
)
def test_an_unknown_param_is_refused_before_anything_is_done(begin, dag_id: str, conf: dict, told: str):
    given = {**RANGE, **conf} if dag_id == "ads_backfill" else conf
    with pytest.raises(AirflowFailException) as raised:
        begin(dag_id, given)
    assert str(raised.value).startswith(f"no such param: {told}")


def test_known_ones_do_what_they_say(begin):
    assert begin("ads_backfill", {**RANGE, "dry_run": True}) == ["dry run"]


def test_and_without_a_dry_run(begin):
    assert begin("ads_backfill", RANGE) == ["check"]


def test_the_hourly_dag_takes_none(begin):
    assert begin("ads", {}) == ["range"]


def test_a_long_name_has_a_bound():
    with pytest.raises(WrongUse) as raised:
        refuse_unknown(["x" * 5000], ["mode"])
    assert len(str(raised.value)) < 300
