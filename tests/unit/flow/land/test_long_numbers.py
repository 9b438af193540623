"""What landing tells the load of long numbers: never less than there is."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.clients.clickhouse.tables import Column
from sluice.clients.lake.folder import FolderLake
from sluice.flow.land.task.long_numbers import RUN, has_run, has_tiny, may_be_long, may_be_long_in
from sluice.flow.load.casts.columns import fill
from sluice.flow.load.casts.exact_numbers import LONG
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.landing_world import World, event, hours, pipeline

# What the load looks for (exact_numbers.py), as Python's own engine finds it; a slash is one too many.
SIXTEEN = re.compile(rb"[0-9./]{16}")


def test_the_load_looks_at_events_only_where_the_manifest_tells_it_to():
    filling = fill([Column("price", "Decimal(18, 4)"), Column("name", "String")], {})
    assert LONG in filling.named
    short = filling.of_short_numbers()
    assert not any("long_numbers" in part or "odd_" in part for part in short.named)
    assert short.columns == filling.columns
    # A text may have a number of which nobody knows how the event spells it.
    checked = [{check.column for check in one.checks} for one in (filling, short)]
    assert checked == [{"", "price", "name"}, {"", "price"}]


@pytest.mark.parametrize("price", ["71.99999999999999999", "1e-400"])
def test_a_manifest_says_whether_one_of_its_events_may_hold_a_long_number(tmp_path, price: str):
    value, stamp = event(minute=65, price="?")
    long, refused = (value.replace(b'"?"', price.encode()), stamp), (b"1" * 30, event(minute=130)[1])
    log = [event(minute=5), event(minute=64), long, event(minute=66), refused, event(minute=131)]
    spec, world, lake = pipeline(), World({("dc1", "bids"): [log]}), FolderLake(tmp_path / "demo")
    world.resolve(spec, lake, hours(3))
    world.land(spec, lake, hours(3))
    manifests = read_manifests(lake, [Unit(piece, "dc1") for piece in hours(3)])
    assert [manifest.read for manifest in manifests.values()] == [1, 3, 2]
    assert [manifest.long_numbers for manifest in manifests.values()] == [False, True, False]


# A number of JSON with an exponent of three digits below zero, as Python's own engine finds it.
TINY = re.compile(rb"[ \t\n\r:,\[]-?[0-9]{1,13}([.][0-9])?[eE]-[0-9]{3}")
PIECES = [b"1", b"0.5", b"e-", b"E-", b"400", b"-", b":", b", ", b"[", b"]", b'"', b"e", b"12e-456"]


def tiny(text: bytes) -> bool:
    return has_tiny(np.frombuffer(text, np.uint8))


@given(st.lists(st.sampled_from(PIECES), max_size=30))
@example([b":", b"1", b"e-", b"400"])
@example([b"[", b"-", b"0.5", b"E-", b"400", b"]"])
def test_a_number_below_a_doubles_range_is_found_wherever_it_lies(parts):
    text = b"".join(parts)
    if not SIXTEEN.search(text):
        assert tiny(text) or not TINY.search(text)


@pytest.mark.parametrize("number", ["1e-400", "-1E-400", "0.1e-324", "12345678901234e-0400", "2e-324"])
@pytest.mark.parametrize("before", ['{"k":', '{"k": ', '{"k":[7,', '{"k":[', '{"k":\n'])
def test_every_spelling_of_one_is_found(before, number):
    assert float(number) == 0
    for padding in range(5):
        assert tiny(("x" * padding + before + number + "}").encode())
        assert may_be_long(pa.chunked_array([["", before + number + "}", "{}"]], pa.string()))


def test_one_is_found_at_every_place_of_a_large_text():
    text = np.full((1 << 20) + 200, ord("x"), np.uint8)
    number = np.frombuffer(b":1e-400}", np.uint8)
    for place in (*range(40), *range((1 << 20) - 60, (1 << 20) + 192)):
        marked = text.copy()
        marked[place : place + len(number)] = number
        assert tiny(marked.tobytes()), place
    assert not tiny(text.tobytes())


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "1234567e-4567-e89b-12e3-426614174000"}',
        '{"id": "123e-456"}',
        '{"a": 1e-99, "b": 1e400, "c": "e-400", "d": -400}',
        ":1e-40",
        "e-400",
        "1e-400",
        ":1d-400,",
        ":1e-x00,",
        ":1e-4x0,",
        ":1e-40x,",
        "X1e-400,",
        "",
    ],
)
def test_what_is_no_such_number_is_not_one(text):
    assert not tiny(text.encode())
    assert not may_be_long(pa.chunked_array([[text]], pa.string()))


# ---- A run of sixteen digits or points is found wherever it begins and ends, and no shorter one is.

# The bytes next to those that count, and the ends of their range.
INSIDE, OUTSIDE = b"./0123456789", b'-:,+ \x00\xffeE"x}'


def found(text: bytes) -> bool:
    return has_run(np.frombuffer(text, np.uint8))


@pytest.mark.parametrize("length", range(41))
def test_runs_of_each_length_at_each_place(length):
    for before in range(9):
        for after in range(9):
            text = b"x" * before + b"7" * length + b"x" * after
            assert found(text) is (length >= 16), (before, after)


@pytest.mark.parametrize("inside", INSIDE)
def test_every_byte_that_counts(inside):
    for before in range(4):
        assert found(b"-" * before + bytes([inside]) * 16)
        assert not found(b"-" * before + bytes([inside]) * 15)


@pytest.mark.parametrize("outside", OUTSIDE)
def test_every_byte_that_does_not(outside):
    for place in range(31):
        text = bytearray(b"5" * 31)
        text[place] = outside
        assert found(bytes(text)) is (place < 15 or place > 15), place


def test_runs_that_do_not_touch_do_not_add_up():
    for first in range(16):
        for second in range(16):
            assert not found(b"1" * first + b"," + b"2" * second)
            assert found(b"1" * first + b"," + b"2" * second + b"," + b"3" * 16)


@pytest.mark.parametrize("before", range(4))
def test_many_runs_that_are_too_short_do_not_add_up(before):
    assert not found(b"-" * before + b",".join([b"1" * 15] * 40))


def test_the_slices_of_which_a_payload_may_hold_one():
    texts = pa.chunked_array([["1", "2", "3" * 16, "4"], ["5", "6" * 16, "7"]], pa.string())
    assert may_be_long_in(texts, np.array([9, 9, 8, 7, 7, 7, 4])) == [8, 7]
    assert may_be_long_in(texts, np.array([1, 2, 3, 4, 5, 6, 7])) == [3, 6]
    assert may_be_long_in(texts.slice(3, 2), np.array([1, 2])) == []


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()])
def test_texts_of_either_type(kind):
    long = ["a", "1" * 15, "b1234567890123456", None, ""]
    assert may_be_long(pa.chunked_array([long], kind))
    assert not may_be_long(pa.chunked_array([long[:2], long[3:]], kind))
    assert may_be_long(pa.chunked_array([["a"], [], long[2:3], ["b"]], kind))


def test_a_part_of_an_array_is_looked_at_alone():
    texts = pa.chunked_array([["x" * 7, "1" * 16, "y", "2" * 16, "z"]], pa.string())
    assert [may_be_long(texts.slice(n, 1)) for n in range(5)] == [False, True, False, True, False]
    assert not may_be_long(texts.slice(0, 0))
    bare = pa.StringArray.from_buffers(0, None, pa.py_buffer(b""))  # it need not have offsets
    assert not may_be_long(pa.chunked_array([pa.nulls(3, pa.string()), pa.nulls(0, pa.string()), bare]))
    assert RUN == 16
