"""Rollups on a real server: right after reruns, late events and relands, and never behind their source."""

from __future__ import annotations

import json

import pytest

from sluice import crash_points
from sluice.crash_points import TableLoad
from sluice.errors import SourceChanged, TargetRefused
from sluice.flow.verify.check_derived import check_rollup
from sluice.flow.verify.facts import TableFacts, VerifyFacts
from sluice.flow.verify.read_tables import SliceSpan, read_target
from sluice.flow.verify.repairs import Repairs
from sluice.slices import SliceRange
from sluice.state.boundaries.model import Boundaries
from sluice.state.ledger import committed
from sluice.state.unit_state import UnitState
from tests.integration.landed import START, World, client_of, unit
from tests.integration.rolled import KEYS, Rolled, clicks
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration


@pytest.fixture
def rolled(clickhouse_server, tmp_path, name) -> Rolled:
    made = Rolled(World(tmp_path, client_of(clickhouse_server), name))
    made.create()
    yield made
    made.world.sql("DROP DATABASE {db} SYNC")


def test_late_events_reruns_and_relands_leave_rollups_right(rolled: Rolled):
    rolled.land(unit(0), clicks(90))
    rolled.land(unit(1), clicks(40, 1, seed=2))
    rolled.land(unit(0, "dc2"), clicks(30, seed=5))
    first = (unit(0), unit(1), unit(0, "dc2"))
    assert rolled.load_all(*first) == {"clicks": 3, "by_user": 3, "by_hour": 3 + 2}
    assert rolled.seen() == rolled.expected()
    assert rolled.load_all(*first) == {"clicks": 0, "by_user": 0, "by_hour": 0}
    assert rolled.states(*first) == [UnitState.COMPLETE] * 3

    # Late: a later slice brings events of the first hour, and the median of that hour is another one.
    late = [*clicks(25, 0, seed=4), *clicks(5, 5, seed=6)]
    rolled.land(unit(2), [*clicks(50, 2, seed=3), *late])
    before = rolled.seen()["by_hour"]
    assert rolled.load(unit(2), table="clicks") == 1
    assert rolled.states(unit(2)) == [UnitState.LANDED]
    assert rolled.load_all(unit(2)) == {"clicks": 0, "by_user": 1, "by_hour": 1 + 3}
    assert rolled.seen() == rolled.expected()
    assert rolled.seen()["by_hour"][0] != before[0]

    # The source is loaded again: the same rows, another commit.
    assert rolled.load(unit(0), table="clicks", mode="reload") == 1
    assert rolled.states(unit(0), unit(1)) == [UnitState.STALE, UnitState.COMPLETE]
    units = (*first, unit(2))
    assert rolled.load_all(*units) == {"clicks": 0, "by_user": 1, "by_hour": 1 + 1}

    # A reland of the late slice takes the late events away: one hour is made without them, one is gone.
    rolled.land(unit(2), clicks(10, 2, seed=9), generation=2)
    assert rolled.load_all(*units) == {"clicks": 1, "by_user": 1, "by_hour": 1 + 3}
    assert rolled.seen() == rolled.expected()
    assert rolled.load_all(*units, mode="reload", token="t")["by_user"] == 4
    assert rolled.load_all(*units, mode="reload", token="t") == {"clicks": 0, "by_user": 0, "by_hour": 0}
    assert rolled.seen() == rolled.expected()
    assert rolled.states(*units) == [UnitState.COMPLETE] * 4
    assert anomalies(rolled) == []


class StoppedError(Exception):
    """Of a load, right after one of its steps."""


