"""Which floating numbers differ from what Python reads: the written text decides, nothing of ClickHouse's."""

from __future__ import annotations

import json
import struct
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.clients.clickhouse.tables import Column
from sluice.field_path import read_event
from sluice.flow.contents.compare_floats import FloatColumn, Misread, differing, float_columns

RECORD = ("t", 0, 5)
# 0.1 and 0.3 as the nearest Float32.
TENTH, THREE_TENTHS = 0.10000000149011612, 0.30000001192092896


def told(kind: str, payload: str, read: Any, path: str = "f", typed: frozenset[str] = frozenset()):
    column = FloatColumn("f", (tuple(path.split(".")),), kind, typed)
    event = read_event(payload.encode())
    return [(one.expected, one.seen) for one in differing([column], {RECORD: event}, 3, [(*RECORD, read)])]


@pytest.mark.parametrize(
    ("kind", "written", "read"),
    [
        ("Float64", "0.1", 0.1),
        ("Float64", "4.35e-5", 4.35e-05),
        ("Float64", "-0.0", 0.0),
        ("Float64", "7", 8.0),  # whole numbers have casts of their own
        ("Float64", '"0.1"', 0.2),  # so have texts
        ("Float64", "null", 0.5),
        ("Float64", "0.1", None),
        ("Float32", "0.1", TENTH),
        ("Float32", "0.3", THREE_TENTHS),
        ("Float32", "1.000000178813934326171875", 1.000000238418579),  # a tie of doubles is none of texts
    ],
)
def test_the_same_number(kind: str, written: str, read: Any):
    assert told(kind, f'{{"f": {written}}}', read) == []


@pytest.mark.parametrize(
    ("kind", "written", "read"),
    [
        ("Float64", "0.1", 0.10000000000000002),
        ("Float32", "0.1", 0.10000000894069672),
        ("Float64", "1e2", 10.0),
    ],
)
def test_a_digit_off(kind: str, written: str, read: float):
    assert told(kind, f'{{"f": {written}}}', read) == [(written, repr(read))]


def test_any_double_read_by_its_text_is_the_same_and_its_neighbor_is_not():
    for bits in range(1, 2**62, 2**53 + 12345):
        (value,) = struct.unpack("<d", struct.pack("<Q", bits))
        (next_one,) = struct.unpack("<d", struct.pack("<Q", bits + 1))
        payload = json.dumps({"f": value})
        if "." in payload or "e" in payload:
            assert told("Float64", payload, value) == []
            assert told("Float64", payload, next_one) == [
                (json.loads(payload, parse_float=str)["f"], repr(next_one))
            ]


def test_numbers_inside_a_json_by_their_places():
    payload = '{"d": {"f": {"a": [0.5, {"b.c": 0.1}], "n": 3, "typed": 0.25, "x": "0.1"}}}'
    same = '{"a":[0.5,{"b":{"c":0.1}}],"n":3,"typed":7.5,"x":"0.1"}'
    other = same.replace("0.1}", "0.10000000000000002}")
    assert told("JSON", payload, same, "d.f", frozenset({"typed"})) == []
    assert told("JSON", payload, other, "d.f", frozenset({"typed"})) == [
        ("a.b.c = 0.1", "0.10000000000000002")
    ]


def test_the_first_record_of_each_column():
    events = {("t", 0, n): read_event(b'{"f": 0.5, "g": 0.25}') for n in range(3)}
    columns = [FloatColumn(name, ((name,),), "Float64") for name in "fg"]
    found = [("t", 0, 2, 9.0, 0.25), ("t", 0, 1, 8.0, 0.25), ("t", 0, 0, 0.5, 0.25)]
    assert list(differing(columns, events, 3, found)) == [Misread("f", ("t", 0, 1), "0.5", "8.0")]


def test_columns_of_floats_and_where_their_fields_are():
    target = SimpleNamespace(columns={"a": "x.y"})
    columns = [
        Column("a", "Nullable(Float64)"),
        Column("b", "LowCardinality(Float32)"),
        Column("c", "Decimal(9, 2)"),
        Column("j", "JSON(max_dynamic_paths=10, `k.v` Float32)"),
        Column("m", "Float64", "MATERIALIZED", "a * 2"),
    ]
    a, b, j = float_columns(target, columns)
    assert (a, b) == (FloatColumn("a", (("x", "y"),), "Float64"), FloatColumn("b", (("b",),), "Float32"))
    assert (j.name, j.paths, j.kind, "k.v" in j.typed) == ("j", (("j",),), "JSON", True)


@pytest.mark.parametrize(
    ("payload", "seen"),
    [
        ('{"d": {"f": 0.1}}', ["0.1"]),
        ('{"d.f": 0.1}', ["0.1"]),
        ('{"d.f": null, "d": {"f": 0.1}}', ["0.1"]),
        ('{"d.f": 0.1, "d": {"f": 0.2}}', ["0.1"]),
        ('{"d.f": 0.1, "d.f": 0.2}', ["0.1"]),
        ('{"d": 0.1}', []),
    ],
)
@pytest.mark.parametrize("paths", [{}, {"d.f": "d.f"}])
def test_a_column_with_a_dot_in_its_name_reads_what_a_load_reads(
    payload: str, seen: list[str], paths: dict[str, str]
):
    columns = float_columns(SimpleNamespace(columns=paths), [Column("d.f", "Float64")])
    found = differing(columns, {RECORD: read_event(payload.encode())}, 3, [(*RECORD, 0.5)])
    assert [one.expected for one in found] == seen
