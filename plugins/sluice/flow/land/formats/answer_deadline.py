"""Bounds the time of a whole answer. An HTTP client's time-out is that of each piece: a server that sends a
byte now and then is never out of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

import httpx


@contextmanager
def whole_answer(
    client: httpx.Client, path: str, params: Mapping[str, str], seconds: float
) -> Iterator[httpx.Response]:
    """Yields the answer to a GET as it comes; what reads it does so inside. `client` keeps no connections.

    Raises httpx.RequestError, also when the answer is not whole in time.
    """
    late = f"no whole answer of {path} within {seconds} s"
    deadline = Deadline(seconds)
    try:
        with deadline:
            traced = {"trace": deadline.trace}
            with client.stream("GET", path, params=params, extensions=traced) as answer:
                yield answer
    except httpx.RequestError as error:
        raise httpx.ReadTimeout(late) if deadline.over else error from None
    if deadline.over:
        raise httpx.ReadTimeout(late)


class Deadline:
    """While it is entered, and as the `trace` of a request: shuts the connection down when the time is over.

    The request has to open a connection of its own. A body that ends with its connection seems whole then:
    `over` says that it is not.
    """

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Is the hook of httpx's extension `trace`. TLS takes the socket away: a duplicate of it is kept.

        Source: https://www.python-httpx.org/advanced/extensions/#trace
        """
        if event == "connection.connect_tcp.complete":
            with self._lock:
                self._socket = info["return_value"].get_extra_info("socket").dup()
                if self.over:
                    self._shut()

    def _end(self) -> None:
        with self._lock:
            self.over = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # the server has closed it
                self._socket.shutdown(socket.SHUT_RDWR)
