"""Refuses requests that no endpoint needs, reads their bodies, and lets endpoints answer a few at a time.

Endpoints run in the threads that Airflow's own API has, too. Those that wait here hold none of them. A turn
is taken last: when the body is there, and the caller has the right to what it asks for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.middleware.base import RequestResponseEndpoint
from starlette.requests import ClientDisconnect
from starlette.responses import Response

AT_ONCE = 8  # of the 40 threads
PATIENCE = 30.0  # seconds
BODY_SECONDS = 10.0  # for all of a body
MOST_BYTES = 64 << 10


async def gate(request: Request, call_next: RequestResponseEndpoint) -> Response:
    """Passes on a request with its whole body. FastAPI would read it before it asks who sent it, without a
    bound and without a deadline."""
    return _refused(request) or await _unread(request) or await call_next(request)


def _refused(request: Request) -> Response | None:
    for name, times in Counter(name for name, _ in request.query_params.multi_items()).items():
        if times > 1:
            return _answer(400, f"{one_line(name, 40)}: given {times} times, expected once")
    length = request.headers.get("content-length")
    if length is None and "transfer-encoding" in request.headers:
        return _answer(411, "a body needs its length")
    if length is not None and (not length.isdecimal() or int(length) > MOST_BYTES):
        return _answer(413, f"the body has more than {MOST_BYTES:,} bytes")
    return None


async def _unread(request: Request) -> Response | None:
    """Reads the body, and keeps it for the endpoint. Returns the refusal of one that does not arrive."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            await request.body()
    except TimeoutError:
        late = _answer(408, f"the body has not arrived within {BODY_SECONDS:.0f} s")
        late.headers["Connection"] = "close"
        return late
    except ClientDisconnect:
        return _answer(400, "the body has ended too early")
    return None


class Turns:
    """The turns of one app, and so of one event loop."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(AT_ONCE)

    async def take(self) -> None:
        """Raises HTTPException when none is free for PATIENCE."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self._free.acquire()
        except TimeoutError:
            raise HTTPException(503, "the page is busy: ask again in a minute") from None

    def give_back(self) -> None:
        self._free.release()


async def _turn(request: Request) -> AsyncIterator[None]:
    turns: Turns = request.app.state.turns
    await turns.take()
    try:
        yield
    finally:
        turns.give_back()


# Of scope "function" it ends before the answer is sent: who reads it slowly holds none.
Turn = Annotated[None, Depends(_turn, scope="function")]


def _answer(status: int, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail}, status)


def one_line(text: str, most: int = 1000) -> str:
    """Returns the beginning of the text, with spaces for line breaks and escapes for unprintable
    characters."""
    words = " ".join(text.split())
    cut = words if len(words) <= most else f"{words[:most]}…"
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in cut)
