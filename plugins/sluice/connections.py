"""Airflow connections, found the same way in Airflow and outside it.

First `AIRFLOW_CONN_<ID>` in the environment, then Airflow's own look-up (its database or a secrets
back-end), then the embedded stack's defaults.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from sluice.errors import WrongUse
from sluice.project import PROJECT


@dataclass(frozen=True)
class Connection:
    """One server and how to log in to it; the repr shows neither password nor extra."""

    conn_id: str
    conn_type: str = ""
    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    schema: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


def find(conn_id: str, environment: Mapping[str, str] = os.environ) -> Connection:
    """The connection of that id. Raises WrongUse when nobody knows it, or its text is malformed."""
    text = environment.get(f"AIRFLOW_CONN_{conn_id.upper()}")
    if text is not None:
        return parse(conn_id, text)
    found = _airflow_lookup(conn_id)
    if found is not None:
        return found
    default = _EMBEDDED.get(conn_id)
    if default is not None:
        return default(environment)
    raise WrongUse(
        f"no connection {conn_id!r}: make it with `airflow connections add {conn_id} …`, or set "
        f"AIRFLOW_CONN_{conn_id.upper()} (JSON or URI)"
    )


def parse(conn_id: str, text: str) -> Connection:
    """A connection from Airflow's JSON or URI form (airflow.models.connection, 3.3). Raises WrongUse."""
    try:
        return _from_json(conn_id, text) if text.lstrip().startswith("{") else _from_uri(conn_id, text)
    except (ValueError, TypeError) as error:
        # The text may hold a password, and a parser's message may quote the text.
        raise WrongUse(
            f"AIRFLOW_CONN_{conn_id.upper()} is neither Airflow's JSON nor its URI form "
            f"({type(error).__name__}): see Airflow's documentation on connections"
        ) from None


def _from_json(conn_id: str, text: str) -> Connection:
    content = json.loads(text)
    known = ("host", "login", "password", "schema")
    port = content.get("port")
    return Connection(
        conn_id,
        conn_type=_conn_type(content.get("conn_type") or ""),
        port=int(port) if port else None,
        extra=_extra(content.get("extra")),
        **{name: content.get(name) for name in known},
    )


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
    """The host as it is written: `hostname` would lower its case."""
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


def _airflow_lookup(conn_id: str) -> Connection | None:
    try:
        from sluice.airflow.connections import lookup
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "airflow":
            return None
        raise
    return lookup(conn_id)


def _home(environment: Mapping[str, str]) -> Path:
    """The folder of the embedded stack, wherever a command is called from."""
    return PROJECT / (environment.get("SLUICE_HOME") or "var")


def _noted(environment: Mapping[str, str], name: str) -> str:
    """A variable of the stack that runs, as it notes it (local/runner.py); empty where none runs."""
    try:
        return (
            json.loads((_home(environment) / "stack.json").read_text()).get("environment", {}).get(name, "")
        )
    except (FileNotFoundError, PermissionError):
        return ""


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name) or _noted(environment, name) or str(default)
    if not text.isdecimal():
        raise WrongUse(f"{name}={text}: expected a port number")
    return int(text)


def _kafka(environment: Mapping[str, str]) -> Connection:
    address = f"127.0.0.1:{_port(environment, 'SLUICE_KAFKA_PORT', 9092)}"
    return Connection("kafka_default", "kafka", extra={"bootstrap.servers": address})


def _clickhouse(environment: Mapping[str, str]) -> Connection:
    port = _port(environment, "SLUICE_CLICKHOUSE_PORT", 8123)
    return Connection("clickhouse_default", "clickhouse", "127.0.0.1", port, "sluice", _password(environment))


def _password(environment: Mapping[str, str]) -> str:
    """That of the embedded ClickHouse: `make up` keeps it in a file that only its owner can read."""
    kept = _home(environment) / "clickhouse-password"
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
