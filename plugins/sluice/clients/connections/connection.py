"""A connection, from Airflow's JSON or URI form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from sluice.errors import WrongUse

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


def parse(conn_id: str, text: str) -> Connection:
    """Returns a connection from Airflow's JSON or URI form (airflow.models.connection, 3.3). Raises
    WrongUse."""
    try:
        return _from_json(conn_id, text) if text.lstrip().startswith("{") else _from_uri(conn_id, text)
    except (ValueError, TypeError):
        # The text may hold a password, and a parser's message may quote the text.
        raise WrongUse(
            f"AIRFLOW_CONN_{conn_id.upper()} is neither Airflow's JSON nor its URI form: see Airflow's "
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
