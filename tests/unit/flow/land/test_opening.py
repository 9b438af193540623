"""Arrays become rows whose bytes and numbers are exact, a bounded number of them at a time."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sluice.flow.land.reject_reasons import Unparsed
from sluice.flow.land.task import unpack
from sluice.flow.land.task.columns import HEADERS
from sluice.flow.land.task.parse import RecordColumns
from sluice.flow.land.task.unpack import Arrays, Decoded, SingleEvents

# The text of a message, and its elements cut out by hand.
ARRAYS = [
    (b"[]", []),
    (b" [ \n ] ", []),
    (b"[1]", [b"1"]),
    (b'[{"a":1},{"a":2}]', [b'{"a":1}', b'{"a":2}']),
    (b' [ {"a" : 1.50 } ,\r\n [2, 3] , "x,]" , null ]\n', [b'{"a" : 1.50 }', b"[2, 3]", b'"x,]"', b"null"]),
    (b'[{"a":"\xff"},{"a":"\xc3\xa9\\u00e9"}]', [b'{"a":"\xff"}', b'{"a":"\xc3\xa9\\u00e9"}']),
    (b"[1e400,-0,12345678901234567890123]", [b"1e400", b"-0", b"12345678901234567890123"]),
    (b'[{"a":1,"a":2}]', [b'{"a":1,"a":2}']),
]
REFUSED = [
    (None, "no value"),
    (b"", "not JSON"),
    (b"[1,]", "not JSON"),
    (b"[1", "not JSON"),
    (b"[1] [2]", "not JSON"),
    (b"[nul]", "not JSON"),
    (b"[{]", "not JSON"),
    (b"\xef\xbb\xbf[1]", "not JSON"),
    (b'{"a":', "not JSON"),
    (b"\xff[1]", "not UTF-8"),
    (b'{"a":"\xff"}', "not UTF-8"),
    (b'{"a":1}', "not an array"),
    (b'"[1]"', "not an array"),
    (b"null", "not an array"),
    (b"[" * 5000 + b"]" * 5000, "nested too deep"),
]


def records(values: list[bytes | None]) -> RecordColumns:
    count = len(values)
    headers = [[("n", b"%d" % number)] for number in range(count)]
    stamps = np.arange(count) + 1000
    return RecordColumns(
        pa.array(values, pa.binary()), "t", pa.array(headers, HEADERS), stamps, stamps, stamps
    )


def opened(values: list[bytes | None], opener=None, carried: int = 0):
    return list((opener or Arrays()).open(records(values), np.full(len(values), carried)))


@pytest.mark.parametrize(("text", "elements"), ARRAYS)
def test_each_element_is_a_row_with_its_own_bytes(text, elements):
    [piece] = opened([text])
    assert piece.events.values.to_pylist() == elements
    assert piece.numbers.tolist() == list(range(len(elements)))
    assert (piece.refused, piece.empty) == ({}, (0,) if not elements else ())
    if elements and b"\xff" not in text and b"1e400" not in text:
        assert [json.loads(element) for element in elements] == json.loads(text)


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_a_message_that_is_no_array_has_its_reason(text, reason):
    [piece] = opened([b"[1]", text, b"[2]"])
    assert (piece.refused, piece.empty) == ({1: reason}, ())
    assert piece.positions.tolist() == [0, 2]


def test_a_row_has_what_its_record_has():
    [piece] = opened([b"[1,2]", b"[]", b"{", b"[3]"])
    assert piece.positions.tolist() == [0, 0, 3]
    assert piece.numbers.tolist() == [0, 1, 0]
    assert piece.events.timestamps.tolist() == [1000, 1000, 1003]
    assert [h[0]["value"] for h in piece.events.headers.to_pylist()] == [b"0", b"0", b"3"]
    assert (piece.empty, piece.refused) == ((1,), {2: "not JSON"})


class Erasing:
    """Erases the texts that it was given. (The rules of what is erased have tests of their own.)"""

    def __init__(self, *texts: bytes) -> None:
        self._texts = texts

    def has(self, position: int, text: bytes | None) -> bool:
        return text in self._texts


def test_elements_keep_their_numbers_where_others_are_erased():
    """Now, or before the lake got them: then the numbers come along."""
    values = [b"[1,2,3,1,4]", b"[1]", b"[5,1]", b"[]", b"[6,1,7]"]
    numbers = [None, None, None, None, [1, 4, 5]]
    some = replace(records(values), erasing=Erasing(b"1"), numbers=numbers)
    [piece] = Arrays().open(some, np.zeros(len(values), np.int64))
    found = zip(
        piece.positions.tolist(), piece.numbers.tolist(), piece.events.values.to_pylist(), strict=True
    )
    first = [(0, 1, b"2"), (0, 2, b"3"), (0, 4, b"4"), (2, 0, b"5")]
    assert [*found] == [*first, (4, 1, b"6"), (4, 5, b"7")]
    assert (piece.erased, piece.empty, piece.rows_erased) == ((1,), (3,), (0, 0, 1, 2, 4))


@pytest.mark.parametrize(("carried", "rows_at_once", "bytes_at_once"), [(0, 7, 1 << 20), (100, 1000, 700)])
def test_pieces_are_bounded_and_lose_nothing(monkeypatch, carried, rows_at_once, bytes_at_once):
    monkeypatch.setattr(unpack, "ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(unpack, "BYTES_AT_ONCE", bytes_at_once)
    sizes = [0, 3, 50, 1, 0, 20, 8]
    pieces = opened([json.dumps(list(range(size))).encode() for size in sizes], carried=carried)
    assert max(len(piece.positions) for piece in pieces) <= 2 * 8
    found = [
        (place, number, int(value))
        for piece in pieces
        for place, number, value in zip(
            piece.positions.tolist(), piece.numbers.tolist(), piece.events.values.to_pylist(), strict=True
        )
    ]
    assert found == [(place, n, n) for place, size in enumerate(sizes) for n in range(size)]
    assert [place for piece in pieces for place in piece.empty] == [0, 4]


def test_a_record_that_is_an_event_stays_as_it_is():
    given = records([b"x"])
    [piece] = SingleEvents().open(given, np.zeros(1))
    assert piece.events is given
    assert (piece.positions, piece.numbers) == (None, None)


def test_what_does_not_decode_is_refused_by_its_place():
    def decode(message: bytes) -> bytes:
        if message == b"bad":
            raise Unparsed("broken")
        return message.upper()

    [piece] = opened([b"a", b"bad", None, b"b"], Decoded(decode))
    assert piece.events.values.to_pylist() == [b"A", b"B"]
    assert (piece.positions.tolist(), piece.numbers) == ([0, 3], None)
    assert piece.refused == {1: "broken", 2: "no value"}
