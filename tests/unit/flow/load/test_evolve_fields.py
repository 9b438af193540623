"""Which fields get a column, and which type holds all their values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.clickhouse.tables import Column
from sluice.config.pipeline import Pipeline
from sluice.flow.load.casts.event_paths import remedy
from sluice.flow.load.evolve.evolve import takes_all
from sluice.flow.load.evolve.fields import (
    MOST_COLUMNS,
    MOST_NEW,
    Chosen,
    NewField,
    SliceFields,
    TakenNames,
    choose_fields,
    joined,
    taken_names,
)
from sluice.flow.load.evolve.lake_values import ValueSample, column_types

NONE = TakenNames(frozenset(), frozenset())


def chosen(slices: Sequence[SliceFields], at_least: int = 1, taken: TakenNames = NONE) -> Chosen:
    return choose_fields(taken, slices, at_least)


def names(found: Chosen) -> list[str]:
    return [field.name for field in found.fields]


def test_a_field_needs_its_rows_in_one_slice():
    slices = [SliceFields("a", 100, {"x": 9, "y": 10}), SliceFields("b", 50, {"x": 9, "y": 40})]
    assert chosen(slices, 10) == Chosen((NewField("y", "b", 40, 50),), {})


def test_units_of_a_slice_count_together():
    slices = [SliceFields("a", 10, {"x": 6}, 1), SliceFields("a", 20, {"x": 5, "z": 1}, 2)]
    assert joined(slices) == [SliceFields("a", 30, {"x": 11, "z": 1}, 3)]
    assert chosen(slices, 11) == Chosen((NewField("x", "a", 11, 30),), {})


def test_the_most_frequent_fields_come_first_and_the_others_are_told():
    many = {f"f{number:03}": number + 1 for number in range(MOST_NEW + 5)}
    found = chosen([SliceFields("a", 1_000, many)])
    assert names(found) == sorted(many, reverse=True)[:MOST_NEW]
    assert found.left_out == dict.fromkeys(sorted(many)[:5][::-1], "a load adds at most 100 columns")


def test_a_wide_table_gets_no_more():
    taken = TakenNames(frozenset(f"c{n}" for n in range(MOST_COLUMNS - 1)), frozenset())
    found = chosen([SliceFields("a", 9, {"x": 9, "y": 8})], 1, taken)
    assert names(found) == ["x"] and found.left_out == {"y": "the table has 1,000 columns"}


@pytest.mark.parametrize(
    ("first", "second"), [("a", "a.b"), ("a.b", "a"), ("a.b.c", "a")], ids=lambda name: name
)
def test_of_two_names_that_are_one_to_clickhouse_the_more_frequent_is_taken(first: str, second: str):
    found = chosen([SliceFields("a", 9, {first: 9, second: 8})])
    assert names(found) == [first]
    assert found.left_out == {second: f"ClickHouse would take it for a part of column {first}"}


def test_cases_and_near_names_are_different():
    fields = {"a": 9, "A": 8, "ab": 7, "a_b": 6, "ä": 5}
    assert names(chosen([SliceFields("a", 9, fields)])) == list(fields)


def pipeline(columns: dict[str, str], kind: str = "kind.name") -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "p",
            "kafka": [{"cluster": "c", "bootstrap": "x:1", "topics": ["t"]}],
            "event": {"type": {"field": kind}, "time": {"record": True}},
            "lake": "file:///l",
            "tables": {"click": {"table": "e.clicks", "columns": columns, "evolve": "add"}},
        }
    )


def test_what_covers_a_field():
    spec = pipeline({"city": "geo.city"})
    columns = [Column("n", "UInt8"), Column("city", "String"), Column("m", "UInt8", "ALIAS", "n")]
    columns += [Column("items.id", "Array(UInt8)")]
    taken = taken_names(spec, spec.targets[0], columns)
    assert taken.covered == {"n", "geo", "geo.city", "m", "items.id", "items", "kind", "kind.name"}
    assert taken.refusal("city") == "its name is that of a column that another field fills"
    assert taken.refusal("price") == ""


def test_a_field_named_like_a_header_gets_no_column():
    """A column of that name takes the record's header, so that the field would never fill it."""
    found = chosen([SliceFields("a", 9, {"header:x": 9, "x": 8, "a.header:x": 7})])
    assert names(found) == ["x", "a.header:x"]
    assert found.left_out == {"header:x": "a column of this name takes the record's header"}


@given(st.dictionaries(st.text(max_size=120), st.integers(0, 5), max_size=30))
def test_whatever_a_field_is_called_it_is_taken_or_told(fields: dict[str, int]):
    found = chosen([SliceFields("a", 5, fields)], 2)
    wanted = {name for name, filled in fields.items() if filled >= 2}
    assert set(names(found)) | found.left_out.keys() == wanted
    assert not set(names(found)) & found.left_out.keys()
    for name in names(found):
        assert name.isprintable() and not name.startswith("_") and 0 < len(name.encode()) <= 100


