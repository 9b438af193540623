"""`sluice.backfill` against a server that answers as Airflow 3.3's does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pendulum
import pytest

from sluice.clients import airflow_rest
from sluice.errors import Unavailable, WrongUse

START, END = pendulum.datetime(2026, 11, 20, 10), pendulum.datetime(2026, 11, 20, 12)
RUN = "manual__2026-11-21T08:10:00+00:00"
RUNS = "/api/v2/dags/ads_backfill/dagRuns"


class Airflow(HTTPServer):
    """`answers` are consumed in order, per "METHOD path"; `seen` is what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.seen: list[tuple[str, object, str | None]] = []
        self.answers = {
            "POST /auth/token": [(201, {"access_token": "T0KEN"})],
            "PATCH /api/v2/dags/ads_backfill": [(200, {})],
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


def test_trigger_logs_in_unpauses_and_queues_a_run(airflow: Airflow):
    assert airflow_rest.trigger("ads", START, END, "reload", dry_run=True) == RUN
    given = {"from": "2026-11-20T10:00:00Z", "to": "2026-11-20T12:00:00Z", "mode": "reload", "dry_run": True}
    assert airflow.seen == [
        ("POST /auth/token", {"username": "ann", "password": "s3cret"}, None),
        ("PATCH /api/v2/dags/ads_backfill", {"is_paused": False}, "Bearer T0KEN"),
        (f"POST {RUNS}", {"logical_date": None, "conf": given}, "Bearer T0KEN"),
    ]


@pytest.mark.parametrize("end", ["success", "failed"])
def test_wait_tells_every_change_and_returns_the_end(airflow: Airflow, end: str):
    run = f"GET {RUNS}/manual__2026-11-21T08%3A10%3A00%2B00%3A00"
    airflow.answers[run] = [(200, {"state": state}) for state in ("queued", "running", "running", end)]
    told: list[str] = []
    assert airflow_rest.wait(RUN, "ads", told.append) == end
    assert told == ["queued", "running", end]


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
    airflow.answers["PATCH /api/v2/dags/ads_backfill"] = [answer]
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
