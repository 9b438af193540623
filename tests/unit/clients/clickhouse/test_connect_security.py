"""Whether the login goes over HTTPS, and whether the server's certificate is checked: as said, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.clients.clickhouse import connect
from sluice.clients.connections import parse
from sluice.errors import WrongUse

YES_OR_NO = "expected one of true, yes, 1, false, no, 0"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the driver was opened with."""
    arguments: list[dict[str, Any]] = []

    class Driver:
        def __init__(self, **named: Any) -> None:
            arguments.append(named)

    monkeypatch.setattr(connect, "open_driver", Driver)
    monkeypatch.setattr(connect, "set_back", lambda _: ())
    monkeypatch.setattr(connect, "Client", lambda *_, **__: None)
    return arguments


def server(extra: str):
    return parse("ch1", f'{{"host": "ch1.example", "login": "loader", "password": "p", "extra": {extra}}}')


@pytest.mark.parametrize("value", ["true", "1", '"true"', '"True"', '"YES"', '"1"'])
def test_secure(value: str, opened: list[dict[str, Any]]):
    connect.open_client(server(f'{{"secure": {value}}}'))
    assert (opened[0]["interface"], opened[0]["port"], opened[0]["verify"]) == ("https", 8443, True)


@pytest.mark.parametrize("value", ["false", "0", "null", '""', '"no"', '"FALSE"'])
def test_not_secure(value: str, opened: list[dict[str, Any]]):
    connect.open_client(server(f'{{"secure": {value}}}'))
    assert (opened[0]["interface"], opened[0]["port"]) == ("http", 8123)


@pytest.mark.parametrize(
    ("value", "verify"), [('"no"', False), ("false", False), ("null", True), ('""', True)]
)
def test_the_certificate_is_checked(value: str, verify: bool, opened: list[dict[str, Any]]):
    connect.open_client(server(f'{{"secure": true, "verify": {value}, "tls_mode": "STRICT"}}'))
    assert (opened[0]["verify"], opened[0]["tls_mode"]) == (verify, "strict")


@pytest.mark.parametrize("key", ["secure", "verify"])
@pytest.mark.parametrize("value", ['"on"', '"y"', '"True "', "1.0", "2", "[]", "{}"])
def test_a_value_that_is_not_understood_is_refused(key: str, value: str, opened: list[dict[str, Any]]):
    with pytest.raises(WrongUse) as refused:
        connect.open_client(server(f'{{"{key}": {value}}}'))
    assert str(refused.value) == f"connection 'ch1': {key} in its extra is not understood: {YES_OR_NO}"
    assert not opened


def test_so_is_a_mode_of_tls(opened: list[dict[str, Any]]):
    with pytest.raises(WrongUse, match="tls_mode in its extra .* expected one of strict, mutual, proxy$"):
        connect.open_client(server('{"secure": true, "tls_mode": "strct"}'))
    assert not opened
