"""Numbers of a record that take more bytes than they need, which Kafka's format allows.

Java reads 32 bits from at most five bytes, and 64 bits from at most ten (ByteUtils.readVarint, readVarlong).
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.kafka import batch_records
from sluice.clients.kafka.batch_records import UnreadableBytes, parts_of, stamps_of
from sluice.clients.kafka.record_batch import stored_batches
from tests.support.stored_batch import CODECS, batch, varint

AT = 1_767_225_600_123
LARGE = 300_000  # beyond a piece of what is decompressed
MOST = 1000
TEXTS = st.none() | st.binary(max_size=70)


class Sent(NamedTuple):
    stamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


SENT = st.builds(
    Sent,
    st.sampled_from([0, 1, -1, 63, 64, 10**7, -(10**12)]),
    TEXTS,
    TEXTS | st.just(b"x" * LARGE),
    st.lists(st.tuples(st.sampled_from(["", "a", "é" * 40]), TEXTS), max_size=3),
)


def long(number: int, more: int, most: int = 5) -> bytes:
    """The number with `more` bytes than it needs, of at most `most`."""
    short = varint(number)
    more = min(more, most - len(short))
    if not more:
        return short
    return short[:-1] + bytes([short[-1] | 0x80]) + b"\x80" * (more - 1) + b"\0"


def written(number: int, sent: Sent, more: list[int]) -> bytes:
    """A record; `more` says in turn by how many bytes each of its numbers is too long."""
    turn = iter(more * 20)

    def text(content: bytes | None) -> bytes:
        size = -1 if content is None else len(content)
        return long(size, next(turn)) + (content or b"")

    body = b"\0" + long(sent.stamp, next(turn), 10) + long(number, next(turn)) + text(sent.key)
    body += text(sent.value) + long(len(sent.headers), next(turn))
    body += b"".join(text(name.encode()) + text(value) for name, value in sent.headers)
    return long(len(body), next(turn)) + body


def read(data: bytes) -> list[tuple]:
    return [
        row
        for found in stored_batches(data)
        for part in parts_of(found, MOST)
        for row in zip(part.offsets, part.timestamps, part.keys, part.values, part.headers, strict=True)
    ]


def places(data: bytes) -> list[tuple[int, int]]:
    parts = (part for found in stored_batches(data) for part in stamps_of(found))
    return [row for offsets, stamps in parts for row in zip(offsets.tolist(), stamps.tolist(), strict=True)]


@given(
    st.lists(SENT, min_size=2, max_size=40),
    st.lists(st.integers(0, 9), min_size=1, max_size=19),
    st.sampled_from(["none", "gzip", "zstd"]),
)
def test_every_number_may_be_longer_than_it_needs(sent: list[Sent], more: list[int], codec: str):
    records = [written(number, each, more) for number, each in enumerate(sent)]
    data = batch(records, len(records), codec, AT)
    whole = [
        (number, AT + each.stamp, each.key, each.value, each.headers or None)
        for number, each in enumerate(sent)
    ]
    skipped = [(number, AT + each.stamp, None, None, None) for number, each in enumerate(sent)]
    for row, as_sent, as_skipped in zip(read(data), whole, skipped, strict=True):
        large = as_sent[3] is not None and len(as_sent[3]) == LARGE
        assert row in ((as_sent, as_skipped) if large else (as_sent,))
    assert places(data) == [row[:2] for row in whole]


@pytest.mark.parametrize("codec", sorted(CODECS))
@pytest.mark.parametrize("count", [1, 2, 20])
@pytest.mark.parametrize("more", [1, 2, 3, 4])
def test_a_last_record_of_few_bytes_with_a_long_size(codec: str, count: int, more: int):
    body = written(0, Sent(0, None, None, []), [0])[1:]
    data = batch([long(len(body), more) + body] * count, count, codec, AT)
    assert read(data) == [(0, AT, None, None, None)] * count
    assert places(data) == [(0, AT)] * count


# Zigzag: the lowest bit is the sign. Of ten bytes' seventy bits Java keeps sixty-four.
BEYOND = [
    (b"\xff" * 9 + b"\x01", -(1 << 63)),
    (b"\xff" * 9 + b"\x7f", -(1 << 63)),
    (b"\x80" * 9 + b"\x02", 0),
    (b"\xfe" + b"\xff" * 8 + b"\x01", (1 << 63) - 1),
]


@pytest.mark.parametrize(("number", "is_read_as"), BEYOND)
@pytest.mark.parametrize("count", [2, 20])
@pytest.mark.parametrize("large", [False, True], ids=["", "skipped"])
def test_a_number_has_64_bits_wherever_it_is_read(number: bytes, is_read_as: int, count: int, large: bool):
    value = varint(LARGE) + b"x" * LARGE if large else varint(-1)
    body = b"\0" + number + number + varint(-1) + value + varint(0)
    data = batch([varint(len(body)) + body] * count, count)
    assert [row[:2] for row in read(data)] == places(data) == [(is_read_as, is_read_as)] * count


@given(st.binary(max_size=60), st.integers(1, 5))
def test_any_bytes_are_records_or_unreadable(records: bytes, count: int):
    for reading in (read, places):
        try:
            assert len(reading(batch([records], count))) == count
        except UnreadableBytes:
            continue


def test_a_reader_that_does_not_come_further_ends(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(batch_records, "_whole_records", lambda _data, _most: ([], []))
    data = batch([written(number, Sent(0, None, b"v", []), [0]) for number in range(2)], 2)
    with pytest.raises(UnreadableBytes, match="where a record ends is not clear"):
        read(data)
