"""What a place in a log says, and what comes behind it."""

from __future__ import annotations

from dataclasses import asdict, replace

import msgspec
import pytest

from sluice.ship.log_file import FilePosition, LogChunk, Mark

ABC = Mark(3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")  # FIPS 180-2, B.1


def test_marks():
    assert Mark.of(b"abc") == ABC
    assert (ABC.fits(b"abc"), ABC.fits(b"abd"), ABC.fits(b"ab"), ABC.fits(b"")) == (True, False, False, False)
    assert (Mark().fits(b""), Mark().fits(b"a")) == (True, False)
    assert not replace(ABC, size=2).fits(b"abc")


def test_places_in_a_state_file():
    place = FilePosition(1, 2, "b")
    empty = {"mark": {"size": 0, "sha256": ""}, "offset": 0, "line": 0, "at": None, "done_ns": None}
    assert asdict(place) == {"device": 1, "inode": 2, "batch": "b", **empty}
    whole = FilePosition(1, 2, "b", 9, 3, ABC, 1_000, 5)
    assert msgspec.convert(asdict(whole), FilePosition) == whole
    assert asdict(whole)["mark"] == {"size": 3, "sha256": ABC.sha256}
    assert [replace(whole, offset=offset).marked_from for offset in (9, 4, 3, 2, 0)] == [6, 1, 0, 0, 0]


def test_a_place_is_within_what_a_file_can_have():
    place, most = asdict(FilePosition(1, 2, "b")), 2**63 - 1
    for name in ("offset", "line"):
        for number in (0, most):
            assert asdict(msgspec.convert({**place, name: number}, FilePosition)) == {**place, name: number}
        for number in (-1, most + 1):
            with pytest.raises(msgspec.ValidationError, match=name):
                msgspec.convert({**place, name: number}, FilePosition)
    for size in (0, 256):
        assert msgspec.convert({"size": size, "sha256": ""}, Mark) == Mark(size)
    for size in (-1, 257):
        with pytest.raises(msgspec.ValidationError, match="size"):
            msgspec.convert({"size": size, "sha256": ""}, Mark)


def test_a_piece_ends_at_its_place():
    place = FilePosition(1, 2, "b", 7, 4, Mark.of(b"before\n"), 1_000, None)
    piece = LogChunk.of(b"a\n\n b \nc", place, b"before\n")
    assert (list(piece.chunk.events), list(piece.chunk.numbers)) == ([b"a", b" b ", b"c"], [5, 7, 8])
    assert piece.tail == b"before\na\n\n b \nc"
    assert piece.place == replace(place, offset=15, line=8, mark=Mark.of(piece.tail))
    ended = LogChunk.of(b"c" * 300 + b"\n", place, b"before\n")
    assert (ended.place.line, ended.tail) == (5, b"c" * 255 + b"\n")
