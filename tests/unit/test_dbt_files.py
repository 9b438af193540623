"""What dbt reads: YAML whose texts no template and no name can break."""

from __future__ import annotations

import pendulum
import pytest
import yaml

from sluice.clients.clickhouse.sql import Sql
from sluice.config.pipeline import Pipeline
from sluice.dbt_files import dbt_files, sources
from sluice.mart_sources import MartSource, whole_hours

PIPELINE = Pipeline.model_validate(
    {
        "name": "adx",
        "kafka": [{"cluster": c, "bootstrap": "b:1", "topics": ["bids"]} for c in ("dc1", "dc2")],
        "event": {"type": {"topic": True}, "time": {"record": True}},
        "lake": "file:///lake",
        "slice": "15m",
        "settle": "5m",
        "alarms": {"overdue": "40m"},
    }
)

BEGINS = {"dc1": None, "dc2": pendulum.datetime(2025, 11, 20, 10)}


def test_a_source_has_what_dbt_asks_for():
    hours = whole_hours("adx.clicks", BEGINS)
    columns = [("n", "Nullable(UInt8)"), ("_slice", "DateTime('UTC')")]
    table = MartSource("adx.clicks", "Events click.", columns, hours)
    [source] = yaml.safe_load(sources(PIPELINE, [table]))["sources"]
    assert (source["name"], source["schema"]) == ("adx", "sluice")
    [clicks] = source["tables"]
    assert (clicks["name"], clicks["identifier"]) == ("clicks", "adx.clicks")
    assert clicks["columns"] == [
        {"name": "n", "data_type": "Nullable(UInt8)"},
        {"name": "_slice", "data_type": "DateTime('UTC')"},
    ]
    assert clicks["config"]["event_time"] == "_slice"
    assert clicks["config"]["freshness"] == {"error_after": {"count": 60, "period": "minute"}}
    asked = {"hours": hours, "seconds": 900}
    assert clicks["data_tests"] == [{"sluice_hour_complete": {"arguments": asked}}]
    query = clicks["config"]["loaded_at_query"]
    assert (
        "target = 'adx.clicks'" in query
        and "['dc1', 'dc2'], [0, 1763632800]" in query
        and "INTERVAL 900 SECOND" in query
    )


@pytest.mark.parametrize(
    "name", ["a: b", "{{ env_var('HOME') }}", "{% macro x %}", "é\n- x", '"', "'", "null", "#"]
)
def test_hostile_names_are_texts(name: str):
    hostile = MartSource(f"adx.{name}", name, [(name, name)], Sql("SELECT 1"))
    [source] = yaml.safe_load(sources(PIPELINE, [hostile]))["sources"]
    [table] = source["tables"]
    said = [
        table["name"],
        table["description"],
        table["columns"][0]["name"],
        table["columns"][0]["data_type"],
    ]
    assert all(one.replace("{ ", "{") == name.replace("{ ", "{") for one in said)
    assert not any("{{" in one or "{%" in one for one in said)


def test_files_lie_where_dbt_looks():
    assert list(dbt_files(PIPELINE, [])) == [
        "models/sluice_adx.yml",
        "tests/generic/sluice_hour_complete.sql",
    ]
