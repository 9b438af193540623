"""Tables of materialized views: `verify --contents` names what somebody has changed, added or taken away, and
says of which tables and columns it cannot."""

from __future__ import annotations

import pytest

from tests.faults.damage import Damaged
from tests.integration.landed import client_of
from tests.support.landing_world import START

pytestmark = pytest.mark.faults

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
BY_UNIT = "ORDER BY (_slice, _cluster"
OWN = "_slice, _cluster, n % 4 AS k"
# By table: its columns, its engine, and the SELECT of its view.
VIEWS = {
    "rows": (
        "n UInt16, name String",
        "MergeTree ORDER BY tuple()",
        "_slice, _cluster, n, toString(n) AS name",
    ),
    "some": ("name String", "MergeTree ORDER BY tuple()", "_slice, _cluster, upper(toString(n)) AS name"),
    "tags": (
        "n UInt16, tag UInt64",
        "MergeTree ORDER BY tuple()",
        "_slice, _cluster, n, tag FROM {db}.clicks ARRAY JOIN range(n % 3 + 1) AS tag",
    ),
    "most": (
        "k UInt16, most UInt16",
        "MergeTree ORDER BY tuple()",
        f"{OWN}, max(n) AS most FROM {{db}}.clicks GROUP BY ALL",
    ),
    "mean": (
        "k UInt16, mean Float64",
        "MergeTree ORDER BY tuple()",
        f"{OWN}, avg(n) AS mean FROM {{db}}.clicks GROUP BY ALL",
    ),
    "once": ("k UInt16", f"ReplacingMergeTree {BY_UNIT}, k)", f"DISTINCT {OWN}"),
    "last": (
        "k UInt16, n UInt16, name String",
        f"ReplacingMergeTree(n) {BY_UNIT}, k)",
        f"{OWN}, n, toString(n) AS name",
    ),
    "totals": (
        "k UInt16, total Decimal(18, 4), third Float64",
        f"SummingMergeTree {BY_UNIT}, k)",
        f"{OWN}, sum(n) AS total, sum(n / 3) AS third FROM {{db}}.clicks GROUP BY ALL HAVING count() > 0",
    ),
    "nested": (
        "total Decimal(38, 4)",
        f"SummingMergeTree {BY_UNIT})",
        "_slice, _cluster, sum(total) AS total FROM {db}.totals GROUP BY ALL",
    ),
    "states": (
        "k UInt16, users AggregateFunction(uniq, UInt16), third AggregateFunction(sum, Float64), "
        "most SimpleAggregateFunction(max, UInt16)",
        f"AggregatingMergeTree {BY_UNIT}, k)",
        f"{OWN}, uniqState(n) AS users, sumState(n / 3) AS third, max(n) AS most "
        "FROM {db}.clicks GROUP BY ALL",
    ),
    "joined": (
        "n UInt16, name String",
        "MergeTree ORDER BY tuple()",
        "c._slice AS _slice, c._cluster AS _cluster, c.n AS n, d.name AS name "
        "FROM {db}.clicks AS c LEFT JOIN {db}.dim AS d ON c.n = d.n",
    ),
    "looked_up": (
        "n UInt16, name String",
        "MergeTree ORDER BY tuple()",
        "c._slice AS _slice, c._cluster AS _cluster, c.n AS n, d.name AS name "
        "FROM {db}.clicks AS c INNER JOIN {db}.dim AS d ON c.n % 3 = d.n",
    ),
    "clocked": (
        "n UInt16, at DateTime",
        "MergeTree ORDER BY tuple()",
        "_slice, _cluster, n, now() AS at",
    ),
}
TWICE = (
    f"CREATE TABLE {{db}}.both (n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY tuple()",
    *(
        f"CREATE MATERIALIZED VIEW {{db}}.both_{name} TO {{db}}.both AS "
        f"SELECT _slice, _cluster, n FROM {{db}}.clicks WHERE {which}"
        for name, which in (("low", "n < 11"), ("high", "n > 10"))
    ),
)


class Viewed(Damaged):
    def make_tables(self) -> None:
        super().make_tables()
        self.sql("CREATE TABLE {db}.dim (n UInt16, name String) ENGINE = MergeTree ORDER BY tuple()")
        self.sql("INSERT INTO {db}.dim VALUES (1, 'one'), (2, 'two')")
        for name, (columns, engine, select) in VIEWS.items():
            self.sql(f"CREATE TABLE {{db}}.{name} ({columns}, {KEYS}) ENGINE = {engine}")
            source = "" if " FROM " in select else " FROM {db}.clicks"
            view = f"CREATE MATERIALIZED VIEW {{db}}.{name}_view TO {{db}}.{name} AS SELECT {select}{source}"
            self.sql(view)
        for statement in TWICE:
            self.sql(statement)


