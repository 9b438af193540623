"""`sluice backfill` against a server that answers as Airflow 3.3's does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pendulum
import pytest
from airflow.configuration import conf

from sluice.cli.commands import commands
from sluice.clients.airflow_rest import backfill_run
from sluice.clients.airflow_rest.backfill_run import BackfillAsked, BackfillRun, Wait, trigger
from sluice.clients.airflow_rest.session import Session, access, open_session
from sluice.errors import Unavailable, WrongUse
from sluice.plan.dry_run import shortened
from tests.support.fake_airflow import DAG, RUN, RUNS, TASKS, THE_RUN, FakeAirflow, connection, fake_airflow

START, END = pendulum.datetime(2026, 11, 20, 10), pendulum.datetime(2026, 11, 20, 12)


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAirflow]:
    with fake_airflow() as server:
        monkeypatch.setenv("AIRFLOW_CONN_SLUICE_AIRFLOW", connection(server.url + "/"))
        monkeypatch.setattr(backfill_run, "POLL_SECONDS", 0.0)
        yield server


@pytest.fixture
def session(airflow: FakeAirflow) -> Iterator[Session]:
    with open_session(access()) as session:
        yield session


def waiting(session: Session, told: list[str], how_far: Callable[[], str] = lambda: "") -> Wait:
    run = BackfillRun("ads_backfill", RUN, "http://airflow/run")
    return Wait(session, run, told.append, how_far)


@pytest.mark.parametrize("paused", [True, False])
def test_trigger_logs_in_unpauses_and_queues_a_run(airflow: FakeAirflow, paused: bool):
    airflow.answers[f"GET {DAG}"] = [(200, {"is_paused": paused})]
    told: list[str] = []
    with open_session(access()) as session:
        asked = BackfillAsked("ads", START, END, "reload", True, ("db.clicks",))
        run = trigger(session, asked, told.append)
    assert run.run_id == RUN
    assert run.url == f"{airflow.url}/dags/ads_backfill/runs/manual__2026-11-21T08%3A10%3A00%2B00%3A00"
    line = "ads_backfill was paused: it is not any more; `airflow dags pause ads_backfill` pauses it again"
    assert told == ([line] if paused else [])
    edges = {"from": "2026-11-20T10:00:00Z", "to": "2026-11-20T12:00:00Z"}
    given = {**edges, "mode": "reload", "dry_run": True, "tables": ["db.clicks"]}
    posted = airflow.seen[-1][1]
    assert posted.pop("dag_run_id").startswith("dry-reload__2026-11-20T10:00Z__2026-11-20T12:00Z__2")
    assert airflow.seen == [
        ("GET /api/v2/version", None, None),
        ("POST /auth/token", {"username": "ann", "password": "s3cret"}, None),
        (f"GET {DAG}", None, "Bearer T0KEN"),
        *([(f"PATCH {DAG}", {"is_paused": False}, "Bearer T0KEN")] if paused else []),
        (f"POST {RUNS}", {"logical_date": None, "conf": given}, "Bearer T0KEN"),
    ]


def test_a_run_id_says_mode_and_range_in_letters_that_airflow_takes():
    """As `[scheduler] allowed_run_id_pattern` has them by default."""
    asked = BackfillAsked("ads", START, END, "reload --missing-columns")
    found = asked.run_id(pendulum.datetime(2026, 11, 28, 10, 55, 1, 250_000))
    assert found == ("reload-missing-columns__2026-11-20T10:00Z__2026-11-20T12:00Z__20261128T105501.250000Z")
    assert re.fullmatch(conf.get("scheduler", "allowed_run_id_pattern"), found)


def test_a_token_is_used_as_it_is_and_without_any_login_everybody_gets_one(airflow, monkeypatch):
    with_token = json.dumps({"host": airflow.url, "password": "0WN"})
    monkeypatch.setenv("AIRFLOW_CONN_SLUICE_AIRFLOW", with_token)
    with open_session(access()) as session:
        session.call("GET", "/dags/ads_backfill")
    assert airflow.seen == [("GET /api/v2/version", None, "Bearer 0WN"), (f"GET {DAG}", None, "Bearer 0WN")]

    monkeypatch.delenv("AIRFLOW_CONN_SLUICE_AIRFLOW")
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", airflow.url)
    airflow.answers["GET /auth/token"] = [(201, {"access_token": "ADM1N"})]
    with open_session(access()) as session:
        session.call("GET", "/dags/ads_backfill")
    assert airflow.seen[-2:] == [("GET /auth/token", None, None), (f"GET {DAG}", None, "Bearer ADM1N")]


@pytest.mark.parametrize("end", ["success", "failed"])
def test_wait_tells_every_change_and_returns_the_end(airflow: FakeAirflow, session: Session, end: str):
    states = ("queued", "running", "running", "queued", "running", end)  # it was cleared meanwhile
    airflow.answers[f"GET {THE_RUN}"] = [(200, {"state": state}) for state in states]
    told: list[str] = []
    assert waiting(session, told).until_end() == end
    assert told == ["queued", "running", "queued", "running", end]


def adx(airflow: FakeAirflow) -> None:
    """It has a pipeline file, too."""
    airflow.answers |= {place.replace("ads", "adx"): answer for place, answer in airflow.answers.items()}


def task(name: str, state: str, tries: int = 1, index: int = -1, shown: str | None = None) -> dict:
    place = {"task_id": name, "map_index": index, "rendered_map_index": shown}
    return {**place, "state": state, "try_number": tries, "max_tries": 3}


def test_wait_tells_which_tasks_run_fail_and_are_tried_again(airflow: FakeAirflow, session: Session):
    load, hours = "batch.load.db.clicks", "10:00 – 11:00"
    polls = [
        [task("resolve", "running")],
        [task("batch.land", "running", index=1), task("batch.land", "running", 1, 0, hours)],
        [task(load, "up_for_retry", 1, 0, hours), task("batch.land", "failed", 4, 1)],
        [task(load, "running", 2, 0, hours), task("batch.land", "failed", 4, 1)],
        [task("settle", "up_for_reschedule"), task("batch.publish", "skipped"), task("batch.x", "failed", 5)],
    ]
    airflow.answers[f"GET {TASKS}"] = [(200, {"task_instances": found}) for found in polls]
    airflow.answers[f"GET {THE_RUN}"] = [(200, {"state": "running"})] * 4 + [(200, {"state": "failed"})]
    told: list[str] = []
    assert waiting(session, told).until_end() == "failed"
    assert told == [
        "running",
        "resolve runs",
        f"batch.land[{hours}] runs",
        "batch.land[1] runs",
        "batch.land[1] failed for good in try 4 of 4",
        f"batch.load.db.clicks[{hours}] failed in try 1 of 4, and is tried again",
        f"batch.load.db.clicks[{hours}] runs, try 2 of 4",
        "failed",
        "batch.x failed for good in try 5 of 5",
        "batch.publish is skipped",
        "settle waits",
    ]


REFUSED = {
    "event": "Task failed",
    "error_detail": [{"exc_type": "Refused", "exc_value": "no\n\x1b[31mtable"}],
}
TIMEOUT = {
    "event": "Task failed",
    "error_detail": [{"exc_type": "AirflowTaskTimeout", "exc_value": "PID: 7"}],
}
LAST = {"event": "Task instance in failure state"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([REFUSED, TIMEOUT, LAST], ": timeout"),
        ([TIMEOUT, REFUSED, LAST], r": no \x1b[31mtable"),
        ([REFUSED, {**TIMEOUT, "event": "Failed to push an xcom"}], r": no \x1b[31mtable"),
        ([{"event": "", "error_detail": [{"exc_type": "KeyError", "exc_value": ""}]}], ": KeyError"),
        ([LAST], ""),
        (["a line that is no event"], ""),
        (None, ""),
    ],
)
def test_wait_tells_why_a_try_failed(airflow: FakeAirflow, session: Session, content, said: str):
    """As the try's log says; where there is no log, that it failed."""
    airflow.answers[f"GET {TASKS}"] = [(200, {"task_instances": [task("batch.land", "up_for_retry", 2, 1)]})]
    airflow.answers[f"GET {THE_RUN}"] = [(200, {"state": "failed"})]
    airflow.answers[f"GET {THE_RUN}/taskInstances/batch.land/logs/2?map_index=1"] = [
        (200, {"content": content})
    ]
    told: list[str] = []
    assert waiting(session, told).until_end() == "failed"
    assert told == ["failed", f"batch.land[1] failed in try 2 of 4, and is tried again{said}"]


