"""A server that begins each answer at once, and sends the rest of it byte by byte, for ever."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HEAD = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: 100000000\r\n\r\n'


class DrippingServer:
    """`head` is what it begins with. Counts the requests that it was asked."""

    def __init__(self, head: bytes = HEAD, drop: bytes = b" ", seconds: float = 0.1) -> None:
        self._head, self._drop, self._seconds = head, drop, seconds
        self._over = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port, self.asked = self._listening.getsockname()[1], 0
        threading.Thread(target=self._take, daemon=True).start()

    @classmethod
    @contextmanager
    def running(cls, head: bytes = HEAD, drop: bytes = b" ") -> Iterator[DrippingServer]:
        server = cls(head, drop)
        yield server
        server._over.set()
        server._listening.close()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.recv(65536)
            self.asked += 1
            connection.sendall(self._head)
            while not self._over.wait(self._seconds):
                connection.sendall(self._drop)
