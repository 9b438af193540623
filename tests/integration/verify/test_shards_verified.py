"""verify, status and doctor over shards: real rows that are missing, twice, or on the wrong shard."""

from __future__ import annotations

import pytest

from local.readiness import free_port
from sluice.cli.status import as_json
from sluice.config.pipeline import Pipeline
from sluice.doctor.check import Area, Check, Level
from sluice.doctor.examine import Examination
from sluice.errors import ShardUnavailable
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.audit import audit
from sluice.flow.verify.verdict import read_verdict
from sluice.slices import SliceRange
from sluice.state.survey import survey
from sluice.state.unit_state import UnitState
from sluice.watch.look import look
from sluice.watch.problems import Looked
from tests.integration.landed import START, event, land, unit
from tests.support.long_form import per_commit
from tests.support.shards_world import Shards, made, point_at, shards

pytestmark = pytest.mark.integration

COLUMNS = "n UInt16, _partition Int32, _offset Int64, _topic String, _slice DateTime('UTC'), _cluster String"
HOUR = SliceRange(START, START.add(hours=1))
KEY = f"toDateTime({int(START.timestamp())}, 'UTC'), 'dc1'"
OF_TABLES = (
    AnomalyKind.ROWS_MISSING,
    AnomalyKind.ROWS_EXTRA,
    AnomalyKind.ROWS_DUPLICATE,
    AnomalyKind.ROWS_FOREIGN,
    AnomalyKind.ROWS_UNCOVERED,
    AnomalyKind.LEDGER,
    AnomalyKind.REJECTED_ROWS,
    AnomalyKind.MISPLACED,
    AnomalyKind.LEFT,
)


@pytest.fixture
def two(clickhouse_servers, tmp_path, name, monkeypatch) -> Shards:
    found = made(tmp_path, name, clickhouse_servers, monkeypatch)
    found.everywhere(f"CREATE TABLE {{db}}.clicks ({COLUMNS}) ENGINE = MergeTree ORDER BY n")
    land(found.world.lake, unit(), [event(n=n) for n in range(7)] + [event(n="x")], partitions=4)
    return found


def pipeline_of(two: Shards, *names: str, **more: object) -> Pipeline:
    return two.world.pipeline({"click": "clicks"}, clickhouse=shards(*names, **more))


def seen(pipeline: Pipeline) -> list[tuple[str, str, str]]:
    """(kind, shard, seen) of what is wrong with the tables. The lake here has no boundaries."""
    anomalies = audit(pipeline, HOUR).anomalies
    return sorted((a.kind, a.shard, a.seen) for a in anomalies if a.kind in OF_TABLES)


def test_a_look_counts_each_shard(two: Shards):
    """A row too many here and one too few there are seen, though the sum is right."""
    pipeline = pipeline_of(two, "s1", "s2", shard_by="intDiv(n, 4)")
    two.load(pipeline, unit())
    looked = look(pipeline, two.world.lake, HOUR, Looked(), HOUR.end)
    two.on(1, "DELETE FROM {db}.clicks WHERE n = 5 SETTINGS lightweight_deletes_sync = 2")
    two.on(0, f"INSERT INTO {{db}}.clicks SELECT 5, 1, 1, 'events', {KEY}")
    looked = look(pipeline, two.world.lake, HOUR, looked, HOUR.end)
    assert looked.beyond == {
        f"{two.world.database}.clicks@s1": (1, 0),
        f"{two.world.database}.clicks@s2": (-1, 0),
    }
    found = read_verdict(two.world.lake).anomalies
    kinds = {(one.kind, one.shard) for one in found if one.kind in OF_TABLES}
    assert {
        (AnomalyKind.ROWS_EXTRA, "s1"),
        (AnomalyKind.ROWS_MISSING, "s2"),
        (AnomalyKind.MISPLACED, "s1"),
    } <= kinds


@pytest.mark.parametrize("by", per_commit(["partition", "intDiv(n, 4)"]))
def test_verify_finds_what_is_wrong_on_which_shard(two: Shards, by: str):
    pipeline = pipeline_of(two, "s1", "s2", shard_by=by)
    two.load(pipeline, unit())
    assert seen(pipeline) == []
    two.on(1, "DELETE FROM {db}.clicks WHERE n = 5 SETTINGS lightweight_deletes_sync = 2")
    assert (AnomalyKind.ROWS_MISSING, "s2", "2") in seen(pipeline)
    # The same row, on the other shard: the sum is right again.
    two.on(0, f"INSERT INTO {{db}}.clicks SELECT 5, 1, 1, 'events', {KEY}")
    found = seen(pipeline)
    assert (AnomalyKind.MISPLACED, "s1", "1 rows of other shards") in found
    assert {(kind, shard) for kind, shard, _ in found} == {
        (AnomalyKind.MISPLACED, "s1"),
        (AnomalyKind.ROWS_EXTRA, "s1"),
        (AnomalyKind.ROWS_MISSING, "s2"),
    }
    two.load(pipeline, unit(), mode="reload")
    assert seen(pipeline) == []


