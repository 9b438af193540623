"""`--table` of run, plan and verify: that table is loaded with what belongs to it, and no other. Whole hours
are verified and published."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import pytest

from sluice.flow.batch_loop import one_by_one, run_batches
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.audit import AuditScope, audit
from sluice.plan.plan import work_of
from sluice.state.survey import survey
from tests.integration import foreign_events
from tests.integration.land.test_main_job import END, HOURS, RANGE, START, User, user
from tests.integration.landed import event, land, unit
from tests.integration.verify.test_shards_verified import COLUMNS, HOUR, OF_TABLES
from tests.support.shards_world import made, shards

pytestmark = pytest.mark.integration
__all__ = ["user"]
SYSTEM = "_slice DateTime('UTC'), _cluster LowCardinality(String), _partition Int32, _offset Int64"
FORKS = f"CREATE TABLE {{}}.forks (id String, {SYSTEM}) ENGINE = MergeTree ORDER BY _slice"
OWN = ("per_login", "push_traffic", "pushes", "seen", "views")


def create_tables(user: User) -> None:
    """`pushes` has a view and a rollup, and traffic counts of its type alone; `forks` is not there yet."""
    for table, columns in {
        "pushes": f"id UInt64, login String, {SYSTEM}",
        "other": f"_type String, _payload String, {SYSTEM}",
        "seen": "login String, n UInt64, _slice DateTime('UTC'), _cluster LowCardinality(String)",
        "per_login": "login String, n UInt64, _slice DateTime('UTC'), _cluster LowCardinality(String)",
        "push_traffic": "hour DateTime('UTC'), type LowCardinality(String), count UInt64, "
        "_slice DateTime('UTC'), _cluster LowCardinality(String)",
    }.items():
        user.client.command(
            f"CREATE TABLE {user.name}.{table} ({columns}) ENGINE = MergeTree ORDER BY _slice"
        )
    source = f"{user.name}.pushes GROUP BY login, _slice, _cluster"
    counted = f"SELECT login, count() AS n, _slice, _cluster FROM {source}"
    user.client.command(f"CREATE MATERIALIZED VIEW {user.name}.views TO {user.name}.seen AS {counted}")


def prepare(user: User, events: list[dict]) -> None:
    (user.folder / "per_login.sql").write_text("SELECT login, count() AS n FROM {source} GROUP BY login")
    rollup = {"from": f"{user.name}.pushes", "sql": "per_login.sql"}
    create_tables(user)
    user.write(
        tables={
            "PushEvent": {"table": f"{user.name}.pushes", "columns": {"login": "actor.login"}},
            "ForkEvent": f"{user.name}.forks",
            "*": f"{user.name}.other",
        },
        counts=[{"table": f"{user.name}.push_traffic", "types": ["PushEvent"]}],
        rollups={f"{user.name}.per_login": rollup},
    )
    user.do("publish", str(foreign_events.write(events, user.folder / "events.ndjson")))


def rows(user: User) -> dict[str, tuple]:
    """A fingerprint of every table's rows."""
    return {name: tuple(found) for name, *found in user.tables() if name != "views"}


def ledger(user: User, table: str) -> list[tuple]:
    """Every commit of it, also earlier ones."""
    where = f"target = '{user.name}.{table}'"
    return sorted(user.rows(f"SELECT * FROM sluice.ledger WHERE {where}"), key=str)


def marks(user: User) -> list[str]:
    return sorted(str(path.relative_to(user.lake)) for path in user.lake.glob("type=*/**/_SUCCESS"))


def kinds_open(user: User) -> set[str]:
    """Of the verdict that the page shows."""
    verdict = json.loads((user.lake / "_verify" / "latest.json").read_text())
    return {one["kind"] for one in verdict["anomalies"]}


def states(user: User) -> set[str]:
    return {one["state"] for one in json.loads(user.do("status", *RANGE, "--json"))["units"]}


def commands_refused(user: User, *words: str) -> str:
    done = user.type(*words)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.mark.long
