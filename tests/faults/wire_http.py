"""An HTTP layer in front of a real server: chosen requests get another answer, before or after they are done.

with HttpLayer(server_port) as layer:
    layer.answer("PUT", r"/manifest\\.json", Answer(503, SLOW_DOWN), times=2, done=True)
    …                                     # the client talks to layer.port
"""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from local.environment import HOST

FOREVER = 1_000_000
# The layer makes its own: one request and one answer at a time on a line.
_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass(frozen=True)
class Answer:
    """`truncated`: the line ends after half of the body."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    truncated: bool = False


@dataclass
class _Rule:
    method: str
    place: re.Pattern[str]
    answer: Answer
    times: int
    done: bool


class HttpLayer:
    """Forwards 127.0.0.1:`port` to 127.0.0.1:`upstream`, but for the requests that a rule names.

    `struck` counts those; `seen` are the statuses that the server itself answered to them.
    """

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.seen: list[int] = []
        self.struck = 0
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer((HOST, 0), partial(_Handler, self))
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    def answer(self, method: str, place: str, answer: Answer, times: int = 1, *, done: bool = False) -> None:
        """The next `times` requests whose method, and path or body, match get `answer`; if `done`, the server
        carries them out first."""
        self._rules.append(_Rule(method, re.compile(place), answer, times, done))

    def lookback(self) -> None:
        with self._lock:
            self._rules.clear()

    def __enter__(self) -> HttpLayer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def due(self, method: str, text: str) -> _Rule | None:
        with self._lock:
            for rule in self._rules:
                if rule.times > 0 and rule.method == method and rule.place.search(text):
                    rule.times -= 1
                    self.struck += 1
                    return rule
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, layer: HttpLayer, *request: Any) -> None:
        self._layer = layer
        super().__init__(*request)

    def _serve(self) -> None:
        body = self._body()
        rule = self._layer.due(self.command, self.path + body[:4096].decode("latin-1"))
        if rule is None:
            return self._send(self._forward(body))
        if rule.done:
            self._layer.seen.append(self._forward(body).status)
        return self._send(rule.answer)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(iter(self._chunk, b""))
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        data = self.rfile.read(size)
        self.rfile.readline()
        return data

    def _forward(self, body: bytes) -> Answer:
        line = http.client.HTTPConnection(HOST, self._layer.upstream, timeout=120)
        try:
            kept = {k: v for k, v in self.headers.items() if k.lower() not in {*_HOP, "expect"}}
            line.request(self.command, self.path, body, kept | {"Content-Length": str(len(body))})
            answer = line.getresponse()
            headers = {k: v for k, v in answer.getheaders() if k.lower() not in _HOP}
            size = answer.getheader("Content-Length") if self.command == "HEAD" else None
            return Answer(answer.status, answer.read(), headers | ({"Content-Length": size} if size else {}))
        finally:
            line.close()

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        sized = {"Content-Length": str(len(answer.body)), **answer.headers}
        for key, value in sized.items():
            self.send_header(key, value)
        self.end_headers()
        cut = len(answer.body) // 2 if answer.truncated else len(answer.body)
        if self.command != "HEAD":
            self.wfile.write(answer.body[:cut])
        self.close_connection = answer.truncated

    def log_message(self, *_: object) -> None:
        pass
