"""`sluice backfill` with a stock Airflow's API server below a base path; the test plays the scheduler."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import httpx
import pendulum
import pytest

from local.services import free_port
from sluice.clients.airflow_rest import backfill_run as waits
from sluice.clients.airflow_rest.backfill_run import BackfillAsked, BackfillRun, Wait, trigger
from sluice.clients.airflow_rest.session import Session, access, open_session
from sluice.errors import SluiceError, WrongUse
from tests.dags.pipeline_texts import TWO_TABLES

# A real Airflow; the one of tests/dags/test_backfill_client.py answers in each commit.
pytestmark = [pytest.mark.integration, pytest.mark.long]

START, END = pendulum.datetime(2026, 11, 20, 10), pendulum.datetime(2026, 11, 20, 12)
AIRFLOW = Path(sys.executable).with_name("airflow")
PASSWORDS = {"ann": "s3cret", "vic": "s3cret too"}
SECONDS = 60


@dataclass
class ApiServer:
    """Airflow's API server alone, on a database of its own."""

    home: Path
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        foreign = ("SLUICE", "AIRFLOW")
        own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        passwords = self.home / "passwords.json"
        passwords.write_text(json.dumps(PASSWORDS))
        options = {
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGS_FOLDER": str(self.home / "dags"),
            "CORE__SIMPLE_AUTH_MANAGER_USERS": "ann:admin,vic:viewer",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "API__BASE_URL": self.url,
        }
        named = {f"AIRFLOW__{name}": value for name, value in options.items()}
        self.environment = {**own, **named, "AIRFLOW_HOME": str(self.home)}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/base"

    def airflow(self, *words: str) -> None:
        done = subprocess.run([AIRFLOW, *words], env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]

    @contextmanager
    def up(self) -> Iterator[None]:
        with (self.home / "server.log").open("ab") as log:
            command = [AIRFLOW, "api-server", "--host", "127.0.0.1", "--port", str(self.port)]
            process = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        try:
            until(lambda: process.poll() is not None or self._answers())
            assert process.poll() is None, (self.home / "server.log").read_text()[-3000:]
            yield
        finally:
            process.terminate()
            process.wait(SECONDS)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/api/v2/version").status_code == 200
        except httpx.HTTPError:
            return False

    def sql(self, statement: str, *values: object) -> list[tuple]:
        with closing(sqlite3.connect(self.home / "airflow.db", timeout=SECONDS)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def session(self, user: str = "ann", **changed: str) -> Iterator[Session]:
        given = {"host": self.url, "login": user, "password": PASSWORDS[user], **changed}
        with open_session(access({"AIRFLOW_CONN_SLUICE_AIRFLOW": json.dumps(given)})) as session:
            yield session


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    home = tmp_path_factory.mktemp("api-server")
    (home / "dags/pipelines").mkdir(parents=True)
    (home / "dags/pipelines/ads.yaml").write_text(TWO_TABLES)
    (home / "dags/sluice.py").write_text(
        "from pathlib import Path\nfrom sluice.airflow import pipeline_dags\n"
        'globals().update(pipeline_dags(Path(__file__).with_name("pipelines")))\n'
    )
    server = ApiServer(home)
    server.airflow("db", "migrate")
    server.airflow("dags", "reserialize")
    with server.up():
        yield server


@dataclass
class Waiting:
    """A wait in a thread, and what it has told."""

    server: ApiServer
    run: BackfillRun
    told: list[str] = field(default_factory=list)
    ended: list[object] = field(default_factory=list)

    @contextmanager
    def under_way(self) -> Iterator[Waiting]:
        thread = Thread(target=self._wait)
        thread.start()
        try:
            yield self
        finally:
            if not self.ended and sys.exc_info()[0] is not None:
                self.server.sql("DELETE FROM dag_run WHERE run_id = ?", self.run.run_id)
            thread.join(SECONDS)

    def _wait(self) -> None:
        with self.server.session() as session:
            waiting = Wait(session, self.run, self.told.append)
            try:
                self.ended += [waiting.until_end(), waiting.failed()]
            except SluiceError as error:
                self.ended.append(error)

    def hears(self, words: str) -> None:
        until(lambda: any(words in line for line in [*self.told]) or bool(self.ended))
        assert any(words in line for line in self.told), (self.told, self.ended)


def queued(server: ApiServer, **changed: object) -> BackfillRun:
    with server.session() as session:
        return trigger(session, BackfillAsked("ads", START, END, **changed), lambda _: None)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "POLL_SECONDS", 0.1)


