"""Bounds the time of a whole answer. An HTTP client's time-out is that of each piece: a server that sends a
byte now and then is never out of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any


class Deadline:
    """While it is entered, and as the `trace` of a request: shuts the connection down when the time is over.

    The request has to open a connection of its own. A body that ends with its connection looks whole then:
    `over` says that it is not.
    """

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """The hook of httpx's extension `trace`. TLS takes the socket away: another one of the same
        connection is kept.

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
