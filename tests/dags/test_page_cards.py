"""The endpoints of a pipeline's cards, inside Airflow's own app: its runs, and what the lake has noted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pendulum
import pytest
from airflow.models.dagrun import DagRun, DagRunNote
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.serialization.definitions.baseoperator import SerializedBaseOperator
from airflow.utils.session import create_session
from airflow.utils.types import DagRunType
from fastapi.testclient import TestClient

from sluice.airflow.api import cards, pipelines
from sluice.airflow.api import runs as history
from sluice.clients.lake.open import open_lake
from sluice.errors import KafkaUnavailable
from sluice.page.models import Cell, OverviewCell, OverviewRow
from sluice.page.retention import Retention
from sluice.plan.dry_run import DryRun
from sluice.plan.estimate import TimeEstimate
from sluice.plan.plan import PlannedWork
from sluice.state.erasures import LIST_KEY
from sluice.state.months import SUMMARIES, UnitSummary
from sluice.state.notes import LAG, LagSample, Timing, key_of, note_lag, note_version, record
from tests.dags.page_app import login
from tests.support import erased

NOW = pendulum.now("UTC").start_of("hour")
URL = "/sluice/api/pipelines/ads"


@pytest.fixture(scope="module")
def lake(airflow_app: TestClient):
    ((_, ads),) = pipelines.find_pipelines().sound
    return open_lake(ads)


def add_run(dag_id: str, run_id: str, minutes_ago: int, **more: object) -> DagRun:
    """It took four minutes, unless `more` says otherwise."""
    began = NOW.subtract(minutes=minutes_ago)
    run = DagRun(
        dag_id=dag_id,
        run_id=run_id,
        run_type=DagRunType.MANUAL,
        start_date=began,
        run_after=began,
        state=more.pop("state", "success"),
        conf=more.pop("conf", None),
        triggering_user_name=more.pop("user", None),
    )
    run.end_date = more.pop("ended", began.add(minutes=4))
    return run


@pytest.fixture(scope="module")
def runs(airflow_app: TestClient, lake) -> Iterator[None]:
    """An hourly run, a backfill of one table that somebody started, and one with parameters of its own."""
    asked = {"from": "2026-11-20T10Z", "to": "2026-11-20T12Z", "mode": "reload", "tables": ["a.b"]}
    with create_session() as session:
        session.add(add_run("ads", "scheduled__1", 30))
        session.add(add_run("ads_backfill", "manual__1", 20, conf=asked, user="eve\x1b[2J"))
        session.add(
            add_run(
                "ads_backfill", "manual__2", 10, conf={"from": 7, "tables": "x"}, state="running", ended=None
            )
        )
        session.add(add_run("others", "scheduled__1", 30))
    began = NOW.subtract(minutes=19)
    edges = "2026-11-20T10:00:00+00:00", "2026-11-20T12:00:00+00:00"
    steps = [
        Timing("land", *edges, began.isoformat(), 20.0, 2, 600, 9000, run="manual__1"),
        Timing("load", *edges, began.add(minutes=1).isoformat(), 2.0, 2, 590, table="a.b", run="manual__1"),
        Timing("load", *edges, began.isoformat(), 2.0, 2, 7, table="a.b", run="scheduled__9"),
    ]
    for step in steps:
        record(lake, step)
    yield
    lake.delete([key_of(began.date())])
    with create_session() as session:
        session.query(TaskInstance).delete()
        session.query(DagRun).delete()


def ask(app: TestClient, path: str) -> dict:
    answer = app.get(f"{URL}/{path}", headers=login("viewer"))
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_past_backfills_with_who_and_what(airflow_app: TestClient, runs: None):
    strange, own = ask(airflow_app, "backfills")["runs"]
    assert (own["run_id"], own["kind"], own["state"], own["seconds"]) == (
        "manual__1",
        "backfill",
        "success",
        240.0,
    )
    assert own["user"] == "eve\\x1b[2J"
    assert (own["start"], own["end"], own["mode"], own["tables"]) == (
        "2026-11-20T10:00:00+00:00",
        "2026-11-20T12:00:00+00:00",
        "reload",
        ["a.b"],
    )
    moved = own["moved"]
    assert (moved["landed"], moved["bytes"], moved["loaded"]) == (600, 9000, 590)
    assert [(s["step"], s["table"], s["rows"]) for s in moved["steps"]] == [
        ("land", "", 600),
        ("load", "a.b", 590),
    ]
    assert (strange["run_id"], strange["state"], strange["start"], strange["tables"]) == (
        "manual__2",
        "running",
        "",
        [],
    )


def test_runs_of_both_dags_and_how_fast_they_were(airflow_app: TestClient, runs: None):
    found = ask(airflow_app, "runs?from=48h")
    assert [(run["dag_id"], run["kind"]) for run in found["runs"]] == [
        ("ads_backfill", "backfill"),
        ("ads_backfill", "backfill"),
        ("ads", "hourly"),
    ]
    assert found["count"] == 3
    assert max(rate for rate in found["throughput"]["land"] if rate) == 30.0
    assert ask(airflow_app, "runs?from=2026-01-01&to=2026-01-02")["runs"] == []


def test_a_command_is_of_the_hours_in_which_it_was_under_way(airflow_app: TestClient, lake, monkeypatch):
    monkeypatch.setattr(history, "_days_timings", history.TimedCache(0))
    began = NOW.subtract(days=3).set(hour=2)
    edges = "2026-11-20T10:00:00+00:00", "2026-11-20T12:00:00+00:00"
    record(lake, Timing("land", *edges, began.isoformat(), 5.0, 1, 10, run="a" * 32))
    day = f"{began:%Y-%m-%d}"
    hours = ("02:00", "03:00"), ("22:00", "23:00")
    found = [ask(airflow_app, f"runs?from={day}T{start}Z&to={day}T{end}Z") for start, end in hours]
    lake.delete([key_of(began.date())])
    listed = [(one["count"], [run["kind"] for run in one["runs"]]) for one in found]
    assert listed == [(1, ["command"]), (0, [])]


@pytest.mark.parametrize(("verified", "state"), [("success", "success"), ("skipped", "cancelled")])
def test_a_run_that_airflow_skipped_is_no_success(
    airflow_app: TestClient, runs: None, verified: str, state: str
):
    """As Airflow leaves one that is marked as failed before a task of it was scheduled."""
    task = SerializedBaseOperator(task_id="verify_all")
    with create_session() as session:
        made = TaskInstance(task=task, run_id="manual__1", state=verified, dag_version_id=None, map_index=-1)
        made.dag_id = "ads_backfill"
        session.add(made)
    try:
        newest = [run["state"] for run in ask(airflow_app, "backfills")["runs"]]
        assert (newest, ask(airflow_app, "progress?run=manual__1")["state"]) == (["running", state], state)
    finally:
        with create_session() as session:
            session.query(TaskInstance).delete()


def add_task(
    session, run_id: str, task_id: str, state: str, index: int = -1, dag_id: str = "ads_backfill"
) -> None:
    task = SerializedBaseOperator(task_id=task_id)
    made = TaskInstance(task=task, run_id=run_id, state=state, dag_version_id=None, map_index=index)
    made.dag_id, made.end_date, made.try_number = dag_id, NOW, 2
    session.add(made)


def cells_are(monkeypatch: pytest.MonkeyPatch, *states: str) -> None:
    """The overview shows these cells, of whatever range."""
    cells = [OverviewCell(id=str(n), cell=Cell(state)) for n, state in enumerate(states)]
    row = OverviewRow(
        pipeline="ads", slice_seconds=3600, can_start=True, paused=False, behind_seconds=None, cells=cells
    )
    monkeypatch.setattr(pipelines, "rows_of", lambda *_: [row])


def test_a_failed_run_names_the_task_that_stopped_it_and_what_is_complete(
    airflow_app: TestClient, monkeypatch
):
    """Two of its three hours are complete as the page shows them; what follows the failed task did not
    begin."""
    cells_are(monkeypatch, "verified", "lossy", "broken")
    asked = {"from": "2026-11-21T10:00Z", "to": "2026-11-21T13:00Z"}
    with create_session() as session:
        session.add(add_run("ads_backfill", "manual__3", 5, conf=asked, state="failed"))
        session.flush()
        add_task(session, "manual__3", "plan", "failed")
        add_task(session, "manual__3", "resolve", "upstream_failed")
    try:
        found = ask(airflow_app, "progress?run=manual__3")
        (listed,) = [run for run in ask(airflow_app, "backfills")["runs"] if run["run_id"] == "manual__3"]
        assert (found["heading"], found["why"]) == ("Failed", "Stopped in plan")
        assert found["said"] == "2 of 3 hours are complete; 1 is broken."
        assert (found["advice"], found["cells"]["broken"]) == ("attention", 1)
        whose = {
            "dag_id": "ads_backfill",
            "run_id": "manual__3",
            "task_id": "plan",
            "map_index": -1,
            "tries": 2,
        }
        assert found["failed"] == listed["failed"] == whose
        assert listed["why"] == "Stopped in plan"
    finally:
        with create_session() as session:
            session.query(TaskInstance).delete()
            session.query(DagRun).filter_by(run_id="manual__3").delete()


def logged(user: str, state: str, minutes_after: float) -> Log:
    """What Airflow's API notes of a change of the run `manual__6`, so long after its begin."""
    extra = json.dumps({"method": "PATCH", "state": state, "note": "x"})
    made = Log(event="patch_dag_run", owner=user, extra=extra, dag_id="ads_backfill", run_id="manual__6")
    made.dttm = NOW.subtract(minutes=5).add(seconds=int(60 * minutes_after))
    return made


