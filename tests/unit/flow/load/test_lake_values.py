"""The values that a column's type is inferred from are those that a load takes."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.flow.load.evolve.lake_values import events, filled_fields, value, values_of
from sluice.flow.load.work import LoadWork
from tests.support.fakes import MemoryLake
from tests.unit.flow.load.test_load_decide import file, unit

NAMES = st.sampled_from(["a", "b", "a:b", "é", 'q"', ""])
TEXTS = st.sampled_from(
    ["1", '"x:y"', "null", '{"a": 1, "a": {"b": ":"}}', '["a:1", {"a:b": 2}]', '"\\u003a"']
)
SPACES = st.sampled_from(["", " ", "\n"])


def landed(*payloads: bytes) -> tuple[MemoryLake, LoadWork]:
    lake, parquet = MemoryLake(), io.BytesIO()
    pq.write_table(pa.table({"_payload": pa.array(payloads, pa.binary())}), parquet)
    lake.put(file("click", 1).key, parquet.getvalue())
    return lake, LoadWork(unit(), "1-a", ("click",), (file("click", len(payloads)),), len(payloads), False)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b'{"n": 1, "n": "x"}', {"n": b"1"}),
        (b'{"n":"x:y","m":{"k":":"},"n":2}', {"n": b'"x:y"', "m": b'{"k":":"}'}),
        (b'{"n": 1, "\\u006e": "x"}', {"n": b"1"}),
        (b'{"a\\u003ab": 1, "n": 2, "n": 3}', {"a:b": b"1", "n": b"2"}),
        (b'{"n": null, "n": 1}', {"n": b"null"}),
        (b'{"n": 1}', {"n": b"1"}),
        (b"{}", {}),
        (b"[1]", {}),
    ],
)
def test_of_a_field_that_is_there_twice_the_first_value_counts(payload: bytes, expected: dict[str, bytes]):
    (values,) = events(*landed(payload))
    assert {name: bytes(raw) for name, raw in values.items()} == expected


def test_a_type_is_inferred_from_the_value_that_the_load_takes():
    lake, work = landed(b'{"n": 1, "n": "x"}', b'{"n": null, "n": 7}', b'{"n": 2}')
    assert list(values_of(lake, [work], ["n"])) == [("n", b"1"), ("n", b"2")]
    assert filled_fields(lake, work).filled == {"n": 2}


def test_a_member_of_an_object_that_is_there_twice():
    assert value(b'{"k": 1, "l": {"m": true, "m": 0}, "k": "x"}') == {"k": 1, "l": {"m": True}}
    assert list(value(b'{"b": 1, "a": 2, "b": 3}')) == ["b", "a"]


@given(st.lists(st.tuples(NAMES, TEXTS, SPACES, st.booleans()), max_size=5))
def test_any_event(members: list[tuple[str, str, str, bool]]):
    expected: dict[str, bytes] = {}
    for name, text, _, _ in members:
        expected.setdefault(name, text.encode())
    parts = [f"{json.dumps(n, ensure_ascii=e)}{s}:{s}{text}" for n, text, s, e in members]
    (values,) = events(*landed(f"{{{','.join(parts)}}}".encode()))
    assert {name: bytes(raw) for name, raw in values.items()} == expected
