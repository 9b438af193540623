"""Opens clickhouse-connect's client so that all of its statements, its own first ones too, are pinned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from clickhouse_connect.driver.exceptions import ClickHouseError, Error
from clickhouse_connect.driver.httpclient import HttpClient

from sluice.clients.clickhouse.errors import UNKNOWN_SETTING
from sluice.clients.clickhouse.profile import Changed, pin
from sluice.clients.clickhouse.settings import NEWER_READS, READS
from sluice.clients.clickhouse.sql import render


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
