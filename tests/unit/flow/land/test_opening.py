"""Arrays become rows whose bytes and numbers are exact, a bounded number of them at a time."""

from __future__ import annotations

import json
from functools import partial

import pyarrow as pa
import pytest

from sluice.flow.land.formats.decoders import DecodedEvent
from sluice.flow.land.reject_reasons import Rejected
from sluice.flow.land.task import opened as module
from sluice.flow.land.task.decode import elements
from sluice.flow.land.task.opened import Opened, as_they_are, decoded, exploded
from sluice.flow.land.task.records import CARRIED, LENGTHS, NUMBERS, REASON
from tests.support.landing_world import record_table

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


BY_ELEMENT = partial(exploded, divide=elements)


def opened(values: list[bytes | None], opener=BY_ELEMENT, carried: int | None = None, numbers=None):
    headers = [[{"key": "n", "value": b"%d" % number}] for number in range(len(values))]
    records = record_table(values, headers, range(1000, 1000 + len(values)))
    if carried is not None:
        at = records.column_names.index(CARRIED)
        records = records.set_column(at, CARRIED, pa.array([carried] * len(values), pa.int64()))
    if numbers is not None:
        records = records.append_column(NUMBERS, pa.array(numbers, pa.list_(pa.int32())))
        sizes = [[len(one) for one in (value or b"")[1:-1].split(b",")] for value in values]
        records = records.append_column(LENGTHS, pa.array(sizes, pa.list_(pa.int64())))
    return list(opener(records))


def rows_of(piece: Opened) -> list[tuple]:
    """(offset, number in its message, bytes) of each event."""
    if not piece.events.num_rows:
        return []
    columns = (piece.events[name].to_pylist() for name in ("_offset", "_row", "_payload"))
    return list(zip(*columns, strict=True))


def reasons_of(piece: Opened) -> dict[int, str]:
    rejected = piece.rejected
    columns = ([] if rejected is None else rejected[name].to_pylist() for name in ("_offset", REASON))
    return dict(zip(*columns, strict=True))


def empty_of(piece: Opened) -> list[int]:
    return [] if piece.empty is None else piece.empty["_offset"].to_pylist()


@pytest.mark.parametrize(("text", "elements"), ARRAYS)
def test_each_element_is_a_row_with_its_own_bytes(text, elements):
    [piece] = opened([text])
    assert rows_of(piece) == [(0, number, element) for number, element in enumerate(elements)]
    assert (reasons_of(piece), empty_of(piece)) == ({}, [0] if not elements else [])
    if elements and b"\xff" not in text and b"1e400" not in text:
        assert [json.loads(element) for element in elements] == json.loads(text)


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_a_message_that_is_no_array_has_its_reason(text, reason):
    [piece] = opened([b"[1]", text, b"[2]"])
    assert (reasons_of(piece), empty_of(piece)) == ({1: reason}, [])
    assert rows_of(piece) == [(0, 0, b"1"), (2, 0, b"2")]


def test_a_row_has_what_its_record_has():
    [piece] = opened([b"[1,2]", b"[]", b"{", b"[3]"])
    assert rows_of(piece) == [(0, 0, b"1"), (0, 1, b"2"), (3, 0, b"3")]
    assert piece.events["_timestamp"].cast(pa.int64()).to_pylist() == [1000, 1000, 1003]
    assert [h[0]["value"] for h in piece.events["_headers"].to_pylist()] == [b"0", b"0", b"3"]
    assert (empty_of(piece), reasons_of(piece)) == ([1], {2: "not JSON"})


def test_elements_out_of_the_lake_keep_the_numbers_that_they_had():
    [piece] = opened([b"[1,2]", b"[6,1,7]"], numbers=[None, [1, 4, 5]])
    assert rows_of(piece) == [(0, 0, b"1"), (0, 1, b"2"), (1, 1, b"6"), (1, 4, b"1"), (1, 5, b"7")]


@pytest.mark.parametrize(("carried", "rows_at_once", "bytes_at_once"), [(0, 7, 1 << 20), (100, 1000, 700)])
def test_pieces_are_bounded_and_lose_nothing(monkeypatch, carried, rows_at_once, bytes_at_once):
    monkeypatch.setattr(module, "ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(module, "BYTES_AT_ONCE", bytes_at_once)
    sizes = [0, 3, 50, 1, 0, 20, 8]
    pieces = opened([json.dumps(list(range(size))).encode() for size in sizes], carried=carried)
    assert max(piece.events.num_rows for piece in pieces) <= 2 * 8
    found = [(place, number, int(value)) for piece in pieces for place, number, value in rows_of(piece)]
    assert found == [(place, n, n) for place, size in enumerate(sizes) for n in range(size)]
    assert [place for piece in pieces for place in empty_of(piece)] == [0, 4]


def test_a_record_that_is_an_event_stays_as_it_is():
    given = record_table([b"x"])
    [piece] = as_they_are(given)
    assert piece.events is given and (piece.rejected, piece.empty) == (None, None)


def test_what_does_not_decode_is_refused_by_its_place():
    def upper(message: bytes, _: bytes | None) -> DecodedEvent:
        if message == b"bad":
            raise Rejected("broken")
        return DecodedEvent(message.upper(), "Event")

    [piece] = opened([b"a", b"bad", None, b"b"], partial(decoded, decode=upper))
    columns = (piece.events[name].to_pylist() for name in ("_offset", "_payload", "_raw"))
    assert list(zip(*columns, strict=True)) == [(0, b"A", b"a"), (3, b"B", b"b")]
    assert reasons_of(piece) == {1: "broken", 2: "no value"}
