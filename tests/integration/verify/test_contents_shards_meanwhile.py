"""`verify --contents` of two shards that are loaded meanwhile."""

from __future__ import annotations

import pytest

from sluice import crash_points
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Verify
from sluice.flow.contents.compare import ContentsReport, auditor
from sluice.flow.verify.anomaly import AnomalyKind
from tests.integration.landed import event, land, unit
from tests.integration.verify.test_contents import found_of
from tests.support.long_form import per_commit
from tests.support.shards_world import Shards, made, shards

pytestmark = pytest.mark.integration

COLUMNS = "n UInt16, _partition Int32, _slice DateTime('UTC'), _cluster LowCardinality(String)"


@pytest.fixture
def two(clickhouse_servers, tmp_path, name, monkeypatch) -> Shards:
    found = made(tmp_path, name, clickhouse_servers, monkeypatch)
    found.everywhere(f"CREATE TABLE {{db}}.clicks ({COLUMNS}) ENGINE = MergeTree ORDER BY tuple()")
    found.everywhere(
        "CREATE MATERIALIZED VIEW {db}.seen ENGINE = MergeTree ORDER BY n AS "
        "SELECT n, _slice, _cluster FROM {db}.clicks"
    )
    land(found.world.lake, unit(), [event(n=n) for n in range(9)], partitions=3)
    return found


def contents(two: Shards, pipeline: Pipeline) -> ContentsReport:
    return auditor(pipeline).whole(found_of(two.world, pipeline, [unit()]))


@pytest.mark.parametrize(
    ("point", "times"), per_commit([(Verify.LISTED, 1), (Verify.STAGED, 9), (Verify.REVIEWED, 1)])
)
@pytest.mark.long
def test_a_load_meanwhile_is_no_anomaly(two: Shards, monkeypatch, point: Verify, times: int):
    """Once, the table is compared again; over and over, it is busy. What is wrong is told on either shard."""
    pipeline = two.world.pipeline({"click": "clicks"}, clickhouse=shards("s1", "s2", lease="1s"))
    two.load(pipeline, unit())
    left = [times]

    def reached(here: str) -> None:
        if here == point and left[0]:
            left[0] -= 1
            two.load(pipeline, unit(), mode="reload", token=str(left[0]))

    monkeypatch.setattr(crash_points, "reached", reached)
    found = contents(two, pipeline)
    assert found.anomalies == []
    assert found.busy or times == 1
    monkeypatch.setattr(crash_points, "reached", lambda _: None)
    again = contents(two, pipeline)
    assert (again.anomalies, again.busy) == ([], [])
    two.on(1, "ALTER TABLE {db}.clicks UPDATE n = n + 100 WHERE 1 SETTINGS mutations_sync = 2")
    wrong = contents(two, pipeline)
    assert {(a.kind, a.shard, a.table.partition(".")[2]) for a in wrong.anomalies} == {
        (AnomalyKind.VALUES, "s2", "clicks")
    }
