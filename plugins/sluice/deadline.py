"""Bounds the time of a whole answer.

A client's time-out is that of each piece: a server that sends a byte now and then is never out of it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, cast

from urllib3 import HTTPConnectionPool, PoolManager
from urllib3.exceptions import ReadTimeoutError


class Deadline:
    """From `start` to `end`, or while it is entered: shuts the connection down when the time is over.

    A body that ends with its connection seems whole then: `over` says that it is not.
    """

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def start(self) -> Deadline:
        self._timer.start()
        return self

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._release()

    def __enter__(self) -> Deadline:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        self.end()

    def watch(self, connected: socket.socket) -> None:
        """TLS takes the socket away, and an answer may outlive it: a duplicate of it is kept."""
        with self._lock:
            self._release()
            self._socket = socket.fromfd(connected.fileno(), connected.family, connected.type)
            if self.over:
                self._shut()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Is the hook of httpx's extension `trace`, for a request that opens a connection of its own.

        Source: https://www.python-httpx.org/advanced/extensions/#trace
        """
        if event == "connection.connect_tcp.complete":
            self.watch(info["return_value"].get_extra_info("socket"))

    def _pass(self) -> None:
        with self._lock:
            self.over = True
            self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # the server has closed it
                self._socket.shutdown(socket.SHUT_RDWR)
            self._release()

    def _release(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def bound_answers(manager: PoolManager, seconds: float) -> None:
    """From here on, each answer to a request of the manager's is whole within `seconds`, or breaks off."""
    classes = cast(Mapping[str, type[HTTPConnectionPool]], manager.pool_classes_by_scheme)
    manager.pool_classes_by_scheme = {
        scheme: pool if issubclass(pool, _BoundedPool) else _bounded(pool, seconds)
        for scheme, pool in classes.items()
    }
    manager.clear()


def _bounded(pool: type[HTTPConnectionPool], seconds: float) -> type[HTTPConnectionPool]:
    connection = type("BoundedConnection", (_BoundedConnection, pool.ConnectionCls), {})
    return type("BoundedPool", (_BoundedPool, pool), {"ConnectionCls": connection, "seconds": seconds})


class _BoundedConnection:
    deadline: Deadline | None = None

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        if self.deadline is not None:
            self.deadline.watch(self.sock)  # type: ignore[attr-defined]


class _BoundedPool:
    """A request begins with `_make_request`, and its whole answer gives the connection back (`_put_conn`).
    The deadline of one that is given up passes without effect.

    Source: urllib3/connectionpool.py.
    """

    seconds: float

    def _make_request(self, connection: Any, *arguments: Any, **more: Any) -> Any:
        connection.deadline = Deadline(self.seconds).start()
        if connection.sock is not None:
            connection.deadline.watch(connection.sock)
        answer = super()._make_request(connection, *arguments, **more)  # type: ignore[misc]
        if connection.deadline is not None and connection.deadline.over:  # headers that end seem whole
            late = f"no whole answer within {self.seconds} s"
            raise ReadTimeoutError(self, "", late)  # type: ignore[arg-type]
        return answer

    def _put_conn(self, connection: Any) -> None:
        if connection is not None and connection.deadline is not None:
            connection.deadline.end()
            connection.deadline = None
        super()._put_conn(connection)  # type: ignore[misc]
