"""Rollups on a real server: right after reruns, late events and relands, and never behind their source."""

from __future__ import annotations

import re

import pytest

from sluice import crash_points
from sluice.crash_points import TableLoad
from sluice.errors import Changed, TargetRefused
from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.check_tables import check_rollup
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.read_tables import SliceSpan, read_target
from sluice.flow.verify.repairs import Repairs
from sluice.slices import SliceRange
from sluice.state.boundaries.model import Boundaries
from sluice.state.ledger import committed
from sluice.state.unit_state import UnitState
from tests.integration.landed import START, World, client_of, unit
from tests.integration.rolled import Rolled, clicks
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration


@pytest.fixture
def rolled(clickhouse_server, tmp_path, name) -> Rolled:
    made = Rolled(World(tmp_path, client_of(clickhouse_server), name))
    made.create()
    yield made
    made.world.sql("DROP DATABASE {db} SYNC")


@pytest.mark.long
def test_late_events_reruns_and_relands_leave_rollups_right(rolled: Rolled):
    rolled.land(unit(0), clicks(90))
    rolled.land(unit(1), clicks(40, 1, seed=2))
    rolled.land(unit(0, "dc2"), clicks(30, seed=5))
    first = (unit(0), unit(1), unit(0, "dc2"))
    assert rolled.load_all(*first) == {"clicks": 3, "by_user": 3, "by_hour": 3}
    assert rolled.seen() == rolled.expected()
    assert rolled.load_all(*first) == {"clicks": 0, "by_user": 0, "by_hour": 0}
    assert rolled.states(*first) == [UnitState.COMPLETE] * 3

    # Late: a later slice brings events of the first hour. They are in rows of their own, of that slice.
    late = [*clicks(25, 0, seed=4), *clicks(5, 5, seed=6)]
    rolled.land(unit(2), [*clicks(50, 2, seed=3), *late])
    assert rolled.load(unit(2), table="clicks") == 1
    assert rolled.states(unit(2)) == [UnitState.LANDED]
    assert rolled.load_all(unit(2)) == {"clicks": 0, "by_user": 1, "by_hour": 1}
    assert rolled.seen() == rolled.expected()

    # The source is loaded again: the same rows, another commit.
    assert rolled.load(unit(0), table="clicks", mode="reload") == 1
    assert rolled.states(unit(0), unit(1)) == [UnitState.STALE, UnitState.COMPLETE]
    units = (*first, unit(2))
    assert rolled.load_all(*units) == {"clicks": 0, "by_user": 1, "by_hour": 1}

    # A reland of the late slice takes the late events away.
    rolled.land(unit(2), clicks(10, 2, seed=9), generation=2)
    assert rolled.load_all(*units) == {"clicks": 1, "by_user": 1, "by_hour": 1}
    assert rolled.seen() == rolled.expected()
    assert rolled.load_all(*units, mode="reload", token="t")["by_user"] == 4
    assert rolled.load_all(*units, mode="reload", token="t") == {"clicks": 0, "by_user": 0, "by_hour": 0}
    assert rolled.seen() == rolled.expected()
    assert rolled.states(*units) == [UnitState.COMPLETE] * 4
    assert anomalies(rolled) == []


def anomalies(rolled: Rolled) -> list[Anomaly]:
    """Of the rows of the rollups in the first four hours, as verify counts them."""
    pipeline, world = rolled.pipeline(), rolled.world
    slices = SliceRange(START, START.add(hours=4))
    held = tuple(
        read_target(
            world.client,
            pipeline,
            target,
            committed(world.client, pipeline, world.lake.url, target),
            SliceSpan.of(slices),
        )
        for target in pipeline.targets
    )
    units = tuple(rolled.statuses(*rolled.landed))
    facts = VerifyFacts(pipeline, slices, START, Boundaries(), units, whole=True, tables=held)
    rollups = [table for table in held if table.table in pipeline.rollups]
    return [anomaly for table in rollups for anomaly in check_rollup(facts, table, Repairs("p"))]


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
        with pytest.raises(Changed, match="make it again"):
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
    per_commit(
        [
            ("ALTER TABLE {db}.by_user DROP COLUMN plan", "ADD COLUMN `plan` String"),
            ("DROP TABLE {db}.by_user SYNC", "CREATE TABLE .* EMPTY AS SELECT"),
            ("DROP TABLE {db}.users SYNC", "its SELECT fails"),
        ]
    ),
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


