"""Batches as a producer may store them: any bytes in any compression, without what they hold in memory.

The format is written here a second time, beside clients/kafka: docs.confluent's "Record Batch".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

import lz4.frame
import pyarrow as pa
import zstandard
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError, NoError, NotLeaderForPartitionError, for_code
from kafka.protocol.producer import ProduceRequest
from kafka.record.util import calc_crc32c

from local.readiness import wait_until

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
PIECE = 1 << 20


def varint(number: int) -> bytes:
    zigzag, found = (number << 1) ^ (number >> 63), bytearray()
    while zigzag >= 0x80:
        found.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*found, zigzag])


def record(
    number: int,
    value: bytes | None,
    key: bytes | None = None,
    headers: Iterable[tuple[bytes, bytes | None]] = (),
    stamp: int = 0,
) -> bytes:
    """Record `number` of its batch, `stamp` ms behind the batch's own."""

    def text(content: bytes | None) -> bytes:
        return varint(-1) if content is None else varint(len(content)) + content

    known = list(headers)
    body = b"\0" + varint(stamp) + varint(number) + text(key) + text(value) + varint(len(known))
    body += b"".join(text(name) + text(content) for name, content in known)
    return varint(len(body)) + body


def bomb(number: int, size: int, letter: bytes = b"x") -> Iterator[bytes]:
    """The record's bytes, piece by piece: its value is `size` times the letter."""
    front = b"\0" + varint(0) + varint(number) + varint(-1) + varint(size)
    yield varint(len(front) + size + 1) + front
    yield from repeat(letter * PIECE, size // PIECE)
    yield letter * (size % PIECE) + varint(0)


def bomb_size(number: int, size: int) -> int:
    """Of the record: what its own length says."""
    return len(b"\0" + varint(0) + varint(number) + varint(-1) + varint(size)) + size + 1


def compressed(codec: str, pieces: Iterable[bytes]) -> bytes:
    return b"".join(_COMPRESS[codec](pieces))


def batch(
    records: Iterable[bytes],
    count: int,
    codec: str = "none",
    stamp: int = 0,
    attributes: int = 0,
    start: int = 0,
    producer: int = -1,
) -> bytes:
    """Records without gaps between their offsets; `attributes` beside the codec."""
    known = (CODECS[codec] | attributes, count - 1, stamp, stamp, producer, -1, -1, count)
    rest = struct.pack(">hiqqqhii", *known) + compressed(codec, records)
    return struct.pack(">qiibI", start, 9 + len(rest), -1, 2, 0) + rest


def checked(data: bytes) -> bytes:
    """The batch with its checksum."""
    return data[:17] + struct.pack(">I", calc_crc32c(data[21:])) + data[21:]


def send(bootstrap: str, topic: str, partition: int, data: bytes) -> None:
    """Stores a batch, with its checksum. Raises the broker's error.

    A partition of a topic that was just created may have no leader yet: the broker then has stored nothing.
    """
    data = checked(data)
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    answers: list[type[KafkaError]] = []

    def answered() -> bool:
        code = client._manager.run(_produce, client, TopicPartition(topic, partition), data)
        answers.append(for_code(code))
        return answers[-1] is not NotLeaderForPartitionError

    try:
        wait_until(answered, f"a leader of {topic}/{partition}", 30)
    finally:
        client.close()
    if answers[-1] is not NoError:
        raise answers[-1]


async def _produce(client: KafkaAdminClient, place: TopicPartition, data: bytes) -> int:
    (leader,) = await client._async_get_leader_for_partitions([place])
    topic = ProduceRequest.TopicProduceData
    own = topic.PartitionProduceData(index=place.partition, records=data)
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[topic(name=place.topic, partition_data=[own])],
        max_version=9,
    )
    answer: Any = await client._manager.send(request, node_id=leader)
    return answer.responses[0].partition_responses[0].error_code


def _gzip(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packing = zlib.compressobj(9, wbits=31)
    for piece in pieces:
        yield packing.compress(piece)
    yield packing.flush()


def _zstd(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packing = zstandard.ZstdCompressor(level=19).compressobj()
    for piece in pieces:
        yield packing.compress(piece)
    yield packing.flush()


def _lz4(pieces: Iterable[bytes]) -> Iterator[bytes]:
    packing = lz4.frame.LZ4FrameCompressor(block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False)
    yield packing.begin()
    for piece in pieces:
        yield packing.compress(piece)
    yield packing.flush()


def _snappy(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """In blocks, as Java's SnappyOutputStream writes them."""
    yield b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for piece in pieces:
        for at in range(0, len(piece), 32 << 10):
            packed = pa.Codec("snappy").compress(piece[at : at + (32 << 10)], asbytes=True)
            yield struct.pack(">i", len(packed)) + packed


_COMPRESS: dict[str, Callable[[Iterable[bytes]], Iterator[bytes]]] = {
    "none": iter,
    "gzip": _gzip,
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": _zstd,
}