@pytest.mark.parametrize(
    ("audit", "note", "state", "why"),
    [
        (("admin", "failed", 4), "", "cancelled", "Cancelled by admin while loading."),
        (None, "Cancelled on Sluice's page", "cancelled", "Cancelled while loading."),
        (("admin", "failed", 9), "", "failed", "Stopped in load a.b"),  # when it was over
        (("admin", "failed", -9), "", "failed", "Stopped in load a.b"),  # before it was started again
        (("admin", "queued", 3), "a note", "failed", "Stopped in load a.b"),
    ],
)
def test_a_run_that_somebody_ended_says_so_and_has_not_failed(
    airflow_app: TestClient, monkeypatch, audit: tuple | None, note: str, state: str, why: str
):
    """It took four minutes."""
    cells_are(monkeypatch, "stale", "stale")
    asked = {"from": "2026-11-21T10:00Z", "to": "2026-11-21T12:00Z", "mode": "reland"}
    with create_session() as session:
        run = add_run("ads_backfill", "manual__6", 5, conf=asked, state="failed")
        session.add(run)
        session.flush()
        if note:
            noted = DagRunNote(content=note)
            noted.dag_run_id = run.id
            session.add(noted)
        if audit is not None:
            session.add(logged(*audit))
        add_task(session, "manual__6", "batch.load.a.b", "failed", 0)
    try:
        found = ask(airflow_app, "progress?run=manual__6")
        (listed,) = [run for run in ask(airflow_app, "backfills")["runs"] if run["run_id"] == "manual__6"]
        assert (found["state"], listed["state"]) == (state, state)
        assert (found["why"], listed["why"]) == (why, why)
        assert (found["failed"] is None) is (state == "cancelled")
        assert (found["said"], found["advice"]) == ("0 of 2 hours are complete; 2 are stale.", "fill")
        with create_session() as session:
            ((_, ads),) = pipelines.find_pipelines().sound
            views = history.runs_of(session, ads, NOW.subtract(minutes=6))
            (view,) = [one for one in views if one.run_id == "manual__6"]
            assert view.state == state
            (row,) = history.run_rows(session, [view], int(NOW.set(2026, 11, 21, 10).timestamp()))
            assert {task.state for task in row.tasks if task.task_id == "batch.load.a.b"} <= {state}
    finally:
        with create_session() as session:
            session.query(TaskInstance).delete()
            session.query(Log).filter_by(run_id="manual__6").delete()
            session.query(DagRunNote).delete()
            session.query(DagRun).filter_by(run_id="manual__6").delete()


