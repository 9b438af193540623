"""Limits how many requests are answered at a time, and refuses those that no endpoint needs.

Endpoints run in the threads that Airflow's own API has, too. Those that wait here hold none of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.middleware.base import RequestResponseEndpoint
from starlette.responses import Response

AT_ONCE = 8  # of the 40 threads
PATIENCE = 30.0  # seconds
MOST_BYTES = 64 << 10


class Gate:
    """The limit of one app, and so of one event loop."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def __call__(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        if "/static/" in request.url.path:
            return await call_next(request)
        if refused := _refused(request):
            return refused
        try:
            async with asyncio.timeout(PATIENCE):
                await self._turns.acquire()
        except TimeoutError:
            return _answer(503, "the page is busy: ask again in a minute")
        try:
            return await call_next(request)
        finally:
            self._turns.release()


def _refused(request: Request) -> Response | None:
    """Returns the refusal of a request that no endpoint needs. A body is bounded here because FastAPI reads
    all of it before it checks who sent it."""
    for name, times in Counter(name for name, _ in request.query_params.multi_items()).items():
        if times > 1:
            return _answer(400, f"{one_line(name, 40)}: given {times} times, expected once")
    length = request.headers.get("content-length")
    if length is None and "transfer-encoding" in request.headers:
        return _answer(411, "a body needs its length")
    if length is not None and (not length.isdecimal() or int(length) > MOST_BYTES):
        return _answer(413, f"the body has more than {MOST_BYTES:,} bytes")
    return None


def _answer(status: int, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail}, status)


def one_line(text: str, most: int = 1000) -> str:
    """Returns the beginning of the text, with spaces for line breaks and escapes for unprintable
    characters."""
    words = " ".join(text.split())
    cut = words if len(words) <= most else f"{words[:most]}…"
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in cut)
