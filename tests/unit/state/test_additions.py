"""Which columns were added is remembered for good, whoever writes beside."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pendulum
import pytest

from sluice.clients.lake import layout
from sluice.errors import SluiceError
from sluice.slices import SliceRange
from sluice.state.additions import (
    Addition,
    additions_in,
    announce,
    announced,
    begin,
    confirm,
    confirmed,
    latest,
    read_additions,
    since,
)
from tests.support.fakes import MemoryLake

AT = "2026-11-20T12:00:00Z"
ONE = Addition("e.clicks", "coupon", "Nullable(String)", "2026-11-20T10Z", 35, 400, AT, "me", "run")
DONE = replace(ONE, shards={"": 7})
OTHER = replace(ONE, type="Nullable(UInt64)", slice="2026-11-20T11Z")
NEXT = replace(OTHER, run="next")


def test_it_is_read_as_it_was_written():
    lake = MemoryLake()
    assert read_additions(lake) == ()
    assert announce(lake, [ONE], "") == {"coupon": "Nullable(String)"}
    assert read_additions(lake) == (ONE,)
    confirm(lake, "e.clicks", {"coupon"}, "", 7)
    assert read_additions(lake) == (DONE,)


@pytest.mark.parametrize(
    ("known", "new", "shard", "kept"),
    [
        ((), ONE, "", (ONE,)),
        ((ONE,), OTHER, "", (OTHER,)),  # nothing came of the first
        ((DONE,), OTHER, "", (DONE, OTHER)),  # somebody dropped the column
        ((ONE,), OTHER, "s2", (ONE,)),  # of shards the first of a run decides
        ((ONE,), NEXT, "s2", (NEXT,)),  # nothing came of the first, which was of another run
        ((ONE,), NEXT, "s1", (NEXT,)),
        ((replace(ONE, shards={"s1": 3}),), NEXT, "s2", (replace(ONE, shards={"s1": 3}),)),
        ((replace(ONE, shards={"s1": 3}),), NEXT, "s1", (replace(ONE, shards={"s1": 3}), NEXT)),  # dropped
        ((replace(ONE, shards={"s1": 3}),), OTHER, "s2", (replace(ONE, shards={"s1": 3}),)),
        ((replace(ONE, begun=("s1",)),), NEXT, "s2", (replace(ONE, begun=("s1",)),)),  # s1 may have it by now
        ((replace(ONE, begun=("s1",)),), NEXT, "s1", (NEXT,)),  # that ALTER has come to nothing
        ((replace(ONE, begun=("s1", "s2")),), NEXT, "s1", (replace(ONE, begun=("s1", "s2")),)),
        ((replace(DONE, table="e.views"),), OTHER, "s2", (replace(DONE, table="e.views"), OTHER)),
    ],
)
def test_what_an_announcement_leaves(known, new: Addition, shard: str, kept):
    assert announced(known, [new], shard) == kept


def test_a_second_shard_gets_the_type_of_the_first():
    lake = MemoryLake()
    announce(lake, [ONE], "s1")
    assert announce(lake, [OTHER], "s2") == {"coupon": "Nullable(String)"}


@pytest.mark.parametrize("first", ["s1", "s2"])
def test_two_runs_that_announce_at_once_add_one_type(first: str):
    """Whichever begins its ALTER first: the second announcement has replaced the other one by then."""
    lake = MemoryLake()
    mine = {"s1": [ONE], "s2": [NEXT]}
    assert announce(lake, mine["s1"], "s1") == {"coupon": ONE.type}
    assert announce(lake, mine["s2"], "s2") == {"coupon": NEXT.type}
    order = sorted(mine, key=lambda shard: shard != first)
    assert [begin(lake, mine[shard], shard) for shard in order] == [{"coupon": NEXT.type}] * 2
    [one] = read_additions(lake)
    assert (one.type, set(one.begun)) == (NEXT.type, {"s1", "s2"})


def test_what_has_begun_on_a_shard_holds_for_who_announces_then():
    lake = MemoryLake()
    announce(lake, [ONE], "s1")
    begin(lake, [ONE], "s1")
    assert announce(lake, [NEXT], "s2") == begin(lake, [NEXT], "s2") == {"coupon": ONE.type}


def test_the_newest_addition_of_a_column_counts():
    known = (DONE, replace(OTHER, shards={"": 9}), replace(ONE, table="e.views", column="x"))
    assert latest(known, "e.clicks") == {"coupon": known[1]}
    assert since(known) == {("e.clicks", ""): {"coupon": 9}}
    two = replace(ONE, shards={"s1": 3, "s2": 4})
    assert since([two]) == {("e.clicks", "s1"): {"coupon": 3}, ("e.clicks", "s2"): {"coupon": 4}}
    assert confirmed(known, "e.clicks", {"coupon"}, "s1", 4)[1].shards == {"": 9, "s1": 4}
    assert confirmed(known, "e.clicks", {"coupon"}, "s1", 4)[::2] == known[::2]


def test_writers_side_by_side_lose_nothing():
    lake = MemoryLake()
    made = [replace(ONE, column=f"c{number}") for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: announce(lake, [one], ""), made))
    assert {one.column for one in read_additions(lake)} == {one.column for one in made}


def test_those_of_a_range_are_told_in_its_order():
    """What was announced and not done is none."""
    lake = MemoryLake()
    names = {
        "b": "2026-11-20T11Z",
        "a": "2026-11-20T10Z",
        "late": "2026-11-20T12Z",
        "never": "2026-11-20T10Z",
    }
    made = [replace(ONE, column=name, slice=slice_id) for name, slice_id in names.items()]
    announce(lake, made, "")
    confirm(lake, "e.clicks", {"a", "b", "late"}, "", 1)
    at = pendulum.datetime(2026, 11, 20, 10)
    found = additions_in(lake, SliceRange(at, at.add(hours=2)))
    assert list(map(str, found)) == [
        "2026-11-20T10Z: table e.clicks: column `a` Nullable(String) was added: in 35 of 400 rows",
        "2026-11-20T11Z: table e.clicks: column `b` Nullable(String) was added: in 35 of 400 rows",
    ]


def test_bytes_that_are_none_are_named():
    lake = MemoryLake()
    lake.put(layout.ADDITIONS, b"[{]")
    with pytest.raises(SluiceError, match=r"memory://demo/_added_columns.json does not say which"):
        read_additions(lake)