def at(hour: int) -> str:
    return f"_slice = toDateTime({int(START.add(hours=hour).timestamp())}, 'UTC')"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict:
    return {"folder": tmp_path_factory.mktemp("views"), "made": False}


@pytest.fixture
def viewed(built, clickhouse_server, monkeypatch, capsys) -> Viewed:
    """Made once; every test leaves it as it found it, and says so by verifying."""
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    world = Viewed(built["folder"], client_of(clickhouse_server), "damage_views", monkeypatch, capsys)
    if not built["made"]:
        world.make()
        built["made"] = True
    return world


@pytest.mark.long
def test_what_is_whole_has_no_anomaly_whatever_was_merged(viewed: Viewed):
    assert viewed.verify("--contents") == []
    for name in (*VIEWS, "both", "clicks"):
        viewed.sql(f"OPTIMIZE TABLE {{db}}.{name} FINAL")
    assert viewed.verify("--contents") == []


HERE = at(2)
CHANGED = (
    "rows UPDATE name = 'changed' WHERE n = 11",
    "tags UPDATE tag = 9 WHERE n = 11",
    "totals UPDATE total = total + (k = 0) - (k = 1) WHERE 1",  # the sum of all stays
    "nested UPDATE total = total + 1 WHERE 1",
    "states UPDATE most = 60000 WHERE k = 1",
    "last UPDATE name = 'changed' WHERE k = 1",
    "both UPDATE n = 3 WHERE n = 1",
)
GONE = (
    *(f"{name} DELETE WHERE n = 11" for name in ("rows", "tags", "joined", "clocked")),
    *(f"{name} DELETE WHERE k = 1" for name in ("most", "mean", "once", "last", "totals", "states")),
    "some DELETE WHERE name = '11'",
    "both DELETE WHERE n = 12",
    "nested DELETE WHERE 1",
)
ADDED = {
    "rows": "SELECT * FROM {db}.rows WHERE n = 11 AND ",
    "some": "SELECT * FROM {db}.some WHERE name = '11' AND ",
    "tags": "SELECT * FROM {db}.tags WHERE n = 11 AND ",
    "most": "SELECT 77, most, _slice, _cluster FROM {db}.most WHERE k = 1 AND ",
    "mean": "SELECT 77, mean, _slice, _cluster FROM {db}.mean WHERE k = 1 AND ",
    "once": "SELECT 77, _slice, _cluster FROM {db}.once WHERE k = 1 AND ",
    # Of the newest version: a row that no view gave.
    "last": "SELECT k, max(n) + 1, 'added', _slice, _cluster FROM {db}.last WHERE k = 1 GROUP BY ALL HAVING ",
    "totals": "SELECT 77, 1, 0, _slice, _cluster FROM {db}.totals WHERE k = 1 AND ",
    "nested": "SELECT 1, _slice, _cluster FROM {db}.totals WHERE k = 1 AND ",
    "states": "SELECT k, uniqState(toUInt16(999)), sumState(toFloat64(0)), max(most), _slice, _cluster "
    "FROM {db}.states WHERE k = 1 GROUP BY ALL HAVING ",
    "joined": "SELECT 77, name, _slice, _cluster FROM {db}.joined WHERE n = 11 AND ",
    "clocked": "SELECT * FROM {db}.clocked WHERE n = 11 AND ",
    "both": "SELECT * FROM {db}.both WHERE n = 1 AND ",
}


def expect_found(viewed: Viewed, names: set[str]) -> None:
    anomalies = viewed.verify("--contents")
    assert {a["table"] for a in anomalies} == {f"damage_views.{name}" for name in names}
    assert {a["slice"] for a in anomalies} == {"2026-01-01T02Z"}
    viewed.repair(anomalies)
    assert viewed.verify("--contents") == []


@pytest.mark.long
@pytest.mark.parametrize("changes", [CHANGED, GONE], ids=["changed", "gone"])
def test_rows_that_somebody_has_changed_or_taken_away(viewed: Viewed, changes: tuple[str, ...]):
    for change in changes:
        viewed.sql(f"ALTER TABLE {{db}}.{change} AND {HERE} SETTINGS mutations_sync = 2")
    expect_found(viewed, {change.split()[0] for change in changes})


@pytest.mark.long
def test_rows_that_somebody_has_added(viewed: Viewed):
    for name, select in ADDED.items():
        viewed.sql(f"INSERT INTO {{db}}.{name} {select}{HERE} LIMIT 1")
    expect_found(viewed, set(ADDED))


