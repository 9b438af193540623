"""A TCP proxy that disturbs the line between a client and a real server at a request that a test names.

with Wire(server_port) as wire:
    wire.strike(rb"manifest\\.json", Fault.LOSE)   # the next request that holds these bytes
    …                                             # the client talks to wire.port
    assert wire.struck == 1
"""

from __future__ import annotations

import re
import select
import socket
import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from local.environment import HOST

_CHUNK = 1 << 16
_POLL_SECONDS = 0.2
_RESET = struct.pack("ii", 1, 0)


class Fault(StrEnum):
    REFUSE = "reset before the request"  # the server never sees it
    TORN = "cut in the request"  # the server sees its beginning
    LOSE = "answer lost"  # the server has done it; a reset comes instead of the answer
    CUT = "cut in the answer"  # half of the answer's first bytes come
    CLOSE = "half-closed"  # an orderly end comes instead of the answer
    STALL = "silence"  # nothing comes any more, and the line stays open
    DELAY = "delay"  # the answer comes late


@dataclass
class _Strike:
    """The next `times` requests that hold `pattern`, once `after` others were struck."""

    pattern: re.Pattern[bytes]
    fault: Fault
    times: int
    seconds: float
    after: int


@dataclass
class Wire:
    """Forwards 127.0.0.1:`port` to 127.0.0.1:`upstream`.

    `rewrite` replaces bytes in answers by as many others: a broker tells its own address in them.
    """

    upstream: int
    rewrite: Mapping[bytes, bytes] = field(default_factory=dict)
    struck: int = 0

    def __post_init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self._strikes: list[_Strike] = []
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self.port: int = self._listener.getsockname()[1]

    def strike(
        self, pattern: bytes, fault: Fault, times: int = 1, seconds: float = 0.0, after: int = 0
    ) -> None:
        compiled = re.compile(pattern, re.DOTALL)
        with self._lock:
            self._strikes.append(_Strike(compiled, fault, times, seconds, self.struck + after))

    def lookback(self) -> None:
        with self._lock:
            self._strikes.clear()

    def __enter__(self) -> Wire:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._listener.close()

    def due(self, data: bytes) -> _Strike | None:
        """The strike that these bytes of a client meet."""
        with self._lock:
            for strike in self._strikes:
                if strike.times > 0 and self.struck >= strike.after and strike.pattern.search(data):
                    strike.times -= 1
                    self.struck += 1
                    return strike
        return None

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def _accept(self) -> None:
        while not self.closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                with socket.create_connection((HOST, self.upstream)) as server:
                    for side in (client, server):
                        side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    _Line(self, client, server).run()
            except OSError:
                _reset(client)


@dataclass
class _Line:
    """One connection through the proxy."""

    wire: Wire
    client: socket.socket
    server: socket.socket
    waiting: _Strike | None = None

    def run(self) -> None:
        alive = True
        while alive and not self.wire.closed:
            ready, _, _ = select.select([self.client, self.server], [], [], _POLL_SECONDS)
            if self.client in ready:
                alive = self._from_client(self.client.recv(_CHUNK))
            if alive and self.server in ready:
                alive = self._from_server(self.server.recv(_CHUNK))

    def _from_client(self, data: bytes) -> bool:
        if not data:
            return False
        if self.waiting is not None and self.waiting.fault is Fault.TORN:
            return self._tear(data)
        strike = self.wire.due(data)
        if strike is None:
            self.server.sendall(data)
            return True
        if strike.fault is Fault.REFUSE:
            return _reset(self.client)
        if strike.fault is Fault.TORN and data.endswith(b"\r\n\r\n"):
            self.server.sendall(data)  # an HTTP request's head: it is cut in its body
        elif strike.fault is Fault.TORN:
            return self._tear(data)
        else:
            self.server.sendall(data)
        self.waiting = strike
        return True

    def _tear(self, data: bytes) -> bool:
        self.server.sendall(data[: len(data) // 2])
        return _reset(self.client)

    def _from_server(self, data: bytes) -> bool:
        strike, self.waiting = self.waiting, None
        for old, new in self.wire.rewrite.items():
            data = data.replace(old, new)
        if not data:
            return False
        # "100 Continue" only asks for the request's body: it is no answer yet.
        if strike is None or strike.fault is Fault.TORN or data.startswith(b"HTTP/1.1 100 "):
            self.waiting = strike
            self.client.sendall(data)
            return True
        if strike.fault is Fault.LOSE:
            return _reset(self.client)
        if strike.fault is Fault.CUT:
            self.client.sendall(data[: len(data) // 2])
            return _reset(self.client)
        if strike.fault is Fault.CLOSE:
            self.client.shutdown(socket.SHUT_WR)
            return False
        if strike.fault is Fault.STALL:
            return self._silence()
        time.sleep(strike.seconds)
        self.client.sendall(data)
        return True

    def _silence(self) -> bool:
        """Until the client has had enough."""
        while not self.wire.closed:
            ready, _, _ = select.select([self.client], [], [], _POLL_SECONDS)
            if ready and not self.client.recv(_CHUNK):
                break
        return False


def _reset(client: socket.socket) -> bool:
    """An RST instead of an orderly end."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    client.close()
    return False