@pytest.mark.parametrize("status", [403, 503])
def test_a_log_that_nobody_may_read_changes_no_other_line(
    airflow: FakeAirflow, session: Session, status: int
):
    airflow.answers[f"GET {TASKS}"] = [(200, {"task_instances": [task("batch.land", "failed", 4)]})]
    airflow.answers[f"GET {THE_RUN}"] = [(200, {"state": "failed"})]
    log = f"GET {THE_RUN}/taskInstances/batch.land/logs/4?map_index=-1"
    airflow.answers[log] = [(status, {"detail": "Forbidden"})]
    told: list[str] = []
    assert waiting(session, told).until_end() == "failed"
    assert told == ["failed", "batch.land failed for good in try 4 of 4"]


def test_the_failed_tasks_are_named_and_the_rest_counted(airflow: FakeAirflow, session: Session):
    failed = [task("batch.land", "failed", 4, number) for number in range(100)]
    asked = f"GET {THE_RUN}/taskInstances?limit=100&state=failed&order_by=start_date"
    airflow.answers[asked] = [(200, {"task_instances": failed, "total_entries": 205})]
    assert waiting(session, []).failed() == [*(f"batch.land[{n}]" for n in range(10)), "195 more"]


def test_a_run_that_is_deleted_is_an_end(airflow: FakeAirflow, session: Session):
    airflow.answers[f"GET {THE_RUN}"] = [(200, {"state": "queued"}), (404, {"detail": "not found"})]
    told: list[str] = []
    assert waiting(session, told).until_end() == "deleted"
    assert told == ["queued", "deleted"]


