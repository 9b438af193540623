"""Every answer that somebody waits for has to be whole in time: a server that sends a byte now and then is
given up as one that sends none."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import urllib3

from sluice.clients.airflow_rest import session
from sluice.clients.airflow_rest.session import Access
from sluice.clients.lake.open import open_lake_at
from sluice.clients.lake.s3 import S3Lake
from sluice.clients.lake.settings import S3Settings
from sluice.concurrency import bound_answers
from sluice.config.clickhouse import Shard
from sluice.errors import ClickHouseUnavailable, LakeRefused, LakeUnavailable, Unavailable
from sluice.page import status_cache
from sluice.page.status_cache import Clients
from tests.support.dripping_server import HEAD, DrippingServer
from tests.support.long_form import per_commit

WHOLE = 0.5
PIECES = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HEADS = {
    "in a body of a length": (HEAD, b" "),
    "in a body of pieces": (PIECES, b"1\r\n \r\n"),
    "in the headers": (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
    "before a byte of sense": (b"", b"H"),
}
each_head = pytest.mark.parametrize(("head", "drop"), HEADS.values(), ids=HEADS)


@pytest.fixture
def dripping(head: bytes, drop: bytes) -> Iterator[DrippingServer]:
    with DrippingServer.running(head, drop) as server:
        yield server


def test_an_answer_of_no_store():
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    with DrippingServer.running(head) as server, pytest.raises(LakeRefused, match="no length or no ETag"):
        lake_at(server).read("a")


@contextmanager
def soon(seconds: float = 10) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


@each_head
def test_clickhouse_asked_by_the_page(dripping: DrippingServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(status_cache, "WHOLE_SECONDS", WHOLE)
    monkeypatch.setenv("AIRFLOW_CONN_CH", f"http://127.0.0.1:{dripping.port}")
    clients = Clients()
    with soon(), pytest.raises(ClickHouseUnavailable):
        clients.of(Shard(name="one", connection="ch"))
    asked = dripping.asked
    with soon(1), pytest.raises(ClickHouseUnavailable):
        clients.of(Shard(name="one", connection="ch"))
    assert dripping.asked == asked


def lake_at(server: DrippingServer) -> S3Lake:
    url = f"http://127.0.0.1:{server.port}"
    settings = S3Settings(endpoint_url=url, region="us-east-1", key="k", secret="s").brief()
    return open_lake_at("s3://bucket", "demo", replace(settings, whole_seconds=WHOLE))


@each_head
@pytest.mark.parametrize(
    "act",
    per_commit(
        [lambda lake: lake.read("a"), lambda lake: list(lake.list("")), lambda lake: lake.part("a", 0, 9)]
    ),
    ids=["read", "list", "part"],
)
def test_a_store_asked_by_the_page(dripping: DrippingServer, act):
    with soon(), pytest.raises((LakeUnavailable, LakeRefused)):  # a store's answer has its length
        act(lake_at(dripping))


def test_the_pages_settings_bound_a_whole_answer():
    assert S3Settings().whole_seconds is None
    assert 0 < S3Settings().brief().whole_seconds <= 30


def test_an_answer_in_time_leaves_its_connection_for_the_next():
    """Its deadline has ended with it: the connection is not shut down later."""

    class Answers(BaseHTTPRequestHandler):
        protocol_version, connections = "HTTP/1.1", set()

        def do_GET(self):
            self.connections.add(self.client_address)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    manager = urllib3.PoolManager(retries=False)
    bound_answers(manager, WHOLE)
    url = f"http://127.0.0.1:{server.server_port}/"
    assert manager.request("GET", url).data == b"ok"
    for timer in [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]:
        timer.join(20)  # one that had not ended with the answer passes
    assert manager.request("GET", url).data == b"ok"
    server.shutdown()
    assert len(Answers.connections) == 1


@each_head
def test_airflow(dripping: DrippingServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session, "SECONDS", WHOLE)
    access = Access(f"http://127.0.0.1:{dripping.port}", "connection 'x'", login="a", password="b")
    with soon(), pytest.raises(Unavailable, match="does not answer"), session.open_session(access):
        pass
