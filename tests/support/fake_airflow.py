"""A stand-in for Airflow's API server, or for what stands before it: a real HTTP server, whose answers the
test writes."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

RUN = "manual__2026-11-21T08:10:00+00:00"
DAG = "/api/v2/dags/ads_backfill"
RUNS = f"{DAG}/dagRuns"
THE_RUN = f"{RUNS}/manual__2026-11-21T08%3A10%3A00%2B00%3A00"
TASKS = (
    f"{THE_RUN}/taskInstances?limit=100&state=running&state=restarting&state=deferred"
    "&state=up_for_reschedule&state=up_for_retry&state=failed&state=skipped&order_by=-start_date"
)


class FakeAirflow(HTTPServer):
    """`answers` are consumed in order, per "METHOD path": (status, content) or (status, content, headers);
    the last of them stays. `seen` is what was asked."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.scheme = "http"
        if context is not None:
            self.scheme = "https"
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.seen: list[tuple[str, object, str | None]] = []
        self.answers: dict[str, list[tuple]] = {
            "GET /api/v2/version": [(200, {"version": "3.3.2"})],
            "POST /auth/token": [(201, {"access_token": "T0KEN"})],
            f"GET {DAG}": [(200, {"is_paused": False})],
            f"PATCH {DAG}": [(200, {})],
            f"POST {RUNS}": [(200, {"dag_run_id": RUN})],
            f"GET {TASKS}": [(200, {"task_instances": []})],
        }

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not trust the certificate hangs up."""


class _Answering(BaseHTTPRequestHandler):
    server: FakeAirflow

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = f"{self.command} {self.path}"
        self.server.seen.append((request, json.loads(body or "null"), self.headers.get("Authorization")))
        own = self.server.answers.get(request, [(404, {"detail": f"no answer to {request}"})])
        status, content, *headers = own.pop(0) if len(own) > 1 else own[0]
        self.send_response(status)
        for name, value in (headers[0] if headers else {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content.encode() if isinstance(content, str) else json.dumps(content).encode())

    do_GET = do_POST = do_PATCH = answer

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def fake_airflow(context: ssl.SSLContext | None = None) -> Iterator[FakeAirflow]:
    server = FakeAirflow(context)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def connection(url: str, **extra: Any) -> str:
    """`sluice_airflow` as Airflow's JSON has it."""
    return json.dumps({"host": url, "login": "ann", "password": "s3cret", "extra": extra})
