"""A schema registry whose answer comes byte by byte: a real socket, whatever its time-outs are."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from sluice.errors import RegistryUnavailable
from sluice.flow.land.formats import registry
from sluice.flow.land.formats.registry import Address, SchemaRegistry, StoredSchema
from tests.support.long_form import per_commit

BODY = b'{"schema": "\\"string\\""}'
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY)
UNSIZED = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
PAUSE = 0.02  # far below any time-out of a piece


@contextmanager
def dripping(at_once: bytes, by_byte: bytes) -> Iterator[str]:
    """The address of a server that sends `at_once`, and then a byte every PAUSE, to each that asks."""
    stopped, threads = threading.Event(), []

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(at_once)
            for byte in by_byte:
                if stopped.wait(PAUSE):
                    return
                connection.sendall(bytes([byte]))

    def serve() -> None:
        with suppress(OSError):
            while True:
                threads.append(threading.Thread(target=answer, args=(server.accept()[0],)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threads.append(threading.Thread(target=serve))
        threads[0].start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        stopped.set()
        server.shutdown(socket.SHUT_RDWR)
    for thread in threads:
        thread.join(30)


@pytest.mark.parametrize(
    ("at_once", "by_byte"),
    per_commit(
        [
            (b"", SIZED + BODY),
            (b"HTTP/1.1 200 OK\r\n", b"X-Long: " + b"x" * 1000),
            (SIZED, BODY[:20] + b" " * 1000),
            (UNSIZED, BODY + b" " * 1000),
            (UNSIZED + BODY, b" " * 1000),
        ],
        2,
    ),
    ids=["the whole answer", "a header", "the body", "a body without its length", "behind the schema"],
)
def test_an_answer_byte_by_byte_ends_in_time(monkeypatch: pytest.MonkeyPatch, at_once: bytes, by_byte: bytes):
    monkeypatch.setattr(registry, "SECONDS", 0.2)
    waited: list[float] = []
    with dripping(at_once, by_byte) as url:
        asking = SchemaRegistry(Address(url), serialized=False, sleep=waited.append)
        started = time.monotonic()
        with pytest.raises(
            RegistryUnavailable, match="no whole answer of /schemas/ids/7 within 0.2 s"
        ) as error:
            asking.schema(7)
        took = time.monotonic() - started
    assert error.value.retryable
    tries = len(registry.WAITS) + 1
    assert waited == list(registry.WAITS)
    assert took < tries * (0.2 + 2), "a try takes its time, and what a busy machine adds"


def test_a_slow_answer_that_is_in_time_is_whole(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "SECONDS", 60)
    with dripping(SIZED, BODY) as url:
        assert SchemaRegistry(Address(url), serialized=False).schema(7) == StoredSchema("AVRO", '"string"')
