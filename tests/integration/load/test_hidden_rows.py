"""What hides rows from the loader's user is found before anything is revoked: by load, doctor and verify."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections import Connection
from sluice.config.pipeline import Pipeline
from sluice.doctor.check import Level
from sluice.doctor.clickhouse import clickhouse_checks
from sluice.errors import SluiceError, TargetRefused
from sluice.flow.verify.audit import audit
from sluice.slices import SliceRange
from tests.integration.landed import START, World, event, land, unit

pytestmark = pytest.mark.integration

HOUR = SliceRange(START, START.add(hours=1))
KEYS = "_offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)"
TABLES = (
    f"CREATE TABLE db.clicks (n UInt32, {KEYS}) ENGINE = MergeTree ORDER BY n",
    f"CREATE TABLE db.sums (n UInt64, {KEYS}) ENGINE = MergeTree ORDER BY n",
    "CREATE MATERIALIZED VIEW db.to_sums TO db.sums AS SELECT toUInt64(n) AS n, _offset, _slice, _cluster "
    "FROM db.clicks",
)
HIDING = {
    "target": ("db", "clicks", "n &lt; 5"),
    "nothing_now": ("db", "clicks", "n &lt; 1000"),
    "view": ("db", "sums", "n &lt; 5"),
    "ledger": ("sluice", "ledger", "rows > 100"),
    "rejected": ("sluice", "rejected", "0"),
    "claims": ("sluice", "targets", "pipeline != 'p'"),
}
"""By user: the place of a row policy, and the rows that it shows."""
OPEN = {"all_shown": ("db", "clicks", "1")}
_NETWORK = "<networks><ip>127.0.0.1</ip></networks>"


def users() -> str:
    logins = [f"<default><password/><profile>default</profile>{_NETWORK}</default>"]
    for name, (database, table, shown) in {**HIDING, **OPEN}.items():
        policy = f"<{database}><{table}><filter>{shown}</filter></{table}></{database}>"
        logins.append(
            f"<{name}><password/><profile>default</profile>{_NETWORK}<databases>{policy}</databases></{name}>"
        )
    for profile in ("filtered", "fixed"):
        logins.append(f"<{profile}><password/><profile>{profile}</profile>{_NETWORK}</{profile}>")
    hidden = "<additional_table_filters>{'db.clicks': 'n &lt; 5'}</additional_table_filters>"
    const = "<constraints><additional_table_filters><const/></additional_table_filters></constraints>"
    profiles = f"<default/><filtered>{hidden}</filtered><fixed>{hidden}{const}</fixed>"
    return f"<clickhouse><profiles>{profiles}</profiles><users>{''.join(logins)}</users></clickhouse>"


@pytest.fixture
def server(start_clickhouse_server):
    return start_clickhouse_server(users=users())


@pytest.fixture
def as_user(server, tmp_path, monkeypatch):
    def world(login: str) -> World:
        monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", f"clickhouse://{login}@127.0.0.1:{server.port}")
        client = open_client(Connection(login, host="127.0.0.1", port=server.port, login=login))
        return World(tmp_path, client, "db")

    return world


def begun(world: World, rows: int = 10) -> Pipeline:
    world.client.run("CREATE DATABASE db")
    for statement in TABLES:
        world.client.run(statement)
    land(world.lake, unit(), [*(event(n=n) for n in range(rows)), event(n="no number")])
    return world.pipeline({"click": "clicks"})


def held(world: World) -> tuple:
    counts = "SELECT (SELECT count() FROM db.clicks), (SELECT count() FROM db.sums)"
    ledger = "SELECT generation, attempt, rows FROM sluice.ledger WHERE slice = '2026-11-20 10:00:00'"
    return world.client.rows(counts), sorted(world.client.rows(ledger))


@pytest.mark.long
def test_nothing_is_revoked_where_rows_are_hidden(as_user):
    root = as_user("default")
    pipeline = begun(root)
    root.load(pipeline, unit())
    before = held(root)
    assert before[0] == [(10, 10)]
    for login, (database, table, _) in HIDING.items():
        mine = as_user(login)
        place = f"table {database}.{table}: user {login} sees only some of its rows"
        for mode in ("reload", "fill"):
            with pytest.raises(TargetRefused) as refused:
                mine.load(pipeline, unit(), mode=mode)
            assert str(refused.value).startswith(place), login
            assert f"USING 1 TO `{login}`" in str(refused.value)
        with pytest.raises(TargetRefused) as refused:
            audit(pipeline, HOUR)
        assert str(refused.value).startswith(place), login
        checks = clickhouse_checks(mine.client, pipeline, mine.lake.url)
        failed = [check for check in checks if check.level is Level.FAIL]
        assert [check.place for check in failed] == [f"{database}.{table}"], login
        assert held(root) == before
    for login in ("default", "filtered", *OPEN):
        mine = as_user(login)
        mine.load(pipeline, unit(), mode="reload")
        assert held(root)[0] == [(10, 10)], login
        levels = {check.level for check in clickhouse_checks(mine.client, pipeline, mine.lake.url)}
        assert Level.FAIL not in levels, login


def test_a_filter_that_the_profile_fixes_opens_no_connection(as_user):
    root = as_user("default")
    root.load(begun(root), unit())
    with pytest.raises(SluiceError, match="additional_table_filters"):
        as_user("fixed").client.rows("SELECT 1")


def test_a_first_load_into_an_empty_table_names_the_cause(as_user):
    """Of a table without rows no read is planned, so that nothing is seen before there are some."""
    root = as_user("default")
    pipeline = begun(root)
    for login in ("target", "view"):
        with pytest.raises(TargetRefused, match=f"user {login} sees only some of its rows"):
            as_user(login).load(pipeline, unit())
        assert held(root)[1] == []
        as_user("default").load(pipeline, unit())
        assert held(root)[0] == [(10, 10)]
        for name in ("db.clicks", "db.sums", "sluice.ledger"):
            root.client.run(f"TRUNCATE TABLE {name}")
