"""Events without a value for a column: they are counted by column and hour, or rejected."""

from __future__ import annotations

import json
from random import Random

import pytest

from sluice.state.ledger import committed
from tests.integration.casts import test_load_documents
from tests.integration.casts.test_load_documents import make
from tests.integration.landed import Event, World, land, unit

pytestmark = pytest.mark.integration

world = test_load_documents.world

COLUMNS = (
    "amount Decimal(18, 2), paid Bool, day Date, note Nullable(String), tags Array(String), currency String "
    "DEFAULT 'EUR', due Nullable(Date) DEFAULT toDate('2026-01-01'), gps Tuple(lat Float64, lon Float64, "
    "label Nullable(String)), loose Tuple(a Nullable(UInt8), b Nullable(UInt8)), sum UInt64 DEFAULT paid + 40"
)
FIELDS = {
    "amount": "12.5", "paid": "true", "day": '"2026-11-20"', "note": '"x"', "tags": '["a"]',
    "currency": '"USD"', "due": '"2026-11-21"', "gps": '{"lat": 1.5, "lon": 2.5, "label": "l"}',
    "loose": '{"a": 1, "b": 2}', "sum": "7",
}  # fmt: skip
NULLABLE, DECLARED = ("note", "loose"), ("currency", "due", "sum")


def drawn(count: int, seed: int) -> list[dict[str, str | None]]:
    """Events of which some fields are missing, or null, as their JSON texts."""
    rng = Random(seed)
    events: list[dict[str, str | None]] = []
    for _ in range(count):
        event: dict[str, str | None] = {}
        for name, text in FIELDS.items():
            chance = rng.random()
            if chance < 0.8:
                event[name] = text
            elif chance < 0.9:
                event[name] = "null"
        if rng.random() < 0.2 and event.get("gps", "null") != "null":
            event["gps"] = rng.choice(['{"lat": null, "lon": 2.5}', '{"lon": 2.5}', "{}"])
        events.append(event)
    return events


def text_of(event: dict[str, str | None]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in event.items()) + "}"


def lacks(event: dict[str, str | None], name: str) -> tuple[bool, bool]:
    """Whether the row gets a default, and whether it gets NULL, by the rules of docs/design/load.md."""
    text = event.get(name)
    if name in NULLABLE:
        return False, text in (None, "null")
    if name == "due":
        return text is None, text == "null"
    if name == "gps" and text not in (None, "null"):
        return json.loads(text).get("lat") is None or "lon" not in json.loads(text), False
    return text in (None, "null"), False


def wanted(events: list[dict[str, str | None]], place: int) -> dict[str, int]:
    counts = {name: sum(lacks(event, name)[place] for event in events) for name in FIELDS}
    return {name: count for name, count in counts.items() if count}


def held(world: World, pipeline):
    return committed(world.client, pipeline, world.lake.url, pipeline.targets[0])


def test_values_that_are_missing_are_counted_by_column_and_hour(world: World):
    make(world, COLUMNS)
    hours = {0: drawn(300, seed=1), 1: drawn(50, seed=2), 2: [dict(FIELDS)] * 3}
    pipeline = world.pipeline({"click": {"table": "t"}})
    for hour, events in hours.items():
        land(world.lake, unit(hour), [Event("click", text_of(event)) for event in events])
    result = world.load(pipeline, *map(unit, hours))
    assert [one.rejected_rows for one in result.units] == [0, 0, 0]
    ledger = held(world, pipeline)
    for hour, events in hours.items():
        assert ledger[unit(hour)].defaulted == wanted(events, 0)
        assert ledger[unit(hour)].nulls == wanted(events, 1)
    assert {one.unit: one.defaulted for one in result.units} == {
        unit(hour): wanted(events, 0) for hour, events in hours.items()
    }
    assert wanted(hours[0], 0).keys() == FIELDS.keys() - set(NULLABLE)
    assert result.defaulted == sum(sum(wanted(events, 0).values()) for events in hours.values())


def test_an_element_of_a_tuple_is_as_missing_as_a_column(world: World):
    make(world, "gps Tuple(lat Float64, lon Float64, label Nullable(String), at Tuple(day Date, n UInt8))")
    given = [
        "null",
        '{"lat": null}',
        '{"lat": 1, "lon": 2}',
        '{"lat": 1, "lon": 2, "at": {"day": null, "n": 3}}',
    ]
    land(world.lake, unit(), [Event("click", f'{{"gps": {text}}}') for text in given])
    world.load(world.pipeline({"click": {"table": "t"}}), unit())
    assert world.sql("SELECT toString(gps) FROM {db}.t ORDER BY _offset") == [
        ("(0,0,NULL,('1970-01-01',0))",),
        ("(0,0,NULL,('1970-01-01',0))",),
        ("(1,2,NULL,('1970-01-01',0))",),
        ("(1,2,NULL,('1970-01-01',3))",),
    ]
    assert held(world, world.pipeline({"click": {"table": "t"}}))[unit()].defaulted == {"gps": 4}


@pytest.mark.parametrize("missing", ["reject", {"amount": "reject", "note": "reject", "gps": "reject"}])
def test_a_row_without_a_value_is_rejected_where_the_file_says_so(world: World, missing):
    make(world, COLUMNS)
    events = drawn(200, seed=3)
    pipeline = world.pipeline({"click": {"table": "t", "missing": missing}})
    land(world.lake, unit(), [Event("click", text_of(event)) for event in events])
    [result] = world.load(pipeline, unit()).units
    needed = (
        FIELDS.keys() - set(NULLABLE) - set(DECLARED) if missing == "reject" else {"amount", "note", "gps"}
    )
    refused = {
        n: [name for name in FIELDS if name in needed and any(lacks(event, name))]
        for n, event in enumerate(events)
    }
    wrong = {n: names for n, names in refused.items() if names}
    assert (result.rows, result.rejected_rows) == (200 - len(wrong), len(wrong))
    found = world.sql("SELECT offset, column, reason FROM sluice.rejected WHERE target = '{db}.t'")
    assert {reason for _, _, reason in found} == {"missing"}
    assert {n: column.partition(".")[0] for n, column, _ in found} == {
        n: names[0] for n, names in wrong.items()
    }
    kept = [event for n, event in enumerate(events) if n not in wrong]
    assert held(world, pipeline)[unit()].defaulted == wanted(kept, 0)


def test_a_default_that_fails_leaves_the_counts_of_the_rows_that_stay(world: World):
    make(world, "v Nullable(Int64), amount Float64, twice Int64 DEFAULT intDiv(10, v)")
    events = ['{"v": 0}', '{"v": 5}', '{"v": 2, "amount": 1}', '{"v": 2, "twice": 3}']
    land(world.lake, unit(), [Event("click", text) for text in events])
    pipeline = world.pipeline({"click": {"table": "t"}})
    [result] = world.load(pipeline, unit()).units
    assert (result.rows, result.rejected_rows) == (3, 1)
    assert held(world, pipeline)[unit()].defaulted == {"amount": 2, "twice": 2}