# What the SELECT gives, and a column that is of another type.
OTHER_TYPES = [
    ("count() + 300", "UInt8"),
    ("toUInt8(1)", "UInt16"),
    ("toDateTime64('2200-01-01 00:00:00', 3, 'UTC')", "DateTime('UTC')"),
    ("toDateTime64('2026-01-01 00:00:00', 3, 'UTC')", "DateTime64(6, 'UTC')"),
    ("'2026-02-30'", "Date"),
    ("toDecimal32(1, 3)", "Decimal(9, 2)"),
    ("toUInt8(1)", "Bool"),
    ("toUInt64(1)", "SimpleAggregateFunction(max, UInt16)"),
    ("nullIf(toUInt8(1), 1)", "UInt8"),
    ("[nullIf(toUInt8(1), 1)]", "Array(UInt8)"),
    ("map('a', nullIf(toUInt8(1), 1))", "Map(String, UInt8)"),
    ("CAST((1, 'b'), 'Tuple(n UInt8, t String)')", "Tuple(t UInt8, n String)"),
    ("uniqExactState(user)", "AggregateFunction(uniqExact, Nullable(String))"),
]


@pytest.mark.long
@pytest.mark.parametrize(("given", "kind"), per_commit(OTHER_TYPES, 4), ids=lambda text: text[:30])
def test_another_type_stops_the_rollup_before_anything_is_removed(rolled: Rolled, given: str, kind: str):
    rolled.world.sql(f"ALTER TABLE {{db}}.by_user ADD COLUMN more {kind}")
    rolled.land(unit(0), clicks(30))
    rolled.load_all(unit(0))
    file = rolled.world.root / "by_user.sql"
    file.write_text(file.read_text().replace("count() AS clicks", f"count() AS clicks, {given} AS more"))
    with pytest.raises(
        TargetRefused, match=f"its SELECT gives column more as .*, the table has {re.escape(kind)}"
    ):
        rolled.load(unit(0), table="by_user")
    assert rolled.seen()["by_user"] == rolled.expected()["by_user"], "the older rows are as they were"
    assert rolled.states(unit(0)) == [UnitState.STALE]


@pytest.mark.long
def test_what_the_refusal_of_a_type_says_is_true(rolled: Rolled):
    """A cast to fewer digits cuts without an error; a column of the SELECT's type takes all."""
    moment = "toDateTime64('2026-01-01 00:00:00.25', 3, 'UTC')"
    rolled.world.sql("ALTER TABLE {db}.by_user ADD COLUMN more DateTime('UTC')")
    rolled.land(unit(0), clicks(30))
    file = rolled.world.root / "by_user.sql"
    select = file.read_text()
    file.write_text(select.replace("count() AS clicks", f"count() AS clicks, {moment} AS more"))
    said = "the table has DateTime.*; let .*by_user.sql give that, or the column have the SELECT's type"
    with pytest.raises(TargetRefused, match=said):
        rolled.load_all(unit(0))
    assert rolled.world.sql(f"SELECT accurateCast({moment}, 'DateTime')::String") == [
        ("2026-01-01 00:00:00",)
    ]
    rolled.world.sql("ALTER TABLE {db}.by_user MODIFY COLUMN more DateTime64(3, 'UTC')")
    rolled.load_all(unit(0))
    rows = rolled.world.sql("SELECT DISTINCT toString(more) FROM {db}.by_user")
    assert rows == [("2026-01-01 00:00:00.250",)]


@pytest.mark.long
def test_a_select_without_a_name_that_a_column_can_have(rolled: Rolled):
    rolled.land(unit(0), clicks(30))
    file = rolled.world.root / "by_user.sql"
    file.write_text(file.read_text().replace("count() AS clicks", "count() AS clicks, 1 AS _part"))
    with pytest.raises(TargetRefused, match=r"rename it in .*by_user.sql: names that begin with _ are"):
        rolled.load_all(unit(0))


def test_values_arrive_as_they_are(rolled: Rolled):
    columns = {
        "day": ("toDate(min(at))", "Date", "2026-11-20"),
        "moment": ("toDateTime('2026-11-20 10:00:00', 'Asia/Tokyo')", "Nullable(DateTime('UTC'))", None),
        "word": ("toLowCardinality('12')", "String", "12"),
        "low": ("'12'", "LowCardinality(Nullable(String))", "12"),
        "parts": (
            "map('a', [toUInt64(255)])",
            "Map(LowCardinality(String), Array(Nullable(UInt64)))",
            "{'a':[255]}",
        ),
        "pair": ("CAST((7, 'x'), 'Tuple(n UInt8, t String)')", "Tuple(n UInt8, t String)", "(7,'x')"),
        "most": ("toUInt64(65535)", "SimpleAggregateFunction(max, UInt64)", "65535"),
        # As the statement has them.
        **{name: (f"'{name}'", "String", name) for name in ("g0", "v1", "m2", "sluice_key")},
        "sluice_given": ("CAST(tuple('x'), 'Tuple(word String)')", "Tuple(word String)", "('x')"),
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
    assert rolled.world.sql("SELECT DISTINCT toUnixTimestamp(moment) FROM {db}.by_user") == [(1795136400,)]
    pages = "SELECT user, uniqExact(page) FROM {db}.clicks GROUP BY user ORDER BY user"
    kept = "SELECT user, finalizeAggregation(uniques) FROM {db}.by_user ORDER BY user"
    assert rolled.world.sql(kept) == rolled.world.sql(pages)
