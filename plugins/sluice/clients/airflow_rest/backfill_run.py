"""Starts a run of a pipeline's backfill DAG, and reads what the run has left."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from sluice.clients.airflow_rest.session import Session
from sluice.errors import Unavailable, WrongUse
from sluice.slices import utc

PLAN_KEY = "dry_run"
"""The XCom in which the task `plan` leaves the lines of a dry run."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class BackfillAsked:
    """A run over `[start, end)`; without `tables` it is of all of them. `accept_loss`: it may reject rows
    that are there."""

    pipeline: str
    start: datetime
    end: datetime
    mode: str = "fill"
    dry_run: bool = False
    tables: tuple[str, ...] = ()
    accept_loss: bool = False

    @property
    def conf(self) -> dict[str, Any]:
        edges = {"from": _iso(self.start), "to": _iso(self.end)}
        more: dict[str, Any] = {"tables": list(self.tables)} if self.tables else {}
        if self.accept_loss:
            more["accept_loss"] = True
        mode, _, missing_columns = self.mode.partition(" ")
        if missing_columns:
            more["missing_columns"] = True
        return {**edges, "mode": mode, "dry_run": self.dry_run, **more}


@dataclass(frozen=True)
class BackfillRun:
    """A run that Airflow has; `url` is its page."""

    dag_id: str
    run_id: str
    url: str = field(compare=False)

    @property
    def path(self) -> str:
        return f"/dags/{quote(self.dag_id, safe='')}/dagRuns/{quote(self.run_id, safe='')}"


def trigger(session: Session, asked: BackfillAsked, say: Tell) -> BackfillRun:
    """Queues a run of `<pipeline>_backfill`. A run of a paused DAG never starts: the DAG is unpaused, which
    `say` reports.

    Raises: Unavailable, or WrongUse when Airflow refuses (no such DAG, no right, wrong parameters).
    """
    dag_id = f"{asked.pipeline}_backfill"
    path = f"/dags/{quote(dag_id, safe='')}"
    dag = session.read(path)
    if dag is None:
        raise WrongUse(
            f"Airflow at {session.access.url} has no DAG {dag_id}, or the login may not see it: the pipeline "
            "file makes it, and `airflow dags list-import-errors` shows why one is missing"
        )
    if dag["is_paused"]:
        _unpause(session, path, dag_id)
        say(f"{dag_id} was paused: it is not any more; `airflow dags pause {dag_id}` pauses it again")
    run_id = _queue(session, path, asked)
    page = f"{session.access.url}/dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"
    return BackfillRun(dag_id, run_id, page)


def _queue(session: Session, path: str, asked: BackfillAsked) -> str:
    """Queues the run and returns its id. Raises Unavailable where it is unknown whether there is a run
    now."""
    try:
        run = session.call("POST", f"{path}/dagRuns", {"logical_date": None, "conf": asked.conf})
    except Unavailable as error:
        raise Unavailable(
            f"{error}; the run may have been queued all the same: asking again makes another one, "
            "and two runs over a range load each record once"
        ) from error
    return str(run["dag_run_id"])


def _unpause(session: Session, path: str, dag_id: str) -> None:
    try:
        session.call("PATCH", path, {"is_paused": False})
    except WrongUse as error:
        raise WrongUse(
            f"{dag_id} is paused, and nothing was started: `airflow dags unpause {dag_id}` ({error})"
        ) from error


def planned(session: Session, run: BackfillRun) -> list[str]:
    """Returns what the dry run's task `plan` has found, line by line."""
    entry = f"{run.path}/taskInstances/plan/xcomEntries/{PLAN_KEY}?stringify=false"
    value = session.call("GET", entry)["value"]
    # Airflow gives what a task has set as JSON, or as its text: that goes by the way on which it was set.
    return [str(line) for line in (json.loads(value) if isinstance(value, str) else value)]


def _iso(instant: datetime) -> str:
    return utc(instant).to_iso8601_string()
