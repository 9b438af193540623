"""What anybody who is logged in may send to any endpoint: one line and 4xx, never a traceback."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import groupby
from urllib.parse import quote

import httpx
import pendulum
import pytest
from fastapi import FastAPI
from fastapi.dependencies.utils import get_flat_dependant
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from sluice.airflow.api import access as gate
from sluice.airflow.api import pipelines
from sluice.airflow.api.access import Turn, Turns, one_line
from sluice.clients.lake.open import open_lake
from sluice.page.history import ids_of
from sluice.plan.lag import LONGEST
from sluice.slices import SliceRange
from sluice.state.months import SUMMARIES, UnitSummary
from tests.dags.page_app import PLAN, READS, endpoints, login, path_of, queries, query_of

VALUES = {
    "NUL": "2026\0",
    "a line break": "a\nb",
    "a huge number": "9" * 39,
    "a huge number of letters": "9" * 10_000,
    "10 kB": "x" * 10_000,
    "superscript": "²h",
    "year 1": "0001-01-01T00Z",
    "year 1 in another zone": "0001-01-01T00:00+05:00",
    "year 1026": "1026-01-01T00Z",
    "year 9999": "9999-12-31T23:30Z",
    "negative": "-1",
    "nothing there": "nowhere",
    "traversal": "../../../etc/passwd",
    "traversal, hidden": "..%2f..%2fetc",
    "ANSI": "\x1b[2J",
    "markup": "[/x]<script>",
    "half a surrogate": "\ud800",
    "direction": "\u202egnp",
    "template": "{{ 7*7 }} %s {0}",
    "quotes": "'; DROP TABLE x; --",
}
ENDPOINTS = list(endpoints())
PATHS = [(m, r, p.alias) for m, r in ENDPOINTS for p in get_flat_dependant(r.dependant).path_params]
NAMES = sorted({(m, r.path, name): (m, r, name) for m, r, name in PATHS}.values(), key=str)
QUERIES = [(m, r, name) for m, r in ENDPOINTS for name in queries(r)]


def named(cases: list[tuple[str, APIRoute, str]]) -> list:
    return [pytest.param(*case, id=f"{case[0]} {case[1].path} {case[2]}") for case in cases]


def checked(answer: httpx.Response, *codes: int) -> None:
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text[:300])
    assert not codes or answer.status_code in codes, (answer.status_code, answer.text[:300])
    detail = answer.json()["detail"]
    assert isinstance(detail, str) and detail and len(detail) < 1_100
    assert detail.isprintable() and "Traceback" not in detail


def escaped(value: str) -> str:
    return quote(value.encode("utf-8", "surrogatepass"), safe="")


def test_each_parameter_is_tried():
    assert {name for _, _, name in NAMES} == {"pipeline", "slice_id", "cluster", "table"}
    assert {name for _, _, name in QUERIES} == {"from", "to", "run"}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize(("method", "route", "name"), named(NAMES))
def test_parts_of_an_address(airflow_app: TestClient, method: str, route: APIRoute, name: str, value: str):
    body = {"json": PLAN} if method not in READS else {}
    url = path_of(route, **{name: escaped(value)})
    checked(airflow_app.request(method, url, params=query_of(route), headers=login("op"), **body))


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize(("method", "route", "name"), named(QUERIES))
def test_parameters(airflow_app: TestClient, method: str, route: APIRoute, name: str, value: str):
    others = [f"{key}={sound}" for key, sound in query_of(route).items() if key != name]
    url = f"{path_of(route)}?{'&'.join([*others, f'{name}={escaped(value)}'])}"
    checked(airflow_app.request(method, url, headers=login("viewer")), 400, 404, 422)


@pytest.mark.parametrize(("method", "route", "name"), named(QUERIES))
def test_parameters_that_are_there_twice(airflow_app, method: str, route: APIRoute, name: str):
    url = f"{path_of(route)}?{name}=48h&{name}=48h"
    answer = airflow_app.request(method, url, headers=login("viewer"))
    checked(answer, 400)
    assert answer.json()["detail"] == f"{name}: given 2 times, expected once"


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("name", ["start", "end", "mode"])
def test_parts_of_a_body(airflow_app: TestClient, name: str, value: str):
    url = "/sluice/api/pipelines/ads/plan"
    headers = {**login("op"), "Content-Type": "application/json"}
    checked(airflow_app.post(url, content=json.dumps({**PLAN, name: value}), headers=headers), 400, 422)


BODIES = {
    "a key that no line can hold": b'{"start": "2026-11-20", "end": "now", "\\ud800\\u001b": 1}',
    "no JSON": b"{",
    "not UTF-8": b"\xff\xfe",
    "a list": b"[]",
    "numbers": b'{"start": 1e999, "end": 123, "mode": null}',
    "a thousand brackets": b"[" * 60_000,
    "nothing": b"",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bodies(airflow_app: TestClient, body: bytes):
    headers = {**login("op"), "Content-Type": "application/json"}
    checked(airflow_app.post("/sluice/api/pipelines/ads/plan", content=body, headers=headers), 400, 422)


def test_a_body_is_bounded_before_anybody_is_asked_who_sent_it(airflow_app: TestClient):
    url, large = "/sluice/api/pipelines/ads/plan", b'{"start": "' + b"x" * (64 << 10) + b'"}'

    def chunks() -> Iterator[bytes]:
        yield large

    for asked in (url, url.replace("/ads/", "/static/")):  # which is no file, but a pipeline of that name
        checked(airflow_app.post(asked, content=large), 413)
        checked(airflow_app.post(asked, content=chunks()), 411)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb\t c", "a b c"),
        ("\x1b[2J\ud800\u202e\0", "\\x1b[2J\\ud800\\u202e\\x00"),
        ("ä" * 1001, "ä" * 1000 + "…"),
    ],
)
def test_one_line(text: str, line: str):
    assert one_line(text) == line


class Slow:
    """An app of one endpoint, which answers when it is told to; `most` requests were in it at once."""

    def __init__(self) -> None:
        self.app, self.go, self.now, self.most = FastAPI(), asyncio.Event(), 0, 0
        self.app.state.turns = Turns()
        self.app.get("/slow/{pipeline}")(self.slow)
        self.app.get("/static/file")(lambda: "file")

    async def slow(self, _: Turn) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        await self.go.wait()
        self.now -= 1
        return "done"

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://page")


def test_fifty_at_once_take_turns():
    """They are for two pipelines, which leave turns to those that have none."""
    most = gate.AT_ONCE - gate.KEPT_FREE

    async def fifty() -> tuple[int, list[int], int]:
        slow = Slow()
        async with slow.client() as client:
            asked = [asyncio.create_task(client.get(f"/slow/{number % 2}")) for number in range(50)]
            while slow.now < most:
                await asyncio.sleep(0)
            static = (await client.get("/static/file")).status_code
            slow.go.set()
            return slow.most, [answer.status_code for answer in await asyncio.gather(*asked)], static

    assert asyncio.run(asyncio.wait_for(fifty(), 60)) == (most, [200] * 50, 200)


def test_one_pipeline_has_half_of_the_turns(monkeypatch: pytest.MonkeyPatch):
    """Also when its own callers have waited for too long."""
    monkeypatch.setattr(gate, "PATIENCE", 0.05)

    async def of_one_and_another() -> tuple[int, int, list[int]]:
        slow = Slow()
        async with slow.client() as client:
            asked = [asyncio.create_task(client.get("/slow/stuck")) for _ in range(50)]
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            while sum(one.done() for one in asked) < 50 - gate.AT_ONCE_OF_ONE:
                await asyncio.sleep(0.01)
            held = slow.now
            others = [asyncio.create_task(client.get(f"/slow/{number}")) for number in range(4)]
            while slow.now < held + len(others):
                await asyncio.sleep(0)
            slow.go.set()
            return (
                held,
                sum(answer.status_code == 503 for answer in await asyncio.gather(*asked)),
                [answer.status_code for answer in await asyncio.gather(*others)],
            )

    of_one = gate.AT_ONCE_OF_ONE
    answers = asyncio.run(asyncio.wait_for(of_one_and_another(), 60))
    assert answers == (of_one, 50 - of_one, [200] * 4)


def test_who_waits_for_too_long_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gate, "PATIENCE", 0.05)

    async def one_too_many() -> list[httpx.Response]:
        slow = Slow()
        async with slow.client() as client:
            asked = [asyncio.create_task(client.get(f"/slow/{number}")) for number in range(gate.AT_ONCE + 1)]
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            slow.go.set()
            late = await asyncio.gather(*asked)
            assert len(done) == 1
            return [done.pop().result(), *late]

    refused, *all_of_them = asyncio.run(asyncio.wait_for(one_too_many(), 60))
    assert (refused.status_code, refused.json()["detail"]) == (503, "the page is busy: ask again in a minute")
    assert sorted(answer.status_code for answer in all_of_them) == [200] * gate.AT_ONCE + [503]


@pytest.mark.long
def test_fifty_of_the_longest_answers_at_once(airflow_app: TestClient, monkeypatch: pytest.MonkeyPatch):
    """Each is what a lone one is, and all take the time that as many take one after another."""
    monkeypatch.setattr(gate, "PATIENCE", 600.0)
    ((_, ads),) = pipelines.find_pipelines().sound
    lake, now = open_lake(ads), pendulum.now("UTC").start_of("hour")
    slices = SliceRange(now - LONGEST, now)
    seen = {"dc1": UnitSummary("complete", "a" * 12, "a" * 12, 9, 9, 1, 0, 0, 8)}
    months = {
        name: SUMMARIES.encode(dict.fromkeys(ids, seen))
        for name, ids in groupby(ids_of(slices), lambda i: i[:7])
    }
    for name, data in months.items():
        lake.put(SUMMARIES.key(name), data)
    url = f"/sluice/api/pipelines/ads/series?from={slices.start:%Y-%m-%dT%HZ}&to={slices.end:%Y-%m-%dT%HZ}"
    alone, first = timed(airflow_app.app, url, 1)
    together, answers = timed(airflow_app.app, url, 50)
    lake.delete(map(SUMMARIES.key, months))
    assert {answer.status_code for answer in (*first, *answers)} == {200}
    assert {answer.content for answer in answers} == {first[0].content}
    assert 40_000 < len(first[0].content) < 200_000
    assert together < 3 * 50 * alone


def timed(app: FastAPI, url: str, times: int) -> tuple[float, list[httpx.Response]]:
    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://page", timeout=600) as client:
            asked = (client.get(url, headers=login("viewer")) for _ in range(times))
            return await asyncio.gather(*asked)

    began = time.process_time()
    answers = asyncio.run(ask())
    return time.process_time() - began, answers
