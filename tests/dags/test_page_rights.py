"""Nobody, a viewer and an editor against every endpoint of the page, by the app's own table of routes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from sluice.airflow.api import cards, pipelines, slices
from sluice.errors import KafkaUnavailable
from sluice.page.overview import OverviewSnapshot
from tests.dags.page_app import PLAN, READS, SLICE, endpoints, login, path_of, query_of

# What each endpoint asks for. A new endpoint without a rule fails here.
RULES = {
    "GET /": "page",
    "GET /api/overview": "page",
    "GET /api/pipelines/{pipeline}/lag": "read",
    "GET /api/pipelines/{pipeline}/lag-now": "read",
    "GET /api/pipelines/{pipeline}/series": "read",
    "GET /api/pipelines/{pipeline}/late": "read",
    "GET /api/pipelines/{pipeline}/checks": "read",
    "GET /api/pipelines/{pipeline}/freshness": "read",
    "GET /api/pipelines/{pipeline}/progress": "read",
    "GET /api/pipelines/{pipeline}/tables": "read",
    "GET /api/pipelines/{pipeline}/lag_trend": "read",
    "GET /api/pipelines/{pipeline}/changes": "read",
    "GET /api/pipelines/{pipeline}/retention": "read",
    "GET /api/pipelines/{pipeline}/sizes": "read",
    "GET /api/pipelines/{pipeline}/runs": "read",
    "GET /api/pipelines/{pipeline}/backfills": "read",
    "POST /api/pipelines/{pipeline}/plan": "start",
    "POST /api/pipelines/{pipeline}/tables/{table}": "start",
    "GET /api/pipelines/{pipeline}/slices/{slice_id}": "read",
    "POST /api/pipelines/{pipeline}/slices/{slice_id}/release/{table}": "start",
    "GET /api/pipelines/{pipeline}/slices/{slice_id}/rejected": "read",
    "GET /api/pipelines/{pipeline}/slices/{slice_id}/rows": "read",
    "GET /api/pipelines/{pipeline}/slices/{slice_id}/manifests/{cluster}": "read",
}
ENDPOINTS = [pytest.param(m, route, id=f"{m} {route.path}") for m, route in endpoints()]
TWO_OTHERS = ["2 other pipeline files are wrong"]
MAY = {"viewer": {"page", "read"}} | {role: {"page", "read", "start"} for role in ("user", "op", "admin")}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka is unavailable at once."""

    def away(*_: object) -> None:
        raise KafkaUnavailable("dc1", "127.0.0.1:1", "no answer")

    monkeypatch.setattr("sluice.flow.resolve.resolve.preview", away)
    monkeypatch.setattr(cards, "ask_topics", away)
    monkeypatch.setattr("sluice.page.retention.open_inquiry", away)


def ask(app: TestClient, method: str, route: APIRoute, headers: dict[str, str] | None = None):
    body = {"json": PLAN} if method not in READS else {}
    return app.request(method, path_of(route), params=query_of(route), headers=headers, **body)


def test_every_endpoint_has_a_rule_and_who_writes_needs_the_right_to_trigger():
    found = {f"{method} {route.path}" for method, route in endpoints()}
    assert found == RULES.keys()
    for rule, needed in RULES.items():
        assert (needed == "start") == (rule.split()[0] not in READS), rule


@pytest.mark.parametrize(("method", "route"), ENDPOINTS)
@pytest.mark.parametrize("role", [None, "viewer", "user", "op", "admin"])
def test_who_may_ask(airflow_app: TestClient, method: str, route: APIRoute, role: str | None):
    answer = ask(airflow_app, method, route, login(role) if role else None)
    needed = RULES[f"{method} {route.path}"]
    if role is None:
        assert answer.status_code == 401
    elif needed in MAY[role]:
        # What is asked for may be unavailable, or not there.
        assert answer.status_code in (200, 404, 503), answer.text
    else:
        assert answer.status_code == 403
        assert answer.json() == {"detail": "you may not trigger the DAG ads_backfill"}


@pytest.mark.parametrize(("method", "route"), ENDPOINTS)
def test_who_may_not_see_plugins_sees_nothing(airflow_app, monkeypatch, method: str, route: APIRoute):
    refuse(monkeypatch, "is_authorized_view", lambda access_view, **_: access_view is AccessView.PLUGINS)
    assert ask(airflow_app, method, route, login("op")).status_code == 403


