"""Versions of the pipeline file in the lake: one for each change of it or of Sluice, bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.errors import SluiceError
from sluice.state.notes import (
    FILE,
    MOST,
    MOST_BYTES,
    MOST_TEXT,
    note_version,
    read_versions,
    version_of,
    with_version,
)
from tests.support.fakes import MemoryLake
from tests.support.page_world import START


def test_a_version_is_kept_when_the_text_changes_and_again_when_it_changes_back():
    lake = MemoryLake()
    for hour, text in enumerate(("a: 1\n", "a: 1\n", "a: 2\n", "a: 1\n", "a: 1\n")):
        note_version(lake, text, START.add(hours=hour))
    assert [(one.at, one.text) for one in read_versions(lake)] == [
        ("2026-11-20T10:00:00+00:00", "a: 1\n"),
        ("2026-11-20T12:00:00+00:00", "a: 2\n"),
        ("2026-11-20T13:00:00+00:00", "a: 1\n"),
    ]


def test_while_nothing_changes_nothing_is_written():
    lake = MemoryLake()
    note_version(lake, "a: 1\n", START)
    before = lake.objects[FILE]
    note_version(lake, "a: 1\n", START.add(hours=1))
    assert lake.objects[FILE] == before


def test_another_sluice_is_a_version():
    one = version_of("a: 1\n", START)
    other = replace(version_of("a: 1\n", START.add(hours=1)), sluice="9.9.9")
    assert with_version((one,), other) == (one, other)
    assert with_version((one, other), replace(other, at="later")) == (one, other)


def test_versions_and_their_bytes_are_bounded():
    known = ()
    for number in range(MOST + 3):
        known = with_version(known, version_of(f"a: {number}\n", START))
    assert [one.text for one in known] == [f"a: {number}\n" for number in range(3, MOST + 3)]
    large = [version_of(str(n) * (MOST_TEXT + 9), START) for n in range(MOST_BYTES // MOST_TEXT + 1)]
    for one in large:
        assert len(one.text) == MOST_TEXT
        known = with_version(known, one)
    assert known == tuple(large[1:])


def test_a_longer_text_differs_by_its_end_alone():
    one, other = (version_of("x" * MOST_TEXT + end, START) for end in ("a", "b"))
    assert one.text == other.text and one.hash != other.hash


def test_bytes_that_are_none_name_their_place():
    lake = MemoryLake()
    lake.put(FILE, b"{}")
    with pytest.raises(SluiceError, match=r"memory://demo/_history/file.json holds no versions"):
        note_version(lake, "a", START)