@pytest.mark.long
def test_what_cannot_be_compared_is_said(viewed: Viewed):
    """Of a SELECT that reads more than its source, and of what the order of rows and their blocks decide."""

    def said() -> set[str]:
        """Whether the clock's table differs, or its column comes out otherwise, depends on the second."""
        code, out = viewed.command(f"sluice verify ads --config {viewed.config} --contents --verbose")
        lines = [line.partition("table damage_views.")[2] for line in out.splitlines()]
        told = {line for line in lines if "not compared" in line or "gives other rows" in line}
        clocked = {line for line in told if line.startswith("clocked: ")}
        assert code == 0 and clocked, out
        return {line.partition(" of 4 slices now")[0] for line in told - clocked}

    state = "AggregateFunction(sum, Float64) depends on the order of rows"
    ordered = {
        "totals: column third is not compared: a Float64 depends on the order of rows",
        f"states: column third is not compared: a {state}",
        f"means: column third is not compared: a {state}",
        f"means: column seventh is not compared: a Simple{state}",
    }
    assert said() == ordered
    viewed.sql("ALTER TABLE {db}.dim UPDATE name = 'new' WHERE 1 SETTINGS mutations_sync = 2")
    viewed.sql("ALTER TABLE {db}.dim DELETE WHERE n = 2 SETTINGS mutations_sync = 2")
    for change in ("most UPDATE most = most + 1", "mean UPDATE mean = mean + 1"):
        viewed.sql(f"ALTER TABLE {{db}}.{change} WHERE 1 SETTINGS mutations_sync = 2")
    other, blocks = (
        "its SELECT gives other rows",
        "how often a row is there is not compared: blocks of rows decide",
    )
    assert said() == {
        *ordered,
        *(f"{name}: {other}" for name in ("joined", "looked_up")),
        *(f"{name}: {blocks}" for name in ("most", "mean")),
        "mean: column mean is not compared: it depends on the order of rows",
        "most: column most is not compared: another evaluation of its SELECT over the same rows gives other "
        "values",
    }


@pytest.mark.long
def test_a_view_that_was_made_after_a_load(viewed: Viewed):
    """Its table lacks older slices, and rightly so; those that come later are compared."""
    table = f"CREATE TABLE {{db}}.young (n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY tuple()"
    viewed.sql(table)
    select = "SELECT _slice, _cluster, n FROM {db}.clicks"
    viewed.sql(f"CREATE MATERIALIZED VIEW {{db}}.young_view TO {{db}}.young AS {select}")
    edges = "--from 2026-01-01T02:00Z --to 2026-01-01T03:00Z"
    reload = f"sluice run ads --config {viewed.config} {edges} --mode reload"
    try:
        assert viewed.verify("--contents") == []
        assert viewed.command(reload)[0] == 0
        assert viewed.sql(f"SELECT count() FROM {{db}}.young WHERE {HERE}") == [(9,)]
        assert viewed.verify("--contents") == []
        viewed.sql(f"DELETE FROM {{db}}.young WHERE n = 11 AND {HERE}")
        expect_found(viewed, {"young"})
    finally:
        viewed.sql("DROP TABLE {db}.young_view SYNC")
        viewed.sql("DROP TABLE {db}.young SYNC")
        assert viewed.command(reload)[0] == 0, "the last load knows of no view that is gone"


@pytest.mark.long
def test_rows_of_no_slice_go_by_the_statement_that_is_printed(viewed: Viewed):
    """Of another cluster, between two slices and of the future; a lightweight DELETE refuses projections."""
    projected = ("clicks", "joined")
    for name in projected:
        viewed.sql(f"ALTER TABLE {{db}}.{name} ADD PROJECTION p (SELECT n, count() GROUP BY n)")
    try:
        for name in ("joined", "once", "both"):
            columns = "k" if name == "once" else "n"
            values = "(1, toDateTime('2026-01-01 02:15:00', 'UTC'), 'dc1'), (1, '2100-01-01 00:00:00', 'dc1')"
            viewed.sql(f"INSERT INTO {{db}}.{name} ({columns}, _slice, _cluster) VALUES {values}")
            foreign = f"SELECT 1, _slice, 'dc9' FROM {{db}}.clicks WHERE {HERE} LIMIT 1"
            viewed.sql(f"INSERT INTO {{db}}.{name} ({columns}, _slice, _cluster) {foreign}")
        anomalies = viewed.verify()
        assert {(a["kind"], a["command"]) for a in anomalies} == {("uncovered rows", "")}
        assert sorted((a["table"].partition(".")[2], a["slice"], a["cluster"]) for a in anomalies) == sorted(
            (name, *place)
            for name in ("joined", "once", "both")
            for place in (
                ("2026-01-01T02:15:00Z", "dc1"),
                ("2100-01-01T00Z", "dc1"),
                ("2026-01-01T02Z", "dc9"),
            )
        )
        for anomaly in anomalies:
            viewed.sql(anomaly["advice"].rpartition("if they are not needed: ")[2])
        assert viewed.verify("--contents") == []
    finally:
        for name in projected:
            viewed.sql(f"ALTER TABLE {{db}}.{name} DROP PROJECTION p")
