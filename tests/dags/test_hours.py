"""The keys of event hours: their form, whom they go to, and when none goes."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace

import pendulum
import pytest
from airflow.partition_mappers.base import RollupMapper
from airflow.partition_mappers.temporal import StartOfDayMapper, StartOfHourMapper
from airflow.partition_mappers.window import DayWindow
from airflow.sdk import Asset
from airflow.sdk.execution_time.context import OutletEventAccessors
from structlog.testing import capture_logs

from sluice.airflow import assets as module
from sluice.airflow.assets import (
    KEY,
    MOST_HOURS,
    announce_hours,
    hour_outlets,
    pipeline_alias,
    published_range,
)
from sluice.airflow.dags import pipeline_dags
from sluice.airflow.pipelines import read_pipeline
from sluice.flow import steps
from tests.dags.pipeline_texts import TWO_TABLES

BIDS, CLICKS = (Asset(f"sluice://ads/ads.{table}/hours") for table in ("bids", "clicks"))
TEN = pendulum.datetime(2026, 11, 20, 10)
PUBLISHED = [
    {"table": table, "slice": f"2026-11-20T{hour}Z", "rows": 1}
    for hour in ("12", "10")
    for table in ("ads.bids", "ads.clicks")
]


@pytest.fixture
def ads(tmp_path, monkeypatch):
    (tmp_path / "ads.yaml").write_text(TWO_TABLES)
    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path))
    return read_pipeline("ads")


def announced(ads, monkeypatch, whole, published=PUBLISHED) -> tuple[dict, list, list]:
    """(keys by asset, the task's outlets afterwards, the ranges that were asked for)."""
    asked: list[str] = []
    monkeypatch.setattr(steps, "proven_hours", lambda pipeline, slices: asked.append(str(slices)) or whole)
    task = SimpleNamespace(outlets=[pipeline_alias("ads"), *hour_outlets(ads)])
    events = OutletEventAccessors()
    announce_hours(ads, published, {"task": task, "outlet_events": events})
    return {asset.uri: sorted(events[asset].partition_keys) for asset in events}, task.outlets, asked


def test_every_table_gets_the_key_of_every_hour(ads, monkeypatch):
    keys, outlets, asked = announced(ads, monkeypatch, [TEN, TEN.add(hours=1)])
    both = ["2026-11-20T10:00:00", "2026-11-20T11:00:00"]
    assert keys == {BIDS.uri: both, CLICKS.uri: both}
    assert sorted(outlet.name for outlet in outlets) == ["sluice://ads", BIDS.name, CLICKS.name]
    assert asked == ["[2026-11-20T10:00Z, 2026-11-20T13:00Z)"]


@pytest.mark.parametrize("published", [PUBLISHED, []])
def test_without_an_hour_there_is_no_event_without_a_key(ads, monkeypatch, published):
    """Airflow sends one for each outlet of a task that got no key."""
    keys, outlets, _ = announced(ads, monkeypatch, [], published)
    assert (keys, outlets) == ({}, [pipeline_alias("ads")])


def test_more_hours_than_airflow_stores_in_a_request_get_no_key_and_a_line(ads, monkeypatch):
    whole = [TEN + timedelta(hours=n) for n in range(MOST_HOURS + 1)]
    with capture_logs() as logs:
        keys, outlets, _ = announced(ads, monkeypatch, whole)
    assert (keys, outlets) == ({}, [pipeline_alias("ads")])
    assert [(line["log_level"], line["hours"]) for line in logs] == [("warning", MOST_HOURS + 1)]
    assert len(announced(ads, monkeypatch, whole[:-1])[0][BIDS.uri]) == MOST_HOURS


def test_airflows_mappers_read_a_key_as_it_is():
    key = TEN.strftime(KEY)
    assert StartOfHourMapper().to_downstream(key) == "2026-11-20T10"
    day = RollupMapper(upstream_mapper=StartOfDayMapper(), window=DayWindow())
    assert day.to_downstream(key) == "2026-11-20"
    expected = {f"2026-11-20T{hour:02}:00:00" for hour in range(24)}
    assert day.to_upstream("2026-11-20") == expected


def test_keys_sort_as_the_hours_do():
    starts = [TEN.add(hours=n * 37) for n in range(500)]
    assert sorted(start.strftime(KEY) for start in starts) == [start.strftime(KEY) for start in starts]


def test_slices_of_a_quarter_of_an_hour_are_read_as_such(ads):
    short = ads.model_copy(update={"slice": timedelta(minutes=15)})
    rows = [{"table": "ads.bids", "slice": f"2026-11-20T10{minute}Z"} for minute in ("45", "15")]
    assert str(published_range(short, rows)) == "[2026-11-20T10:15Z, 2026-11-20T11:00Z)"


def test_airflow_without_keys_of_a_tasks_choice_has_no_assets_of_hours(ads, monkeypatch, tmp_path):
    """So is Airflow 3.2: an outlet there sends events that have no key."""
    monkeypatch.setattr(module, "KEYS_AT_RUNTIME", False)
    for dag in ("ads", "ads_backfill"):
        publish = pipeline_dags(tmp_path)[dag].get_task("batch.publish")
        assert publish.outlets == [pipeline_alias("ads")]
    keys, outlets, asked = announced(ads, monkeypatch, [TEN])
    assert (keys, outlets, asked) == ({}, [pipeline_alias("ads")], [])


def test_both_dags_announce_the_hours_of_both_tables(ads, tmp_path):
    for dag in ("ads", "ads_backfill"):
        outlets = pipeline_dags(tmp_path)[dag].get_task("batch.publish").outlets
        assert {outlet.name for outlet in outlets} == {"sluice://ads", BIDS.name, CLICKS.name}
