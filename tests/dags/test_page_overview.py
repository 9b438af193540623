"""What the overview's cards show beside the cells: schedule, problems, needs, and the lag."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.session import create_session
from fastapi.testclient import TestClient

from sluice.airflow.api import cards, pipelines
from sluice.airflow.api.cards import FRESH_SECONDS
from sluice.clients.lake.open import open_lake
from sluice.page.status_cache import TimedCache
from sluice.page.traffic import lag_now
from sluice.plan.lag import Lag, PartitionLag
from sluice.watch.problems import KEY, AlarmStore
from tests.dags.page_app import login

OVERVIEW = "/sluice/api/overview?from=48h"


def ads():
    ((_, found),) = pipelines.find_pipelines().sound
    return found


def row_of(app: TestClient) -> dict:
    (row,) = app.get(OVERVIEW, headers=login("viewer")).json()["pipelines"]
    return row


@pytest.mark.parametrize("paused", [False, True])
def test_when_airflow_makes_the_next_run(airflow_app: TestClient, paused: bool):
    """The instant is Airflow's own; of a paused DAG there is none, and somebody is needed.
    The watch is a DAG of its own."""
    after = datetime(2026, 11, 24, 13, tzinfo=UTC)
    with create_session() as session:
        session.merge(DagBundleModel(name="cards"))
        session.flush()
        made = DagModel(dag_id="ads", bundle_name="cards", is_paused=paused)
        made.next_dagrun_create_after = after
        session.merge(made)
        session.merge(DagModel(dag_id="ads_watch", bundle_name="cards", is_paused=not paused))
    try:
        row = row_of(airflow_app)
        assert row.get("next_run") == (None if paused else "2026-11-24T13:00:00+00:00")
        assert [one["kind"] for one in row["findings"]] == [
            "unavailable",
            "paused" if paused else "unwatched",
        ]
    finally:
        with create_session() as session:
            session.delete(session.get(DagModel, "ads"))
            session.delete(session.get(DagModel, "ads_watch"))
            session.flush()
            session.delete(session.get(DagBundleModel, "cards"))


def part(records: int, seconds: int | None, rate: float, gone: int = 0) -> PartitionLag:
    return PartitionLag("dc1", "t", 0, 5, 0, 9, records, seconds, rate, gone=gone)


def test_the_lag_of_a_card_is_that_of_its_partitions():
    parts = [part(7, 100, 1.5), part(0, 9000, 0.25, gone=4), part(3, 400, 0, gone=2), part(1, None, 0)]
    found = lag_now(Lag("now", parts, ["dc2: no"]))
    assert (found.records, found.seconds, found.rate, found.errors) == (11, 400, 1.75, ["dc2: no"])
    assert found.gone == 6


def test_kafka_is_asked_once_in_a_while_whoever_looks(
    airflow_app: TestClient, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []

    def ask(pipeline) -> Lag:
        asked.append(pipeline.name)
        return Lag("now", [replace(part(7, 100, 1.5), lacking=2, outside=5)], [])

    monkeypatch.setattr(cards, "lag", ask)
    monkeypatch.setattr(cards, "lags", TimedCache(FRESH_SECONDS))
    answers = [
        airflow_app.get("/sluice/api/pipelines/ads/lag-now", headers=login(role)).json()
        for role in ("viewer", "admin")
    ]
    counts = {"records": 7, "gone": 0, "lacking": 2, "outside": 5}
    assert answers == [{"at": "now", "seconds": 100, "rate": 1.5, "errors": [], **counts}] * 2
    assert asked == ["ads"]


def test_a_damaged_file_of_the_watch_is_a_problem_and_hides_nothing(airflow_app: TestClient):
    from sluice.page.rows import open_alarms

    lake = open_lake(ads())
    before = lake.read(KEY)
    lake.put(KEY, b"{")
    try:
        (alarm,) = open_alarms(lake)
        assert alarm.problem.place == "the watch's state" and "holds no alarms" in alarm.problem.message
    finally:
        lake.delete([KEY])
        if before is not None:
            lake.put(KEY, before.data)
    assert AlarmStore(lake).read() is not None