def test_a_dry_run_is_no_cancelled_one(airflow_app: TestClient):
    asked = {"from": "2026-11-21T10:00Z", "to": "2026-11-21T11:00Z", "dry_run": True}
    with create_session() as session:
        session.add(add_run("ads_backfill", "manual__4", 5, conf=asked))
        session.flush()
        add_task(session, "manual__4", "verify_all", "skipped")
    try:
        (listed,) = [run for run in ask(airflow_app, "backfills")["runs"] if run["run_id"] == "manual__4"]
        assert (listed["state"], listed["why"][:9]) == ("success", "A dry run")
    finally:
        with create_session() as session:
            session.query(TaskInstance).delete()
            session.query(DagRun).filter_by(run_id="manual__4").delete()


def test_a_plan_knows_what_is_at_work_and_what_starting_takes(airflow_app, runs, lake, monkeypatch):
    """The backfill `manual__1` took 240 s, of which its steps took 22."""
    monkeypatch.setattr(history, "_days_timings", history.TimedCache(0))
    work = PlannedWork((), (), (), (0, 0))
    dry = DryRun((), {}, "fill", "fail", work, TimeEstimate({"land": 10.0}, ()))
    monkeypatch.setattr("sluice.flow.steps.dry_run", lambda *_: dry)
    monkeypatch.setattr("sluice.watch.obstacles.read_obstacles", lambda *_: ["a disk is full"])
    asked = {"from": "2026-11-21T10:00Z", "to": "2026-11-21T11:00Z", "mode": "reland"}
    with create_session() as session:
        session.add(
            add_run("ads_backfill", "manual__5", 1, conf=asked, state="running", ended=None, user="ann")
        )

    def plan(start: str, end: str) -> dict:
        edges = {"start": f"2026-11-21T{start}Z", "end": f"2026-11-21T{end}Z", "mode": "fill"}
        return airflow_app.post(f"{URL}/plan", json=edges, headers=login("admin")).json()

    try:
        meets, beside = plan("10", "12"), plan("11", "12")
        absent = "DAG ads_backfill is not in Airflow: `airflow dags list-import-errors` says why"
        said = "a reland of 2026-11-21T10:00Z – 2026-11-21T11:00Z (backfill run of ann) has run for "
        assert (meets["obstacles"][0], meets["obstacles"][2:]) == (absent, ["a disk is full"])
        assert meets["obstacles"][1].startswith(said)
        assert beside["obstacles"] == [absent, "a disk is full"]
        assert (meets["stops"], meets["asks"]) == ([absent], [meets["obstacles"][1]])
        assert ("manual__5" in meets["at_work"], beside["at_work"]) == (True, [])
        assert meets["time"] == "about 3 min 48 s (land 10 s, start-up 3 min 38 s)"
    finally:
        with create_session() as session:
            session.query(DagRun).filter_by(run_id="manual__5").delete()


