"""Starts a pipeline's backfill DAG and waits for it, over Airflow's REST API (v2)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from sluice.errors import Unavailable, WrongUse
from sluice.runtime import PROJECT
from sluice.slices import utc

ENDED = frozenset({"success", "failed"})
PLAN_KEY = "dry_run"
"""The XCom in which the task `plan` leaves the lines of a dry run."""
POLL_SECONDS = 2.0
LOOK_SECONDS = 30.0


@dataclass(frozen=True)
class Access:
    """Where Airflow's web server is, and who calls."""

    url: str
    user: str
    password: str = field(repr=False)


def access(environment: Mapping[str, str] = os.environ) -> Access:
    """SLUICE_AIRFLOW_URL, _USER and _PASSWORD; else the embedded stack's address and generated password.

    Raises Unavailable when there is no password, because no embedded Airflow has been started.
    """
    port = environment.get("SLUICE_AIRFLOW_PORT") or "8080"
    url = (environment.get("SLUICE_AIRFLOW_URL") or f"http://127.0.0.1:{port}").rstrip("/")
    user, password = environment.get("SLUICE_AIRFLOW_USER"), environment.get("SLUICE_AIRFLOW_PASSWORD")
    if user and password:
        return Access(url, user, password)
    passwords = _generated_passwords(PROJECT / (environment.get("SLUICE_HOME") or "var") / "airflow")
    if not passwords:
        raise Unavailable(
            f"no login for Airflow at {url}: start the embedded stack with `make up`, or set "
            "SLUICE_AIRFLOW_USER and SLUICE_AIRFLOW_PASSWORD"
        )
    name = user or next(iter(passwords))
    return Access(url, name, passwords.get(name, ""))


def _generated_passwords(airflow_home: Path) -> dict[str, str]:
    """What Airflow's simple auth manager writes when it starts for the first time."""
    path = airflow_home / "simple_auth_manager_passwords.json.generated"
    passwords: dict[str, str] = json.loads(path.read_text()) if path.is_file() else {}
    return passwords


def trigger(
    pipeline: str,
    start: datetime,
    end: datetime,
    mode: str = "fill",
    dry_run: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> str:
    """Queues a run of `<pipeline>_backfill` over `[start, end)`; its run id. A DAG that is paused would leave
    it queued for ever: it is unpaused, and `say` told.

    Raises Unavailable, or WrongUse when Airflow refuses (no such DAG, wrong login, wrong parameters).
    """
    given = {"from": _iso(start), "to": _iso(end), "mode": mode, "dry_run": dry_run}
    with _session() as session:
        dag = f"/api/v2/dags/{_dag_id(pipeline)}"
        if _call(session, "GET", dag)["is_paused"]:
            _call(session, "PATCH", dag, {"is_paused": False})
            say(f"{pipeline}_backfill was paused: it is not any more; `airflow dags pause` pauses it again")
        run = _call(session, "POST", f"{dag}/dagRuns", {"logical_date": None, "conf": given})
        return str(run["dag_run_id"])


def wait(
    run_id: str, pipeline: str, on_state: Callable[[str], None], how_far: Callable[[], str] = lambda: ""
) -> str:
    """Waits for the run's end and returns its state, `success` or `failed`; tells `on_state` every change.

    While it runs, `on_state` also gets what `how_far` says, twice a minute, unless that is empty, and that
    the DAG is paused.
    """
    path = f"/api/v2/dags/{_dag_id(pipeline)}/dagRuns/{quote(run_id, safe='')}"
    known, next_look = "", time.monotonic() + LOOK_SECONDS
    with _session() as session:
        while known not in ENDED:
            if known:
                time.sleep(POLL_SECONDS)
            state = _call(session, "GET", path)["state"]
            if state != known:
                on_state(state)
            known = state
            if known not in ENDED and time.monotonic() > next_look:
                lines, next_look = (*_paused(session, pipeline), how_far()), time.monotonic() + LOOK_SECONDS
                for line in filter(None, lines):
                    on_state(line)
    return known


def _paused(session: httpx.Client, pipeline: str) -> Iterator[str]:
    """Somebody may pause the DAG while its run is under way."""
    if _call(session, "GET", f"/api/v2/dags/{_dag_id(pipeline)}")["is_paused"]:
        name = f"{pipeline}_backfill"
        yield f"{name} is paused, and starts no task: `airflow dags unpause {name}` lets it go on"


def planned(run_id: str, pipeline: str) -> list[str]:
    """What the dry run's task `plan` has found, line by line."""
    task = f"/api/v2/dags/{_dag_id(pipeline)}/dagRuns/{quote(run_id, safe='')}/taskInstances/plan"
    with _session() as session:
        value = _call(session, "GET", f"{task}/xcomEntries/{PLAN_KEY}?stringify=false")["value"]
    # Airflow gives what a task has set as JSON, or as its text: that goes by the way on which it was set.
    return [str(line) for line in (json.loads(value) if isinstance(value, str) else value)]


def _dag_id(pipeline: str) -> str:
    return quote(f"{pipeline}_backfill", safe="")


def _iso(instant: datetime) -> str:
    return utc(instant).to_iso8601_string()


@contextmanager
def _session() -> Iterator[httpx.Client]:
    """A client that has logged in."""
    login = access()
    with httpx.Client(base_url=login.url, timeout=30) as session:
        token = _call(session, "POST", "/auth/token", {"username": login.user, "password": login.password})
        session.headers["Authorization"] = f"Bearer {token['access_token']}"
        yield session


def _call(session: httpx.Client, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """One request; what is wrong becomes one line."""
    try:
        answer = session.request(method, path, json=body)
    except httpx.HTTPError as error:
        raise Unavailable(
            f"Airflow does not answer at {session.base_url} ({error}): start it with `make up`, or set "
            "SLUICE_AIRFLOW_URL"
        ) from error
    if answer.is_server_error:
        raise Unavailable(f"Airflow at {session.base_url} answered {answer.status_code} to {method} {path}")
    if not answer.is_success:
        raise WrongUse(f"Airflow refused {method} {path} ({answer.status_code}): {_detail(answer)}")
    content: dict[str, Any] = answer.json()
    return content


def _detail(answer: httpx.Response) -> str:
    if answer.status_code == 401:
        return "check SLUICE_AIRFLOW_USER and SLUICE_AIRFLOW_PASSWORD"
    try:
        said = str(answer.json().get("detail", ""))
    except ValueError:
        said = answer.text
    if answer.status_code == 404:
        said += "; `airflow dags list-import-errors` shows why a DAG is missing"
    return " ".join(said.split())[:300]
