"""Airflow connections, found the same way in Airflow and outside it.

First `AIRFLOW_CONN_<ID>` in the environment, then the file of that id in the folder that
`SLUICE_CONNECTIONS_DIR` names, as containers get their secrets mounted, then Airflow's own look-up (its
database or a secrets back-end), then the embedded stack's defaults. Where AIRFLOW_HOME names no Airflow and
the embedded stack has one, that is asked, from any shell: the stack's own shell (`make shell`) and every
other one find the same.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from sluice.errors import Unavailable, WrongUse
from sluice.runtime import PROJECT
from sluice.safe_text import line


def find(conn_id: str, environment: Mapping[str, str] = os.environ) -> Connection:
    """Returns the connection of that id. Raises WrongUse when it is unknown, or its text is malformed."""
    default = _EMBEDDED.get(conn_id)
    # The stack gives its own Airflow these as variables, which come before its database.
    if default is None or embedded_airflow(environment) is None:
        connection = known(conn_id, environment)
    else:
        connection = _of_environment(conn_id, environment)
    if connection is not None:
        return connection
    if default is not None:
        return default(environment)
    raise WrongUse(
        f"no connection {conn_id!r}: make it in Airflow, or set AIRFLOW_CONN_{conn_id.upper()} (JSON or URI)"
    )


def known(conn_id: str, environment: Mapping[str, str] = os.environ) -> Connection | None:
    """Finds as `find` does, without the embedded stack's; returns None when it is unknown."""
    given = _of_environment(conn_id, environment)
    return _airflow_lookup(conn_id) if given is None else given


def _of_environment(conn_id: str, environment: Mapping[str, str]) -> Connection | None:
    text = environment.get(f"AIRFLOW_CONN_{conn_id.upper()}")
    if text is not None:
        return parse(conn_id, text)
    folder = environment.get("SLUICE_CONNECTIONS_DIR")
    return _of_file(conn_id, Path(folder, conn_id)) if folder and Path(conn_id).name == conn_id else None


def _of_file(conn_id: str, path: Path) -> Connection | None:
    try:
        return parse(conn_id, path.read_text().strip(), str(path))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise WrongUse(f"connection {conn_id!r}: {path} cannot be read") from None


def airflow_base_url(environment: Mapping[str, str] = os.environ) -> str:
    """Returns `[api] base_url` of Airflow's configuration; empty where that says none."""
    url = environment.get("AIRFLOW__API__BASE_URL")
    if url is not None:
        return url
    airflow = _airflow()
    return "" if airflow is None else str(airflow.base_url())


def _airflow_lookup(conn_id: str) -> Connection | None:
    airflow = _airflow()
    return None if airflow is None else airflow.lookup(conn_id)


def _airflow() -> ModuleType | None:
    """Returns None where Airflow is not installed."""
    try:
        return import_module("sluice.clients.connections")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "airflow":
            return None
        raise


def embedded_home(environment: Mapping[str, str]) -> Path:
    """Returns the folder of the embedded stack, wherever a command is called from."""
    return PROJECT / (environment.get("SLUICE_HOME") or "var")


