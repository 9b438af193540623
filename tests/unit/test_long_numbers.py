"""What landing tells the load of long numbers: never less than there is."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sluice.lake.folder import FolderLake
from sluice.landing.long_numbers import has_run, may_be_long
from sluice.load.columns import Column, fill
from sluice.load.exact import LONG
from sluice.manifest import decode, encode
from sluice.manifests import read_manifests
from sluice.slices import Unit
from tests.landing_world import World, event, hours, pipeline

# What the load looks for (load/exact.py), as Python's own engine finds it; a slash is one too many.
SIXTEEN = re.compile(rb"[0-9./]{16}")


def run_of(text: bytes) -> bool:
    return has_run(np.frombuffer(text, np.uint8))


@given(st.lists(st.sampled_from([b"1", b"9.", b"20260101", b"a", b"/", b"0123456789.", b'"']), max_size=30))
@example([b"0123456789.", b"1", b"1", b"1", b"1"])
@example([b"0123456789.", b"1", b"1", b"1", b"1", b"1"])
def test_a_run_is_found_wherever_it_lies(parts):
    text = b"".join(parts)
    assert run_of(text) == bool(SIXTEEN.search(text))


@pytest.mark.parametrize("before", range(9))
@pytest.mark.parametrize(("digits", "long"), [(15, False), (16, True), (40, True)])
def test_at_every_distance_from_a_word(before, digits, long):
    assert run_of(b"x" * before + b"7" * digits + b"x") is long


def test_slices_of_arrays_and_empty_ones():
    texts = pa.chunked_array([[b"1" * 20, b"a", b"b"], [], [b"c"]], pa.binary())
    assert may_be_long(texts)
    assert not may_be_long(texts.slice(1))
    assert not may_be_long(pa.chunked_array([], pa.binary()))


def test_the_load_looks_at_events_only_where_the_manifest_tells_it_to():
    filling = fill([Column("price", "Decimal(18, 4)"), Column("name", "String")], {})
    assert LONG in filling.named
    short = filling.of_short_numbers()
    assert not any("long_numbers" in part or "odd_" in part for part in short.named)
    assert short.columns == filling.columns and len(short.checks) == len(filling.checks)


def test_a_manifest_says_whether_one_of_its_events_may_hold_a_long_number(tmp_path):
    long, refused = event(minute=65, price="71.99999999999999999"), (b"1" * 30, event(minute=130)[1])
    log = [event(minute=5), event(minute=64), long, event(minute=66), refused, event(minute=131)]
    spec, world, lake = pipeline(), World({("dc1", "bids"): [log]}), FolderLake(tmp_path / "demo")
    world.resolve(spec, lake, hours(3))
    world.land(spec, lake, hours(3))
    manifests = read_manifests(lake, [Unit(piece, "dc1") for piece in hours(3)])
    assert [manifest.read for manifest in manifests.values()] == [1, 3, 2]
    assert [manifest.long_numbers for manifest in manifests.values()] == [False, True, False]


def test_of_an_older_manifest_nothing_is_known(tmp_path):
    spec, world, lake = (
        pipeline(),
        World({("dc1", "bids"): [[event(minute=5)]]}),
        FolderLake(tmp_path / "demo"),
    )
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1))
    (manifest,) = read_manifests(lake, [Unit(piece, "dc1") for piece in hours(1)]).values()
    older = re.sub(rb'"long_numbers": false,\s*', b"", encode(manifest))
    assert older != encode(manifest)
    assert decode(older, "x").long_numbers is True