def test_one_table_is_loaded_and_whole_hours_are_verified_and_published(user: User):
    events = foreign_events.make(START, HOURS, 600, seed=11)
    prepare(user, events)
    pushes = sorted((int(e["id"]), e["actor"]["login"]) for e in events if e["type"] == "PushEvent")
    assert "there is no such table" in user.type("run", *RANGE).stderr

    done = user.type("run", *RANGE, "--table", "PushEvent")
    assert (done.returncode, states(user), marks(user)) == (1, {"landed"}, []), done.stderr
    assert f"sluice: table missing: table {user.name}.forks: expected a table" in done.stderr
    assert sorted(user.rows("SELECT id, login FROM DB.pushes")) == pushes
    for table in ("seen", "per_login"):
        assert user.rows(f"SELECT sum(n) FROM DB.{table}") == [(len(pushes),)]
    assert user.rows("SELECT sum(count) FROM DB.push_traffic") == [(len(pushes),)]
    assert (user.rows("SELECT count() FROM DB.other"), ledger(user, "other")) == ([(0,)], [])
    before = rows(user)
    assert "nothing to do" in user.type("run", *RANGE, "--table", "pushes").stderr
    assert user.do("plan", *RANGE, "--table", "pushes").count(" nothing ") == HOURS
    assert user.do("plan", *RANGE, "--table", "other").count(" load ") == HOURS
    assert (rows(user), marks(user)) == (before, [])
    assert json.loads(user.do("verify", *RANGE, "--table", "pushes", "--contents", "--json"))["broken"] == 0
    assert kinds_open(user) == {"table missing", "incomplete"}
    assert user.type("verify", *RANGE).returncode == 1

    user.client.command(FORKS.format(user.name))
    done = user.type("run", *RANGE, "--table", "forks")
    assert (done.returncode, states(user), marks(user)) == (0, {"landed"}, []), done.stderr
    fill = (
        f"`sluice run {user.name} --config {user.path} --from {START:%FT%RZ} --to {END:%FT%RZ} --mode fill`"
    )
    lacked = f"3 slices are not complete, and not published: not in {user.name}.other; {fill} loads the rest"
    assert lacked in done.stderr
    assert kinds_open(user) == {"incomplete"}
    user.do("run", *RANGE, "--table", "other")
    assert kinds_open(user) == set()
    assert (states(user), bool(marks(user))) == ({"complete"}, True)
    assert json.loads(user.do("verify", *RANGE, "--contents", "--json"))["anomalies"] == []
    whole, forks, other = rows(user), ledger(user, "forks"), ledger(user, "other")
    assert {name: whole[name] for name in OWN if name != "views"} == {
        n: before[n] for n in OWN if n != "views"
    }

    for table in ("pushes", "seen", "per_login", "push_traffic", "forks"):
        user.client.command(f"TRUNCATE TABLE {user.name}.{table}")
    damaged = rows(user)
    assert user.type("verify", *RANGE, "--table", "other").returncode == 0
    assert user.type("verify", *RANGE, "--table", "forks").returncode == 1
    done = user.type("run", *RANGE, "--mode", "reload", "--table", f"{user.name}.pushes")
    assert (done.returncode, f"--mode repair --table {user.name}.forks" in done.stderr) == (1, True)
    assert rows(user) == {**whole, "forks": damaged["forks"]}
    assert (ledger(user, "forks"), ledger(user, "other")) == (forks, other)
    user.do("run", *RANGE, "--mode", "reload", "--table", "ForkEvent", "--table", "other")
    assert rows(user) == whole

    assert "did you mean pushes?" in commands_refused(user, "run", *RANGE, "--table", "pushs")
    assert "choose no table" in commands_refused(user, "run", *RANGE, "--table", "other", "--mode", "reland")
    assert "has no table 'x'" in commands_refused(user, "verify", "--table", "x")
    assert rows(user) == whole


@pytest.mark.long
def test_one_table_on_shards(clickhouse_servers, tmp_path, name, monkeypatch):
    two = made(tmp_path, name, clickhouse_servers, monkeypatch)
    for table in ("clicks", "bids"):
        two.everywhere(f"CREATE TABLE {{db}}.{table} ({COLUMNS}) ENGINE = MergeTree ORDER BY n")
    events = [event(kind, n=n) for kind in ("click", "bid") for n in range(8)]
    land(two.world.lake, unit(), events, partitions=4)
    spec = two.world.pipeline({"click": "clicks", "bid": "bids"}, clickhouse=shards("s1", "s2"))

    def load(mode: str, *tables: str) -> None:
        chosen = frozenset(f"{name}.{table}" for table in tables)
        work = work_of(survey(spec, HOUR), mode)
        landed = partial(one_by_one, lambda _: 0)
        assert run_batches(spec, work, mode, mode, landed, print, chosen) == 0

    def seen(*tables: str) -> set[tuple[AnomalyKind, str]]:
        look = AuditScope(tables=frozenset(f"{name}.{table}" for table in tables))
        kinds = (*OF_TABLES, AnomalyKind.INCOMPLETE)
        return {(a.kind, a.table) for a in audit(spec, HOUR, look).anomalies if a.kind in kinds}

    def numbers(table: str) -> Sequence[list[tuple]]:
        return two.everywhere(f"SELECT n FROM {{db}}.{table} ORDER BY n")

    load("fill", "clicks")
    assert sorted(n for answer in numbers("clicks") for (n,) in answer) == list(range(8))
    assert numbers("bids") == [[], []]
    assert seen("clicks") == set()
    assert seen("bids") == {(AnomalyKind.INCOMPLETE, "")}
    load("fill", "bids")
    whole = numbers("clicks"), numbers("bids")
    for table in ("clicks", "bids"):
        two.on(1, f"TRUNCATE TABLE {{db}}.{table}")
    assert seen("clicks") == {(AnomalyKind.ROWS_MISSING, f"{name}.clicks")}
    load("reload", "clicks")
    assert (seen("clicks"), numbers("clicks")) == (set(), whole[0])
    assert numbers("bids") == [whole[1][0], []]
    assert seen("bids") == {(AnomalyKind.ROWS_MISSING, f"{name}.bids")}