@pytest.mark.parametrize(
    ("loaded", "at"),
    [(True, TableLoad.REVOKED), (True, TableLoad.DELETED), (False, TableLoad.MOVED)],
)
def test_an_hour_that_its_unit_has_left_is_made_after_a_load_that_stopped(
    rolled: Rolled, monkeypatch, loaded: bool, at: TableLoad
):
    """A reland took late events of the first hour away, after or before the load that was stopped: no row of
    the source and no commit says that the unit had to do with the hour."""
    rolled.land(unit(0), clicks(50))
    rolled.land(unit(1), [*clicks(30, 1, seed=2), *clicks(20, 5, seed=3)])
    late, whole = (unit(0), unit(1)), clicks(30, 1, seed=2)
    if loaded:
        rolled.load_all(*late)
        rolled.land(unit(1), whole, generation=2)
    rolled.load(*late, table="clicks")

    def stop(step: object) -> None:
        if step is at:
            raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(crash_points, "reached", stop)
        with pytest.raises(StoppedError):
            rolled.load(*late, table="by_hour")
    if not loaded:
        rolled.land(unit(1), whole, generation=2)
    rolled.load_all(*late)
    assert rolled.seen() == rolled.expected()
    assert rolled.states(*late) == [UnitState.COMPLETE] * 2
    assert anomalies(rolled) == []
    assert rolled.load_all(*late) == {"clicks": 0, "by_user": 0, "by_hour": 0}


def anomalies(rolled: Rolled) -> list:
    pipeline, world = rolled.pipeline(), rolled.world
    slices = SliceRange(START, START.add(hours=4))
    found = []
    for target in (t for t in pipeline.targets if t.rollup):
        ledger = committed(world.client, pipeline, world.lake.url, target)
        held: TableFacts = read_target(world.client, pipeline, target, ledger, SliceSpan.of(slices))
        facts = VerifyFacts(pipeline, slices, START, Boundaries(), (), whole=True)
        found += check_rollup(facts, held, Repairs("p"))
    return found


def test_verify_counts_the_rows_of_rollups(rolled: Rolled):
    rolled.land(unit(0), clicks(60))
    rolled.load_all(unit(0))
    assert anomalies(rolled) == []
    rolled.world.sql("ALTER TABLE {db}.by_hour DELETE WHERE 1 SETTINGS mutations_sync = 2")
    (anomaly,) = anomalies(rolled)
    assert (anomaly.kind, anomaly.seen, anomaly.slice) == ("rows missing", "0", "2026-11-20T10Z")
    rolled.load(unit(0), table="by_hour", mode="reload")
    assert anomalies(rolled) == []


def test_a_changed_select_makes_its_commits_stale(rolled: Rolled):
    rolled.land(unit(0), clicks(60))
    rolled.load_all(unit(0))
    file = rolled.world.root / "by_user.sql"
    file.write_text(file.read_text().replace("any(u.plan)", "upper(any(u.plan))"))
    assert rolled.states(unit(0)) == [UnitState.STALE]
    assert rolled.load_all(unit(0)) == {"clicks": 0, "by_user": 1, "by_hour": 0}
    assert {row[3] for row in rolled.seen()["by_user"]} == {"FREE", "PAID", ""}


@pytest.mark.long
def test_a_source_that_changes_meanwhile_is_read_again(rolled: Rolled, monkeypatch):
    """Somebody reloads the source while the rollup reads it: nothing of what was read is committed."""
    rolled.land(unit(0), clicks(60))
    rolled.load(unit(0), table="clicks")
    pipeline = rolled.pipeline()

    def reload(step: object) -> None:
        if step is TableLoad.STAGED:
            monkeypatch.setattr(crash_points, "reached", lambda step: None)
            rolled.load(unit(0), table="clicks", mode="reload")

    for table in ("by_user", "by_hour"):
        monkeypatch.setattr(crash_points, "reached", reload)
        with pytest.raises(SourceChanged, match="make it again"):
            rolled.load(unit(0), table=table)
        target = next(t for t in pipeline.targets if t.name == table)
        assert committed(rolled.world.client, pipeline, rolled.world.lake.url, target) == {}
        rolled.load(unit(0), table=table)
    assert rolled.seen()["by_user"] == rolled.expected()["by_user"]
    assert rolled.states(unit(0)) == [UnitState.STALE], "the second reload came after the first rollup"
    rolled.load_all(unit(0))
    assert rolled.seen() == rolled.expected()
    assert rolled.states(unit(0)) == [UnitState.COMPLETE]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("ALTER TABLE {db}.by_user DROP COLUMN plan", "ADD COLUMN `plan` String"),
        ("DROP TABLE {db}.by_user SYNC", "CREATE TABLE .* EMPTY AS SELECT"),
        ("DROP TABLE {db}.users SYNC", "its SELECT fails"),
    ],
)
def test_a_rollup_that_cannot_be_made_is_refused(rolled: Rolled, change: str, says: str):
    rolled.world.sql(change)
    with pytest.raises(TargetRefused, match=says):
        rolled.load(unit(0), table="by_user")


