"""A producer renames a field: every count of rows holds, and the watch names the column."""

from __future__ import annotations

import pytest

from sluice.state.survey import survey
from sluice.watch.rules import missing
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


def problems(renamed: Damaged) -> list[str]:
    slices = hours(4)
    found = missing(renamed.pipeline, survey(renamed.pipeline, slices), slices)
    return [problem.message for problem in found]


@pytest.mark.long
def test_a_run_goes_on_and_the_watch_names_the_column_and_the_hour(renamed: Damaged):
    assert [run(renamed, hour, 1) for hour in range(4)] == [0, 0, 0, 0]
    [(zeros,)] = renamed.sql("SELECT count() FROM {db}.clicks WHERE total = 0")
    assert zeros == 2 * EACH  # which no count of rows tells
    [message] = problems(renamed)
    assert f"column total from 0 % to 100 % in slice {renamed.slice_id(RENAMED)};" in message
    code, out = renamed.command(f"sluice status ads --config {renamed.config}")
    assert code == 0 and "values that are defaults: total 50.0 %" in out


@pytest.mark.long
def test_the_column_takes_the_new_field_and_the_problem_ends(renamed: Damaged):
    assert run(renamed, 0, 4) == 0
    [message] = problems(renamed)
    renamed.configure(
        tables={"click": {"table": f"{renamed.database}.clicks", "columns": {"total": "total_amount"}}}
    )
    reload = message.split("`")[5].replace("--to now", f"--to {hours(4).end:%Y-%m-%dT%H:%MZ}")
    assert renamed.command(f"{reload} --config {renamed.config}")[0] == 0
    assert problems(renamed) == []
