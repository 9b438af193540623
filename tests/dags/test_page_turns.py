"""A turn is taken by who has the right to what is asked, once the body is there: tried with real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
import pytest
import uvicorn
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from fastapi import HTTPException
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from sluice.airflow.api import access as gate
from tests.dags.page_app import PLAN, READS, endpoints, login, path_of, query_of
from tests.dags.test_page_rights import refuse

ENDPOINTS = [pytest.param(m, route, id=f"{m} {route.path}") for m, route in endpoints()]
BODY = json.dumps(PLAN).encode().ljust(1000)


class Served:
    """The app behind a real server; `awaited` is released by each request that waits for more of its body."""

    def __init__(self, app: object) -> None:
        self.app, self.awaited = app, threading.Semaphore(0)

    async def __call__(self, scope, receive, send) -> None:
        calls = 0

        async def asked():
            nonlocal calls
            calls += 1
            if calls == 2 and scope.get("method") == "POST":
                self.awaited.release()
            return await receive()

        await self.app(scope, asked if scope["type"] == "http" else receive, send)

    @contextmanager
    def port(self) -> Iterator[int]:
        server = uvicorn.Server(uvicorn.Config(self, log_level="critical", lifespan="off"))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
            thread.start()
            yield listening.getsockname()[1]
            server.should_exit = server.force_exit = True
            thread.join()


def half_a_plan(port: int, headers: dict[str, str]) -> socket.socket:
    lines = ["POST /sluice/api/pipelines/nowhere/plan HTTP/1.1", "Host: page", f"Content-Length: {len(BODY)}"]
    lines += [f"{name}: {value}" for name, value in {**headers, "Content-Type": "application/json"}.items()]
    sender = socket.create_connection(("127.0.0.1", port), timeout=60)
    sender.sendall("\r\n".join([*lines, "", ""]).encode() + BODY[:500])
    return sender


def everything_from(sender: socket.socket) -> bytes:
    """Returns what the server sends until it closes."""
    return b"".join(iter(lambda: sender.recv(65536), b""))


@pytest.mark.parametrize("role", [None, "op"])
def test_bodies_that_never_arrive_delay_nobody_and_are_given_up(airflow_app, monkeypatch, role: str | None):
    monkeypatch.setattr(gate, "PATIENCE", 1.0)
    monkeypatch.setattr(gate, "BODY_SECONDS", 5.0)
    served = Served(airflow_app.app)
    with served.port() as port:
        senders = [half_a_plan(port, login(role) if role else {}) for _ in range(2 * gate.AT_ONCE)]
        for _ in senders:
            assert served.awaited.acquire(timeout=60)
        with closing(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)) as admin:
            params = {"from": "48h"}
            assert admin.get("/sluice/api/overview", params=params, headers=login("admin")).status_code == 200
        for sender in senders:
            answer = everything_from(sender)
            assert answer.startswith(b"HTTP/1.1 408 ") and b"within 5 s" in answer
            sender.close()


@pytest.fixture
def no_turn(airflow_app: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have all turns, and keep them."""
    monkeypatch.setattr(gate, "AT_ONCE", 0)
    monkeypatch.setattr(gate, "PATIENCE", 0.01)


def ask(app: TestClient, method: str, route: APIRoute, headers: dict[str, str]) -> int:
    body = {"json": PLAN} if method not in READS else {}
    return app.request(method, path_of(route), params=query_of(route), headers=headers, **body).status_code


@pytest.mark.parametrize(("method", "route"), ENDPOINTS)
def test_only_who_has_the_right_waits_for_a_turn(
    airflow_app, monkeypatch, no_turn, method: str, route: APIRoute
):
    """The page itself is a file of the server's."""
    of_pipeline = "{pipeline}" in route.path
    assert ask(airflow_app, method, route, {}) == 401
    assert ask(airflow_app, method, route, login("admin")) == (200 if route.path == "/" else 503)
    if method not in READS:
        refuse(
            monkeypatch, "is_authorized_dag", lambda access_entity, **_: access_entity is DagAccessEntity.RUN
        )
        assert ask(airflow_app, method, route, login("op")) == 403
    if of_pipeline:
        refuse(monkeypatch, "is_authorized_dag", lambda **_: True)
        assert ask(airflow_app, method, route, login("op")) == 404
    refuse(monkeypatch, "is_authorized_view", lambda **_: True)
    assert ask(airflow_app, method, route, login("op")) == 403


def test_an_error_ends_a_turn(airflow_app: TestClient):
    """More requests fail than there are turns; the next one is answered."""
    for _ in range(gate.AT_ONCE + 1):
        url = "/sluice/api/pipelines/nowhere/plan"
        assert airflow_app.post(url, json=PLAN, headers=login("op")).status_code == 404
    assert airflow_app.get("/sluice/api/overview?from=48h", headers=login("viewer")).status_code == 200


async def holding(turns: gate.Turns, pipeline: str, over: asyncio.Event) -> None:
    async with turns.one(pipeline):
        await over.wait()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_pipelines_whose_servers_hang_leave_turns_to_the_others(monkeypatch: pytest.MonkeyPatch):
    """Two of them ask as often as they like; a third and a fourth are asked at once, and all end."""
    monkeypatch.setattr(gate, "PATIENCE", 60.0)

    async def ask() -> list[str]:
        turns, over, order = gate.Turns(), asyncio.Event(), []
        hanging = [asyncio.create_task(holding(turns, name, over)) for name in "ab" for _ in range(20)]
        await settled()
        async with asyncio.timeout(2), turns.one("c"), turns.one("d"):
            order.append("others")
        order.append("hanging") if not any(task.done() for task in hanging) else None
        over.set()
        await asyncio.gather(*hanging)
        async with asyncio.timeout(2), turns.one("a"), turns.one("a"), turns.one("a"), turns.one("a"):
            order.append("all are free")
        return order

    assert asyncio.run(ask()) == ["others", "hanging", "all are free"]


def test_who_gives_up_waiting_takes_no_turn(monkeypatch: pytest.MonkeyPatch):
    """Whether the time is over, or the caller is gone, also just when a turn is given."""
    monkeypatch.setattr(gate, "PATIENCE", 0.05)

    async def ask() -> None:
        turns, over = gate.Turns(), asyncio.Event()
        holders = [asyncio.create_task(holding(turns, "a", over)) for _ in range(gate.AT_ONCE_OF_ONE)]
        await settled()
        with pytest.raises(HTTPException, match="busy"):
            async with turns.one("a"):
                pass
        waiting = [asyncio.create_task(holding(turns, "a", asyncio.Event())) for _ in range(3)]
        await settled()
        waiting[0].cancel()
        over.set()
        await asyncio.gather(*holders)  # gives the others their turns
        for task in waiting[1:]:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        async with turns.one("a"), turns.one("a"), turns.one("a"), turns.one("a"):
            pass

    asyncio.run(ask())
