"""The records of benchmarks/hostile.py: made to hurt, and always the same but for their day."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pendulum

from benchmarks.publish_events import Load
from tests.support.stored_batch import batch, bomb, send

START_MS = int(pendulum.tomorrow("UTC").timestamp()) * 1000
"""After the time of each transaction's marker, which is the broker's: it would begin the hours before it."""
HOUR_MS = 3_600_000
SIZES = {"gzip": 860 << 20, "snappy": 18 << 20, "lz4": 200 << 20, "zstd": 880 << 20}
"""What 900 KB and less become, decompressed; a zstd bomb of the size is 30 KB."""

ROWS = 300  # of a message that is an array
TYPES = 1_000  # as many as have a folder of their own; each is in every event hour
_LEVELS = {"levels": 900, "too_deep": 1_000}

Sent = tuple[bytes, int, list[tuple[str, bytes]] | None]
"""Value, record time in ms, headers."""


def ordinary(count: int, start: int) -> Iterator[Sent]:
    """`count` events of 200 bytes within the hour from `start` on."""
    for _, value, at in Load(count, start=start // 1000).events():
        yield value, at, None


def hostile(name: str, count: int) -> Iterator[Sent]:
    for number, (value, at, _) in enumerate(ordinary(count, START_MS)):
        yield _bent(name, number, value, at)


def in_array(sent: Sent) -> Sent:
    value, at, headers = sent
    return b"[" + value + b"]", at, headers


def bombs(bootstrap: str, topic: str, codec: str, count: int) -> None:
    """Each in a stored batch of its own, in the middle of the hour."""
    for number in range(count):
        send(bootstrap, topic, 0, batch(bomb(0, SIZES[codec]), 1, codec, START_MS + HOUR_MS // 2 + number))


def _bent(name: str, number: int, value: bytes, at: int) -> Sent:
    if name == "types":
        return _of_type(value, number), at, None
    if name == "types_in_arrays":
        rows = (_of_type(value, number * ROWS + row) for row in range(ROWS))
        return b"[" + b",".join(rows) + b"]", at, None
    if name == "types_by_hours":  # the first record is where its hour begins
        return _of_type(value, number % TYPES), at if number == 0 else at - number // TYPES * HOUR_MS, None
    if name == "long_types":
        return b'{"type":"%08d-%s"}' % (number, b"t" * 10_000), at, None
    if name in _LEVELS:
        within = _LEVELS[name] - 1
        return b'{"type":"deep","a":' + b'{"a":' * within + b"1" + b"}" * within + b"}", at, None
    if name == "headers":
        return value, at, [(f"h{n}", b"%d" % (number * n)) for n in range(1000)]
    size = _size(name, number)
    return (value if size is None else _padded(number, value, size)), at, None


def _of_type(value: bytes, number: int) -> bytes:
    return b'{"type":"%08d-%s",' % (number, b"t" * 60) + value[1:].replace(b'"type"', b'"kind"')


def _size(name: str, number: int) -> int | None:
    sizes = {"megabytes": 1_000_000, "below_64k": 64 << 10, "above_64k": (64 << 10) + 1}
    if name == "one_percent" and number % 100 == 50:
        return 100 << 10
    if name == "one_percent_60k" and number % 60 == 30:
        return 60 << 10
    return sizes.get(name)


def _padded(number: int, value: bytes, size: int) -> bytes:
    """Of exactly `size` bytes, of which a quarter is nothing that compresses."""
    noise = random.Random(number).randbytes(size // 8).hex().encode()
    front = value[:-1] + b',"pad":"' + noise
    return front + b"x" * (size - len(front) - 2) + b'"}'
