"""Tables of many columns: pulled and pushed, with a rejected row in the last one, by one statement each.

In an event that holds a long number every column's is looked at. tests/faults/test_wide_long.py has a
thousand columns of each type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest

from sluice.clients.kafka.topics import SampledRecord
from sluice.clients.lake import layout
from sluice.doctor.events import Sampled
from sluice.doctor.examine import unfit_checks
from sluice.flow.load.fencing import stagings
from sluice.flow.load.target_checks import inspect_target
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.manifest import encode
from tests.integration.landed import Event, World, client_of, land, unit
from tests.integration.verify.test_contents import change, compared, told
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

COLUMNS, ROWS, REJECTED_ROW, LONG = (
    328,
    6,
    3,
    5,
)  # and which row has a value that does not fit, or a long number


@dataclass(frozen=True)
class Shape:
    """`value` is what the event has in column c of row n, `there` what the table has to hold of it. `unfit`
    does not fit; None where everything does."""

    type: str
    value: Callable[[int, int], Any]
    unfit: Any = None
    there: Callable[[Any], Any] = lambda value: value
    read: str = "{}"


SHAPES = [
    Shape("String", lambda c, n: f"x{c}-{n}"),
    Shape("UInt64", lambda c, n: 2**53 + c * 1000 + n, -1),
    Shape("Decimal(18, 4)", lambda c, n: c + n / 4, 0.00001, lambda v: Decimal(str(v))),
    Shape(
        "DateTime64(3, 'UTC')",
        lambda c, n: f"2026-02-28T10:00:{n:02d}.{c:03d}Z",
        "2026-02-29T10:00:00Z",
        lambda v: v,
        "formatDateTime({}, '%Y-%m-%dT%H:%i:%S.%fZ')",
    ),
    Shape(
        "Array(Decimal(18, 4))",
        lambda c, n: [c + 0.25, n],
        [1, 0.00001],
        lambda v: [Decimal(str(item)) for item in v],
    ),
    Shape("Map(String, UInt64)", lambda c, n: {"c": c, "n": n}, {"c": 1, "n": -1}),
    Shape("LowCardinality(Nullable(String))", lambda c, n: None if n else f"x{c}"),
    Shape("Nullable(Float64)", lambda c, n: c / 8 if n else None, "x"),
    Shape("JSON", lambda c, n: {"c": str(c), "n": f"{n}"}, "{}", lambda v: v, "toString({})"),
]


def mixed(columns: int) -> list[Shape]:
    """The last one has values that do not fit."""
    return [SHAPES[(column - columns + 3) % len(SHAPES)] for column in range(columns)]


def payload(kinds: Sequence[Shape], row: int) -> str:
    fields = {"type": "click"} | {f"c{column}": kind.value(column, row) for column, kind in enumerate(kinds)}
    if row == REJECTED_ROW and kinds[-1].unfit is not None:
        fields[f"c{len(kinds) - 1}"] = kinds[-1].unfit
    text = json.dumps(fields)
    # No column has a value of the same double: beside one, an element of a container is a rejected row.
    return text[:-1] + ', "z": 0.30000000000000000004}' if row == LONG else text


@pytest.fixture
def world(name, tmp_path, clickhouse_server):
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    yield World(tmp_path, client, name)
    client.run(f"DROP DATABASE {name} SYNC")


def make(world: World, kinds: Sequence[Shape]) -> None:
    columns = ", ".join(f"c{number} {kind.type}" for number, kind in enumerate(kinds))
    world.sql(
        f"CREATE TABLE {{db}}.wide ({columns}, _topic LowCardinality(String), _partition Int32, _offset "
        "Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _offset"
    )


def load_wide(world: World, kinds: Sequence[Shape], read: str, long: bool = True) -> None:
    """Loads ROWS rows, and compares each value of each with what its event says."""
    make(world, kinds)
    rows = [row for row in range(ROWS) if long or row != LONG]
    made = land(world.lake, unit(), [Event("click", payload(kinds, row)) for row in rows])
    key = layout.manifest(unit().slice.id, unit().cluster)
    world.lake.put(key, encode(replace(made, long_numbers=long)))
    world.load(world.pipeline({"click": "wide"}, clickhouse={"read": read}), unit())
    there = [row for row in rows if row != REJECTED_ROW or kinds[-1].unfit is None]
    compare(world, kinds, there)
    if len(there) < len(rows):
        last, found = len(kinds) - 1, world.sql("SELECT offset, column, value FROM sluice.rejected WHERE "
                                                "target = '{db}.wide'")  # fmt: skip
        assert [row[:2] for row in found] == [(REJECTED_ROW, f"c{last}")]
        said = kinds[-1].unfit
        assert found[0][2] == said or json.loads(found[0][2]) == said


def compare(world: World, kinds: Sequence[Shape], there: Sequence[int]) -> None:
    read_as = ", ".join(kind.read.format(f"c{column}") for column, kind in enumerate(kinds))
    rows = world.client.rows(
        f"SELECT _offset, {read_as} FROM {world.database}.wide ORDER BY _offset",
        settings={"formatdatetime_f_prints_scale_number_of_digits": 1},
    )
    assert [row[0] for row in rows] == list(there)
    wrong = [
        (row[0], column, found)
        for row in rows
        for column, (kind, found) in enumerate(zip(kinds, row[1:], strict=True))
        if (json.loads(found) if kind.type == "JSON" else found) != kind.there(kind.value(column, row[0]))
        and not (kind.value(column, row[0]) is None and found is None)
    ]
    assert wrong == []


@pytest.mark.long
@pytest.mark.parametrize(("read", "long"), per_commit([("pull", True), ("push", False)]))
def test_a_wide_table_is_loaded_like_any_other(world: World, read: str, long: bool):
    load_wide(world, mixed(COLUMNS), read, long)
    left = f"SELECT name FROM system.tables WHERE startsWith(name, '{stagings(world.database + '.wide')}')"
    assert world.sql(left) == []


@pytest.mark.long
def test_doctor_and_verify_end_right_on_a_wide_table(world: World, clickhouse_server, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    kinds = mixed(100)
    load_wide(world, kinds, "pull")
    examine(world, kinds)


def examine(world: World, kinds: Sequence[Shape]) -> None:
    """What doctor says of the events, and verify of the loaded rows, before and after one value changes."""
    pipeline, last = world.pipeline({"click": "wide"}), f"c{len(kinds) - 1}"
    _, filling = inspect_target(world.client, pipeline, pipeline.targets[0])
    records = [SampledRecord("events", 0, row, 0, payload(kinds, row).encode(), ()) for row in range(ROWS)]
    events = [Sampled("click", record, record.value.decode()) for record in records]
    [check] = unfit_checks(world.client, "wide", filling, events)
    assert check.finding.startswith(f"1 of {ROWS} events would be rejected: {last} = ")
    [fits] = unfit_checks(world.client, "wide", filling, events[:REJECTED_ROW])
    assert fits.finding == f"every value of {REJECTED_ROW} events fits its column"
    whole = compared(world, pipeline)
    assert (told(whole), whole.notes) == ([], [])
    change(world, f"wide UPDATE {last} = defaultValueOfTypeName('{kinds[-1].type}') WHERE _offset = {LONG}")
    found = [(AnomalyKind.VALUES, "wide", "", f"{ROWS - 1} rows, other values in {last}; records {LONG}")]
    assert told(compared(world, pipeline)) == found