def types_of(values: Sequence[Any], most: int = 10) -> tuple[str, list[int]]:
    """The type, and how many values each look at all of them has seen."""
    texts = [json.dumps(value).encode() for value in values]
    sample = ValueSample(most, 1 << 20)
    for text in texts:
        sample.add(text)
    looks: list[int] = []

    def again(wanted: Sequence[str]):
        assert list(wanted) == ["x"]
        looks.append(len(texts))
        return (("x", text) for text in texts)

    return column_types({"x": sample}, again)["x"].type, looks


def test_all_values_are_looked_at_where_a_sample_does_not_hold_them():
    assert types_of(list(range(10))) == ("Nullable(UInt64)", [])
    assert types_of(list(range(1_000))) == ("Nullable(UInt64)", [1_000])
    for number in (1, 501, 999):
        values: list[Any] = list(range(1_000))
        values[number] = "odd"
        assert types_of(values)[0] == "Nullable(String)"
        values[number] = -3
        assert types_of(values)[0] == "Nullable(Int64)"
        values[number] = 1.5
        assert types_of(values)[0] == "Nullable(Float64)"


def test_a_type_that_widens_with_each_look_ends_as_text():
    """Each look adds at most 1,000 values that do not fit: the next ones need another type again."""
    values = [f"2026-11-20T10:00:0{n % 10}Z" for n in range(3_000)]
    values += [f"2026-11-20T10:00:00.{n:03}Z" for n in range(999)]
    assert types_of([*values, "2026-11-20T10:00:00.123456789Z"])[0] == "Nullable(DateTime64(9, 'UTC'))"
    assert types_of([*values, "soon"])[0] == "Nullable(String)"


def test_values_nested_as_deep_as_they_may_land():
    sample = ValueSample(10, 1 << 20)
    sample.add(b"[" * 899 + b"]" * 899)
    types = column_types({"x": sample}, lambda names: [])
    assert types["x"].type == "Array(Array(Array(Array(Array(String)))))"


def test_arrays_with_a_dot_in_their_name_are_text():
    """ClickHouse would want all of `a.*` to have one length."""
    sample = ValueSample(10, 1 << 20)
    sample.add(b"[1, 2]")
    assert column_types({"a.b": sample}, lambda names: [])["a.b"].type == "Nullable(String)"


@given(st.lists(st.integers(0, 50), max_size=300), st.integers(1, 20), st.integers(1, 400))
def test_a_sample_is_bounded_and_spread(sizes: list[int], most: int, most_bytes: int):
    sample = ValueSample(most, most_bytes)
    texts = [b"%d " % number + b"x" * size for number, size in enumerate(sizes)]
    for text in texts:
        sample.add(text)
    assert sample.seen == len(sizes) and len(sample.texts) <= most
    assert sum(map(len, sample.texts)) <= most_bytes or len(sample.texts) == 1
    assert sample.texts == [text for text in texts if text in set(sample.texts)]
    assert sample.complete == (sample.texts == texts)


def test_a_sample_meets_all_values_of_a_producer_that_takes_turns():
    sample = ValueSample(1_000, 1 << 20)
    for number in range(100_000):
        sample.add(b"%d" % (number % 64))
    assert len(set(sample.texts)) == 64 and 300 < len(sample.texts) <= 1_000


@pytest.mark.parametrize(
    ("tree", "all_"),
    [
        ([" Function count (children 1)", "  ExpressionList (children 1)", "   Asterisk"], False),
        ([" Function tuple (children 1)", "  ExpressionList (children 1)", "   Asterisk"], True),
        (["SelectQuery", " ExpressionList", "  QualifiedAsterisk (children 1)"], True),
        (["SelectQuery", " ExpressionList", "  QualifiedColumnsRegexpMatcher"], True),
        (["SelectQuery", " ExpressionList", "  Identifier Asterisk"], False),
        (["SelectQuery", " ExpressionList", "  ColumnsListMatcher (children 1)"], False),
    ],
)
def test_a_select_that_names_its_columns_is_told_from_one_that_takes_all(tree: list[str], all_: bool):
    assert takes_all(tree) is all_


# ---- A statement that adds a column is printed only where a column can have the name.


@pytest.mark.parametrize("name", ["", "_fence", "_slice", "n", "a.b", "x" * 101, "a\nb"])
def test_no_statement_for_a_name_that_no_column_can_have(name: str):
    said = remedy("e.clicks", name, "String", {"n", "a"}, "take it out of `columns`")
    assert said.startswith("take it out of `columns`: ") and "ALTER" not in said


def test_the_statement():
    said = remedy("e.clicks", "price", "Float64", {"n", "prices"}, "take it out")
    assert said == "ALTER TABLE `e`.`clicks` ADD COLUMN `price` Float64"
