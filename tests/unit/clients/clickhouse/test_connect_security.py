"""Whether the login goes over HTTPS, and whether the server's certificate is checked: as said, or refused."""

from __future__ import annotations

import socket
from typing import Any, ClassVar

import pytest

from sluice.clients.clickhouse import connect
from sluice.clients.connections import Connection, parse
from sluice.errors import ClickHouseUnavailable, WrongUse

YES_OR_NO = "expected one of true, yes, 1, false, no, 0"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the driver was opened with."""
    arguments: list[dict[str, Any]] = []

    class Driver:
        server_settings: ClassVar[dict] = {}

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


@pytest.mark.parametrize(
    ("host", "port", "extra", "place"),
    [
        ("ch1.example", None, {}, ("http", "ch1.example", 8123, "")),
        ("https://ch1.example", None, {}, ("https", "ch1.example", 8443, "")),
        ("https://ch1.example/", 444, {}, ("https", "ch1.example", 444, "")),
        ("http://ch1.example:8124/db/one/", None, {}, ("http", "ch1.example", 8124, "/db/one")),
        ("ch1.example/one", None, {"secure": True}, ("https", "ch1.example", 8443, "/one")),
        ("ch1.example", None, {"proxy_path": "/one/"}, ("http", "ch1.example", 8123, "/one")),
        ("ch1.example/one", None, {"proxy_path": "two"}, ("http", "ch1.example", 8123, "/one/two")),
        ("https://ch1.example", None, {"secure": "yes"}, ("https", "ch1.example", 8443, "")),
        ("fe80::a:1", None, {}, ("http", "fe80::a:1", 8123, "")),
        ("[fe80::a]:1", None, {}, ("http", "[fe80::a]", 1, "")),
    ],
)
def test_an_address_is_read_as_it_is_written(host, port, extra, place, opened: list[dict[str, Any]]):
    connect.open_client(Connection("ch1", host=host, port=port, extra=extra))
    sent = opened[0]
    assert (sent["interface"], sent["host"], sent["port"], sent["proxy_path"]) == place


@pytest.mark.parametrize(
    ("host", "port", "extra", "told"),
    [
        ("tcp://ch1.example", None, {}, "expected a host, or http"),
        ("https://ch1.example?user=me", None, {}, "expected a host, or http"),
        ("https://ch1.example", None, {"secure": False}, "its host says https, and `secure`"),
        ("http://ch1.example", None, {"secure": True}, "its host says http, and `secure`"),
        ("ch1.example:8124", 8123, {}, "its host says port 8124, and its port 8123"),
        ("https://me:hush@ch1.example", None, {}, "its host holds a login"),
        ("ch1.example", None, {"proxy_path": 5}, "proxy_path in its extra is no text"),
    ],
)
def test_an_address_that_means_two_things_is_refused(host, port, extra, told):
    with pytest.raises(WrongUse, match=told) as refused:
        connect.open_client(Connection("ch1", host=host, port=port, extra=extra))
    assert "hush" not in str(refused.value)


def test_a_server_that_does_not_answer_is_named_with_its_proxy(monkeypatch: pytest.MonkeyPatch):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    monkeypatch.setenv("http_proxy", f"http://me:hush@127.0.0.1:{port}")
    with pytest.raises(ClickHouseUnavailable) as caught:
        connect.open_client(Connection("ch1", host="ch1.invalid", login="loader", password="p"))
    assert f"asked through the proxy 127.0.0.1:{port} of HTTP_PROXY, see NO_PROXY" in str(caught.value)
    assert "hush" not in str(caught.value)
