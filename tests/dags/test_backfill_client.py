"""`sluice.backfill` against a server that answers as Airflow 3.3's does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pendulum
import pytest

from sluice.cli.commands import commands
from sluice.clients import airflow_rest
from sluice.errors import Unavailable, WrongUse
from sluice.plan.dry_run import shortened

START, END = pendulum.datetime(2026, 11, 20, 10), pendulum.datetime(2026, 11, 20, 12)
RUN = "manual__2026-11-21T08:10:00+00:00"
DAG = "/api/v2/dags/ads_backfill"
RUNS = f"{DAG}/dagRuns"


class Airflow(HTTPServer):
    """`answers` are consumed in order, per "METHOD path"; `seen` is what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.seen: list[tuple[str, object, str | None]] = []
        self.answers = {
            "POST /auth/token": [(201, {"access_token": "T0KEN"})],
            f"GET {DAG}": [(200, {"is_paused": False})],
            f"PATCH {DAG}": [(200, {})],
            f"POST {RUNS}": [(200, {"dag_run_id": RUN})],
        }

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answering(BaseHTTPRequestHandler):
    server: Airflow

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = f"{self.command} {self.path}"
        self.server.seen.append((request, json.loads(body or "null"), self.headers.get("Authorization")))
        status, content = self.server.answers[request].pop(0)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content.encode() if isinstance(content, str) else json.dumps(content).encode())

    do_GET = do_POST = do_PATCH = answer

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Airflow]:
    server = Airflow()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("SLUICE_AIRFLOW_URL", server.url + "/")
    monkeypatch.setenv("SLUICE_AIRFLOW_USER", "ann")
    monkeypatch.setenv("SLUICE_AIRFLOW_PASSWORD", "s3cret")
    monkeypatch.setattr(airflow_rest, "POLL_SECONDS", 0.0)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("paused", [True, False])
def test_trigger_logs_in_unpauses_and_queues_a_run(airflow: Airflow, paused: bool):
    airflow.answers[f"GET {DAG}"] = [(200, {"is_paused": paused})]
    told: list[str] = []
    assert airflow_rest.trigger("ads", START, END, "reload", True, told.append) == RUN
    line = "ads_backfill was paused: it is not any more; `airflow dags pause` pauses it again"
    assert told == ([line] if paused else [])
    given = {"from": "2026-11-20T10:00:00Z", "to": "2026-11-20T12:00:00Z", "mode": "reload", "dry_run": True}
    assert airflow.seen == [
        ("POST /auth/token", {"username": "ann", "password": "s3cret"}, None),
        (f"GET {DAG}", None, "Bearer T0KEN"),
        *([(f"PATCH {DAG}", {"is_paused": False}, "Bearer T0KEN")] if paused else []),
        (f"POST {RUNS}", {"logical_date": None, "conf": given}, "Bearer T0KEN"),
    ]


@pytest.mark.parametrize("end", ["success", "failed"])
def test_wait_tells_every_change_and_returns_the_end(airflow: Airflow, end: str):
    run = f"GET {RUNS}/manual__2026-11-21T08%3A10%3A00%2B00%3A00"
    airflow.answers[run] = [(200, {"state": state}) for state in ("queued", "running", "running", end)]
    told: list[str] = []
    assert airflow_rest.wait(RUN, "ads", told.append) == end
    assert told == ["queued", "running", end]


def test_a_dag_that_is_paused_while_it_is_waited_for_is_told(airflow: Airflow, monkeypatch):
    airflow.answers[f"GET {RUNS}/r"] = [(200, {"state": state}) for state in ("queued", "queued", "success")]
    airflow.answers[f"GET {DAG}"] = [(200, {"is_paused": True}), (200, {"is_paused": False})]
    monkeypatch.setattr(airflow_rest, "LOOK_SECONDS", -1.0)
    told: list[str] = []
    assert airflow_rest.wait("r", "ads", told.append, lambda: "1 of 2 units") == "success"
    paused = "ads_backfill is paused, and starts no task: `airflow dags unpause ads_backfill` lets it go on"
    assert told == ["queued", paused, "1 of 2 units", "1 of 2 units", "success"]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_dry_run_that_is_waited_for_shows_its_plan(airflow: Airflow, capsys, options: list[str]):
    """What the task has left, hostile text included, and no look at ClickHouse."""
    runs = f"GET {RUNS.replace('ads', 'adx')}"
    lines = ["2026-11-20T10Z/dc1: missing → land and load; 7 offsets, 1 reads", "complete: 0; \x1b[31m"]
    airflow.answers |= {
        f"GET {DAG.replace('ads', 'adx')}": [(200, {"is_paused": False})],
        f"POST {RUNS.replace('ads', 'adx')}": [(200, {"dag_run_id": "r"})],
        f"{runs}/r": [(200, {"state": "success"})],
        f"{runs}/r/taskInstances/plan/xcomEntries/dry_run?stringify=false": [
            (200, {"key": "dry_run", "value": json.dumps(lines) if options else lines})
        ],
    }
    airflow.answers["POST /auth/token"] *= 3
    words = ["backfill", "adx", "--from", "2026-11-20", "--to", "2026-11-21", "--dry-run", "--wait", *options]
    assert not commands(words, standalone_mode=False)
    out = capsys.readouterr().out
    shown = json.loads(out)["plan"] if options else out.splitlines()
    assert shown == [lines[0], lines[1] if options else r"complete: 0; \x1b[31m"]


def test_a_long_plan_is_shortened():
    lines = [str(number) for number in range(600)]
    assert shortened(lines) == [*lines[:499], "… 100 more: the log of the task has them", "599"]
    assert shortened(lines[:500]) == lines[:500]


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (
            (404, {"detail": "The Dag with ID: `ads_backfill` was not found"}),
            WrongUse,
            "not found.*import-errors",
        ),
        ((403, {"detail": "Forbidden"}), WrongUse, "403.*Forbidden"),
        ((503, "starting"), Unavailable, "answered 503"),
    ],
)
def test_what_airflow_refuses_is_one_line(airflow: Airflow, answer, error: type[Exception], words: str):
    airflow.answers[f"GET {DAG}"] = [answer]
    with pytest.raises(error, match=words) as raised:
        airflow_rest.trigger("ads", START, END)
    assert "\n" not in str(raised.value)


def test_wrong_login(airflow: Airflow):
    airflow.answers["POST /auth/token"] = [(401, {"detail": "Invalid credentials"})]
    with pytest.raises(WrongUse, match="SLUICE_AIRFLOW_PASSWORD") as raised:
        airflow_rest.trigger("ads", START, END)
    assert "s3cret" not in str(raised.value)


def test_nobody_listens(airflow: Airflow, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLUICE_AIRFLOW_URL", "http://127.0.0.1:1")
    with pytest.raises(Unavailable, match="does not answer at http://127.0.0.1:1"):
        airflow_rest.trigger("ads", START, END)


def test_the_embedded_stacks_address_and_password(tmp_path: Path):
    (tmp_path / "airflow").mkdir()
    passwords = tmp_path / "airflow/simple_auth_manager_passwords.json.generated"
    passwords.write_text('{"admin": "generated"}')
    found = airflow_rest.access({"SLUICE_HOME": str(tmp_path), "SLUICE_AIRFLOW_PORT": "8181"})
    assert (found.url, found.user, found.password) == ("http://127.0.0.1:8181", "admin", "generated")
    assert "generated" not in repr(found)


def test_without_an_embedded_airflow_there_is_no_login(tmp_path: Path):
    with pytest.raises(Unavailable, match="make up"):
        airflow_rest.access({"SLUICE_HOME": str(tmp_path)})
