"""Rotated files of a log: which they are, which one a place is in, and what follows it there."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from sluice.errors import WrongUse
from sluice.ship import lines
from sluice.ship.log_file import (
    FilePosition,
    Mark,
    Moved,
    Rotated,
    find,
    newer,
    newest,
    recognised,
    rest_of,
    rotated,
)
from tests.unit.ship.test_shipping_place import ABC


class Logs:
    """A folder; what is written later is a second younger."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._at = folder, 0

    def write(self, name: str, content: bytes = b"x\n", pack: Callable[[bytes], bytes] = bytes) -> Rotated:
        path = self.folder / name
        path.write_bytes(pack(content))
        self._at += 10**9
        os.utime(path, ns=(0, self._at))
        return self.of(name)

    def of(self, name: str) -> Rotated:
        about = (self.folder / name).stat()
        return Rotated(self.folder / name, (about.st_dev, about.st_ino), about.st_mtime_ns)

    @property
    def found(self) -> list[Rotated]:
        return rotated(self.folder / "app.log")


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path)


def behind(one: Rotated, content: bytes) -> FilePosition:
    """The place in that file, or in a copy of it, behind `content`, which is how it begins."""
    tail = content[-256:]
    mark = Mark(len(tail), hashlib.sha256(tail).hexdigest())
    return FilePosition(*one.file, "b", len(content), content.count(b"\n"), mark)


def test_which_files_were_the_log_once(logs: Logs):
    names = [
        *("app.log.1", "app.log.12.gz", "app.log-20261120", "app.log-20261120.zst", "app-20261120.log"),
        *("app-2026-11-20T10:15:00Z.log.gz", "app.7.log", "app.log.2026-11-20_1015"),
    ]
    written = [logs.write(name) for name in names]
    for name in ("app.log", "app.log.old", "app.log.gz", "app.log.1.bz2", "app.log.1~", "app.logs.1"):
        logs.write(name)
    for name in ("appxlog.1", "other.log.1", "xapp.log.1", "app.log1", "app-x1.log", "app-1.txt", "app.log."):
        logs.write(name)
    assert logs.found == written[::-1]


def test_a_name_is_no_pattern(logs: Logs):
    one = logs.write("a+b.log.1")
    logs.write("aab.log.1")
    assert rotated(logs.folder / "a+b.log") == [one]


def test_a_file_that_vanishes_while_it_is_looked_for(logs: Logs, monkeypatch: pytest.MonkeyPatch):
    """It gets another name between the folder's list and the look at the file."""
    one = logs.write("app.log.1")
    usual = Path.iterdir

    def iterdir(folder: Path):
        listed = list(usual(folder))
        if one.path in listed:
            one.path.rename(folder / "app.log.2")
        return iter(listed)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert [(found.path.name, found.file) for found in logs.found] == [("app.log.2", one.file)]


def test_a_folder_that_is_none(logs: Logs):
    assert rotated(logs.folder / "gone" / "app.log") == []
    with pytest.raises(WrongUse, match=r"app\.log: Not a directory"):
        rotated(logs.write("app.log").path / "app.log")


def test_the_file_itself_is_found_by_any_name(logs: Logs):
    other, same = logs.write("app.log.1", b"a\nb\n"), logs.write("app.log.2", b"a\nb\nc\n")
    assert find(behind(same, b"a\nb\n"), logs.found) == same
    assert find(behind(other, b"a\nb\n"), logs.found) == other
    assert find(behind(same, b"x\nb\n"), logs.found) is None
    assert find(behind(same, b"a\n"), []) is None


def test_a_copy_of_the_file_is_found_by_what_stands_before_the_place(logs: Logs):
    """The file itself was truncated, and has other lines now."""
    same = logs.write("app.log.3", b"new\n")
    logs.write("app.log.1", b"other line\n")
    copy = logs.write("app.log.2.gz", b"a\nb\nc\n", gzip.compress)
    assert find(behind(same, b"a\nb\n"), logs.found) == copy
    assert find(FilePosition(0, 0, "b"), logs.found) is None
    assert find(FilePosition(*same.file, "b"), logs.found) == same


