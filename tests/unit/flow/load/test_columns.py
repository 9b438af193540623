"""Types and what fills a table's columns; the values themselves are in integration/load/test_load_columns."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.clickhouse.sql import Sql
from sluice.clients.clickhouse.tables import Column
from sluice.clients.clickhouse.types import parse
from sluice.flow.load.casts import exact_numbers
from sluice.flow.load.casts.casts import UnsupportedType, cast, document_cast
from sluice.flow.load.casts.columns import fill
from sluice.flow.load.source.pull_or_push import filled
from sluice.time_grammar import AS_WRITTEN

KEYS = [Column("_slice", "DateTime('UTC')"), Column("_cluster", "LowCardinality(String)")]


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("UInt8", "UInt8", ()),
        ("Decimal(18, 4)", "Decimal", ("18", "4")),
        ("DateTime64(3, 'Europe/Berlin')", "DateTime64", ("3", "'Europe/Berlin'")),
        ("Map(String, Array(Nullable(UInt8)))", "Map", ("String", "Array(Nullable(UInt8))")),
        (r"Enum8('a,(b' = 1, 'it\'s' = 2)", "Enum8", ("'a,(b' = 1", r"'it\'s' = 2")),
    ],
)
def test_type_names_are_parsed(text: str, name: str, arguments: tuple[str, ...]):
    found = parse(text)
    assert (found.text, found.name, found.arguments) == (text, name, arguments)


@pytest.mark.parametrize(
    ("text", "plain", "nullable"),
    [
        ("LowCardinality(Nullable(String))", "String", True),
        ("Nullable(DateTime('UTC'))", "DateTime", True),
        ("LowCardinality(String)", "String", False),
        ("Array(Nullable(String))", "Array", False),
    ],
)
def test_wrappers_are_seen_through(text: str, plain: str, nullable: bool):
    assert (parse(text).plain.name, parse(text).nullable) == (plain, nullable)


@pytest.mark.parametrize(
    "text",
    ["AggregateFunction(sum, UInt8)", "Nullable(Nothing)", "Tuple()", "Array(Tuple(a Tuple()))",
     "QBit(Float32, 8)", "Variant(UInt8, Nothing)", "Map(String, AggregateFunction(sum, UInt8))",
     "Nullable(Tuple(a UInt8))"],
)  # fmt: skip
def test_types_that_no_value_fits_are_refused(text: str):
    with pytest.raises(UnsupportedType):
        cast(parse(text), "x")
    with pytest.raises(UnsupportedType, match="column odd has type"):
        fill([*KEYS, Column("odd", text)], {})


def test_all_types_that_no_value_fits_are_told_at_once():
    columns = [*KEYS, Column("a", "Nothing"), Column("b", "String"), Column("c", "Tuple()")]
    with pytest.raises(UnsupportedType) as refused:
        fill(columns, {})
    assert str(refused.value) == "column a has type Nothing, column c has type Tuple()"


def test_only_columns_that_an_insert_takes_are_filled():
    columns = [
        *KEYS,
        Column("a", "String"),
        Column("b", "UInt8", "DEFAULT", "7"),
        Column("c", "UInt8", "MATERIALIZED", "b + 1"),
        Column("d", "UInt8", "ALIAS", "b"),
        Column("e", "String", "EPHEMERAL", "defaultValueOfTypeName('String')"),
    ]
    assert fill(columns, {}).columns == ("_slice", "_cluster", "a", "b", "e")
    with pytest.raises(UnsupportedType, match="column p has type Tuple"):
        fill([*columns, Column("p", "Tuple()", "EPHEMERAL", "tuple()")], {})


def test_one_extract_for_the_event_and_one_for_each_object_inside():
    """Also for the one whose key has a dot, `actor.place`."""
    paths = {"login": "actor.login", "city": "actor.place.city", "name": "repo.name"}
    filling = fill([*KEYS, *(Column(name, "String") for name in (*paths, "n"))], paths)
    extracts = [str(part) for part in filling.named if part.startswith("JSONExtract(")]
    assert len(extracts) == 5
    names = ("actor.login", "actor", "actor.place.city", "actor.place", "repo.name", "repo", "n")
    assert ", ".join(f"`{name}` Nullable(String)" for name in names) in extracts[0].replace("\\", "")


def test_a_table_of_the_lakes_columns_parses_nothing():
    filling = fill([*KEYS, Column("_type", "String"), Column("_payload", "String")], {})
    assert (filling.named, filling.checks, filling.unfit) == ((), (), "0")
    assert filling.values == ("`_slice`", "`_cluster`", "`_type`", "`_payload`")


@given(st.from_regex(exact_numbers._LONG))
def test_what_has_a_long_number_is_never_passed_over(text: str):
    assert any(re.search(likely, text) for likely in exact_numbers._LIKELY)


@pytest.mark.parametrize(
    "kind", ["UInt8", "Int256", "Decimal(18, 4)", "Nullable(DateTime)", "Enum8('1' = 1)"]
)
def test_what_a_typed_path_gives_a_name_is_written_once(kind: str):
    named = document_cast(parse(f"JSON(a.b {kind})"), "r0", "k", "", "0", AS_WRITTEN).named
    for number, (name, expression) in enumerate(named):
        others = [other for _, other in named[number + 1 :]]
        assert not [other for other in others if expression in other]
        assert not others or re.search(rf"\b{name}\b", "".join(others))


def test_a_json_without_typed_paths_is_cast_where_no_key_is_there_twice():
    twice = "arrayExists(n -> n > 1, arrayEnumerateUniq(JSONExtractKeys(ifNull(r0, ''))))"
    assert cast(parse("JSON"), "r0", key=None).value == f"if({twice}, NULL, accurateCastOrNull(r0, 'JSON'))"


# For each AND or OR of equalities the server's planner walks through the whole statement once more.
_TYPES = [
    *("UInt64", "Int256", "Float64", "Bool", "Decimal(18, 4)", "Date", "DateTime64(3)", "UUID", "IPv4"),
    *("Enum8('1' = 1)", "Array(Decimal(18, 4))", "Array(Array(UInt8))", "Map(String, Array(Int128))"),
    *("JSON", "JSON(a UInt8, b.c Array(Date))", "Nullable(DateTime)", "LowCardinality(Nullable(String))"),
]


@pytest.mark.parametrize("kind", _TYPES)
def test_what_a_wide_table_repeats_is_quick_to_plan(kind: str):
    filling = fill([Column("k", kind), Column("o.p", "UInt8"), *KEYS], {"o.p": "a.b"})
    for some in (filling, filling.short):
        parts = [part for part in (*some.named, some.unfit) if not part.endswith(" AS long_numbers")]
        assert parts and not [part for part in parts if re.search(r"\b(AND|OR)\b", part)]


@pytest.mark.parametrize(("columns", "wide"), [(62, False), (63, True), (1000, True)])
def test_conditions_of_a_wide_table_stay_behind_its_files(columns: int, wide: bool):
    filling = fill([*(Column(f"c{number}", "String") for number in range(columns)), *KEYS], {})
    rows = filled(filling, ("_payload",), Sql("SELECT 1"), Sql("1"))
    assert (") LIMIT 1000000000000000000" in " ".join(rows.split())) is wide
