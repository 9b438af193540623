"""One statement for many pipelines' ledgers: each gets its own, as if it had asked alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial

import pendulum
import pytest

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.sql import render
from sluice.clients.connections import Connection
from sluice.config.pipeline import Pipeline
from sluice.slices import Slice, SliceRange
from sluice.state.ledger import LedgerQuestion, ask_ledger

pytestmark = pytest.mark.integration

START = pendulum.datetime(2026, 11, 20, 10)
HOURS = SliceRange(START, START.add(hours=4))
LAKE, OTHER_LAKE = "file:///lake", "s3://bucket/lake"


@pytest.fixture
def client(clickhouse_server) -> Iterator[Client]:
    place = Connection("test", **clickhouse_server.at.place)
    with closing(open_client(place)) as client:
        yield client


def pipeline(name: str, length: str, **tables: str) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": name,
            "kafka": [{"cluster": "dc1", "bootstrap": "x:1", "topics": ["t"]}],
            "event": {"type": {"field": "type"}, "time": {"record": True}},
            "lake": "file:///nowhere",
            "slice": length,
            "tables": tables,
        }
    )


def write(client: Client, name: str, who: str, table: str, minutes: int, rows: int, **more: str) -> None:
    """A row of the ledger, of the table as it is now."""
    row = {"lake": LAKE, "state": "committed", "generation": "1", "attempt": "1", **more}
    at = int((START + timedelta(minutes=minutes)).timestamp())
    database, _, own = table.partition(".")
    client.run(
        "INSERT INTO sluice.ledger (pipeline, lake, target, table_uuid, slice, cluster, generation, "
        "attempt, state, manifest, types, landed, rows, rejected_rows, token) "
        f"SELECT '{name}_{who}', '{row['lake']}', '{table}', uuid, toDateTime({at}, 'UTC'), 'dc1', "
        f"{row['generation']}, {row['attempt']}, "
        f"'{row['state']}', '1-a', ['click'], {rows}, {rows}, 0, 'run' "
        f"FROM system.tables WHERE database = '{database}' AND name = '{own}'"
    )


def test_each_has_its_own(client: Client, name: str):
    """Hand-worked: tables of two pipelines, a table of another database, a revocation, another lake, hours
    outside, a table that was recreated."""
    for statement in ("state/create_database", "state/create_ledger"):
        client.run(render(statement))
    for database in (name, f"{name}_b"):
        client.run(f"CREATE DATABASE {database}")
    for table in (f"{name}.shared", f"{name}.own", f"{name}_b.own", f"{name}.again"):
        client.run(f"CREATE TABLE {table} (a UInt8) ENGINE = MergeTree ORDER BY a")

    commit = partial(write, client, name)
    one = pipeline(f"{name}_one", "1h", click=f"{name}.shared", bid=f"{name}.own", view=f"{name}.again")
    two = pipeline(f"{name}_two", "15m", click=f"{name}.shared", bid=f"{name}_b.own")
    commit("one", f"{name}.shared", 0, 1)
    commit("one", f"{name}.shared", 60, 2)
    commit("one", f"{name}.shared", 60, 3, attempt="2")
    commit("one", f"{name}.shared", 120, 4)
    commit("one", f"{name}.shared", 120, 4, state="revoked", attempt="2")
    commit("one", f"{name}.shared", 240, 5)  # after its range, within the other's
    commit("one", f"{name}.shared", 180, 6, lake=OTHER_LAKE)  # the other's lake
    commit("one", f"{name}.own", 0, 7)
    commit("one", f"{name}_b.own", 0, 8)  # a table that it does not load any more
    commit("one", f"{name}.again", 0, 9)
    client.run(f"DROP TABLE {name}.again SYNC")
    client.run(f"CREATE TABLE {name}.again (a UInt8) ENGINE = MergeTree ORDER BY a")
    commit("two", f"{name}.shared", 0, 10, lake=OTHER_LAKE, generation="0")  # before it was the one's
    commit("two", f"{name}.shared", 15, 11, lake=OTHER_LAKE)
    commit("two", f"{name}.shared", 255, 12, lake=OTHER_LAKE)
    commit("two", f"{name}_b.own", 30, 13, lake=OTHER_LAKE)
    commit("two", f"{name}_b.own", 45, 14)  # another lake
    commit("three", f"{name}.shared", 0, 15, generation="0")  # of somebody else, before

    later = SliceRange(START.add(minutes=15), START.add(hours=5), timedelta(minutes=15))
    questions = [
        LedgerQuestion(one, LAKE, one.targets, HOURS),
        LedgerQuestion(two, OTHER_LAKE, two.targets, later),
    ]
    expected = [
        {f"{name}.shared": {"10": 1, "11": 3}, f"{name}.own": {"10": 7}, f"{name}.again": {}},
        {f"{name}.shared": {"10:15": 11, "14:15": 12}, f"{name}_b.own": {"10:30": 13}},
    ]
    together = ask_ledger(client, questions)
    assert [told(found) for found in together] == expected
    assert [ask_ledger(client, [question])[0] for question in questions] == together
    others = {instant(unit.slice) for unit in together[0][f"{name}.shared"].others}
    assert others == {"10:15", "13"}
    units = [unit for found in together for ledger in found.values() for unit in ledger]
    assert {unit.slice.length for unit in units} == {timedelta(hours=1), timedelta(minutes=15)}

    ever = ask_ledger(client, [LedgerQuestion(one, LAKE, one.targets), questions[1]])
    assert told(ever[0])[f"{name}.shared"] == {"10": 1, "11": 3, "14": 5}
    assert told(ever[1]) == expected[1]


def told(found: dict) -> dict:
    return {
        table: {instant(unit.slice): row.rows for unit, row in ledger.items()}
        for table, ledger in found.items()
    }


def instant(piece: Slice) -> str:
    return f"{piece.start:%H:%M}".removesuffix(":00")
