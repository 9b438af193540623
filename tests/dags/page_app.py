"""Who is logged in to Airflow's web server, and every endpoint of the page, by the app's own table."""

from __future__ import annotations

from collections.abc import Iterator

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from fastapi.routing import APIRoute
from starlette.routing import Mount, Route

from sluice.airflow.api.app import VERSION, create_app

SLICE = "2026-11-20T10Z"
PLAN = {"start": SLICE, "end": "2026-11-20T11Z", "mode": "fill"}
SOUND = {
    "pipeline": "ads",
    "slice_id": SLICE,
    "cluster": "dc1",
    "table": "a.b",
    "from": "2026-11-19",
    "to": "2026-11-20",
    "run": "r",
}
STATIC = {"/static", f"/static/{VERSION}"}
READS = frozenset({"GET", "HEAD"})


def login(role: str) -> dict[str, str]:
    user = SimpleAuthManagerUser(username=role, role=role.upper(), teams=None)
    return {"Authorization": f"Bearer {get_auth_manager().generate_jwt(user)}"}


def endpoints() -> Iterator[tuple[str, APIRoute]]:
    """(method, route) of all but the static files. Fails for what answers and is no route of FastAPI's."""
    for route in create_app().routes:
        if isinstance(route, Mount):
            assert route.path in STATIC, f"{route.path} is served without asking who asks"
            continue
        assert isinstance(route, APIRoute), f"{route} has no dependencies: who may ask it?"
        assert isinstance(route, Route)
        for method in sorted(route.methods):
            yield method, route


def path_of(route: APIRoute, **changed: str) -> str:
    """Its address with sound parameters, but for those that are given."""
    return "/sluice" + route.path_format.format(**{**SOUND, **changed})


def query_of(route: APIRoute) -> dict[str, str]:
    return {name: SOUND[name] for name in queries(route)}


def queries(route: APIRoute) -> list[str]:
    return [field.alias for field in route.dependant.query_params]