@pytest.mark.parametrize("old", [(401, {"detail": "Token Expired"}), (403, {"detail": "Invalid JWT token"})])
@pytest.mark.parametrize(
    "page", [(503, "<html>"), (404, "default backend"), (404, {"message": "no Route matched"})]
)
def test_a_server_that_restarts_is_waited_for_and_logs_in_again(airflow, session: Session, page, old):
    """A new server knows no token of the old one."""
    running = (200, {"state": "running"})
    airflow.answers[f"GET {THE_RUN}"] = [running, page, page, old, running, (200, {"state": "success"})]
    airflow.answers["POST /auth/token"] = [(201, {"access_token": "N3W"})]
    told: list[str] = []
    assert waiting(session, told).until_end() == "success"
    assert told[0] == "running" and told[1].endswith("; waiting for it")
    assert told[2:] == ["Airflow answers again", "success"]
    assert airflow.seen[-1][2] == "Bearer N3W"


def test_wait_tells_how_far_each_step_is_where_that_has_changed(airflow: FakeAirflow, session: Session):
    """As the page says it; three polls saw tasks change, and the second one no step."""

    def steps(*done: int) -> tuple[int, dict]:
        counts = {"running": 0, "failed": 0, "batches": 3}
        names = zip(("land", "load db.clicks"), done, strict=True)
        return 200, {"steps": [{"step": name, "done": number, **counts} for name, number in names]}

    work = (200, {"steps": [{"step": "land", "done": 1, "running": 1, "failed": 2, "held": 1, "batches": 4}]})
    page = f"GET /sluice/api/pipelines/ads/progress?run={THE_RUN.rpartition('/')[2]}"
    airflow.answers[page] = [(200, {"steps": []}), steps(1, 0), steps(1, 0), work, steps(3, 3)]
    polls = [[task("batch.land", "running", index=number)] for number in range(4)]
    airflow.answers[f"GET {TASKS}"] = [(200, {"task_instances": found}) for found in polls]
    airflow.answers[f"GET {THE_RUN}"] = [(200, {"state": "running"})] * 4 + [(200, {"state": "success"})]
    told: list[str] = []
    assert waiting(session, told).until_end() == "success"
    assert [line for line in told if " of " in line] == [
        "land 1 of 3 batches, load db.clicks 0 of 3",
        "land 1 of 4 batches (1 at work, 2 failed, 1 not begun)",
        "land 3 of 3 batches, load db.clicks 3 of 3",
    ]


def test_a_server_that_stays_away_ends_the_wait_and_not_the_run(airflow, session: Session, monkeypatch):
    airflow.answers[f"GET {THE_RUN}"] = [(200, {"state": "running"}), (503, "")]
    monkeypatch.setattr(backfill_run, "SILENT_SECONDS", -1.0)
    told: list[str] = []
    with pytest.raises(Unavailable, match="goes on without it: http://airflow/run"):
        waiting(session, told).until_end()
    assert len(told) == 2