def test_the_table_that_a_refusal_creates_takes_the_rollup(rolled: Rolled):
    rolled.land(unit(0), clicks(60))
    rolled.load(unit(0), table="clicks")
    rolled.world.sql("DROP TABLE {db}.by_user SYNC")
    with pytest.raises(TargetRefused) as refusal:
        rolled.load(unit(0), table="by_user")
    rolled.world.sql("CREATE TABLE" + str(refusal.value).split("CREATE TABLE")[1])
    rolled.load(unit(0), table="by_user")
    assert rolled.seen()["by_user"] == rolled.expected()["by_user"]


# What the SELECT gives, the column's type, and the value that the refusal names.
TOO_MUCH = [
    ("count() + 300", "UInt8", "306"),
    ("toDateTime64('2200-01-01 00:00:00', 3, 'UTC')", "DateTime('UTC')", "2200-01-01 00:00:00.000"),
    ("toDateTime64('1960-01-01 00:00:00', 3, 'UTC')", "DateTime('UTC')", "1960-01-01 00:00:00.000"),
    ("repeat('9', 41)", "Int128", "9" * 41),
    ("123456.5", "Decimal(5, 1)", "123456.5"),
    ("1.239", "Decimal(9, 2)", "1.239"),
    ("'2026-02-30'", "Date", "2026-02-30"),
    ("0.9", "Bool", "0.9"),
    ("toUInt64(70000)", "SimpleAggregateFunction(max, UInt16)", "70000"),
    ("[toUInt64(1), 256]", "Array(UInt8)", "[1,256]"),
    ("nullIf(1, 1)", "UInt8", "NULL"),
    ("[1, nullIf(toUInt8(1), 1)]", "Array(UInt8)", "[1,NULL]"),
    ("[[nullIf(toUInt8(1), 1)], []]", "Array(Array(UInt8))", "[[NULL],[]]"),
    ("map('a', nullIf(toUInt8(1), 1))", "Map(String, UInt8)", "{'a':NULL}"),
    ("[(nullIf(toUInt8(1), 1), 'b')]", "Array(Tuple(UInt8, String))", "[(NULL,'b')]"),
]


@pytest.mark.parametrize(("given", "kind", "value"), per_commit(TOO_MUCH, 3), ids=lambda text: text[:30])
def test_a_value_that_does_not_fit_stops_the_rollup(rolled: Rolled, given: str, kind: str, value: str):
    rolled.world.sql(f"ALTER TABLE {{db}}.by_user ADD COLUMN more {kind}")
    rolled.land(unit(0), clicks(30))
    rolled.load_all(unit(0))
    file = rolled.world.root / "by_user.sql"
    file.write_text(file.read_text().replace("count() AS clicks", f"count() AS clicks, {given} AS more"))
    with pytest.raises(TargetRefused, match="column more has type") as refusal:
        rolled.load(unit(0), table="by_user")
    assert f"type {kind}, which a value that its SELECT gives of slice" in str(refusal.value)
    assert repr(value) not in str(refusal.value)
    assert rolled.seen()["by_user"] == rolled.expected()["by_user"], "the older rows are as they were"
    assert rolled.states(unit(0)) == [UnitState.STALE]