def test_an_hourly_run_has_the_range_that_it_went_back_to(airflow_app: TestClient):
    """Its own hour is the last one; it landed two of the day before."""
    day = NOW.start_of("day").subtract(days=1)
    at = lambda hour: day.add(hours=hour).isoformat()  # noqa: E731
    healed, cut = {"from": at(4), "to": at(28)}, [{"from": at(4), "to": at(5)}, {"from": at(5), "to": at(6)}]
    with create_session() as session:
        made = add_run("ads", "scheduled__8", 5)
        made.data_interval_start, made.data_interval_end = day.add(hours=27), day.add(hours=28)
        session.add(made)
        session.flush()
        add_task(session, "scheduled__8", "plan", "success", dag_id="ads")
        add_task(session, "scheduled__8", "resolve", "success", dag_id="ads")
        session.flush()
        for task_id, value in (("plan", healed), ("resolve", cut)):
            session.add(
                XComModel(
                    dag_run_id=made.id,
                    dag_id="ads",
                    run_id=made.run_id,
                    task_id=task_id,
                    key="return_value",
                    map_index=-1,
                    value=json.dumps(value),
                )
            )
    try:
        found = ask(airflow_app, "runs?from=48h")["runs"]
        (own,) = [run for run in found if run["run_id"] == "scheduled__8"]
        assert (own["start"], own["end"]) == (at(4), at(28))
        assert own["worked"] == [{"start": at(4), "end": at(6)}]
    finally:
        with create_session() as session:
            session.query(XComModel).delete()
            session.query(TaskInstance).delete()
            session.query(DagRun).filter_by(run_id="scheduled__8").delete()


