"""The page's app: static files, one HTML page, and the JSON endpoints under `/api`.

Airflow mounts it below its own address, without authentication of its own: everything but the static
files, which are the same for all users, asks Airflow's access check.
"""

from __future__ import annotations

import gc
import hashlib
import threading
from pathlib import Path

import pendulum
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.base import RequestResponseEndpoint
from starlette.responses import Response

from sluice import page
from sluice.airflow.api import pipelines as endpoints
from sluice.airflow.api.access import Turns, gate, may_see_page, one_line
from sluice.airflow.api.cards import cards
from sluice.airflow.api.pipelines import pipelines
from sluice.airflow.api.slices import slices
from sluice.errors import SluiceError, Unavailable, WrongUse
from sluice.page.rows import RequestedRange, rows_of

STATIC = Path(page.__file__).parent / "static"
# Nothing but this server's own files; only Airflow's own page may frame it.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def version_of(folder: Path) -> str:
    """Returns a checksum of the folder's files. They are served below it, so a browser asks for each only
    once."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in paths)).hexdigest()[
        :12
    ]


VERSION = version_of(STATIC)


def create_app() -> FastAPI:
    app = FastAPI(title="Sluice", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.turns = Turns()
    app.middleware("http")(gate)
    app.middleware("http")(_with_headers)
    app.add_exception_handler(SluiceError, _explained)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.mount(f"/static/{VERSION}", StaticFiles(directory=STATIC), name="versioned")
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    html = (STATIC / "index.html").read_text(encoding="utf-8").replace('"static/', f'"static/{VERSION}/')
    app.include_router(pipelines, prefix="/api", dependencies=[may_see_page])
    app.include_router(cards, prefix="/api", dependencies=[may_see_page])
    app.include_router(slices, prefix="/api", dependencies=[may_see_page])

    @app.get("/", dependencies=[may_see_page], include_in_schema=False)
    def index(user: GetUserDep) -> HTMLResponse:
        return HTMLResponse(html)

    return app


async def _with_headers(request: Request, call_next: RequestResponseEndpoint) -> Response:
    path = str(request.scope["path"]).removeprefix(request.scope.get("root_path", ""))  # a mount changes it
    response = await call_next(request)
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", _cached(path))
    return response


def _cached(path: str) -> str:
    if path.startswith(f"/static/{VERSION}/"):
        return "public, max-age=31536000, immutable"
    return "no-cache" if path.startswith("/static/") else "no-store"


def _explained(request: Request, error: Exception) -> JSONResponse:
    """Answers the one line of a Sluice error, which says what to do."""
    assert isinstance(error, SluiceError)  # noqa: S101 - narrows the type
    status = 400 if isinstance(error, WrongUse) else 503 if isinstance(error, Unavailable) else 409
    return JSONResponse({"detail": one_line(error.public)}, status)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    """Answers one line of what is wrong with a request, without its values."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - narrows the type
    wrong = [f"{'.'.join(map(str, fault['loc'][1:]))}: {fault['msg']}" for fault in error.errors()]
    return JSONResponse({"detail": one_line("; ".join(wrong), 300)}, 422)


_VIEWS = ("48h", "8760h")


def warm_caches() -> threading.Thread:
    """Warms the caches at start, in a thread: makes the overview of every pipeline once. Errors are not
    reported here: the overview itself reports them when it is asked for."""
    thread = threading.Thread(target=_warm_caches, name="sluice-warm-caches", daemon=True)
    thread.start()
    return thread


def _warm_caches() -> None:
    sound = endpoints.sound()
    for since in _VIEWS:
        rows_of(endpoints.memory, sound, RequestedRange.of(since, "now", pendulum.now("UTC")), {})
    # What Airflow's web server has made by now stays as long as it runs. Python would walk through all of it
    # whenever the process has grown by a quarter: 0.3 s, in the middle of an answer.
    gc.collect()
    gc.freeze()