@pytest.mark.parametrize(
    ("pack", "ending"), [(bytes, ""), (gzip.compress, ".gz"), (zstandard.compress, ".zst")]
)
@pytest.mark.parametrize("size", [1, 255, 256, 257, 258, (1 << 20) + 256, 3 << 20])
def test_a_place_far_behind_the_start(logs: Logs, size: int, pack: Callable, ending: str):
    content = bytes(97 + n % 23 for n in range(1000)) * (size // 1000 + 1)
    before = content[: size - 1] + b"\n"
    one = logs.write(f"app.log.1{ending}", before + b"what follows\n", pack)
    place = behind(one, before)
    assert find(replace(place, inode=0), logs.found) == one
    assert find(replace(place, inode=0, offset=size + 1), logs.found) is None
    (piece,) = rest_of(one, place)
    assert (piece.chunk.events, piece.chunk.numbers) == ([b"what follows"], range(2, 3))
    assert piece.place == behind(one, before + b"what follows\n")


def test_a_damaged_file_is_not_the_one(logs: Logs):
    whole = gzip.compress(b"a\n" * 10_000)
    cut = logs.write("app.log.1.gz", whole[: len(whole) // 2])
    assert find(behind(cut, b"a\n" * 10_000), logs.found) is None


def test_a_file_that_has_lost_its_name(logs: Logs):
    one, place = logs.write("app.log.1", b"a\nb\n"), FilePosition(0, 0, "b", 2, 1, Mark(2, "?"))
    uses: list[Callable[[], object]] = [
        lambda: find(place, [one]),
        lambda: newer([one], 0, place),
        lambda: list(rest_of(one, place)),
        lambda: recognised(one, place),
    ]
    other = logs.write("other", b"a\nb\n")
    for change in (lambda: other.path.replace(one.path), one.path.unlink):
        change()
        for use in uses:
            with pytest.raises(Moved):
                use()
    device, inode = (here := logs.write("app.log.1")).file
    for file in ((device + 1, inode), (device, inode + 1)):
        with pytest.raises(Moved):
            recognised(replace(here, file=file), place)


def test_when_the_last_one_was_changed(logs: Logs):
    assert newest([]) == 0
    written = [logs.write(f"app.log.{n}") for n in (3, 2, 1)]
    assert newest(written) == newest(written[::-1]) == written[-1].changed_ns == 3 * 10**9


def test_what_was_rotated_after_the_places_own_file(logs: Logs):
    """Oldest first; of two that were changed at the same time the name decides nothing."""
    old, own, third, second = (
        logs.write(f"app.log.{n}", text)
        for n, text in ((5, b"0\n"), (4, b"a\nb\n"), (1, b"d\n"), (2, b"c\n"))
    )
    place = behind(own, b"a\n")
    assert newer([second, old, own, third], own.changed_ns, place) == [third, second]
    assert newer([second, old, own, third], own.changed_ns - 1, place) == [third, second]
    assert newer([second, old, own, third], third.changed_ns, place) == [second]
    assert newer([second, old, own, third], 0, place) == [old, third, second]


def test_of_a_file_and_its_compressed_form_one(logs: Logs):
    own = logs.write("app.log.3", b"a\n")
    plain, packed = logs.write("app.log.2", b"c\n"), logs.write("app.log.2.gz", b"c\n", gzip.compress)
    only = logs.write("app.log.1.zst", b"d\n", zstandard.compress)
    assert newer([packed, only, plain, own], own.changed_ns, behind(own, b"a\n")) == [plain, only]
    assert newer([packed, only, own], own.changed_ns, behind(own, b"a\n")) == [packed, only]


def test_a_copy_of_the_places_own_file_is_not_newer(logs: Logs):
    own = logs.write("app.log.2", b"a\nb\n")
    place = behind(own, b"a\nb\n")
    logs.write("app.log.2.gz", b"half", bytes)  # it is still being compressed
    logs.write("app.log.1", b"a\nb\n")
    assert newer(logs.found, own.changed_ns, place) == []
    unknown = FilePosition(*own.file, "b")
    assert newer(logs.found, own.changed_ns, unknown) == [logs.of("app.log.1")]


def test_the_same_file_with_other_bytes_is_newer(logs: Logs):
    """It was copied and truncated, and went on."""
    own = logs.write("app.log.1", b"other\n")
    assert newer([own], own.changed_ns - 1, behind(own, b"a\nb\n")) == [own]


def test_the_rest_comes_in_pieces_with_their_places(logs: Logs):
    """Each as large as what is read at once, and cut behind a line; the last line has no end."""
    line = b"z" * 999 + b"\n"
    content = b"first\n\n" + line * 2500 + b"last"
    one = logs.write("app.log.1", content)
    pieces = list(rest_of(one, FilePosition(*one.file, "b", at=7)))
    assert [event for piece in pieces for event in piece.chunk.events] == [
        b"first",
        *[line[:-1]] * 2500,
        b"last",
    ]
    numbers = [number for piece in pieces for number in piece.chunk.numbers]
    assert numbers == [1, *range(3, 2504)]
    assert len(pieces) == 4
    for piece in pieces[:-1]:
        here = behind(one, content[: piece.place.offset])
        assert (piece.place, piece.tail) == (replace(here, at=7), content[: piece.place.offset][-256:])
        assert content[piece.place.offset - 1 : piece.place.offset] == b"\n"
    assert (pieces[-1].place.offset, pieces[-1].place.line) == (len(content), 2503)


def test_the_mark_behind_a_rest_spans_what_was_shipped_before(logs: Logs):
    one = logs.write("app.log.1", b"a\nb\nc\n")
    (piece,) = rest_of(one, behind(one, b"a\nb\n"))
    assert piece.place == behind(one, b"a\nb\nc\n")
    assert piece.tail == b"a\nb\nc\n"


def test_a_line_that_is_too_long_is_told_with_its_place(logs: Logs, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lines, "MAX_EVENT_BYTES", 5)
    one = logs.write("app.log.1", b"a\nb\nlonger")
    with pytest.raises(WrongUse, match=re.escape(f"{one.path}, line 3: ")):
        list(rest_of(one, FilePosition(*one.file, "b")))
    assert [
        piece.chunk.events for piece in rest_of(logs.write("app.log.2", b"a\nexact"), FilePosition(0, 0, "b"))
    ] == [
        [b"a"],
        [b"exact"],
    ]


def test_a_start_is_known_by_what_the_file_begins_with(logs: Logs):
    one = logs.write("app.log.1.gz", b"abc", gzip.compress)
    start = FilePosition(*one.file, "b")
    assert recognised(one, start) == replace(start, mark=ABC)
    assert (start.known, replace(start, mark=ABC).known) == (False, True)
    long = logs.write("app.log.2", b"y" * 300)
    assert recognised(long, start).mark == start.known_by(b"y" * 999).mark == Mark.of(b"y" * 256)
