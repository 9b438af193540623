"""Tables of many columns: pulled and pushed, with a misfit in the last one, by one statement each."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from sluice.lake import layout
from sluice.load.names import stagings
from sluice.manifest import encode
from tests.integration.landed import Event, World, client_of, land, unit

pytestmark = pytest.mark.integration

COLUMNS = 328
# Types in turn, what the event has there in row `n` of column `c`, and what the table has to hold.
KINDS = [
    ("String", lambda c, n: f"x{c}-{n}", lambda v: v),
    ("UInt64", lambda c, n: 2**53 + c * 1000 + n, lambda v: v),
    ("Decimal(18, 4)", lambda c, n: c + n / 4, lambda v: Decimal(str(v))),
    ("DateTime64(3, 'UTC')", lambda c, n: f"2026-02-28T10:00:{n:02d}.{c:03d}Z", lambda v: v),
    ("Array(Decimal(18, 4))", lambda c, n: [c + 0.25, n], lambda v: [Decimal(str(item)) for item in v]),
    ("Map(String, UInt16)", lambda c, n: {"c": c, "n": n}, lambda v: v),
    ("LowCardinality(Nullable(String))", lambda c, n: None if n else f"x{c}", lambda v: v),
    ("JSON", lambda c, n: {"c": str(c), "n": f"{n}"}, lambda v: v),
]


def kind_of(column: int):
    return KINDS[column % len(KINDS)]


def payload(row: int) -> str:
    fields = {f"c{column}": kind_of(column)[1](column, row) for column in range(COLUMNS)}
    if row == 3:  # and the last column's value does not fit
        fields[f"c{COLUMNS - 1}"] = [1]
    return json.dumps(fields)


@pytest.fixture
def world(name, tmp_path, clickhouse_server):
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    yield World(tmp_path, client, name)
    client.run(f"DROP DATABASE {name} SYNC")


@pytest.mark.parametrize("read", ["pull", "push"])
def test_a_wide_table_is_loaded_like_any_other(world: World, read: str):
    columns = ", ".join(f"c{number} {kind_of(number)[0]}" for number in range(COLUMNS))
    world.sql(
        f"CREATE TABLE {{db}}.wide ({columns}, _offset Int64, _slice DateTime('UTC'), "
        "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _offset"
    )
    made = land(world.lake, unit(), [Event("click", payload(row)) for row in range(5)])
    key = layout.manifest(unit().slice.id, unit().cluster)
    world.lake.put(key, encode(replace(made, long_numbers=False)))
    world.load(world.pipeline({"click": "wide"}, clickhouse={"read": read}), unit())
    texts = {"DateTime64(3, 'UTC')": "formatDateTime({}, '%Y-%m-%dT%H:%i:%S.%fZ')", "JSON": "toString({})"}
    read_as = ", ".join(texts.get(kind_of(c)[0], "{}").format(f"c{c}") for c in range(COLUMNS))
    rows = world.client.rows(
        f"SELECT _offset, {read_as} FROM {world.database}.wide ORDER BY _offset",
        settings={"formatdatetime_f_prints_scale_number_of_digits": 1},
    )
    assert [row[0] for row in rows] == [0, 1, 2, 4]
    wrong = [
        (row[0], c, row[c + 1])
        for row in rows
        for c, (kind, value, expected) in ((c, kind_of(c)) for c in range(COLUMNS))
        if (json.loads(row[c + 1]) if kind == "JSON" else row[c + 1]) != expected(value(c, row[0]))
    ]
    assert wrong == []
    misfits = "SELECT offset, column, value FROM sluice.rejected WHERE target = '{db}.wide'"
    assert world.sql(misfits) == [(3, f"c{COLUMNS - 1}", "[1]")]
    left = f"SELECT name FROM system.tables WHERE startsWith(name, '{stagings(world.database + '.wide')}')"
    assert world.sql(left) == []
