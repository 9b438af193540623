"""Does many small things at once: the lake's round trips side by side."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain
from time import perf_counter, thread_time
from types import TracebackType
from typing import Any, TypeVar, cast

from urllib3 import HTTPConnectionPool, PoolManager
from urllib3.exceptions import ReadTimeoutError

_SIDE_BY_SIDE = 16
_MOST_TOGETHER = 64
# Of a thing's time: less of it without the processor is a pause of the process.
_WAITED_SECONDS = 0.0005
_TWICE = 2
_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Waits:
    """Says whether things done one after another wait for a disk or a server: whether two in a row did.

    Only then threads are worth it. Those that compute take turns, and hand-overs cost more than the things
    themselves: reading 8,760 manifests from a folder took 2.7 s in 16 threads, 1.1 s in one.
    """

    def __init__(self) -> None:
        self._waited = 0

    @property
    def seen(self) -> bool:
        return self._waited >= _TWICE

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watches one thing, in the calling thread."""
        began, worked = perf_counter(), thread_time()
        yield
        busy = thread_time() - worked
        idle = perf_counter() - began - busy
        self._waited = self._waited + 1 if idle > max(busy, _WAITED_SECONDS) else 0


def each(do: Callable[[_In], _Out], things: Iterable[_In]) -> list[_Out]:
    """Returns what `do` gives for each of the things, in their order. Raises what the first failure raised.

    They are handed out by the dozen where there are many.
    """
    listed = list(things)
    size = min(max(len(listed) // (4 * _SIDE_BY_SIDE), 1), _MOST_TOGETHER)
    chunks = [listed[start : start + size] for start in range(0, len(listed), size)]

    def all_of(chunk: Sequence[_In]) -> list[_Out]:
        return [do(thing) for thing in chunk]

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        return list(chain.from_iterable(pool.map(all_of, chunks)))


def each_if_slow(do: Callable[[_In], _Out], things: Iterable[_In]) -> list[_Out]:
    """As `each`, for things that may not wait, such as files of a folder: threads do the rest once two
    things in a row have waited."""
    listed, waits = list(things), Waits()
    done: list[_Out] = []
    while len(done) < len(listed) and not waits.seen:
        with waits.watched():
            done.append(do(listed[len(done)]))
    return done + each(do, listed[len(done) :]) if len(done) < len(listed) else done


class Lanes:
    """Does things as they come: at once, and in `most` threads as soon as they have waited."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most)
        self._waits = Waits()

    def submit(self, do: Callable[[], _Out]) -> Future[_Out]:
        if self._waits.seen:
            return self._pool.submit(do)
        done: Future[_Out] = Future()
        with self._waits.watched():
            try:
                done.set_result(do())
            except Exception as error:  # as a thread's: it is raised where the result is asked for
                done.set_exception(error)
        return done

    def close(self) -> None:
        """Waits for what is under way; what has not begun is not done."""
        self._pool.shutdown(cancel_futures=True)


# Bounds the time of a whole answer.
#
# A client's time-out is that of each piece: a server that sends a byte now and then is never out of it.


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
