"""A ClickHouse server that hangs holds one caller of the page for a short while, and the next not at all."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sluice.clients.clickhouse.client import Silence
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections import Connection
from sluice.config.clickhouse import Shard
from sluice.errors import ClickHouseUnavailable
from sluice.page import status_cache
from sluice.page.status_cache import Clients

SHARD = Shard(name="one", connection="ch")


class Hanging:
    """Takes connections and answers none; counts them."""

    def __init__(self) -> None:
        self.listening, self.asked = socket.create_server(("127.0.0.1", 0)), 0
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        taken = []
        while True:
            try:
                taken.append(self.listening.accept())
            except OSError:
                return
            self.asked += 1


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hanging]:
    server = Hanging()
    monkeypatch.setattr(status_cache, "ANSWER_SECONDS", 1)
    monkeypatch.setenv("AIRFLOW_CONN_CH", f"http://127.0.0.1:{server.port}")
    yield server
    server.listening.close()


def refused(clients: Clients) -> float:
    began = time.monotonic()
    with pytest.raises(ClickHouseUnavailable, match="does not answer at 127.0.0.1"):
        clients.of(SHARD)
    return time.monotonic() - began


def test_a_server_that_hangs_is_waited_for_once(hanging: Hanging):
    clients = Clients()
    assert refused(clients) < 30
    asked = hanging.asked
    assert sum(refused(clients) for _ in range(50)) < 1
    assert hanging.asked == asked


def test_it_is_asked_again_after_a_while_and_another_server_at_once(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(status_cache, "SILENT_SECONDS", 0.0)
    clients = Clients()
    refused(clients)
    asked = hanging.asked
    refused(clients)
    assert hanging.asked > asked
    other = Hanging()
    monkeypatch.setattr(status_cache, "SILENT_SECONDS", 3600.0)
    clients = Clients()
    refused(clients)
    monkeypatch.setenv("AIRFLOW_CONN_CH", f"http://127.0.0.1:{other.port}")
    refused(clients)
    assert other.asked
    other.listening.close()


def test_a_silence_ends_with_an_answer():
    silence = Silence(3600.0, ClickHouseUnavailable("a:1", "timed out"), until=0.0)
    with silence.kept():
        pass
    assert silence.error is None


class _Elsewhere(BaseHTTPRequestHandler):
    target = 0

    def do_POST(self) -> None:
        self.send_response(307)
        self.send_header("Location", f"http://127.0.0.1:{self.target}/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


def test_no_redirect_is_followed(hanging: Hanging):
    _Elsewhere.target = hanging.port
    with ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        to = Connection("ch", "http", "127.0.0.1", server.server_address[1], "user", "secret")
        with pytest.raises(ClickHouseUnavailable, match="redirect"):
            open_client(to, 1)
        server.shutdown()
    assert not hanging.asked
