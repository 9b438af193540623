"""The page's endpoints inside Airflow's own app: who may do what, and what the answers carry."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pendulum
import pytest
from fastapi.testclient import TestClient

from sluice.airflow import plugin
from sluice.airflow.api import pipelines, slices
from sluice.airflow.api.app import version_of, warm_caches
from sluice.clients.lake.layout import manifest
from sluice.clients.lake.open import open_lake
from sluice.page.overview import OverviewSnapshot
from sluice.slices import HOUR, Slice, SliceRange, floor
from sluice.state.boundaries.model import Boundaries
from sluice.state.months import SUMMARIES, UnitSummary, summary_of
from sluice.state.notes import FreshUnit, note_fresh
from sluice.state.unit_state import UnitState
from sluice.watch.problems import Alarm, AlarmStore, Problem, ProblemKind, WatchState
from tests.dags.page_app import login
from tests.support.verified import TEN, status

PLUGINS = Path(__file__).parents[2] / "plugins"
SLICE = "/sluice/api/pipelines/ads/slices/2026-11-20T10Z"
PLAN = {"start": "2026-11-20T10Z", "end": "2026-11-20T11Z", "mode": "fill"}
READS = [
    "/sluice/",
    "/sluice/api/overview?from=48h",
    "/sluice/api/pipelines/ads/checks",
    "/sluice/api/pipelines/ads/freshness",
    "/sluice/api/pipelines/ads/late?from=2026-11-20",
    "/sluice/api/pipelines/ads/series?from=2026-11-20",
    "/sluice/api/pipelines/ads/lag",
    "/sluice/api/pipelines/ads/tables?from=48h",
    "/sluice/api/pipelines/ads/lag_trend?from=48h",
    "/sluice/api/pipelines/ads/changes",
    "/sluice/api/pipelines/ads/retention",
    "/sluice/api/pipelines/ads/sizes",
    "/sluice/api/pipelines/ads/runs?from=48h",
    "/sluice/api/pipelines/ads/backfills",
    SLICE,
    f"{SLICE}/rejected",
    f"{SLICE}/manifests/dc1",
    "/sluice/api/pipelines/ads/progress?run=r",
]


@pytest.mark.parametrize("path", READS)
def test_nobody_sees_anything_without_a_login(airflow_app: TestClient, path: str):
    assert airflow_app.get(path).status_code == 401


@pytest.mark.parametrize("role", ["viewer", "user", "op", "admin"])
def test_the_overview_by_role(airflow_app: TestClient, role: str):
    answer = airflow_app.get("/sluice/api/overview?from=48h", headers=login(role))
    assert answer.status_code == 200, answer.text
    found = answer.json()
    (row,) = found["pipelines"]
    assert (row["pipeline"], row["can_start"]) == ("ads", role != "viewer")
    assert row.get("tables") == (None if role == "viewer" else ["a.b"])
    assert "127.0.0.1:1" in row["error"] and row["cells"] == []
    assert found["user"] == role
    assert "hush" not in answer.text


def test_who_has_looked(airflow_app: TestClient):
    """Nobody has verified, and nobody watches: its DAG is paused, or not there."""
    found = airflow_app.get("/sluice/api/pipelines/ads/checks", headers=login("viewer")).json()
    assert found == {
        "verified": None,
        "watched": "",
        "paused": True,
        "watch_dag": "ads_watch",
        "remedy": (
            "Unpause ads_watch in Airflow: while it is paused, new problems go unnoticed and no channel is "
            "notified."
        ),
    }


def test_the_overview_has_the_findings_of_what_does_not_answer(airflow_app: TestClient):
    """The most urgent first: ClickHouse, then what Airflow itself knows of its DAGs."""
    answer = airflow_app.get("/sluice/api/overview?from=48h", headers=login("viewer"))
    (row,) = answer.json()["pipelines"]
    assert [(one["kind"], one["tone"]) for one in row["findings"]] == [
        ("unavailable", "bad"),
        ("paused", "warn"),
        ("unwatched", "warn"),
    ]
    assert "127.0.0.1:1" in row["findings"][0]["message"]


def test_the_freshness_of_the_tables(airflow_app: TestClient):
    """An hour whose 30 records were stamped in its last five minutes, verified an hour after its end."""
    ((_, ads),) = pipelines.find_pipelines().sound
    piece = Slice(floor(pendulum.now("UTC"), HOUR) - 2 * HOUR)
    verified = int(piece.end.timestamp()) + 3600
    note_fresh(open_lake(ads), {piece.id: {"dc1": FreshUnit((*[0] * 11, 30), {"a.b": verified})}})
    (row,) = airflow_app.get("/sluice/api/pipelines/ads/freshness", headers=login("viewer")).json()["tables"]
    assert (row["table"], row["records_day"], row["p50_day"], row["p99_week"]) == ("a.b", 30, 3750.0, 3750.0)
    assert row["newest"] == piece.id


def test_a_viewer_cannot_plan_nor_start(airflow_app: TestClient):
    viewer = login("viewer")
    assert airflow_app.post("/sluice/api/pipelines/ads/plan", json=PLAN, headers=viewer).status_code == 403
    start = {"logical_date": None, "conf": {"from": "2026-11-20T10Z"}}
    answer = airflow_app.post("/api/v2/dags/ads_backfill/dagRuns", json=start, headers=viewer)
    assert answer.status_code == 403


def test_who_may_start_may_plan(airflow_app: TestClient):
    answer = airflow_app.post("/sluice/api/pipelines/ads/plan", json=PLAN, headers=login("user"))
    assert answer.status_code == 503
    assert "127.0.0.1:1" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({**PLAN, "mode": "drop"}, 400, "fill, repair, reload, remake, reland"),
        ({**PLAN, "mode": None}, 400, "choose a mode: one of fill, repair, reload, remake, reland"),
        ({**PLAN, "end": "2030-01-01"}, 400, "2030-01-01T00:00Z is not over yet (it is 20"),
        ({**PLAN, "end": "2026-11-20T09Z"}, 400, "empty"),
        ({**PLAN, "end": "2036-11-20T09Z"}, 400, "not over"),
        ({**PLAN, "start": "2024-01-01"}, 400, "too many"),
        ({**PLAN, "more": 1}, 422, "more"),
        ({**PLAN, "tables": ["a.c"]}, 400, "pipeline ads has no table 'a.c'; did you mean a.b?"),
        ({**PLAN, "tables": ["x" * 501]}, 422, "tables.0"),
        ({**PLAN, "tables": "a.b"}, 422, "tables"),
    ],
)
def test_a_plan_that_cannot_be_made(airflow_app: TestClient, asked: dict, status: int, said: str):
    answer = airflow_app.post("/sluice/api/pipelines/ads/plan", json=asked, headers=login("admin"))
    assert answer.status_code == status
    assert said in answer.text


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/sluice/api/overview?from=yesterday", 400, "yesterday"),
        ("/sluice/api/pipelines/none/checks", 404, "none"),
        ("/sluice/api/pipelines/ads/slices/2026-11-20", 400, "slice id"),
        (SLICE, 503, "127.0.0.1:1"),
        ("/sluice/api/pipelines/ads/progress?run=r", 404, "no run"),
    ],
)
def test_errors_are_one_line(airflow_app: TestClient, path: str, status: int, said: str):
    answer = airflow_app.get(path, headers=login("viewer"))
    assert answer.status_code == status, answer.text
    assert said in answer.json()["detail"] and "\n" not in answer.json()["detail"]


@pytest.mark.parametrize("role", ["viewer", "user"])
def test_an_hour_says_what_holds_what_is_wrong_and_its_numbers(airflow_app, monkeypatch, role: str):
    """Its table has lost the views; the day before it was whole, and a week before nothing had landed."""
    asked: list[SliceRange] = []

    def snapshot(_: object, slices: SliceRange) -> OverviewSnapshot:
        asked.append(slices)
        whole = status(TEN, 0)
        row = replace(whole.tables["e.clicks"], types=("click", "view"), landed=9, rows=8)
        seen = replace(whole, tables={"a.b": row})
        if slices.start.day == 20:
            seen = replace(seen, state=UnitState.LANDED, tables={})
        found = [] if slices.start.day == 13 else [seen]
        return OverviewSnapshot(found, [summary_of(one) for one in found], Boundaries())

    monkeypatch.setattr(slices.memory, "snapshot", snapshot)
    monkeypatch.setattr(slices.memory.clients, "gone", lambda _: frozenset())
    monkeypatch.setattr(slices, "first_instant", lambda *_: TEN.slice.start)
    answer = airflow_app.get(SLICE, headers=login(role))
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert [one.start.day for one in asked] == [20, 19, 13]
    assert (found["said"], found["can_start"]) == ("It is in the lake, but not in a.b.", role == "user")
    (finding,) = found["findings"]
    what, (repair,) = finding["what"], finding["repairs"]
    assert (what, repair["mode"], repair["start"]) == (
        "Not loaded",
        "fill",
        "2026-11-20T10:00Z",
    )
    assert finding["advice"] == "`airflow dags list-import-errors`"
    assert found["tables"] == [
        {
            "table": "a.b",
            "landed": 9,
            "committed": 0,
            "rejected_rows": 0,
            "defaults": "",
            "day": 8,
            "week": None,
        }
    ]
    assert found["counts"][0] == {"name": "Records read", "unit": "", "now": 10, "day": 10, "week": None}
    assert (found["balance"]["landed"], found["balance"]["not_loaded"]) == (9, 9)


def test_an_hour_that_the_watch_has_seen_to_expire_says_so(airflow_app, monkeypatch):
    """No run has resolved it: neither boundaries nor summaries say that Kafka no longer has it."""
    ((_, ads),) = pipelines.find_pipelines().sound
    lost = Problem(ProblemKind.EXPIRED, f"slice {TEN}", "up to 60 of its offsets expired")
    AlarmStore(open_lake(ads)).change(lambda _: WatchState({lost.key: Alarm(lost, "2026-11-20T12:00:00Z")}))
    missing = replace(status(TEN, 0), state=UnitState.MISSING, manifest=None, tables={})
    seen = OverviewSnapshot([missing], [summary_of(missing)], Boundaries())
    monkeypatch.setattr(slices.memory, "snapshot", lambda *_: seen)
    monkeypatch.setattr(slices, "first_instant", lambda *_: TEN.slice.start)
    found = airflow_app.get(SLICE, headers=login("viewer")).json()
    assert (found["cell"], [unit["state"] for unit in found["units"]]) == ("expired", ["expired"])
    assert [one["what"] for one in found["findings"]] == ["Kafka no longer has the records"]
    AlarmStore(open_lake(ads)).change(lambda _: WatchState())


@pytest.mark.parametrize("more", [0, 1])
def test_a_manifest_has_a_bound(airflow_app: TestClient, more: int):
    """Up to 4 MiB it is as it is in the lake; of a larger one the page says where it is."""
    ((_, ads),) = pipelines.find_pipelines().sound
    lake, key = open_lake(ads), manifest("2026-11-20T11Z", "dc1")
    data = b'{"pad":"' + b"x" * ((4 << 20) - 10 + more) + b'"}'
    lake.put(key, data)
    answer = airflow_app.get(f"{SLICE[:-3]}11Z/manifests/dc1", headers=login("viewer"))
    if more:
        assert answer.status_code == 409
        assert answer.json() == {"detail": f"the manifest has 4,194,305 bytes: it is {lake.url}/{key}"}
    else:
        assert (answer.status_code, answer.content) == (200, data)
        assert answer.headers["content-type"] == "application/json"
    lake.delete([key])


def test_a_browser_asks_for_each_file_once_until_it_changes(airflow_app: TestClient, tmp_path: Path):
    """index.html names files below a version that changes with any of them; others are asked for again."""
    html = airflow_app.get("/sluice/", headers=login("viewer")).text
    names = set(re.findall(r'(?:src|href)="(static/[^"]+)"', html))
    assert len({name.split("/")[1] for name in names}) == 1 and len(names) > 5
    for name in names:
        answer = airflow_app.get(f"/sluice/{name}")
        assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True), name
    assert airflow_app.get("/sluice/static/page.css").headers["cache-control"] == "no-cache"
    assert airflow_app.get("/sluice/api/pipelines/static/lag").headers["cache-control"] == "no-store"

    (tmp_path / "js").mkdir()
    (tmp_path / "js" / "a.js").write_text("1")
    before = version_of(tmp_path)
    (tmp_path / "js" / "a.js").write_text("2")
    assert version_of(tmp_path) != before


@pytest.mark.parametrize("path", ["/sluice/", "/sluice/api/overview?from=48h", "/sluice/static/page.css"])
def test_security_headers(airflow_app: TestClient, path: str):
    answer = airflow_app.get(path, headers=login("viewer"))
    assert answer.status_code == 200
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"


def test_the_page_is_in_airflows_navigation(airflow_app: TestClient):
    found = airflow_app.get("/api/v2/plugins", headers=login("admin")).json()
    views = [view for plugin in found["plugins"] for view in plugin["external_views"]]
    assert [(view["name"], view["url_route"], view["href"]) for view in views] == [
        ("Sluice", "sluice", "sluice/")
    ]
    assert (
        airflow_app.get("/api/v2/plugins/importErrors", headers=login("admin")).json()["total_entries"] == 0
    )


def test_the_server_looks_ahead_once_when_it_has_begun_to_serve(monkeypatch: pytest.MonkeyPatch):
    told: list[str] = []

    async def app(scope, receive, send) -> None:
        told.append("answered")

    async def visit(page: plugin.Page) -> None:
        for _ in range(3):
            await page({}, None, None)

    monkeypatch.setattr(plugin, "_build", lambda: app)
    monkeypatch.setattr(plugin, "_warm_caches", lambda: told.append("ahead"))
    asyncio.run(visit(plugin.Page()))
    assert told == ["answered", "ahead", "answered", "answered"]


def test_what_the_server_has_looked_at_ahead_it_remembers(airflow_app: TestClient):
    """Though ClickHouse is unavailable: that is for the overview to say."""
    ((_, ads),) = pipelines.find_pipelines().sound
    begun, month = (f"{pendulum.now('UTC').subtract(months=ago):%Y-%m}" for ago in (3, 2))
    for name in (begun, month):
        units = {
            f"{name}-05T10Z": dict.fromkeys(ads.clusters, UnitSummary("complete", "a", "a", read=1, rows=1))
        }
        open_lake(ads).put(SUMMARIES.key(name), SUMMARIES.encode(units))
    warm_caches().join(60)
    _, days = pipelines.memory.of(ads).days[month]
    assert days[f"{month}-05"].counts == {"late": 23, "verified": 1}
    open_lake(ads).delete([SUMMARIES.key(begun), SUMMARIES.key(month)])


def test_a_tasks_process_does_not_pay_for_the_page():
    """Airflow loads plugins there too: what the page needs must not be imported by it."""
    code = "import airflow.sdk.execution_time.task_runner, sluice.airflow.plugin, sys; print(*sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(PLUGINS)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    modules = set(ran.stdout.split())
    assert "sluice.airflow.plugin" in modules
    assert not {"sluice.airflow.api.app", "airflow.api_fastapi.core_api.app", "fastapi.routing"} & modules


def test_the_page_takes_everything_from_its_own_server():
    """No address of another host in what is shipped; only comments and the licence name uPlot's home."""
    static = PLUGINS / "sluice" / "page" / "static"
    for path in [*static.glob("*.*"), *static.glob("js/*.js")]:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text and "https://" not in text and "innerHTML" not in text, path
