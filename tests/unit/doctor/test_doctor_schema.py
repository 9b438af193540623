"""Fields against columns, types from values, and a lake that does not keep its word."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from sluice.clients.clickhouse.tables import Column
from sluice.clients.kafka.topics import SampledRecord
from sluice.doctor.check import Level
from sluice.doctor.events import (
    MOST_FIELDS,
    MOST_LEVELS,
    EventSample,
    Fit,
    Sampled,
    fields,
    fit,
    fit_checks,
    joined,
    parse,
    sample_checks,
)
from sluice.doctor.examine import lake_checks
from sluice.doctor.proposed_tables import MOST_COLUMNS, propose
from sluice.flow.load.casts.columns import RULES, fillable
from tests.support.fakes import MemoryLake
from tests.unit.doctor.test_doctor_kafka import NOW, pipeline

COLUMNS = (
    Column("id", "String"),
    Column("login", "String"),
    Column("lost", "String"),
    Column("made", "String", "MATERIALIZED", "id"),
    Column("_slice", "DateTime('UTC')"),
)
EVENT = {"type": "click", "id": "1", "actor": {"login": "a", "age": 3}, "empty": {}, "tags": ["x"]}


def nested(inner: str, levels: int) -> bytes:
    opening, closing = {"object": ('{"a":', "}"), "array": ("[", "]")}[inner]
    return b'{"type":"click","at":"2026-01-01T00:00:00Z","deep":%b1%b}' % (
        (opening * levels).encode(),
        (closing * levels).encode(),
    )


@pytest.mark.parametrize("inner", ["object", "array"])
def test_an_event_that_is_as_deep_as_the_landing_takes_it(inner: str):
    """The deepest that the parser takes here is looked at, down to a bound."""
    time = {"field": "at"}
    spec = pipeline(event={"type": {"field": "type"}, "time": time}, tables={"click": "db.clicks"})
    low, high = 1, 2_000
    while high - low > 1:
        levels = (low + high) // 2
        taken = parse(spec.event, [SampledRecord("t", 0, 0, 0, nested(inner, levels), ())]).events
        low, high = (levels, high) if taken else (low, levels)
    assert 800 < low < 1_100
    events = parse(spec.event, [SampledRecord("t", 0, 0, 0, nested(inner, low), ())] * 30).events
    looked = [item.event for item in events]
    [deepest] = [path for path in fields(looked) if path[0] == "deep"]
    assert len(deepest) == (MOST_LEVELS if inner == "object" else 1)
    assert propose(spec, "click", looked, RULES).columns.columns["deep"].total == 30
    assert list(fit_checks(spec, spec.targets[0], COLUMNS, looked))


def test_records_that_are_too_large_are_refused_as_the_landing_refuses_them():
    spec = pipeline()
    small = SampledRecord("t", 0, 0, 0, b'{"type": "click", "timestamp": "2026-11-20T10:00:00Z"}', ())
    large = SampledRecord("t", 0, 1, 0, None, (), too_large=1 << 30)
    found = parse(spec.event, [small, large])
    assert ([one.record.offset for one in found.events], found.refused) == ([0], {"too large": 1})
    assert parse(spec.event, [large]).refused == {"too large": 1}


@pytest.mark.parametrize("more", [0, 1, 5_000])
def test_a_proposal_has_a_bound(more: int):
    """The fields that most events have are its columns; the others are a number."""
    common = {f"c{number}": number for number in range(MOST_COLUMNS - 10)}
    seldom = {f"s{number}": number for number in range(10 + more)}
    proposal = propose(pipeline(), "click", [common, {**seldom, **common}, common], RULES)
    columns = proposal.columns.columns
    assert proposal.columns.left_out == more and len(columns) == MOST_COLUMNS == 1_000
    assert set(common) <= set(columns) <= {*common, *seldom}
    lines = [line for line in proposal.statement.splitlines() if line.startswith("    ")]
    assert [line.split()[0].strip("`") for line in lines[:1_000]] == list(columns)
    assert len(lines) == 1_000 + 7


def test_of_many_fields_without_a_column_some_are_told():
    spec = pipeline(tables={"click": "db.clicks"})
    event = {f"f{number}": 1 for number in range(MOST_FIELDS)}
    found = list(fit_checks(spec, spec.targets[0], COLUMNS, [event]))
    assert sum("has no column" in one.finding for one in found) == MOST_FIELDS
    assert not [one for one in found if "more fields" in one.finding]
    found = list(fit_checks(spec, spec.targets[0], COLUMNS, [event | {"x": 1, "y" * 9_000: 2}]))
    assert sum("has no column" in one.finding for one in found) == MOST_FIELDS
    assert [one.finding for one in found if "more fields" in one.finding] == [
        "2 more fields have no column: they stay in the lake"
    ]


def test_fields_are_named_by_their_path():
    assert fields([EVENT]) == {
        ("type",): ["click"],
        ("id",): ["1"],
        ("actor", "login"): ["a"],
        ("actor", "age"): [3],
        ("empty",): [{}],
        ("tags",): [["x"]],
    }


def test_a_name_with_a_dot_is_the_field_that_fills_its_column():
    """Of a Nested, which an array of objects fills; and of a column that is named like a path."""
    nested = (Column("n.a", "Array(String)"), Column("n.b", "Array(UInt8)"))
    for event in ({"n": [{"a": "x", "b": 1}]}, {"n.a": ["x"], "n.b": [1]}):
        assert fit(nested, {}, [event]) == Fit(("n.a", "n.b"), (), {})
    plain = (Column("log.level", "String"), Column("a..b", "String"), Column("`q`", "String"))
    for event in (
        {"log.level": "I", "a..b": "x", "`q`": "y"},
        {"log": {"level": "I"}, "a..b": "", "`q`": ""},
    ):
        assert fit(plain, {}, [event]) == Fit(("log.level", "a..b", "`q`"), (), {})


def test_fit_tells_filled_empty_and_unfilled():
    found = fit(COLUMNS, {"login": "actor.login"}, [EVENT, {"id": "2"}], ("type",))
    assert (found.filled, found.empty) == (("id", "login"), ("lost",))
    assert found.unfilled == {
        ("actor", "age"): "Nullable(UInt64)",
        ("empty",): "JSON",
        ("tags",): "Array(String)",
    }


def test_a_column_that_takes_a_whole_object_takes_all_its_fields():
    assert fit((Column("actor", "String"),), {}, [EVENT]).filled == ("actor",)
    assert ("actor", "age") not in fit((Column("actor", "String"),), {}, [EVENT]).unfilled


def target_of(spec):
    return spec.targets[0]


def test_each_field_without_a_column_comes_with_its_alter():
    spec = pipeline(tables={"click": {"table": "e.clicks", "columns": {"login": "actor.login"}}})
    said = [c.remedy for c in fit_checks(spec, target_of(spec), COLUMNS, [EVENT]) if c.level is Level.WARN]
    assert "ALTER TABLE `e`.`clicks` ADD COLUMN `tags` Array(String)" in said
    assert (
        "ALTER TABLE `e`.`clicks` ADD COLUMN `actor_age` Nullable(UInt64), "
        "and `columns: {actor_age: actor.age}`" in said
    )


def test_a_catch_all_keeps_the_payload_and_needs_no_columns():
    spec = pipeline(tables={"*": "e.other"})
    columns = (Column("_payload", "String"), Column("_type", "String"))
    assert [c.level for c in fit_checks(spec, target_of(spec), columns, [EVENT])] == [Level.OK]


def test_a_proposal_has_a_column_for_each_field_of_the_event():
    """With a name of its own where Sluice has a column of that name."""
    spec = pipeline(tables={"*": "e.other"})
    found = propose(spec, "Page.View", [{"a": {"b": 1}, "a_b": "x", "_type": "y", "_type_2": 1}], RULES)
    kinds = {name: one.type for name, one in found.columns.columns.items()}
    assert kinds == {
        "a": "Tuple(`b` Nullable(UInt64))",
        "a_b": "Nullable(String)",
        "_type_2": "Nullable(String)",
        "_type_2_2": "Nullable(UInt64)",
    }
    assert list(kinds) == ["a", "a_b", "_type_2", "_type_2_2"]
    assert found.entry == "  Page.View: {table: e.page_view, columns: {_type_2: _type, _type_2_2: _type_2}}"
    assert "CREATE TABLE `e`.`page_view`" in found.statement
    assert "`_cluster` LowCardinality(String)" in found.statement
    assert "PARTITION BY toYYYYMM(_slice)\nORDER BY (_slice, _cluster)" in found.statement


def test_fields_whose_names_no_column_can_have_are_told():
    """The server knows no empty name, `null` is reserved, and one with half a character is renamed."""
    found = propose(pipeline(), "click", [{"": 1, "null": 2, "a.\ud800": 3, "a.b": 4, "\ud800": 5}], RULES)
    assert list(found.columns.columns) == ["a._", "a.b", "_"]
    assert dict(found.columns.paths) == {"a._": "a.\ud800", "_": "\ud800"}
    assert found.columns.notes() == [
        f"field {name} can have no column: it stays in the lake" for name in ("''", "'null'")
    ]


def test_an_array_with_a_dot_in_its_name_is_no_part_of_a_nested():
    found = propose(pipeline(), "click", [{"a.b": [1], "a.c": [1, 2]}, {"a.b": []}], RULES).columns
    assert {name: one.type for name, one in found.columns.items()} == {
        "a.b": "Nullable(String)",
        "a.c": "Nullable(String)",
    }


def test_only_what_the_landing_asks_for_is_never_missing():
    """Wherever the pipeline file puts it."""
    event = {"type": {"field": "type"}, "time": {"field": "at"}}
    spec = pipeline(event=event, tables={"click": {"table": "e.c", "columns": {"kind": "type", "n": "x.n"}}})
    events = [{"type": "click", "at": "2026-01-01T00:00:00Z", "id": 7, "x": {"n": 1}}] * 30
    found = propose(spec, "click", events, RULES).columns.columns
    assert {name: one.type for name, one in found.items()} == {
        "type": "LowCardinality(String)",
        "at": "DateTime64(3, 'UTC')",
        "id": "Nullable(UInt64)",
        "x": "Tuple(`n` Nullable(UInt64))",
        "kind": "LowCardinality(String)",
        "n": "Nullable(UInt64)",
    }


def test_only_types_that_a_load_fills_are_proposed():
    assert fillable("Array(JSON)") and fillable("Map(String, Array(DateTime64(3, 'UTC')))")
    assert not fillable("AggregateFunction(sum, UInt64)")


def record(value: bytes | None) -> SampledRecord:
    return SampledRecord("bids", 0, 7, 1_700_000_000_000, value, ())


def test_samples_are_read_as_the_landing_reads_them():
    lines = [json.dumps(EVENT).encode(), b"{", b"[1]", b'{"id": 1}', None, b"\xff{}"]
    found = parse(pipeline().event, [record(line) for line in lines])
    assert [(item.type, item.event) for item in found.events] == [("click", EVENT)]
    assert found.refused == {
        "not JSON": 1,
        "not an object": 1,
        "no type": 1,
        "no value": 1,
        "not UTF-8": 1,
    }
    assert joined([found, found]).refused["no type"] == 2


def test_types_without_a_table_are_told():
    sampled = Sampled("view", record(b"{}"), "{}")
    spec = pipeline(tables={"click": "e.clicks"})
    said = [
        c for c in sample_checks(spec, EventSample((sampled,), {"no time": 2}), NOW) if c.level is Level.WARN
    ]
    assert [(c.place, c.finding) for c in said] == [
        ("sample", "2 of 3 records are rejected: no time"),
        ("type view", "1 events go to no table"),
    ]


def test_a_lake_that_keeps_its_word_and_keeps_nothing_of_the_probe():
    lake = MemoryLake()
    assert {check.level for check in lake_checks(lake)} == {Level.OK}
    assert lake.objects == {}


@dataclass
class Careless(MemoryLake):
    """A store without If-None-Match and If-Match, as some are: every write wins."""

    def create(self, key: str, data: bytes) -> bool:
        self.put(key, data)
        return True

    def replace(self, key: str, data: bytes, version: str) -> bool:
        self.put(key, data)
        return True


def test_a_lake_that_ignores_conditions_is_refused():
    (broken,) = [check for check in lake_checks(Careless()) if check.level is Level.FAIL]
    assert "If-None-Match" in broken.finding and "If-Match" in broken.finding