def test_a_dag_that_is_paused_while_it_is_waited_for_is_told(airflow, session: Session, monkeypatch):
    states = [(200, {"state": state}) for state in ("queued", "queued", "success")]
    airflow.answers[f"GET {THE_RUN}"] = states
    airflow.answers[f"GET {DAG}"] = [(200, {"is_paused": True}), (200, {"is_paused": False})]
    monkeypatch.setattr(backfill_run, "REPORT_SECONDS", -1.0)
    told: list[str] = []
    assert waiting(session, told, lambda: "1 of 2 units").until_end() == "success"
    paused = "ads_backfill is paused, and starts no task: `airflow dags unpause ads_backfill` lets it go on"
    assert told == ["queued", paused, "1 of 2 units", "1 of 2 units", "success"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_dry_run_that_is_waited_for_shows_its_plan(airflow: FakeAirflow, capsys, options: list[str]):
    """What the task has left, hostile text included, and no look at ClickHouse."""
    lines = ["2026-11-20T10Z/dc1: missing → land and load; 7 offsets, 1 reads", "complete: 0; \x1b[31m"]
    adx(airflow)
    run = f"GET {THE_RUN.replace('ads', 'adx')}"
    airflow.answers |= {
        run: [(200, {"state": "success"})],
        f"{run}/taskInstances/plan/xcomEntries/dry_run?stringify=false": [
            (200, {"key": "dry_run", "value": json.dumps(lines) if options else lines})
        ],
    }
    words = ["backfill", "adx", "--from", "2026-11-20", "--to", "2026-11-21", "--dry-run", "--wait", *options]
    assert not commands(words, standalone_mode=False)
    out = capsys.readouterr().out
    shown = json.loads(out)["plan"] if options else out.splitlines()
    assert shown == [lines[0], lines[1] if options else r"complete: 0; \x1b[31m"]


def test_a_long_plan_is_shortened():
    lines = [str(number) for number in range(600)]
    assert shortened(lines) == [*lines[:499], "… 100 more: the log of the task has them", "599"]
    assert shortened(lines[:500]) == lines[:500]


RANGE_WORDS = ["--from", "2026-11-20T10:00Z", "--to", "2026-11-20T12:00Z"]


def test_the_command_names_the_run_and_the_tables_with_what_goes_with_them(airflow: FakeAirflow, capsys):
    adx(airflow)
    words = ["backfill", "adx", *RANGE_WORDS, "--table", "click", "--json"]
    assert not commands(words, standalone_mode=False)
    ((_, body, _),) = [seen for seen in airflow.seen if seen[0] == f"POST {RUNS.replace('ads', 'adx')}"]
    assert body["conf"]["tables"] == ["adx.clicks"]
    out, err = capsys.readouterr()
    assert json.loads(out)["run_id"] == RUN
    assert f"{airflow.url}/dags/adx_backfill/runs/manual__2026-11-21T08%3A10%3A00%2B00%3A00" in err


def test_a_dry_run_that_fails_names_its_tasks_and_exits_with_1(airflow: FakeAirflow, capsys):
    adx(airflow)
    run = f"GET {THE_RUN.replace('ads', 'adx')}"
    failed = {"task_instances": [task("plan", "failed", 4)], "total_entries": 1}
    airflow.answers |= {
        run: [(200, {"state": "failed"})],
        f"{run}/taskInstances?limit=100&state=failed&order_by=start_date": [(200, failed)],
    }
    words = ["backfill", "adx", *RANGE_WORDS, "--dry-run", "--wait", "--json"]
    assert commands(words, standalone_mode=False) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["failed"] == ["plan"]
    assert "failed: plan: http://127.0.0.1:" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--table", "zzz"], "pipeline adx has no table 'zzz'"),
        (["--table", "click", "--mode", "reland"], "mode reland replaces the hours in the lake"),
        (
            ["--config", "there.yaml"],
            "Airflow's tasks read their own copy .* SLUICE_PIPELINES .* `run` load it",
        ),
    ],
)
def test_what_the_command_refuses_before_it_asks_airflow(airflow: FakeAirflow, words: list[str], said: str):
    with pytest.raises(WrongUse, match=said):
        commands(["backfill", "adx", *RANGE_WORDS, *words], standalone_mode=False)
    assert airflow.seen == []


def test_a_load_of_missing_columns_is_a_reload_with_a_param():
    conf = BackfillAsked("ads", START, END, "reload --missing-columns").conf
    assert (conf["mode"], conf["missing_columns"]) == ("reload", True)
    assert "missing_columns" not in BackfillAsked("ads", START, END, "reload").conf
