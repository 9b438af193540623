"""Each repair that a command prints is pasted as it stands, and does what it says: rows that were right stay,
and what it is for is right afterwards. What is right comes from the events themselves."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from sluice.flow import steps
from tests.faults.damage import Damaged
from tests.integration.landed import client_of
from tests.support.landing_world import START

pytestmark = pytest.mark.faults
Rows = Counter[tuple]


@pytest.fixture
def state(clickhouse_server, tmp_path, name, monkeypatch, capsys) -> Damaged:
    """Tables, and boundaries of four hours; nothing has landed."""
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    return Damaged(tmp_path, client_of(clickhouse_server), name, monkeypatch, capsys)


def events(state: Damaged) -> dict[str, Rows]:
    """What each table should hold, from the events: those that fit."""
    clicks, other = Rows(), Rows()
    for partition, log in enumerate(state.world.logs["dc1", "bids"]):
        for offset, (value, at) in enumerate(log):
            if value == b"{":
                continue
            record = json.loads(value)
            hour = at // 3_600_000 * 3600
            if record["type"] != "click":
                other[record["type"], value.decode(), hour] += 1
            elif record["n"].isdigit():
                clicks[int(record["n"]), partition, offset, hour] += 1
    return {"clicks": clicks, "other": other}


def held(state: Damaged) -> dict[str, Rows]:
    clicks = state.sql("SELECT n, _partition, _offset, toUnixTimestamp(_slice) FROM {db}.clicks")
    other = state.sql("SELECT _type, _payload, toUnixTimestamp(_slice) FROM {db}.other")
    return {"clicks": Rows(map(tuple, clicks)), "other": Rows(map(tuple, other))}


def inner(state: Damaged, view: str = "%") -> list[str]:
    """The tables that the views write to."""
    views = f"database = '{{db}}' AND engine = 'MaterializedView' AND name LIKE '{view}'"
    found = state.sql(f"SELECT concat('.inner_id.', toString(uuid)) FROM system.tables WHERE {views}")
    return [name for (name,) in found]


def parts(state: Damaged, tables: list[str]) -> list[tuple]:
    """The parts of tables: a row that is written, or deleted and written again, changes them."""
    where = f"active AND database = '{{db}}' AND has({tables}, table)"
    found = state.sql(f"SELECT table, name, modification_time FROM system.parts WHERE {where} ORDER BY ALL")
    return [*map(tuple, found)]


def commits(state: Damaged, table: str) -> list[tuple]:
    """The ledger's rows of one table, also earlier ones."""
    where = f"target = '{{db}}.{table}'"
    return [*map(tuple, state.sql(f"SELECT * FROM sluice.ledger WHERE {where} ORDER BY ALL"))]


@pytest.mark.parametrize(
    ("damage", "words", "whole", "named"),
    [
        (["DELETE FROM {db}.clicks"], "", "other", " --table {db}.clicks"),
        (["DELETE FROM {db}.other"], "", "clicks", " --table {db}.other"),
        (["DELETE FROM {db}.clicks", "DELETE FROM {db}.other"], "", "", ""),
        (["DELETE FROM {db}.{sums}"], "", "other", " --table {db}.clicks"),
        (["ALTER TABLE {db}.other UPDATE _payload = ''"], " --contents", "clicks", " --table {db}.other"),
    ],
)
def test_a_repair_touches_the_tables_that_are_wrong(
    state: Damaged, monkeypatch, damage: list[str], words: str, whole: str, named: str
):
    state.make()
    right = events(state)
    assert held(state) == right
    second = int(START.add(hours=1).timestamp())
    (sums,) = inner(state, "sums")
    for statement in damage:
        statement = statement.replace("{sums}", f"`{sums}`")
        state.sql(f"{statement} WHERE toUnixTimestamp(_slice) = {second} SETTINGS mutations_sync = 2")
    code, said = state.command(f"sluice verify ads --config {state.config}{words}")
    (repair,) = [line.removeprefix("repair: ") for line in said.splitlines() if line.startswith("repair: ")]
    edges = f"--from {START.add(hours=1):%FT%RZ} --to {START.add(hours=2):%FT%RZ}"
    run = f"sluice run ads --config {state.config} {edges} --mode repair"
    assert (code, repair) == (1, run + named.replace("{db}", state.database))

    told: list[dict] = []
    publish = steps.publish
    monkeypatch.setattr(steps, "publish", lambda *given: told.extend(publish(*given)) or told)
    tables = {"clicks": ["clicks", *inner(state)], "other": ["other"], "": []}[whole]
    before, ledger = parts(state, tables), commits(state, whole)
    assert state.command(repair)[0] == 0
    assert (parts(state, tables), commits(state, whole)) == (before, ledger)
    assert bool(before) == bool(ledger) == bool(whole)
    assert held(state) == right
    slice_id = state.slice_id(1)
    published = sorted((one["table"].split(".")[1], one["slice"]) for one in told)
    assert published == [("clicks", slice_id), ("other", slice_id)]
    verdict = json.loads((state.root / "_verify" / "latest.json").read_text())
    assert verdict["anomalies"] == []
    newest = verdict["verifications"][-1]
    assert (newest["start"][:16], newest["found"]) == (f"{START.add(hours=1):%FT%R}", 0)
    assert state.verify() == state.verify("--contents") == []
