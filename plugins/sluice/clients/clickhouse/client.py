"""The thin adapter on clickhouse-connect: statements in, rows or Sluice's errors out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from clickhouse_connect.driver.client import Client as Driver
from clickhouse_connect.driver.exceptions import ClickHouseError, Error, OperationalError
from clickhouse_connect.driver.summary import QuerySummary
from urllib3.exceptions import HTTPError, MaxRetryError

from sluice.clients.clickhouse.errors import READONLY, ServerError, shorten
from sluice.clients.clickhouse.settings import NEWER
from sluice.errors import ClickHouseUnavailable
from sluice.metrics import meter

_KINDS = frozenset({"SELECT", "WITH", "INSERT", "ALTER", "DELETE", "CREATE", "DROP", "EXPLAIN", "DESCRIBE"})
Parameters = Mapping[str, Any]
Settings = Mapping[str, Any]


@dataclass
class Silence:
    """Whether a server is asked again, after it has not answered: not for the next `seconds`.

    Each of many callers would otherwise wait as long as the first one did.
    """

    seconds: float = 0.0
    error: ClickHouseUnavailable | None = None
    until: float = 0.0

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Raises at once what was raised here before, as long as the silence lasts."""
        if self.error is not None and time.monotonic() < self.until:
            raise ClickHouseUnavailable(self.error.url, self.error.reason)
        try:
            yield
        except ClickHouseUnavailable as error:
            self.error, self.until = error, time.monotonic() + self.seconds
            raise
        self.error = None


class Client:
    """One server. Statements may run side by side from several threads (there is no session).

    Every method raises ServerError when the server refuses, and ClickHouseUnavailable when it does not
    answer; after that, a statement that writes may still take effect.
    """

    def __init__(
        self, driver: Driver, address: str, reading: Settings | None = None, silence: Silence | None = None
    ) -> None:
        self._driver = driver
        self._reading = dict(reading or {})
        self._silence = silence or Silence()
        self.address = address

    def reading(self, settings: Settings) -> Client:
        """Returns the same server; statements that only read carry the settings, too."""
        return Client(self._driver, self.address, {**self._reading, **settings}, self._silence)

    def rows(
        self, sql: str, parameters: Parameters | None = None, settings: Settings | None = None
    ) -> list[Sequence[Any]]:
        """Returns the rows of a statement that only reads; a lost connection is asked again."""
        with self._explained(sql), _metered(sql):
            carried = self._known({**self._reading, **(settings or {})})
            result = self._driver.query(sql, parameters=dict(parameters or {}) or None, settings=carried)
            return list(result.result_rows)

    def run(
        self,
        sql: str,
        parameters: Parameters | None = None,
        settings: Settings | None = None,
        body: bytes | None = None,
    ) -> None:
        """Sends one statement once, and waits for its end; `body` is the data of an INSERT."""
        with self._explained(sql), _metered(sql) as kind:
            carried = self._known(settings or {})
            answer = self._driver.command(
                sql, parameters=dict(parameters or {}) or None, data=body, settings=carried
            )
            if kind == "INSERT" and isinstance(answer, QuerySummary):
                meter.add("insert_rows", _whole(answer.summary.get("written_rows")))
                meter.add("insert_bytes", _whole(answer.summary.get("written_bytes")))

    def close(self) -> None:
        self._driver.close()

    def _known(self, settings: Settings) -> dict[str, Any]:
        """Leaves out settings that only newer servers have: the driver has asked for this one's."""
        return {
            name: value
            for name, value in settings.items()
            if name not in NEWER or name in self._driver.server_settings
        }

    @contextmanager
    def _explained(self, sql: str) -> Iterator[None]:
        with self._silence.kept():
            try:
                yield
            except ClickHouseError as error:
                raise explain(error, self.address, " ".join(sql.split())[:60]) from error
            except (HTTPError, OSError) as error:
                raise ClickHouseUnavailable(self.address, shorten(str(error), 120)) from error


def _whole(text: str | None) -> int:
    """Returns a whole number; 0 for any other text, also of a proxy: a load does not fail for it."""
    return int(text) if text is not None and text.isdecimal() else 0


@contextmanager
def _metered(sql: str) -> Iterator[str]:
    """Counts a statement by its first word, which it hands out, and times it where it inserts."""
    word = next(
        (line.split()[0] for line in sql.splitlines() if line.strip() and line[:2] != "--"), ""
    ).upper()
    kind, started = word if word in _KINDS else "other", time.monotonic()
    meter.add("clickhouse_statements", kind=kind)
    try:
        yield kind
    except BaseException:
        meter.add("clickhouse_failures", kind=kind)
        raise
    finally:
        if kind == "INSERT":
            meter.took("insert_seconds", time.monotonic() - started)


def explain(error: ClickHouseError, address: str, step: str) -> ServerError | ClickHouseUnavailable:
    """Translates an error of the driver's. Without a code of the server, its answer never came."""
    code = error.code if isinstance(error, Error) else None
    if code is None and (isinstance(error, OperationalError) or "HTTP status 5" in str(error)):
        cause = error.__cause__ or error
        if isinstance(cause, MaxRetryError):  # its own text is mostly the statement's URL
            cause = cause.reason or cause
        return ClickHouseUnavailable(address, shorten(str(cause), 160))
    if code is None and "is readonly" in str(error):  # the driver asks the server no more
        return ServerError(address, READONLY, "READONLY", step, shorten(str(error)))
    name = error.name if isinstance(error, Error) else None
    return ServerError(address, code or 0, name or "", step, shorten(str(error)))
