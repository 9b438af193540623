"""Opens the connection that a pipeline names."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from clickhouse_connect.driver.exceptions import ClickHouseError, Error
from clickhouse_connect.driver.httpclient import HttpClient
from urllib3.exceptions import HTTPError

from sluice.clients.clickhouse.client import Client, explain
from sluice.clients.clickhouse.errors import CONNECTING, READONLY, UNKNOWN_SETTING, ServerError, shorten
from sluice.clients.clickhouse.profile import Changed, pin
from sluice.clients.clickhouse.settings import NEWER_READS, READS
from sluice.clients.clickhouse.sql import render
from sluice.clients.connections.connection import YES_OR_NO, Connection
from sluice.clients.connections.find import find
from sluice.config.pipeline import Pipeline
from sluice.errors import ClickHouseUnavailable

# The driver tries a connect twice: an unavailable server is noticed within ten seconds.
_CONNECT_SECONDS = 4
# Progress headers come at least every two minutes; a synchronous mutation is silent until its end.
_ANSWER_SECONDS = 3600
_HTTP_PORT = 8123
_HTTPS_PORT = 8443
_TLS = ("ca_cert", "client_cert", "client_cert_key", "server_host_name")
_TLS_MODES = {"strict": "strict", "mutual": "mutual", "proxy": "proxy"}

# They warn of what is then raised, and Sluice says it in its own line.
logging.getLogger("clickhouse_connect").setLevel(logging.ERROR)
logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)


@contextmanager
def connect(pipeline: Pipeline) -> Iterator[Client]:
    """Yields a client of the ClickHouse of a pipeline with one `connection`, closed at the end.

    Raises ClickHouseUnavailable, and ServerError when the server refuses the user.
    """
    client = open_client(find(pipeline.clickhouse.connection))
    try:
        yield client
    finally:
        client.close()


def open_client(connection: Connection) -> Client:
    """Returns a client of `connection`; `secure` in its extra makes it HTTPS.

    Beside it the extra may hold `verify`, `ca_cert`, `client_cert` and `client_cert_key` (files in PEM),
    `server_host_name` where the certificate names another host than the address does, and `tls_mode` (strict:
    the client's certificate is not its login). Raises WrongUse for a value that is not understood.
    """
    extra, secure, port = connection.extra, _secure(connection), port_of(connection)
    address = f"{connection.host}:{port}"
    try:
        driver = open_driver(
            interface="https" if secure else "http",
            host=connection.host,
            port=port,
            username=connection.login or "default",
            password=connection.password or "",
            verify=connection.chosen("verify", YES_OR_NO, True),
            tls_mode=connection.chosen("tls_mode", _TLS_MODES, None),
            **{name: extra[name] for name in _TLS if extra.get(name)},
            connect_timeout=_CONNECT_SECONDS,
            send_receive_timeout=_ANSWER_SECONDS,
        )
        fixed = set_back(driver)
    except ClickHouseError as error:
        raise explain(error, address, CONNECTING) from error
    except (HTTPError, OSError) as error:
        raise ClickHouseUnavailable(address, shorten(str(error), 120)) from error
    if fixed:
        driver.close()
        names = ", ".join(f"`{name}`" for name in fixed)
        reason = f"the user's profile sets {names}, and nothing sets them back in a statement"
        raise ServerError(address, READONLY, "READONLY", CONNECTING, reason)
    return Client(driver, address)


def port_of(connection: Connection) -> int:
    """That of the HTTP interface: without one the server's default."""
    return connection.port or (_HTTPS_PORT if _secure(connection) else _HTTP_PORT)


def _secure(connection: Connection) -> bool:
    return connection.chosen("secure", YES_OR_NO, False)


# Opens clickhouse-connect's client so that all of its statements, its own first ones too, are pinned.
class _Bare(HttpClient):
    """`sent` goes with every statement, from the first that the driver sends when it is made."""

    sent: ClassVar[Mapping[str, object]] = READS

    def _init_common_settings(self, tz_source: Any) -> None:
        self.params.update({name: str(value) for name, value in self.sent.items()})
        super()._init_common_settings(tz_source)


class _Newer(_Bare):
    sent: ClassVar[Mapping[str, object]] = {**READS, **NEWER_READS}


def open_driver(**arguments: Any) -> HttpClient:
    """Raises what the driver raises."""
    arguments = {**arguments, "database": None, "autogenerate_session_id": False, "client_name": "sluice"}
    try:
        return _Newer(**arguments)
    except ClickHouseError as error:
        if isinstance(error, Error) and error.code == UNKNOWN_SETTING:
            return _Bare(**arguments)
        raise


def set_back(driver: HttpClient) -> tuple[str, ...]:
    """From here on every statement sets back what the user's profile has changed.

    Returns the settings that would have to be set back, and that the user may not set.
    """
    rows = driver.query(render("clickhouse/changed_settings")).result_rows
    changed = [Changed(name, value, default, bool(fixed)) for name, value, default, fixed in rows]
    found = pin(changed, reader=any(one.name == "readonly" and one.value == "1" for one in changed))
    for name, value in found.back.items():
        if driver.get_client_setting(name) is None:  # what the driver has chosen is no profile's
            driver.set_client_setting(name, value)
    return found.fixed