def test_a_run_is_queued_as_asked_and_a_paused_dag_is_unpaused(server: ApiServer):
    server.sql("UPDATE dag SET is_paused = 1 WHERE dag_id = 'ads_backfill'")
    run, again = queued(server, mode="reload", dry_run=True), queued(server)
    assert server.sql("SELECT is_paused FROM dag WHERE dag_id = 'ads_backfill'") == [(0,)]
    edges = {"from": "2026-11-20T10:00:00Z", "to": "2026-11-20T12:00:00Z"}
    found = dict(server.sql("SELECT run_id, conf FROM dag_run WHERE dag_id = 'ads_backfill'"))
    assert json.loads(found[run.run_id]) == {**edges, "mode": "reload", "dry_run": True}
    assert json.loads(found[again.run_id]) == {**edges, "mode": "fill", "dry_run": False}
    page = httpx.get(run.url)
    assert page.status_code == 200 and "<title>Airflow" in page.text


@pytest.mark.parametrize(
    ("changed", "asked", "words"),
    [
        ({"password": "wrong"}, {}, "refuses the login (POST /auth/token: 401): check login and password of"),
        ({"login": None, "password": "wrong"}, {}, "the token has expired or is another Airflow's"),
        ({"user": "vic"}, {}, "refuses POST /api/v2/dags/ads_backfill/dagRuns (403): Forbidden; vic may not"),
        ({}, {"pipeline": "other"}, "has no DAG other_backfill, or the login may not see it"),
        ({}, {"mode": "wipe"}, "Invalid input for param mode: 'wipe' is not one of"),
        ({"host": "{root}/elsewhere"}, {}, "no REST API of Airflow 3 (/api/v2) is below"),
        ({"extra": {"token_path": "/auth/other"}}, {}, "gives no token at /auth/other (405)"),
    ],
)
def test_what_a_real_airflow_refuses_is_one_line(server: ApiServer, changed: dict, asked: dict, words: str):
    root = server.url.removesuffix("/base")
    given = {k: v.replace("{root}", root) if isinstance(v, str) else v for k, v in changed.items()}
    of = BackfillAsked(**{"pipeline": "ads", "start": START, "end": END, **asked})
    with pytest.raises(WrongUse) as raised, server.session(**given) as session:
        trigger(session, of, lambda _: None)
    said = str(raised.value)
    assert words in said, said
    assert "\n" not in said and "s3cret" not in said


def test_tasks_are_told_and_a_cleared_run_is_waited_for_until_it_ends(server: ApiServer):
    run = queued(server)
    own = "UPDATE task_instance SET state = ?, try_number = ?, max_tries = 3 WHERE run_id = ? AND task_id = ?"
    with Waiting(server, run).under_way() as waiting:
        waiting.hears("queued")
        server.sql("UPDATE dag_run SET state = 'running' WHERE run_id = ?", run.run_id)
        server.sql(own, "running", 1, run.run_id, "plan")
        waiting.hears("plan runs")
        server.sql(own, "up_for_retry", 1, run.run_id, "plan")
        waiting.hears("plan failed in try 1 of 4, and is tried again")
        with server.session() as session:
            session.call("POST", f"{run.path}/clear", {"dry_run": False})
        state = "SELECT state FROM task_instance WHERE run_id = ? AND task_id = 'plan'"
        assert server.sql(state, run.run_id) == [(None,)]
        server.sql(own, "running", 2, run.run_id, "plan")
        waiting.hears("plan runs, try 2 of 4")
        server.sql(own, "failed", 2, run.run_id, "plan")
        waiting.hears("plan failed for good in try 2")
        with server.session() as session:
            session.call("PATCH", run.path, {"state": "failed"})
    assert waiting.ended[0] == "failed"
    assert "plan" in waiting.ended[1]


def test_a_deleted_run_is_an_end(server: ApiServer):
    run = queued(server)
    with Waiting(server, run).under_way() as waiting:
        waiting.hears("queued")
        with server.session() as session:
            assert httpx.delete(
                f"{server.url}/api/v2{run.path}",
                headers={"Authorization": session._client.headers["Authorization"]},
            ).is_success
    assert waiting.told[-1] == "deleted"


def test_a_server_that_restarts_is_waited_for(tmp_path: Path, server: ApiServer):
    """Another process with another secret: the token of the first is worth nothing to it."""
    run, second = queued(server), ApiServer(tmp_path)
    second.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = f"sqlite:///{server.home}/airflow.db"
    with second.up():
        waiting = Waiting(second, run)
        context = waiting.under_way()
        context.__enter__()
        waiting.hears("queued")
    waiting.hears("does not answer")
    with second.up():
        waiting.hears("Airflow answers again")
        server.sql("UPDATE dag_run SET state = 'success' WHERE run_id = ?", run.run_id)
        context.__exit__(None, None, None)
    assert waiting.ended == ["success", []]
