"""Asks an HTTP server for one answer that has to be whole within a time, however slowly its bytes come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

from sluice.concurrency import Deadline


@dataclass(frozen=True)
class Request:
    """`path` may be another server's URL; with a `form` it is a POST. The repr shows no secret."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    form: Mapping[str, str] | None = None


@contextmanager
def whole_answer(client: httpx.Client, request: Request, seconds: float) -> Iterator[httpx.Response]:
    """Yields the answer as it comes; what reads it does so inside. `client` keeps no connections.

    Raises httpx.RequestError, also when the answer is not whole in time.
    """
    late = f"no whole answer of {request.path} within {seconds} s"
    deadline = Deadline(seconds)
    try:
        with deadline:
            traced = {"trace": deadline.trace}
            with client.stream(
                request.method,
                request.path,
                params=request.params or None,
                headers=request.headers,
                data=request.form,
                extensions=traced,
            ) as answer:
                yield answer
    except httpx.RequestError as error:
        raise httpx.ReadTimeout(late) if deadline.over else error from None
    if deadline.over:
        raise httpx.ReadTimeout(late)
