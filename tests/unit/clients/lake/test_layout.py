from __future__ import annotations

import os
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.lake import layout


def test_keys() -> None:
    assert layout.boundary_entry(7) == "_boundaries/0000000007.json"
    assert layout.manifest("2026-11-20T10Z", "dc1") == "_slices/2026-11-20T10Z/dc1/manifest.json"
    assert layout.slice_success("2026-11-20T10Z", "dc1") == "_slices/2026-11-20T10Z/dc1/_SUCCESS"
    assert layout.attempt("2026-11-20T10Z", "a1") == "_attempts/2026-11-20T10Z/a1/"
    folder = layout.event_folder("click", "2026-11-20T09")
    assert folder == "type=click/date=2026-11-20/hour=09/"
    assert layout.data_file(folder, "2026-11-20T10Z", "dc1", 2, 3) == (
        "type=click/date=2026-11-20/hour=09/2026-11-20T10Z-dc1-2-3.parquet"
    )
    assert layout.rejected_file("2026-11-20T10Z", "dc1", 2, 3) == "_rejected/2026-11-20T10Z-dc1-2-3.parquet"
    assert layout.hour_success("click", "2026-11-20T09") == "type=click/date=2026-11-20/hour=09/_SUCCESS"
    assert layout.lease("events.clicks") == "_leases/events.clicks.json"


def test_boundary_entries_sort_by_number() -> None:
    numbers = [0, 1, 9, 10, 99, 100, 12_345, 999_999_999]
    assert sorted(map(layout.boundary_entry, numbers)) == [layout.boundary_entry(n) for n in numbers]


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("click", "click"),
        ("ad/click", "ad%2Fclick"),
        ("a=b", "a%3Db"),
        ("100%", "100%25"),
        ("a:b?c*d\"e'f#g\\h", "a%3Ab%3Fc%2Ad%22e%27f%23g%5Ch"),
        ("{a,b}[1]^", "%7Ba%2Cb%7D%5B1%5D%5E"),
        ("tab\tnewline\nnul\0delete\x7f", "tab%09newline%0Anul%00delete%7F"),
        ("a b.c-d_e", "a b.c-d_e"),
        ("Größe 日本", "Größe 日本"),
        ("no \ufffe XML \uffff", "no %EF%BF%BE XML %EF%BF%BF"),
    ],
)
def test_hive_escaping(name: str, folder: str) -> None:
    assert layout.hive_escape(name) == folder


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_folder_tells_its_type(name: str) -> None:
    folder = layout.event_folder(name, "2026-11-20T10").split("/")
    assert len(folder) == 4
    assert unquote(folder[0].removeprefix("type=")) == name
    assert b"\0" not in os.fsencode(folder[0])
    ElementTree.fromstring(f"<Key>{escape(folder[0])}</Key>")


def test_a_type_named_like_the_overflow_has_its_own_folder() -> None:
    assert layout.event_folder(None, "2026-11-20T10") == "type=_overflow/date=2026-11-20/hour=10/"
    assert layout.event_folder("_overflow", "2026-11-20T10") == "type=%5Foverflow/date=2026-11-20/hour=10/"
