"""A producer renames a field: every count holds, and verify names it and the field that came instead."""

from __future__ import annotations

import pytest

from sluice.flow.steps import verify_range
from sluice.flow.verify.verdict_store import read_verdict
from tests.faults.damage import Damaged
from tests.integration.landed import client_of
from tests.support.landing_world import World, event, hours

pytestmark = pytest.mark.faults

RENAMED = 2  # from this hour on
EACH = 60
TABLE = """CREATE TABLE {db}.clicks (total UInt32, _offset Int64, _slice DateTime('UTC'),
_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _offset"""


def logs() -> World:
    """Sixty clicks an hour; from the third hour on, `total` is `total_amount`."""
    log = [
        event("click", 60 * hour + 0.9 * n, **{"total_amount" if hour >= RENAMED else "total": str(n + 1)})
        for hour in range(4)
        for n in range(EACH)
    ]
    return World({("dc1", "bids"): [log]}, plain=True)


@pytest.fixture
def renamed(clickhouse_server, monkeypatch, capsys, tmp_path, name: str) -> Damaged:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    world = Damaged(tmp_path, client_of(clickhouse_server), name, monkeypatch, capsys, world=logs())
    world.sql("CREATE DATABASE {db}")
    world.sql(TABLE)
    world.options = {"tables": {"click": f"{name}.clicks"}}
    world.configure()
    world.world.resolve(world.pipeline, world.lake, hours(4))
    return world


def run(renamed: Damaged, first: int, count: int) -> int:
    span = hours(count, first)
    words = f"--from {span.start:%Y-%m-%dT%H:%MZ} --to {span.end:%Y-%m-%dT%H:%MZ}"
    return renamed.command(f"sluice run ads --config {renamed.config} {words}")[0]


def open_kinds(renamed: Damaged) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.kind, one.slices) for one in read_verdict(renamed.lake).anomalies]


def test_a_run_tells_it_once_and_stops_nothing(renamed: Damaged):
    assert [run(renamed, hour, 1) for hour in range(4)] == [0, 0, 0, 0]
    assert open_kinds(renamed) == [("field missing", (renamed.slice_id(RENAMED),))]
    [(zeros,)] = renamed.sql("SELECT count() FROM {db}.clicks WHERE total = 0")
    assert zeros == 2 * EACH  # which no count tells


@pytest.mark.parametrize("words", [(), pytest.param(("--contents",), marks=pytest.mark.long)])
def test_verify_names_the_field_that_came(renamed: Damaged, words: tuple[str, ...]):
    assert run(renamed, 0, 4) == 0
    anomalies = renamed.verify(*words)
    assert [(a["kind"], a["slice"], a["type"], a["table"], a["expected"], a["seen"]) for a in anomalies] == [
        (
            "field missing",
            renamed.slice_id(RENAMED),
            "click",
            f"{renamed.database}.clicks",
            "values for total (from total): 0% of the events before had none",
            "100% have none; new fields: total_amount",
        )
    ]


@pytest.mark.long
def test_the_column_takes_the_new_field_and_the_anomaly_ends(renamed: Damaged):
    assert run(renamed, 0, 4) == 0
    [anomaly] = renamed.verify()
    renamed.configure(
        tables={"click": {"table": f"{renamed.database}.clicks", "columns": {"total": "total_amount"}}}
    )
    reload = anomaly["advice"].split("`")[3]
    assert renamed.command(reload)[0] == 0
    assert [a["kind"] for a in renamed.verify() if a["slice"] == renamed.slice_id(RENAMED)] == []


def test_it_is_accepted(renamed: Damaged):
    assert run(renamed, 0, 4) == 0
    [anomaly] = renamed.verify()
    accept = anomaly["advice"].split("`")[5]
    assert accept.endswith("--accept")
    code, out = renamed.command(accept)
    assert (code, "accepted: 1" in out.splitlines()) == (0, True)
    assert open_kinds(renamed) == []
    assert renamed.verify() == [] and renamed.verify("--contents") == []
    verify_range(renamed.pipeline, hours(4))
    assert open_kinds(renamed) == []
