"""A ClickHouse server that lies: a proxy in front of an honest one, and what it does with a statement."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit

HOST = "127.0.0.1"
DELAY = 1.0
_NOT_FORWARDED = {"transfer-encoding", "connection", "content-length", "host"}


@dataclass(frozen=True)
class Statement:
    """`parameters` are those of the URL. The text is one of them if the body has an INSERT's data."""

    parameters: dict[str, str]
    body: bytes
    headers: dict[str, str]

    @property
    def sql(self) -> str:
        return self.parameters.get("query") or self.body.decode(errors="replace")

    @property
    def bare(self) -> str:
        """Its text without comments, in one line."""
        return " ".join(line for line in self.sql.splitlines() if not line.startswith("--"))

    @property
    def asked(self) -> tuple[str, ...]:
        """What makes it equal to another one."""
        values = (f"{k}={v}" for k, v in sorted(self.parameters.items()) if k.startswith("param_"))
        return (self.sql, *values)

    def saying(self, sql: str) -> Statement:
        if "query" in self.parameters:
            return replace(self, parameters={**self.parameters, "query": sql})
        return replace(self, body=sql.encode())


@dataclass(frozen=True)
class Answer:
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass
class Server:
    """The honest one."""

    port: int
    later: list[threading.Thread] = field(default_factory=list)

    def ask(self, statement: Statement) -> Answer:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        try:
            path = f"/?{urlencode(statement.parameters)}"
            connection.request("POST", path, statement.body, statement.headers)
            response = connection.getresponse()
            headers = [(k, v) for k, v in response.getheaders() if k.lower() not in _NOT_FORWARDED]
            return Answer(response.status, tuple(headers), response.read())
        finally:
            connection.close()

    def ask_later(self, statement: Statement) -> Answer:
        """Says that it is done, and does it later."""
        thread = threading.Timer(DELAY, self.ask, [statement])
        self.later.append(thread)
        thread.start()
        return Answer()


Lie = Callable[[Statement, Server], Answer]


def honest(statement: Statement, server: Server) -> Answer:
    return server.ask(statement)


def is_delete(statement: Statement) -> bool:
    return statement.bare.startswith("DELETE FROM") or " DELETE WHERE " in statement.bare


def delays_deletes(statement: Statement, server: Server) -> Answer:
    return server.ask_later(statement) if is_delete(statement) else server.ask(statement)


def ignores_kill(statement: Statement, server: Server) -> Answer:
    return Answer() if statement.bare.startswith("KILL QUERY") else server.ask(statement)


def ignores_each_kill(statement: Statement, server: Server) -> Answer:
    """Also that of a mutation."""
    return Answer() if statement.bare.startswith("KILL ") else server.ask(statement)


def deduplicates() -> Lie:
    done: set[tuple[str, ...]] = set()

    def lie(statement: Statement, server: Server) -> Answer:
        if statement.bare.startswith("INSERT INTO"):
            if statement.asked in done:
                return Answer()
            done.add(statement.asked)
        return server.ask(statement)

    return lie


def reads_stale() -> Lie:
    """Answers a question as it did before, for a while."""
    known: dict[tuple[str, ...], tuple[float, Answer]] = {}

    def lie(statement: Statement, server: Server) -> Answer:
        if not statement.bare.startswith("SELECT"):
            return server.ask(statement)
        at, answer = known.get(statement.asked, (0.0, Answer()))
        if time.monotonic() - at > DELAY:
            answer = server.ask(statement)
            known[statement.asked] = (time.monotonic(), answer)
        return answer

    return lie


def answers_before_it_is_done(statement: Statement, server: Server) -> Answer:
    early = statement.bare.startswith(("INSERT INTO", "ALTER TABLE"))
    return server.ask_later(statement) if early else server.ask(statement)


def drops_late(statement: Statement, server: Server) -> Answer:
    return server.ask_later(statement) if statement.bare.startswith("DROP TABLE") else server.ask(statement)


def drops_nothing(statement: Statement, server: Server) -> Answer:
    return Answer() if statement.bare.startswith("DROP TABLE") else server.ask(statement)


def loses_rows(statement: Statement, server: Server) -> Answer:
    if statement.bare.startswith("INSERT INTO") and "FROM `sluice_conformance`.`tmp_" in statement.bare:
        return server.ask(statement.saying(f"{statement.sql} LIMIT 29"))
    return server.ask(statement)


def counts_wrong(statement: Statement, server: Server) -> Answer:
    return server.ask(statement.saying(statement.sql.replace("SELECT count()", "SELECT count() + 1")))


def runs_a_killed_statement_to_its_end(statement: Statement, server: Server) -> Answer:
    """No KILL finds it, and no list has it."""
    parameters = statement.parameters
    if "query_id" in parameters:
        parameters = {**parameters, "query_id": f"hidden-{parameters['query_id']}"}
    return server.ask(replace(statement, parameters=parameters))


def deletes_whatever_is_missing(statement: Statement, server: Server) -> Answer:
    """A table that isn't there is taken for an empty one."""
    answer = server.ask(statement)
    return Answer() if is_delete(statement) and answer.status != 200 else answer


def does_what_comes_late(statement: Statement, server: Server) -> Answer:
    """Does an INSERT whose fence has been dropped as if it were there."""
    answer = server.ask(statement)
    if answer.status == 200 or not statement.bare.startswith("INSERT INTO `sluice_conformance`.`target"):
        return answer
    target = statement.bare.split()[2]
    values = "SELECT 7, toDateTime(0), 'late'"
    return server.ask(statement.saying(f"INSERT INTO {target} (n, _slice, _cluster) {values}"))


def keeps_a_right_back(statement: Statement, server: Server) -> Answer:
    if statement.bare.startswith("CHECK GRANT ALTER DELETE ON sluice.*"):
        rest = statement.sql.partition("sluice.*")[2]
        return server.ask(statement.saying(f"SELECT toUInt8(0) AS result {rest}"))
    return server.ask(statement)


@contextmanager
def lying(port: int, lie: Lie) -> Iterator[int]:
    """Yields the port of the proxy."""
    server = Server(port)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _NOT_FORWARDED}
            parameters = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
            answer = lie(Statement(parameters, body, headers), server)
            try:
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)
            except OSError:  # the client has gone away
                self.close_connection = True

        do_GET = do_POST

        def log_message(self, *_: object) -> None: ...

    proxy = ThreadingHTTPServer((HOST, 0), Handler)
    proxy.daemon_threads = True
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy.server_port
    finally:
        proxy.shutdown()
        proxy.server_close()
        for one in server.later:
            one.join()
