"""The version of a row, and which columns it can be made of. Pure."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.tables import Column
from sluice.state.newest_version import Unfit, check_key, deleted, version


def columns(*kinds: str) -> list[Column]:
    return [Column(f"c{number}", kind) for number, kind in enumerate(kinds)]


@pytest.mark.parametrize(
    ("kinds", "by_row"),
    [
        ((), False),
        (("Nullable(Int64)", "Nullable(UInt64)"), False),
        (("Int64", "Int32"), True),
        (("Enum8('a' = 1)", "Date", "Bool", "DateTime('UTC')"), True),
        (("LowCardinality(Nullable(UInt32))", "DateTime64(6, 'UTC')"), False),
    ],
)
def test_columns_that_fit(kinds: tuple[str, ...], by_row: bool):
    assert version(columns(*kinds), by_row)


@pytest.mark.parametrize(
    ("kinds", "by_row", "says"),
    [
        (("String",), False, "c0 of `version` has type String"),
        (("Int64", "Float64"), False, "c1 of `version` has type Float64"),
        (("UInt128",), False, "at most 64 bits"),
        (("Decimal(9, 2)",), False, "expected an integer"),
        (("Array(Int8)",), False, "Array"),
        (("Int64", "Int64", "Int8"), False, "have 136 bits, and there is room for 130"),
        (("Nullable(Int64)", "Int64"), True, "have 129 bits, and there is room for 98"),
    ],
)
def test_columns_that_do_not(kinds: tuple[str, ...], by_row: bool, says: str):
    with pytest.raises(Unfit, match=says):
        version(columns(*kinds), by_row)


@pytest.mark.parametrize("kind", ["Nullable(String)", "Float64", "Array(Float32)", "JSON", "Dynamic"])
def test_types_that_tell_no_key(kind: str):
    with pytest.raises(Unfit, match="c0 of `key`"):
        check_key(columns(kind))


def test_types_that_say_deleted():
    for kind in ("Bool", "Nullable(UInt8)", "Int64", "String", "LowCardinality(Nullable(String))"):
        assert "c0" in deleted(columns(kind)[0])
    assert deleted(None) == "toUInt8(0)"
    with pytest.raises(Unfit, match="c0 of `deleted` has type Float64"):
        deleted(columns("Float64")[0])
