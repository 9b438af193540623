"""What a load does with which unit, where its runs end, and what its attempts' things are called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.clients.clickhouse.sql import Sql
from sluice.config.pipeline import Target
from sluice.errors import FilesForgotten
from sluice.flow.load.fencing import LoadAttempt, Reach, digest
from sluice.flow.load.work import MAX_ROWS, MAX_UNITS, LoadWork, choose, cut, differences, done, work_for
from sluice.manifest import Forgotten, LandedFile, Manifest, Traffic
from sluice.state.ledger import LedgerRow
from tests.support.manifests import made_manifest
from tests.unit.flow.load.test_load_decide import file, pipeline, unit

FILES = (file("click", 3), file("view", 2), file(None, 5, {"click": 1, "odd": 4}), file("none", 0))
COUNTS = (
    LandedFile("_counts/a", "", "db.n", "", 7, 1, ""),
    LandedFile("_counts/b", "", "db.n", "", 2, 1, ""),
)
TRAFFIC = Traffic("db.n", {}, (), {}, COUNTS)


def manifest(generation: int = 1, **changes: object) -> Manifest:
    return made_manifest(
        "p", unit().slice.id, "dc1", generation, "a", (), FILES, (), 10, {}, 0, traffic=(TRAFFIC,), **changes
    )


SPEC = pipeline(click="clicks", rest="other")
CLICKS, OTHER = SPEC.targets


@pytest.mark.parametrize(
    ("target", "work"),
    [
        (CLICKS, LoadWork(unit(), "1-a", ("click",), (FILES[0], FILES[2]), 4, True, "s1 of s1", True)),
        (OTHER, LoadWork(unit(), "1-a", ("none", "odd", "view"), FILES[1:], 6, True, "s1 of s1", True)),
        (Target(table="db.n", counted=True), LoadWork(unit(), "1-a", (), COUNTS, 9, True, "s1 of s1", True)),
        (Target(table="db.m", counted=True), LoadWork(unit(), "1-a", (), (), 0, True, "s1 of s1", True)),
    ],
)
def test_the_work_for_each_kind_of_target(target, work):
    assert work_for(SPEC, target, unit(), manifest(long_numbers=True), True, "s1 of s1") == work


def test_what_the_manifest_says_of_long_numbers_counts_for_events():
    assert work_for(SPEC, CLICKS, unit(), manifest(long_numbers=False), False).long_numbers is False
    assert work_for(SPEC, CLICKS, unit(), manifest(long_numbers=True), False) == LoadWork(
        unit(), "1-a", ("click",), (FILES[0], FILES[2]), 4, False, "", True
    )


def row(hour: int = 0, **changes: object) -> LedgerRow:
    known = {"manifest": "1-a", "types": ("click",), "token": "t", "sharding": "s"} | changes
    return LedgerRow(
        unit(hour), known["manifest"], known["types"], 4, 4, 0, known["token"], 1, known["sharding"]
    )


WORK = LoadWork(unit(), "1-a", ("click",), (), 4, True, "s")


@pytest.mark.parametrize("mode", ["fill", "reload", "reland"])
@pytest.mark.parametrize(
    "other",
    [
        None,
        row(manifest="2-a"),
        row(types=()),
        row(types=("click", "view")),
        row(sharding=""),
        row(token="x"),
    ],
)
def test_a_row_that_says_something_else_never_makes_a_load_unnecessary(other, mode):
    same = other is not None and other.token == "x"
    assert done(WORK, other, mode, "t") is (same and mode != "reload")


@pytest.mark.parametrize(
    ("mode", "token", "is_done"),
    [
        ("fill", "", True),
        ("fill", "t", True),
        ("reload", "t", True),
        ("reload", "u", False),
        ("reland", "u", True),
    ],
)
def test_the_same_row_makes_it_unnecessary(mode, token, is_done):
    assert done(WORK, row(), mode, token) is is_done


def test_without_a_token_a_reload_loads_always():
    assert done(WORK, row(token=""), "reload", "") is False


def test_units_are_chosen_in_their_order_whatever_the_manifests():
    found = {unit(hour): manifest() for hour in (2, 0, 3, 1)}
    ledger = {unit(1): row(1, sharding="s"), unit(2): row(2, manifest="0-z"), unit(3): row(3, sharding="s")}
    todo, skipped = choose(SPEC, CLICKS, found, ledger, "fill", "", "s")
    assert [(w.unit, w.replaces, w.sharding) for w in todo] == [(unit(0), False, "s"), (unit(2), True, "s")]
    assert skipped == [ledger[unit(1)], ledger[unit(3)]]
    assert [w.sharding for w in choose(SPEC, CLICKS, {unit(): manifest()}, {}, "fill", "")[0]] == [""]
    reloaded, _ = choose(SPEC, CLICKS, {unit(1): manifest()}, {unit(1): row(1)}, "reload", "t", "s")
    assert reloaded == []
    again, _ = choose(SPEC, CLICKS, {unit(1): manifest()}, {unit(1): row(1)}, "reload", "u", "s")
    assert [work.unit for work in again] == [unit(1)]


@pytest.mark.parametrize(
    ("known", "new", "lacking"),
    [
        ({"manifest": "1-b", "landed": 9}, manifest(), 5),
        ({"manifest": "1-b", "landed": 5}, manifest(), 1),
        ({"manifest": "1-b", "landed": 4}, manifest(), 0),
        ({"manifest": "1-b", "landed": 3}, manifest(), 0),
        ({"manifest": "1-a", "landed": 9, "types": ()}, manifest(), 0),
        ({"manifest": "1-b", "landed": 9}, manifest(amends=("1-b",)), 0),
        ({"manifest": "1-b", "landed": 9}, manifest(generation=2), 0),
    ],
)
@pytest.mark.parametrize("where", ["ledger", "revoked", "others"])
def test_a_landing_that_knows_nothing_of_the_one_before_takes_no_rows_out(known, new, lacking, where):
    """Four rows landed now. Whoever committed the rows of before, or was about to."""
    landed = known["landed"]
    newest = replace(row(**{key: value for key, value in known.items() if key != "landed"}), landed=landed)
    rows = {name: {unit(): newest} if name == where else {} for name in ("ledger", "revoked", "others")}
    ledger = rows.pop("ledger")
    [work], _ = choose(SPEC, CLICKS, {unit(): new}, ledger, "fill", "t", "s", **rows)
    assert (work.landed, work.lacking) == (4, lacking)


def works(*landed: int) -> list[LoadWork]:
    return [LoadWork(unit(n), "m", (), (), rows, False) for n, rows in enumerate(landed)]


@pytest.mark.parametrize(
    ("landed", "sizes"),
    [
        ((60, 40), [2]),
        ((60, 41), [1, 1]),
        ((0, 0, 0, 0), [3, 1]),
        ((500, 1), [1, 1]),
        ((50, 40, 20, 80), [2, 2]),
        ((), []),
    ],
)
def test_where_a_protocol_run_ends(landed, sizes):
    runs = cut(works(*landed), max_rows=100, max_units=3)
    assert [len(run) for run in runs] == sizes
    assert [work for run in runs for work in run] == works(*landed)


def test_a_protocol_run_is_of_at_most_fifty_million_rows_and_ten_thousand_units():
    assert (MAX_ROWS, MAX_UNITS) == (50_000_000, 10_000)
    assert [len(run) for run in cut(works(30_000_000, 20_000_000, 1))] == [2, 1]
    assert [len(run) for run in cut(works(*[0] * 10_001))] == [10_000, 1]


def test_work_is_of_one_place_and_may_hold_long_numbers():
    [work] = works(1)
    assert (work.sharding, work.long_numbers) == ("", True)


def test_differences_name_what_landed_and_what_was_counted():
    counted = {unit(0): 3, unit(1): 2, unit(9): 1}
    assert differences(works(5, 2, 1), counted, {unit(0): 1}) == {unit(0): (5, 4), unit(2): (1, 0)}
    assert differences(works(0)) == {}


def test_the_names_of_an_attempts_things():
    # printf %s db.clicks | sha256sum
    assert digest("db.clicks") == "34b63a963500"
    attempt = LoadAttempt("db.clicks", 7, 2)
    assert attempt.fence == "`sluice`.`fence_34b63a963500_7_2`"
    assert attempt.staging == "`sluice`.`tmp_34b63a963500_7_2`"
    assert attempt.rejected_rows == "`sluice`.`tmp_34b63a963500_7_2_rejected_rows`"
    assert attempt.temporary("views") == "`sluice`.`tmp_34b63a963500_7_2_views`"
    assert attempt.query_id("insert", 3) == "sluice-34b63a963500-7-2-insert-3"
    assert isinstance(attempt.fence, Sql)


def test_where_statements_of_earlier_attempts_are_looked_for():
    here, everywhere = Reach(), Reach("it's")
    assert (here.cluster, here.system("processes"), here.on_cluster) == ("", "system.processes", "")
    assert everywhere.system("processes") == r"clusterAllReplicas('it\'s', system.processes)"
    assert everywhere.on_cluster == "ON CLUSTER `it's`"


@pytest.mark.parametrize("mode", ["fill", "reload --missing-columns", "remake", "reland"])
@pytest.mark.parametrize("known", [None, row(), row(manifest="0-z")])
def test_nothing_is_loaded_out_of_files_that_are_forgotten(mode, known):
    gone = {unit(): manifest(forgotten=Forgotten(lake="2028-01-01T00:00:00Z"))}
    ledger = {unit(): known} if known else {}
    todo, skipped = choose(SPEC, CLICKS, gone, ledger, mode, "t", "s")
    assert (todo, skipped) == ([], [known] if known else [])
    # Without the bytes of rejected records all rows are there still.
    only = {unit(): manifest(forgotten=Forgotten(rejected="2028-01-01T00:00:00Z"))}
    todo, _ = choose(SPEC, CLICKS, only, {}, mode, "t", "s")
    assert [work.files for work in todo] == [(FILES[0], FILES[2])]


def test_a_reload_of_forgotten_files_is_refused_and_one_that_is_done_is_not():
    gone = {unit(): manifest(forgotten=Forgotten(lake="2028-01-01T00:00:00Z"))}
    with pytest.raises(FilesForgotten, match="forgotten, as `keep` in the pipeline file says"):
        choose(SPEC, CLICKS, gone, {unit(): row()}, "reload", "other", "s")
    # This very run has loaded it before.
    assert choose(SPEC, CLICKS, gone, {unit(): row()}, "reload", "t", "s") == ([], [row()])