def embedded_airflow(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Returns the folder of the embedded stack's Airflow; None where there is none, or AIRFLOW_HOME names
    another one."""
    folder = embedded_home(environment) / "airflow"
    return folder if not environment.get("AIRFLOW_HOME") and (folder / "migrated-to").is_file() else None


def read_object(path: Path) -> dict[str, Any]:
    """Returns what a JSON file of the embedded stack holds. Raises WrongUse where it is not whole: Airflow
    does not write its own at once."""
    try:
        content = json.loads(path.read_text())
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise WrongUse(
            f"{path} is not whole: try again when `make up` has ended; where it stays so, `make down`, delete"
            " the file, and `make up`"
        )
    return content


def _noted(environment: Mapping[str, str], name: str) -> str:
    """Returns a variable of the stack that runs, as it notes it (local/runner.py); empty where none runs."""
    try:
        stack = read_object(embedded_home(environment) / "stack.json")
        return str(stack.get("environment", {}).get(name, ""))
    except (FileNotFoundError, PermissionError):
        return ""


def embedded_port(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name) or _noted(environment, name) or str(default)
    if not text.isdecimal():
        raise WrongUse(f"{name}={text}: expected a port number")
    return int(text)


def _kafka(environment: Mapping[str, str]) -> Connection:
    address = f"127.0.0.1:{embedded_port(environment, 'SLUICE_KAFKA_PORT', 9092)}"
    return Connection("kafka_default", "kafka", extra={"bootstrap.servers": address})


def _clickhouse(environment: Mapping[str, str]) -> Connection:
    port = embedded_port(environment, "SLUICE_CLICKHOUSE_PORT", 8123)
    return Connection("clickhouse_default", "clickhouse", "127.0.0.1", port, "sluice", _password(environment))


def _password(environment: Mapping[str, str]) -> str:
    """That of the embedded ClickHouse: `make up` keeps it in a file that only its owner can read."""
    kept = embedded_home(environment) / "clickhouse-password"
    try:
        return environment.get("SLUICE_CLICKHOUSE_PASSWORD") or kept.read_text()
    except FileNotFoundError:
        return ""
    except PermissionError:
        raise WrongUse(
            f"{kept} is another user's: set AIRFLOW_CONN_CLICKHOUSE_DEFAULT (JSON or URI)"
        ) from None


def _spark(_: Mapping[str, str]) -> Connection:
    return Connection("spark_default", "spark", "local[*]")


_EMBEDDED: Mapping[str, Callable[[Mapping[str, str]], Connection]] = {
    "kafka_default": _kafka,
    "clickhouse_default": _clickhouse,
    "spark_default": _spark,
}


YES_OR_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_TEXTS = ("conn_type", "host", "login", "password", "schema")
_LARGEST_PORT = 65_535
_Meaning = TypeVar("_Meaning")


@dataclass(frozen=True)
class Connection:
    """One server and how to log in to it; the repr shows neither password nor extra. Raises WrongUse for a
    number, say, where text belongs: Airflow fails at some of them, and keeps others as they are."""

    conn_id: str
    conn_type: str = ""
    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    schema: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for key in _TEXTS:
            if not isinstance(getattr(self, key), str | None):
                raise WrongUse(
                    f"connection {self.conn_id!r}: its {key} is no text: write it in quotation marks"
                )
        if self.port is not None and not (type(self.port) is int and 0 <= self.port <= _LARGEST_PORT):
            raise WrongUse(f"connection {self.conn_id!r}: its port is no number up to {_LARGEST_PORT}")

    def chosen(self, key: str, meanings: Mapping[str, _Meaning], default: _Meaning) -> _Meaning:
        """Returns what the extra's value at `key` stands for, in either case; `default` where there is none.
        Raises WrongUse for any other: what is not understood would silently not apply."""
        value = self.extra.get(key)
        text = "" if value is None else str(value).lower()
        if value is None or (not text and "" not in meanings):
            return default
        if text not in meanings:
            raise WrongUse(
                f"connection {self.conn_id!r}: {key} in its extra is not understood: expected one of "
                + ", ".join(filter(None, meanings))
            )
        return meanings[text]


def parse(conn_id: str, text: str, where: str = "") -> Connection:
    """Returns a connection from Airflow's JSON or URI form (airflow.models.connection, 3.3). `where` the text
    is, if it is not in the environment. Raises WrongUse."""
    try:
        return _from_json(conn_id, text) if text.lstrip().startswith("{") else _from_uri(conn_id, text)
    except (ValueError, TypeError):
        # The text may hold a password, and a parser's message may quote the text.
        raise WrongUse(
            f"{where or variable(conn_id)} is neither Airflow's JSON nor its URI form: see Airflow's "
            "documentation on connections"
        ) from None


def _from_json(conn_id: str, text: str) -> Connection:
    content = json.loads(text)
    port = content.get("port") or None
    connection = Connection(
        conn_id,
        port=int(port) if isinstance(port, str) and port.isdecimal() else port,
        extra=_extra(content.get("extra")),
        **{key: content[key] for key in _TEXTS if content.get(key) is not None},
    )
    return replace(connection, conn_type=_conn_type(connection.conn_type))


def _from_uri(conn_id: str, text: str) -> Connection:
    """`type://[protocol://]login:password@host:port/schema?key=value`, every part percent-encoded."""
    scheme, separator, rest = text.partition("://")
    if not separator or rest.count("://") > 1:
        raise ValueError("expected type://…")
    protocol, inner, after = rest.partition("://")
    parts = urlsplit("//" + (after if inner else rest))
    host = _host(parts)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    extra = query.get("__extra__")
    return Connection(
        conn_id,
        conn_type=_conn_type(scheme),
        host=f"{protocol}://{host}" if inner and host else host,
        port=parts.port,
        login=_decoded(parts.username),
        password=_decoded(parts.password),
        schema=_decoded(parts.path[1:]),
        extra=_extra(extra) if extra else {key: _value(value) for key, value in query.items()},
    )


def _host(parts: SplitResult) -> str | None:
    """Returns the host as it is written: `hostname` would lower its case."""
    address = parts.netloc.rpartition("@")[2]
    host = address if address.startswith("[") else address.partition(":")[0]
    return _decoded(host.partition("]")[0].lstrip("["))


def _decoded(part: str | None) -> str | None:
    return unquote(part) if part else None


def _conn_type(name: str) -> str:
    return name.replace("-", "_")


def _extra(value: Any) -> dict[str, Any]:
    content = json.loads(value) if isinstance(value, str) and value else value or {}
    if not isinstance(content, dict):
        raise ValueError("extra: expected a JSON object")
    return content


def _value(text: str) -> Any:
    try:
        return json.loads(text) if text else text
    except json.JSONDecodeError:
        return text


# Airflow's connections: from its secrets back-ends, AIRFLOW_CONN_… variables and its database; its pools.


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
