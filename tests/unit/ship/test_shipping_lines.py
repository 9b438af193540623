from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest
import zstandard

from sluice.clients.kafka.producer import MAX_EVENT_BYTES
from sluice.errors import WrongUse
from sluice.ship.lines import Chunk, chunks, opened

CONTENT = b'{"a": 1}\n\n{"b": 2}\r\n \nlast'
NUMBERED = [(1, b'{"a": 1}'), (3, b'{"b": 2}\r'), (5, b"last")]


def numbered(found: list[Chunk]) -> list[tuple[int, bytes]]:
    return [pair for chunk in found for pair in zip(chunk.numbers, chunk.events, strict=True)]


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("events.ndjson", lambda content: content),
        ("events.ndjson.gz", lambda content: gzip.compress(content[:9]) + gzip.compress(content[9:])),
        (
            "events.ndjson.zst",
            lambda content: zstandard.compress(content[:9]) + zstandard.compress(content[9:]),
        ),
    ],
)
def test_every_kind_of_file(tmp_path: Path, name: str, pack):
    path = tmp_path / name
    path.write_bytes(pack(CONTENT))
    with opened(path, name) as stream:
        found = list(chunks(stream, name))
    assert numbered(found) == NUMBERED
    assert found[-1].last == 5


NOISE = os.urandom(300_000)
ZST = zstandard.compress(NOISE)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("cut.gz", gzip.compress(CONTENT, mtime=0)[:-9]),
        ("cut.zst", ZST[:-5]),
        ("half.zst", ZST[: len(ZST) // 2]),
        ("cut-in-the-second-frame.zst", ZST + ZST[:3]),
        ("noise.zst", b"\x28\xb5\x2f\xfd" + b"\xff" * 20),
        ("plain.gz", CONTENT),
        ("plain.zst", CONTENT),
    ],
)
def test_a_damaged_file_is_told(tmp_path: Path, name: str, content: bytes):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(WrongUse, match=f"^{name} is damaged"), opened(tmp_path / name, name) as stream:
        list(chunks(stream, name))


@pytest.mark.parametrize("name", ["missing.ndjson", "."])
def test_a_file_that_is_not_there(tmp_path: Path, name: str):
    path = tmp_path / name
    with pytest.raises(WrongUse, match=str(path)), opened(path, str(path)) as stream:
        list(chunks(stream, name))


def test_zst_of_every_size(tmp_path: Path):
    for size in (0, 1, 16_384, 1_000_003):
        content = (b"x" * 99 + b"\n") * (size // 100 + 1)
        (tmp_path / "a.zst").write_bytes(zstandard.compress(content))
        with opened(tmp_path / "a.zst", "a.zst") as stream:
            assert stream.read() == content


class Trickle(io.RawIOBase):
    """A pipe whose writer is slow: each read gives what was written at once."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        piece = self.pieces.pop(0) if self.pieces else b""
        buffer[: len(piece)] = piece
        return len(piece)


def test_a_slow_source_is_not_waited_for():
    source = Trickle(b"one\ntw", b"o\n", b"three\nfour\n")
    found = chunks(io.BufferedReader(source), "-")
    assert numbered([next(found)]) == [(1, b"one")]
    assert len(source.pieces) == 2
    assert numbered(list(found)) == [(2, b"two"), (3, b"three"), (4, b"four")]


def test_a_line_without_an_end_does_not_fill_the_memory():
    endless = Trickle(b"short\n", *[b"x" * 8000] * (MAX_EVENT_BYTES // 8000 + 2))
    with pytest.raises(WrongUse, match="line 2: an event may have at most 20 MiB"):
        list(chunks(io.BufferedReader(endless), "-"))


@pytest.mark.parametrize(
    ("after", "left"),
    [(0, [(5, b"a"), (7, b"b")]), (4, [(5, b"a"), (7, b"b")]), (5, [(7, b"b")]), (6, [(7, b"b")]), (8, [])],
)
def test_what_is_left_behind_a_line(after: int, left: list[tuple[int, bytes]]):
    chunk = Chunk.of([b"a", b" ", b"b", b""], 4)
    assert numbered([chunk.after(after)]) == left
    assert chunk.after(after).last == 8