def test_values_that_fit_arrive_as_they_are(rolled: Rolled):
    columns = {
        "day": ("toDate(min(at))", "Date32", "2026-11-20"),
        "earliest": ("min(at)", "DateTime64(3, 'UTC')", None),
        "ratio": ("toFloat64(0.25)", "Decimal(9, 2)", "0.25"),
        "word": ("'12'", "UInt16", "12"),
        "parts": ("map('a', [toUInt64(255)])", "Map(LowCardinality(String), Array(UInt8))", "{'a':[255]}"),
        "pair": ("tuple(toInt64(7), 'x')", "Tuple(n UInt8, t String)", "(7,'x')"),
        "most": ("toUInt64(65535)", "SimpleAggregateFunction(max, UInt16)", "65535"),
        **{name: (f"'{name}'", "String", name) for name in ("g0", "v1", "m2")},  # as the statement has them
    }
    for name, (_, kind, _) in columns.items():
        rolled.world.sql(f"ALTER TABLE {{db}}.by_user ADD COLUMN {name} {kind}")
    rolled.world.sql("ALTER TABLE {db}.by_user ADD COLUMN uniques AggregateFunction(uniqExact, String)")
    given = ", ".join(f"{expression} AS {name}" for name, (expression, _, _) in columns.items())
    file = rolled.world.root / "by_user.sql"
    text = f"count() AS clicks, {given}, uniqExactState(page) AS uniques"
    file.write_text(file.read_text().replace("count() AS clicks", text))
    rolled.land(unit(0), clicks(60))
    rolled.load_all(unit(0))
    assert rolled.seen() == rolled.expected()
    for name, (_, _, expected) in columns.items():
        if expected is not None:
            assert rolled.world.sql(f"SELECT DISTINCT toString({name}) FROM {{db}}.by_user") == [(expected,)]
    earliest = (
        "SELECT user, toUnixTimestamp(min(at)), uniqExact(page) FROM {db}.clicks GROUP BY user ORDER BY user"
    )
    kept = (
        "SELECT user, toUnixTimestamp(earliest), finalizeAggregation(uniques) FROM {db}.by_user ORDER BY user"
    )
    assert rolled.world.sql(kept) == rolled.world.sql(earliest)


def test_a_select_leaves_values_out_before_they_are_cast(rolled: Rolled):
    rolled.world.sql(f"CREATE TABLE {{db}}.few (ms UInt8, {KEYS}) ENGINE = MergeTree ORDER BY ms")
    file = rolled.world.root / "by_user.sql"
    file.write_text("SELECT ms FROM {source} WHERE ms < 256")
    rolled.world.sql("RENAME TABLE {db}.by_user TO {db}.old, {db}.few TO {db}.by_user")
    rolled.land(unit(0), clicks(300))
    rolled.load(unit(0), table="clicks")
    rolled.load(unit(0), table="by_user")
    expected = sorted(n for n in (json.loads(e.payload)["ms"] for e in rolled.landed[unit(0)]) if n < 256)
    assert [n for (n,) in rolled.world.sql("SELECT ms FROM {db}.by_user ORDER BY ms")] == expected


def test_types_that_say_different_things_are_refused(rolled: Rolled):
    rolled.world.sql("ALTER TABLE {db}.by_user MODIFY COLUMN plan UUID")
    rolled.world.sql("ALTER TABLE {db}.by_user ADD COLUMN at UInt32")
    file = rolled.world.root / "by_user.sql"
    file.write_text(file.read_text().replace("count() AS clicks", "count() AS clicks, min(at) AS at"))
    with pytest.raises(TargetRefused, match="at as DateTime.'UTC'., of which not every value can be UInt32"):
        rolled.load(unit(0), table="by_user")