@pytest.mark.long
def test_verify_names_a_shard_that_has_left(two: Shards):
    two.load(pipeline_of(two, "s1", "s2"), unit())
    last = pipeline_of(two, "s1")
    two.load(last, unit())
    assert seen(last) == [(AnomalyKind.LEFT, "s2", "3 rows")]
    two.on(1, "DROP TABLE {db}.clicks SYNC")
    assert seen(last) == []


def left_behind(pipeline: Pipeline) -> list[str]:
    return [a.advice for a in audit(pipeline, HOUR).anomalies if a.kind == AnomalyKind.LEFT]


@pytest.mark.long
def test_a_shard_that_only_has_another_name_holds_nothing_foreign(two: Shards, monkeypatch):
    """The statement that was printed would have dropped the live table."""
    two.load(pipeline_of(two, "s1", "s2"), unit())
    point_at(monkeypatch, "east", two.servers[1].port)
    renamed = pipeline_of(two, "s1", "east")
    assert left_behind(renamed) == []
    two.load(renamed, unit())
    assert (left_behind(renamed), seen(renamed)) == ([], [])
    monkeypatch.delenv("AIRFLOW_CONN_SHARD_S2")
    said: list[str] = []
    audit(renamed, HOUR, say=said.append)
    assert [line for line in said if "cannot be read" in line] == []


@pytest.mark.long
def test_a_table_is_given_up_when_the_listed_shards_have_all_of_its_hours(two: Shards):
    land(two.world.lake, unit(1), [event(n=n) for n in range(20, 25)], partitions=4)
    both, last = pipeline_of(two, "s1", "s2"), pipeline_of(two, "s1")
    two.load(both, unit(), unit(1))
    two.load(last, unit())
    [advice] = left_behind(last)
    assert advice.startswith("2 of them are of hours that the listed shards have not committed")
    assert "DROP" not in advice
    two.load(last, unit(1))
    [advice] = left_behind(last)
    before = sorted(two.on(0, "SELECT n FROM {db}.clicks"))
    two.on(1, advice.partition("run: ")[2])
    assert sorted(two.on(0, "SELECT n FROM {db}.clicks")) == before
    assert [n for (n,) in before] == [*range(7), *range(20, 25)]
    assert left_behind(last) == []


@pytest.mark.long
def test_status_says_which_shard_an_hour_is_not_on(two: Shards, monkeypatch):
    pipeline = pipeline_of(two, "s1", "s2")
    two.load(pipeline, unit())
    [one] = survey(pipeline, HOUR)
    assert (one.state, one.seen) == (UnitState.COMPLETE, "complete")
    table = f"{two.world.database}.clicks"
    assert as_json(pipeline, one)["tables"] == {
        table: {"rows": 7, "rejected_rows": 1, "defaulted": {}, "nulls": {}, "shards": {"s1": 4, "s2": 3}}
    }
    point_at(monkeypatch, "s2", free_port())
    [one] = survey(pipeline, HOUR)
    assert (one.state, one.seen) == (UnitState.LANDED, "landed, not on shard s2")
    assert as_json(pipeline, one)["tables"][table]["shards"] == {"s1": 4, "s2": None}
    with pytest.raises(ShardUnavailable, match="shard s2: ClickHouse does not answer"):
        audit(pipeline, HOUR)


def test_doctor_looks_at_every_shard(two: Shards, monkeypatch):
    pipeline = pipeline_of(two, "s1", "s2")
    two.on(1, "DROP TABLE {db}.clicks SYNC")
    assert {check.place for check in of_clickhouse(two, pipeline) if check.level is Level.FAIL} == {
        f"{two.world.database}.clicks"
    }
    point_at(monkeypatch, "s2", two.servers[0].port)
    failed = [check for check in of_clickhouse(two, pipeline) if check.level is Level.FAIL]
    assert [check.place for check in failed] == ["shards"]
    assert "same server" in failed[0].finding


def of_clickhouse(two: Shards, pipeline: Pipeline) -> list[Check]:
    examination = Examination(pipeline, two.world.root / "x.yaml", HOUR, 0)
    return [check for check in examination.servers() if check.area is Area.CLICKHOUSE]