BATCH = '{"from": "2026-11-20T10:00:00+00:00", "to": "2026-11-20T12:00:00+00:00"}'


@pytest.mark.parametrize(
    ("value", "batches"),
    [
        (f"[{BATCH}]", 1),
        ("[]", 0),
        # A backend keeps them elsewhere: Airflow's database has what it finds them by.
        ('"s3://xcom/ads_backfill/manual__1/resolve"', 0),
        ("s3://xcom/ads_backfill/manual__1/resolve", 0),
        ('{"a": 1}', 0),
        ("null", 0),
    ],
)
def test_the_batches_of_a_run_as_airflows_database_has_them(
    airflow_app: TestClient, runs: None, value: str, batches: int
):
    with create_session() as session:
        run = session.query(DagRun).filter_by(run_id="manual__1").one()
        whose = {"dag_run_id": run.id, "dag_id": run.dag_id, "run_id": run.run_id}
        task = SerializedBaseOperator(task_id="resolve")
        made = TaskInstance(task=task, run_id=run.run_id, state="success", dag_version_id=None, map_index=-1)
        made.dag_id = run.dag_id
        session.add(made)
        session.flush()
        session.add(XComModel(**whose, task_id="resolve", key="return_value", map_index=-1, value=value))
    try:
        found = ask(airflow_app, "progress?run=manual__1")
        assert {step["batches"] for step in found["steps"]} == {batches}
    finally:
        with create_session() as session:
            session.query(XComModel).delete()
            session.query(TaskInstance).delete()


def test_progress_step_by_step_and_at_the_end_what_was_done(airflow_app: TestClient, runs: None):
    done = ask(airflow_app, "progress?run=manual__1")
    assert (done["state"], done["share"]) == ("success", 1.0)
    assert [(s["step"], s["rows"]) for s in done["did"]] == [("land", 600), ("load", 590)]
    going = ask(airflow_app, "progress?run=manual__2")
    assert (going["state"], going["share"], going["did"]) == ("running", 0.0, [])
    assert [(s["step"], s["batches"]) for s in going["steps"]] == [
        ("land", 0),
        ("load a.b", 0),
        ("verify", 0),
        ("publish", 0),
    ]


def test_the_last_hours_against_those_before(airflow_app: TestClient, lake):
    """The same hour on four days: the mean of three is expected."""
    hours = [NOW.subtract(hours=1 + 24 * days) for days in range(4)]
    units = {
        f"{at:%Y-%m-%dT%HZ}": {"dc1": UnitSummary("complete", "s", read=n)}
        for at, n in zip(hours, (7, 9, 12, 15), strict=True)
    }
    months: dict[str, dict] = {}
    for name, own in units.items():
        months.setdefault(name[:7], {})[name] = own
    for month, own in months.items():
        lake.put(SUMMARIES.key(month), SUMMARIES.encode(own))
    found = {row["slice"]: row for row in ask(airflow_app, "sizes")["hours"]}
    lake.delete(map(SUMMARIES.key, months))
    newest = found[f"{hours[0]:%Y-%m-%dT%HZ}"]  # or the one before: an hour may end meanwhile
    assert (newest["records"], newest["yesterday"], newest["week_ago"], newest["expected"]) == (
        7,
        9,
        None,
        12,
    )
    assert newest["land_rates"] == [None, None, None]


