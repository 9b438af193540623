"""Airflow's connections: from its secrets back-ends, AIRFLOW_CONN_… variables and its database; its pools."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sluice.clients.connections.find import Connection, embedded_airflow, find
from sluice.errors import Unavailable
from sluice.safe_text import line


def variable(conn_id: str) -> str:
    """Returns the environment variable that defines a connection."""
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def lookup(conn_id: str) -> Connection | None:
    """Returns the connection as Airflow knows it, or None when it knows none or is not set up here."""
    if embedded_airflow() is None and not _airflow_is_set_up():
        return None
    with _home_of_embedded(), _logging_to_stderr():
        stored = airflow_connection(conn_id)
    if stored is None:
        return None
    return Connection(
        conn_id,
        conn_type=stored.conn_type or "",
        host=stored.host,
        port=stored.port,
        login=stored.login,
        password=stored.password,
        schema=stored.schema,
        extra=stored.extra_dejson,
    )


def base_url() -> str:
    """Returns `[api] base_url` of Airflow's configuration; empty where it has none or is not set up here."""
    if not _airflow_is_set_up():
        return ""
    with _logging_to_stderr():
        from airflow.configuration import conf
    return str(conf.get("api", "base_url", fallback="") or "")


def as_environment(conn_ids: Iterable[str]) -> dict[str, str]:
    """Returns the variables that give a subprocess these connections. Raises WrongUse for an unknown one.

    Airflow is asked first, although `find` would ask it too: only then are secrets masked in task logs.
    """
    return {variable(conn_id): _as_json(lookup(conn_id) or find(conn_id)) for conn_id in conn_ids}


def _as_json(connection: Connection) -> str:
    content = {name: value for name, value in vars(connection).items() if name != "conn_id"}
    return json.dumps({**content, "extra": dict(connection.extra)})


def airflow_connection(conn_id: str) -> Any | None:
    """Returns Airflow's own connection object, or None when there is none; its secrets are masked in task
    logs."""
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        return _from_task(conn_id) if _in_task() else _from_server(conn_id)
    except AirflowNotFoundException:
        return None


def pools() -> frozenset[str] | None:
    """Returns the names of Airflow's pools, or None where it is not set up here. Raises Unavailable.

    For a process that may use Airflow's database; a task may not.
    """
    if not _airflow_is_set_up():
        return None
    with _logging_to_stderr():
        from airflow.models.pool import Pool
        from sqlalchemy.exc import SQLAlchemyError

    try:
        return frozenset(str(pool.pool) for pool in Pool.get_pools())
    except SQLAlchemyError as error:
        why = line(str(getattr(error, "orig", error)), 200)
        raise Unavailable(
            f"Airflow's database gives no pools ({why}): start it, or correct its address"
        ) from None


@contextmanager
def _home_of_embedded() -> Iterator[None]:
    """Makes the embedded stack's Airflow the one that is imported, where it is to be asked. It reads
    AIRFLOW_HOME when it is imported, and no other process is to inherit it."""
    folder = embedded_airflow()
    if folder is None or "airflow" in sys.modules:
        yield
        return
    os.environ["AIRFLOW_HOME"] = str(folder)
    try:
        yield
    finally:
        del os.environ["AIRFLOW_HOME"]


@contextmanager
def _logging_to_stderr() -> Iterator[None]:
    """Who imports Airflow first has its logging, to what standard output is then, and when a logger is made.

    A command's standard output is for its answer. Airflow's own processes are left alone."""
    if "airflow" in sys.modules:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield
    import structlog

    logger_factory = structlog.get_config()["logger_factory"]

    def make(*arguments: Any) -> Any:
        with redirect_stdout(sys.stderr):
            return logger_factory(*arguments)

    structlog.configure(logger_factory=make)


def _in_task() -> bool:
    """True where Airflow's database is out of bounds and its supervisor answers instead."""
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    return getattr(runner, "SUPERVISOR_COMMS", None) is not None


def _from_task(conn_id: str) -> Any:
    from airflow.sdk import Connection as TaskConnection

    return TaskConnection.get(conn_id)


def _from_server(conn_id: str) -> Any:
    from airflow.models.connection import Connection as StoredConnection

    return StoredConnection.get_connection_from_secrets(conn_id)


def _airflow_is_set_up() -> bool:
    """Importing Airflow makes its home and takes seconds: not where it is not set up."""
    if "airflow" in sys.modules:
        return True
    return home().is_dir() and find_spec("airflow") is not None


def home() -> Path:
    """Returns the folder of the Airflow that is asked here."""
    return Path(os.environ.get("AIRFLOW_HOME", "~/airflow")).expanduser()
