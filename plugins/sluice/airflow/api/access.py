"""Who may see what: Airflow's own access checks, of whichever auth manager it has.

The whole page needs the right to see plugins; a pipeline the right to read its DAG; a plan, which makes
Kafka work, and a start the right to trigger the backfill DAG. What is wrong with a pipeline file is for those
who may edit its DAG. Payloads need a right of their own, the custom
view `Sluice Payloads`, and the right to edit the pipeline's DAG: Airflow's simple auth manager grants every
custom view to every viewer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Path, Request
from fastapi.responses import JSONResponse
from starlette.middleware.base import RequestResponseEndpoint
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from sluice.airflow.pipelines import Selection, backfill_dag_id, find_pipelines
from sluice.config.pipeline import Payloads, Pipeline
from sluice.config.types import check_name
from sluice.page.rejected_samples import shared_payloads

PAYLOADS = "Sluice Payloads"
MOST_NAME = 250  # as many letters as Airflow gives a DAG's id
may_see_page = Depends(requires_access_view(AccessView.PLUGINS))


def may_read(user: BaseUser, pipeline: str) -> bool:
    return _may(user, pipeline, "GET", None)


def may_start(user: BaseUser, pipeline: str) -> bool:
    return _may(user, backfill_dag_id(pipeline), "POST", DagAccessEntity.RUN)


def may_edit(user: BaseUser, pipeline: str) -> bool:
    return _may(user, pipeline, "PUT", None)


def may_see_payloads(user: BaseUser, pipeline: str) -> bool:
    granted = get_auth_manager().is_authorized_custom_view(method="GET", resource_name=PAYLOADS, user=user)
    return granted and may_edit(user, pipeline)


def _may(
    user: BaseUser, dag_id: str, method: Literal["GET", "POST", "PUT"], entity: DagAccessEntity | None
) -> bool:
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return get_auth_manager().is_authorized_dag(
        method=method, access_entity=entity, details=details, user=user
    )


def readable(pipeline: Annotated[str, Path(max_length=MOST_NAME)], user: GetUserDep) -> str:
    """Returns the name of a pipeline that the caller may read, if it is there."""
    with suppress(ValueError):
        if may_read(user, check_name(pipeline)):
            return pipeline
    raise _not_there(pipeline)


def startable(name: Annotated[str, Depends(readable)], user: GetUserDep) -> str:
    if not may_start(user, name):
        raise HTTPException(403, f"you may not trigger the DAG {backfill_dag_id(name)}")
    return name


def readable_pipeline(name: Annotated[str, Depends(readable)], _: Turn) -> Pipeline:
    """Returns the pipeline of that name. 404 also where the user may not read its DAG: names are secret."""
    return _find(name)


def startable_pipeline(name: Annotated[str, Depends(startable)], _: Turn) -> Pipeline:
    return _find(name)


def _find(name: str) -> Pipeline:
    for _, pipeline in find_pipelines(selection=Selection(among=frozenset({name}))).sound:
        return pipeline
    raise _not_there(name)


def _not_there(name: str) -> HTTPException:
    return HTTPException(404, f"no pipeline {name!r} that you may read")


def payloads_of(pipeline: Annotated[Pipeline, Depends(readable_pipeline)], user: GetUserDep) -> Payloads:
    """Returns how the caller sees payloads: at most as the pipeline file says, and those of the pipelines
    that share a topic or a table with it."""
    configured = shared_payloads(pipeline, (one for _, one in find_pipelines().sound))
    return "masked" if configured == "shown" and not may_see_payloads(user, pipeline.name) else configured


Readable = Annotated[Pipeline, Depends(readable_pipeline)]
Startable = Annotated[Pipeline, Depends(startable_pipeline)]
ShownPayloads = Annotated[Payloads, Depends(payloads_of)]


# Refuses requests that no endpoint needs, reads their bodies, and lets endpoints answer a few at a time.
#
# Endpoints run in the threads that Airflow's own API has, too. Those that wait here hold none of them. A turn
# is taken last: when the body is there, and the caller has the right to what it asks for. One pipeline takes
# half of them at most, and the last ones go to pipelines that have none: some whose servers hang leave a turn
# to the others.
AT_ONCE = 8  # of the 40 threads
AT_ONCE_OF_ONE = 4
KEPT_FREE = 2
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
        self._held: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def one(self, pipeline: str) -> AsyncIterator[None]:
        """Holds a turn while the context lasts. Raises HTTPException when none is free for PATIENCE."""
        await self._take(pipeline)
        try:
            yield
        finally:
            self._release(pipeline)

    async def _take(self, pipeline: str) -> None:
        if self._may(pipeline):
            self._held[pipeline] += 1
            return
        waiting = pipeline, asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            async with asyncio.timeout(PATIENCE):
                await waiting[1]
        except BaseException as error:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
            else:  # it was given just then
                self._release(pipeline)
            if isinstance(error, TimeoutError):
                raise HTTPException(503, "the page is busy: ask again in a minute") from None
            raise

    def _may(self, pipeline: str) -> bool:
        held, free = self._held[pipeline], AT_ONCE - self._held.total()
        return held < AT_ONCE_OF_ONE and free > (KEPT_FREE if held else 0)

    def _release(self, pipeline: str) -> None:
        self._held[pipeline] -= 1
        for waiting in list(self._waiting):
            name, given = waiting
            if self._may(name) and not given.done():
                self._held[name] += 1
                self._waiting.remove(waiting)
                given.set_result(None)
        self._held = +self._held


async def _turn(request: Request) -> AsyncIterator[None]:
    """What is asked of all pipelines together has a share as one of them has."""
    turns: Turns = request.app.state.turns
    async with turns.one(request.path_params.get("pipeline", "")):
        yield


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