@pytest.mark.parametrize(("method", "route"), ENDPOINTS)
def test_a_dag_that_somebody_may_not_read_is_not_there(
    airflow_app, monkeypatch, method: str, route: APIRoute
):
    refuse(monkeypatch, "is_authorized_dag", lambda details, **_: details and details.id == "ads")
    answer = ask(airflow_app, method, route, login("op"))
    if RULES[f"{method} {route.path}"] == "page":
        assert answer.status_code == 200 and '"ads"' not in answer.text
    else:
        assert answer.status_code == 404 and "no pipeline 'ads' that you may read" in answer.text


def test_who_may_edit_the_hourly_dag_only_starts_no_backfill(airflow_app, monkeypatch):
    refuse(
        monkeypatch,
        "is_authorized_dag",
        lambda details, access_entity=None, **_: access_entity is DagAccessEntity.RUN and details.id != "ads",
    )
    writers = [(method, route) for method, route in endpoints() if method not in READS]
    assert [ask(airflow_app, *writer, login("op")).status_code for writer in writers] == [403] * 3


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST"])
def test_no_other_method_is_answered(airflow_app: TestClient, method: str):
    for reads, route in endpoints():
        if reads in READS:
            answer = airflow_app.request(method, path_of(route), headers=login("admin"))
            assert answer.status_code == 405, route.path


WRONG = {
    "expanded": "expanded.yaml:8:10: tables.click.table: wrong, and not shown, for it comes from a variable: "
    "a command on the machine tells",
    "wrong": "wrong.yaml:8:10: tables.click.table: expected database.table, not 'clicks'",
}


@pytest.mark.parametrize("role", ["viewer", "user", "op", "admin"])
@pytest.mark.parametrize(
    ("editable", "counted"),
    [(["expanded", "wrong"], []), (["wrong"], ["1 other pipeline file is wrong"]), ([], TWO_OTHERS)],
)
def test_what_is_wrong_with_a_file_is_for_who_may_edit_its_dag(
    airflow_app, monkeypatch, tmp_path, role: str, editable: list[str], counted: list[str]
):
    """Others see that there is one: neither its place nor its text, nor a name."""
    refuse(
        monkeypatch,
        "is_authorized_dag",
        lambda method, details=None, **_: method == "PUT" and details and details.id not in editable,
    )
    answer = airflow_app.get("/sluice/api/overview?from=48h", headers=login(role))
    seen = TWO_OTHERS if role == "viewer" else [*map(WRONG.get, editable), *counted]
    assert answer.json()["broken_files"] == seen
    assert str(tmp_path.parents[1]) not in answer.text
    assert "hush" not in answer.text


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, refused: Callable[..., object]) -> None:
    """An auth manager that says no to some of what the simple one grants."""
    grants = getattr(SimpleAuthManager, name)

    def asked(self: SimpleAuthManager, **given: object) -> bool:
        return not refused(**given) and grants(self, **given)

    monkeypatch.setattr(SimpleAuthManager, name, asked)


@pytest.mark.parametrize(
    ("said", "role", "granted", "seen"),
    [
        ("shown", "viewer", True, "masked"),
        ("shown", "user", True, "shown"),
        ("shown", "admin", True, "shown"),
        ("shown", "admin", False, "masked"),
        ("masked", "admin", True, "masked"),
        ("hidden", "admin", True, "hidden"),
        (None, "admin", True, "masked"),
    ],
)
def test_who_sees_payloads(airflow_app, monkeypatch, said: str | None, role: str, granted: bool, seen: str):
    """`granted` is the custom view of that name, which an auth manager with roles of its own has."""
    asked = []
    (path, ads), *_ = pipelines.find_pipelines().sound
    page = ads.page if said is None else ads.page.model_copy(update={"payloads": said})
    found = pipelines.find_pipelines()
    known = type(found)(((path, ads.model_copy(update={"page": page})),), ())
    monkeypatch.setattr("sluice.airflow.api.access.find_pipelines", lambda **_: known)
    monkeypatch.setattr(slices.memory, "snapshot", lambda *_: OverviewSnapshot([], [], None))
    monkeypatch.setattr(slices, "connect_shards", lambda _: nullcontext(()))
    monkeypatch.setattr(
        slices.rejected_samples,
        "rejected_records",
        lambda lake, manifests, payloads: asked.append(payloads) or [],
    )
    refuse(
        monkeypatch,
        "is_authorized_custom_view",
        lambda resource_name, **_: resource_name == "Sluice Payloads" and not granted,
    )
    answer = airflow_app.get(f"/sluice/api/pipelines/ads/slices/{SLICE}/rejected", headers=login(role))
    assert (answer.status_code, answer.json()) == (200, {"payloads": seen, "groups": [], "more": 0})
    assert asked == [seen]