def test_the_lag_by_the_hour(airflow_app: TestClient, lake):
    hours = [NOW.subtract(hours=hours) for hours in (60, 5, 3)]
    for number, at in enumerate(hours):
        note_lag(lake, LagSample(int(at.timestamp()), number, 0, None))
    found = ask(airflow_app, "lag_trend?from=48h")
    lake.delete({LAG.key(f"{at:%Y-%m}") for at in hours})
    assert found["starts"] == [int((hours[1] + timedelta(hours=n)).timestamp()) for n in range(3)]
    assert found["records"] == [1, None, 2]


def test_changes_of_the_file_and_fields_that_are_kept(airflow_app: TestClient, runs, lake, monkeypatch):
    """A change of the file is seen at once; fields are those of minutes ago, and the answer says of when.
    Backfills are there with who started them.
    ClickHouse is unavailable: what the error says is an answer that is kept, too."""
    monkeypatch.setattr(cards, "_changes", cards.TimedCache(0))
    monkeypatch.setattr(cards, "_fields", cards.TimedCache(300))
    note_version(lake, "a: 1\n", NOW.subtract(hours=9))
    note_version(lake, "a: 2\n", NOW.subtract(hours=2))
    away = airflow_app.get(f"{URL}/changes", headers=login("viewer"))
    assert (away.status_code, "127.0.0.1:1" in away.json()["detail"]) == (503, True)
    again = airflow_app.get(f"{URL}/changes", headers=login("viewer"))
    assert again.json() == away.json()
    monkeypatch.setattr(cards, "_fields", cards.TimedCache(300))
    monkeypatch.setattr(cards.memory, "walk", lambda *_: iter(()))
    found = ask(airflow_app, "changes")
    _, backfill, change = found["changes"]
    assert (change["kind"], change["lines"][1:]) == ("file", ["-a: 1", "+a: 2"])
    assert backfill["kind"] == "run" and "a.b, started by eve\\x1b[2J: success" in backfill["what"]
    monkeypatch.setattr(cards.memory, "walk", lambda *_: 1 / 0)  # fields are compared once
    note_version(lake, "a: 3\n", NOW.subtract(hours=1))
    later = ask(airflow_app, "changes")
    files = [one["lines"][1:] for one in later["changes"] if one["kind"] == "file"]
    assert files == [["-a: 2", "+a: 3"], ["-a: 1", "+a: 2"]]
    assert later["fields_at"] == found["fields_at"] != ""
    at = f"{NOW.subtract(hours=3):%Y-%m-%dT%H:%M:%SZ}"
    erased.ask(lake, replace(erased.entry("user.id=7", "_key=k"), at=at, reason="ticket 4711"))
    kinds = {one["kind"]: one["what"] for one in ask(airflow_app, "changes")["changes"]}
    lake.delete(["_history/file.json", LIST_KEY])
    assert "by `_key`, `user.id`, until 9999: ticket 4711" in kinds["erasure"]


def test_kafka_is_asked_once_a_minute(airflow_app: TestClient, monkeypatch):
    asked = []

    def read(*_: object) -> None:
        asked.append(1)
        raise KafkaUnavailable("dc1", "127.0.0.1:1", "no answer")

    monkeypatch.setattr(cards, "_retention", cards.TimedCache[Retention](60))
    monkeypatch.setattr(cards, "read_retention", read)
    for _ in range(3):
        assert airflow_app.get(f"{URL}/retention", headers=login("viewer")).status_code == 503
    assert len(asked) == 1


def test_an_answer_is_asked_for_again_when_its_time_is_over():
    now, asked = [0.0], []
    cache = cards.TimedCache[int](10, most=2, clock=lambda: now[0])

    def ask(name: str) -> int:
        return cache.get(name, lambda: asked.append(name) or len(asked))

    assert [ask("a"), ask("a"), ask("b")] == [1, 1, 2]
    now[0] = 10.0
    assert [ask("a"), ask("b")] == [3, 4]
    assert [ask("c"), ask("a")] == [5, 6]  # the third one made room by the one of longest ago
