"""A run of sixteen digits or points is found wherever it begins and ends, and no shorter one is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sluice.flow.land.task.long_numbers import RUN, has_run, may_be_long

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
