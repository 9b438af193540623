"""Opens the connection that a pipeline names."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from clickhouse_connect.driver.exceptions import ClickHouseError, Error
from clickhouse_connect.driver.httpclient import HttpClient
from clickhouse_connect.driver.models import SettingDef
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from sluice.clients.clickhouse.client import NEWER_READS, READS, Client, Silence, explain
from sluice.clients.clickhouse.errors import CONNECTING, READONLY, UNKNOWN_SETTING, ServerError, shorten
from sluice.clients.clickhouse.sql import render
from sluice.clients.connections import YES_OR_NO, Connection, find
from sluice.concurrency import bound_answers
from sluice.config.pipeline import Pipeline
from sluice.errors import ClickHouseUnavailable, WrongUse
from sluice.proxies import by_proxy

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


def open_client(
    connection: Connection,
    answer_seconds: int | None = None,
    silence: Silence | None = None,
    whole_seconds: float | None = None,
    alone: bool = False,
) -> Client:
    """Returns a client of `connection`. A server that is silent for `answer_seconds`, else an hour, counts as
    unavailable; so does one whose answer is not whole after `whole_seconds`. `alone`: it shares no connection
    with other clients, so that statements one after another go to one server of several behind an address.

    The host may be `https://host/path`; `secure` and `proxy_path` in the extra say the same. Beside them it
    may hold `verify`, `ca_cert`, `client_cert` and `client_cert_key` (files in PEM),
    `server_host_name` where the certificate names another host than the address does, and `tls_mode` (strict:
    the client's certificate is not its login). Raises WrongUse for a value that is not understood.
    """
    extra, place = connection.extra, place_of(connection)
    address, url = f"{place.host}:{place.port}{place.path}", place.url
    try:
        driver = open_driver(
            interface=place.scheme,
            host=place.host,
            port=place.port,
            proxy_path=place.path,
            username=connection.login or "default",
            password=connection.password or "",
            verify=connection.chosen("verify", YES_OR_NO, True),
            tls_mode=connection.chosen("tls_mode", _TLS_MODES, None),
            **{name: extra[name] for name in _TLS if extra.get(name)},
            connect_timeout=_CONNECT_SECONDS,
            send_receive_timeout=answer_seconds or _ANSWER_SECONDS,
            whole_seconds=whole_seconds,
            alone=alone,
        )
        fixed = set_back(driver)
    except ClickHouseError as error:
        told = explain(error, address, CONNECTING)
        if isinstance(told, ClickHouseUnavailable):
            told = ClickHouseUnavailable(address, by_proxy(url, told.reason))
        raise told from error
    except (HTTPError, OSError) as error:
        raise ClickHouseUnavailable(address, by_proxy(url, shorten(str(error), 120))) from error
    if fixed:
        driver.close()
        names = ", ".join(f"`{name}`" for name in fixed)
        reason = f"the user's profile sets {names}, and nothing sets them back in a statement"
        raise ServerError(address, READONLY, "READONLY", CONNECTING, reason)
    return Client(driver, address, consistent(driver.server_settings), silence)


def consistent(server_settings: Mapping[str, SettingDef]) -> dict[str, object]:
    """Returns what reads carry so that they see what any server of a service of ClickHouse Cloud has written.
    Empty for a user who may change no setting."""
    cloud, setting = map(server_settings.get, ("cloud_mode", "select_sequential_consistency"))
    if cloud is None or setting is None or cloud.value != "1" or int(setting.readonly):
        return {}
    return {setting.name: 1}


@dataclass(frozen=True)
class Place:
    """Where a server's HTTP interface is; `path` is empty or begins with a slash."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}{self.path}"


def place_of(connection: Connection) -> Place:
    """Reads host, port, `secure` and `proxy_path`; without a port it is the server's default. Raises
    WrongUse."""
    where = f"connection {connection.conn_id!r}"
    text = connection.host or ""
    scheme, _, rest = text.rpartition("://")
    if "@" in text:
        raise WrongUse(f"{where}: its host holds a login: write it as its login and password")
    if scheme not in ("", "http", "https") or re.search(r"[\s?#]", text):
        raise WrongUse(f"{where}: expected a host, or http(s)://host/path, as its host")
    said = connection.chosen("secure", YES_OR_NO, None)
    if scheme and said is not None and said != (scheme == "https"):
        raise WrongUse(f"{where}: its host says {scheme}, and `secure` in its extra the contrary")
    secure = scheme == "https" if scheme else bool(said)
    host, _, path = rest.partition("/")
    port = connection.port
    if own := re.fullmatch(r"([^:]+|\[.*\]):(\d{1,5})", host):
        if port not in (None, int(own[2])):
            raise WrongUse(f"{where}: its host says port {own[2]}, and its port {port}")
        host, port = own[1], int(own[2])
    path = "/".join(part.strip("/") for part in (path, _proxy_path(connection)) if part.strip("/"))
    default = _HTTPS_PORT if secure else _HTTP_PORT
    return Place("https" if secure else "http", host, port or default, f"/{path}" if path else "")


def _proxy_path(connection: Connection) -> str:
    path = connection.extra.get("proxy_path") or ""
    if not isinstance(path, str):
        raise WrongUse(f"connection {connection.conn_id!r}: proxy_path in its extra is no text")
    return path


# Opens clickhouse-connect's client so that all of its statements, its own first ones too, are pinned.
class _Bare(HttpClient):
    """`sent` goes with every statement, from the first that the driver sends when it is made."""

    sent: ClassVar[Mapping[str, object]] = READS

    def __init__(self, whole_seconds: float | None = None, alone: bool = False, **arguments: Any) -> None:
        self._whole_seconds = whole_seconds
        super().__init__(**arguments, dedicated_pool=alone or whole_seconds is not None)

    def _init_common_settings(self, tz_source: Any) -> None:
        # The login is for the server that the connection names. urllib3 takes a number or this.
        self.http_retries = Retry(1, redirect=0)  # type: ignore[assignment]
        if self._whole_seconds is not None:
            bound_answers(self.http, self._whole_seconds)
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


# What a user's profile has changed of the server's settings goes back to the server's defaults.
#
# Which of a server's 1,500 settings change a value or refuse a statement nobody can list once and for all. So
# the server is asked which ones are not at their defaults, and every statement sets these back; what stays is
# what a profile is for: limits, resources, waiting, logs, caches, and what the user's own types need.
_KEPT = re.compile(
    "|".join(
        (
            # What one statement, or one user, may use of the server.
            r"max_(memory_usage|untracked_memory|concurrent_queries|sessions|network|temporary_data_on_disk).*",
            r"max_(bytes|bytes_ratio)_before_(external|remerge).*",
            r"max_(insert_|final_|download_|parsing_)?threads.*",
            r"max_execution_(time|speed).*",
            r"max_\w*bandwidth|(memory_(overcommit|profiler|usage)|min_free_disk)_\w+|reserve_memory",
            r"priority|workload|os_threads_nice_value_\w+|use_concurrency_control|queue_max_wait_ms",
            r"\w*timeout(_ms|_sec)?|\w*_backoff\w*|\w*_retries|\w*_max_tries",
            # How much is written down, and where a read finds it.
            r"(log|send_logs|query_profiler|opentelemetry|metrics_perf|trace_profile|jemalloc)_\w+",
            r"query_metric_log_interval|(calculate_text|enable_job)_stack_trace|enable_\w+_log(ging)?(_\w+)?",
            r"\w*(filesystem|distributed|page|metadata_files)_cache\w*|use_uncompressed_cache",
            r"(s3|azure)_(max|min|use_adaptive)_\w+|\w+_fs_\w+|remote_read_\w+",
            # How long a statement waits for other servers, and how many have to have a row.
            r"insert_quorum\w*|select_sequential_consistency|distributed_ddl_\w+|database_\w+|load_balancing\w*",
            # What a server is, and what may be done there.
            r"readonly|allow_ddl|cloud_mode\w*|add_http_cors_header|send_progress_in_http_headers",
            r"http_headers_progress_interval_ms|cancel_http_readonly_queries_on_client_close",
        )
    )
)
# The user's tables may need what the profile allows; what it forbids is allowed again.
_ALLOWS = re.compile(
    r"allow_(experimental|suspicious|deprecated|introspection|named_collection)_\w+"
    r"|s3_allow_server_credentials_in_user_queries|enable_time_time64_type"
)
# They are named as if they allowed something, and change what a SELECT does.
_MEANS = ("allow_experimental_analyzer", "allow_experimental_parallel_reading_from_replicas")
# The server refuses statements that set these to their own default, an empty text.
_LASTING = ("force_data_skipping_indices",)


@dataclass(frozen=True)
class Changed:
    """A setting whose value isn't the server's default; `fixed`: the user may not change it."""

    name: str
    value: str
    default: str
    fixed: bool


@dataclass(frozen=True)
class Pin:
    """`back` is what every statement sets; `fixed` are the settings that should be set back, and can't."""

    back: Mapping[str, str]
    fixed: tuple[str, ...]


def pin(changed: Iterable[Changed], reader: bool) -> Pin:
    """Decides what is set back. Pure.

    A `reader` may only read, and sets nothing: what READS doesn't name stays as its profile has it.
    """
    others = [one for one in changed if not _stays(one)]
    lasting = [one.name for one in others if one.name in _LASTING]
    fixed = [one.name for one in others if one.fixed and (not reader or one.name in READS)]
    back = {one.name: one.default for one in others if not one.fixed and one.name not in lasting}
    return Pin(back, tuple(sorted({*fixed, *lasting})))


def _stays(one: Changed) -> bool:
    if one.name not in _MEANS and _ALLOWS.fullmatch(one.name):
        return one.default == "0"
    return stays(one.name)


def stays(name: str) -> bool:
    """Returns whether the setting is the administrator's, whatever its value."""
    return bool(_KEPT.fullmatch(name))
