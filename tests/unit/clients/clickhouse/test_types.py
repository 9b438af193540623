"""Types of ClickHouse as the server writes them."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.types import named, parse


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("Point", "Tuple(Float64, Float64)"),
        ("Ring", "Array(Point)"),
        ("LineString", "Array(Point)"),
        ("MultiLineString", "Array(LineString)"),
        ("Polygon", "Array(Ring)"),
        ("MultiPolygon", "Array(Polygon)"),
        ("Nested(a UInt8, b String)", "Array(Tuple(a UInt8, b String))"),
        ("Nullable(UInt8)", "UInt8"),
        ("String", "String"),
    ],
)
def test_what_a_type_is_made_of(text: str, shape: str):
    # https://clickhouse.com/docs/sql-reference/data-types/geo
    assert parse(text).shape.text == shape


@pytest.mark.parametrize("text", ["Nullable(UInt8)", "Variant(UInt8, String)", "Dynamic"])
def test_types_that_have_a_null(text: str):
    assert parse(text).nullable
    assert not parse(f"Array({text})").nullable


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (r"`a\bb`", "a\bb"),
        (r"`a\fb`", "a\fb"),
        (r"`a\nb`", "a\nb"),
        (r"`a\rb`", "a\rb"),
        (r"`a\tb`", "a\tb"),
        (r"`a\0b`", "a\0b"),
        (r"`a\\b`", "a\\b"),
        (r"`a\`b`", "a`b"),
        ("`a\\\nb`", "a\nb"),
        ("plain", "plain"),
    ],
)
def test_names_as_the_server_writes_them(written: str, name: str):
    # writeAnyEscapedString in src/IO/WriteHelpers.h of ClickHouse.
    assert named(f"{written} UInt8") == (name, parse("UInt8"))


def test_the_names_of_a_tuples_elements_as_they_are_spelled():
    assert parse(r"Tuple(`a b` UInt8, c String, `d\`e` Decimal(18, 4))").spelled_names == [
        "`a b`",
        "c",
        r"`d\`e`",
    ]
    assert parse("Tuple(UInt8, Decimal(18, 4), DateTime64(3, 'UTC'))").spelled_names == []
