"""What a search finds in the files of the units, and what it takes for searched."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.flow.erase.search import (
    ErasureRequest,
    UnitSearch,
    Where,
    covered,
    not_applied_lines,
    search,
    unsearched_lines,
)
from sluice.flow.forget import ForgetAction, ForgetDecision, confirm, note_forgotten, restore
from sluice.flow.land.amend.erase_unit import erase_owed
from sluice.flow.land.task.erasing import RowErasing
from sluice.manifest import Forgotten, Manifest
from sluice.mask.mask_rules import mask_rules
from sluice.slices import HOUR, SliceRange, Unit
from sluice.state.erasures import (
    Erasure,
    ErasureList,
    ErasureProgress,
    note_progress,
    read_erasures,
    read_progress,
    unerased,
)
from sluice.state.manifests import attempts_of, landed_span, read_manifests, units_in
from tests.support.erased import SALT, ask, entry
from tests.support.fakes import MemoryLake
from tests.support.landing_world import START, World, event, hours, pipeline
from tests.support.long_form import per_commit
from tests.unit.flow.land.test_remake import any_file, worlds

SPEC = pipeline()
UNIT = Unit(next(iter(hours(1))), "dc1")
NOWHERE = Forgotten(lake="2028-01-01T00:00:00Z", tables=())
REJECTED = Forgotten(rejected="2028-01-01T00:00:00Z", tables=())


def found_now(
    lake: MemoryLake, where: str, asked: Erasure, now: Pipeline, known: ErasureProgress
) -> ErasureProgress:
    path, _, value = where.partition("=")
    rows, typed = RowErasing(read_erasures(lake), [asked]), Where(tuple(path.split(".")), value)
    one, more = UnitSearch(lake, rows, (typed,)), ErasureProgress()
    for part in search(covered(now, lake, asked), one, known, {}, lambda _: None):
        more = more.with_more(part.progress)
    return more


def searched(lake: MemoryLake, where: str, asked: Erasure, now: Pipeline = SPEC) -> ErasureProgress:
    """Searches as the same words do, and notes it in the lake."""
    return note_progress(lake, 0, found_now(lake, where, asked, now, read_progress(lake, 0)))


@pytest.mark.parametrize(
    ("forgotten", "person"),
    [(NOWHERE, event("click", 1, grade="k1")), (REJECTED, (b'{"grade":"k1"', event("x", 1)[1]))],
)
def test_what_has_begun_to_be_forgotten_is_searched_when_it_is_taken_back(forgotten: Forgotten, person: Any):
    world, lake, asked = World({("dc1", "bids"): [[person]]}), MemoryLake(), entry("grade=k1")
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    ask(lake, asked)
    status = cast("Any", SimpleNamespace(unit=UNIT, manifest=covered(pipeline(), lake, asked)[UNIT]))
    begun = ForgetDecision(status, ForgetAction.FORGET, forgotten)
    assert note_forgotten(lake, begun)
    assert searched(lake, "grade=k1", asked) == ErasureProgress()
    [line] = unsearched_lines(lake, covered(pipeline(), lake, asked))
    assert "on 2028-01-01T00:00:00Z, and" in line and "`sluice forget demo --yes` ends it" in line
    restore(lake, begun)
    now = covered(pipeline(), lake, asked)
    assert unerased(lake, now) == {UNIT: 0}
    assert [*searched(lake, "grade=k1", asked).found] == [str(UNIT)]


STRAY = (".DS_Store", "backup/x", "backup/dc1/manifest.json", "2026-01-01T00Z/.DS_Store")


def test_what_no_landing_has_put_beside_the_units_is_none():
    world, lake, asked = (
        World({("dc1", "bids"): [[event("click", 1, grade="k1")]]}),
        MemoryLake(),
        entry("grade=k1"),
    )
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    for folder in ("_slices", "_attempts"):
        for name in STRAY:
            lake.put(f"{folder}/{name}", b"x")
    assert [*covered(pipeline(), lake, asked)] == [UNIT]
    assert landed_span(lake, HOUR) == (UNIT.slice.start, UNIT.slice.end)
    assert [*read_manifests(lake, units_in(lake, hours(1)))] == [UNIT]
    assert set(attempts_of(lake.list("_attempts/"))) == {("backup", "dc1")}


def test_slices_of_another_length_are_refused_and_not_left_out():
    """Whoever changes `slice` in the pipeline file would erase nothing of them."""
    lake = MemoryLake()
    lake.put("_slices/2026-01-01T0015Z/dc1/manifest.json", b"x")
    with pytest.raises(WrongUse, match="'2026-01-01T0015Z' is not the id of a slice of 1:00:00"):
        covered(pipeline(), lake, entry("grade=k1"))


@pytest.mark.parametrize("loaded", [True, False])
def test_what_is_forgotten_is_never_taken_for_searched(loaded: bool):
    """Neither by a search nor by whoever applies the list: it stays named, and the rest goes on. An hour that
    no table had is nowhere."""
    world, lake, asked = World({("dc1", "bids"): [[event()]]}), MemoryLake(), entry("grade=k1")
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    ask(lake, asked)
    manifest = covered(pipeline(), lake, asked)[UNIT]
    forgotten = Forgotten(**{**vars(NOWHERE), "tables": ("adx.clicks",) if loaded else ()})
    gone = ForgetDecision(
        cast("Any", SimpleNamespace(unit=UNIT, manifest=manifest)), ForgetAction.FORGET, forgotten
    )
    note_forgotten(lake, gone)
    confirm(lake, gone)
    assert searched(lake, "grade=k1", asked) == ErasureProgress()
    if not loaded:
        now = covered(pipeline(), lake, asked)
        assert (unerased(lake, now), unsearched_lines(lake, now)) == ({}, [])
        return
    erase_owed(lake, [UNIT])
    now = covered(pipeline(), lake, asked)
    assert unerased(lake, now) == {UNIT: 0}
    assert "the lake forgot its files" in unsearched_lines(lake, now)[0]
    [line] = not_applied_lines(lake, now, unerased(lake, now))
    assert line.startswith(
        f"entry 0 of the erasure list is not applied to 1 units, {UNIT} … {UNIT}: the lake forgot their files"
    )
    world.land(pipeline(), lake, hours(1), "reland", "back")  # it reads the list
    assert unerased(lake, covered(pipeline(), lake, asked)) == {}


def test_what_was_searched_before_it_was_forgotten_stays_so():
    world, lake, asked = World({("dc1", "bids"): [[event()]]}), MemoryLake(), entry("grade=k1")
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    ask(lake, asked)
    manifest = covered(pipeline(), lake, asked)[UNIT]
    assert searched(lake, "grade=k1", asked) == ErasureProgress({str(UNIT): manifest.id})
    status = cast("Any", SimpleNamespace(unit=UNIT, manifest=manifest))
    gone = ForgetDecision(status, ForgetAction.FORGET, NOWHERE)
    note_forgotten(lake, gone)
    confirm(lake, gone)
    now = covered(pipeline(), lake, asked)
    assert (unerased(lake, now), not_applied_lines(lake, now, unerased(lake, now))) == ({}, [])


KEYED = "a key of more than sixteen"


@pytest.mark.parametrize("mask", [None, {"ip": {"hash": KEYED}}, {"uid": {"hash": KEYED}, "_key": "keep"}])
def test_a_tombstone_goes_with_the_person_whose_key_it_has(mask: Any):
    """Searched in the lake, taken out of it, and left out when the hour lands again. The key may be hashed
    where the field is not, and the other way round."""
    stamp = event()[1]
    log = [(None, stamp, None, b"p42"), (None, stamp, None, b"p43"), event("click", 1, uid="p43")]
    log = [*log, (*event("click", 2, uid="p42"), None, b"p41")]
    spec = pipeline(**({} if mask is None else {"mask": mask}))
    world, lake = World({("dc1", "bids"): [log]}), MemoryLake()
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1))
    request = ErasureRequest(
        (Where(("uid",), "p42"),), SliceRange(START, START.add(hours=1)), "t", "me", rules=mask_rules(spec)
    )
    asked = request.entry(ErasureList(SALT), START)
    ask(lake, asked)
    unit_search = UnitSearch(lake, RowErasing(read_erasures(lake), [asked]), request.wheres)
    [found] = search(covered(spec, lake, asked), unit_search, ErasureProgress(), {}, lambda _: None)
    assert (found.rows, found.rejected) == ({"click": 1}, 1)
    erase_owed(lake, [UNIT])
    assert offsets(lake, covered(spec, lake, asked)[UNIT]) == {1, 2}
    world.land(spec, lake, hours(1), "reland", "again")
    assert offsets(lake, covered(spec, lake, asked)[UNIT]) == {1, 2}


def test_a_tombstone_whose_key_was_hashed_with_a_lost_key_cannot_be_searched():
    world, lake = (
        World({("dc1", "bids"): [[(None, event()[1], None, b"p42"), event("click", 1)]]}),
        MemoryLake(),
    )
    before = pipeline(mask={"ip": {"hash": KEYED}})
    world.resolve(before, lake, hours(1))
    world.land(before, lake, hours(1))
    manifests = read_manifests(lake, [UNIT])
    slices = SliceRange(START, START.add(hours=1))
    for mask, left in (({"ip": {"hash": KEYED}}, 0), ({"ip": {"hash": KEYED.upper()}}, 1)):
        rules = mask_rules(pipeline(mask=mask))
        request = ErasureRequest((Where(("uid",), "p42"),), slices, "t", "me", rules=rules)
        lines = request.unsearchable(manifests)
        assert [line.partition(" in ")[0] for line in lines] == ["_key cannot be searched"] * left


STAMP = event()[1]
AT = '"at":"2026-01-01T00:01:00Z"'
LOG = [
    (b'{"type":"click",%s,"sort":"tap","grade":"k1"}' % AT.encode(), STAMP, [("t", b"one"), ("t", b"click")]),
    (b'{"type":"bid",%s,"sort":"click","grade":"k1"}' % AT.encode(), STAMP, [("t", b"two")]),
    (b'{"type":"bid","at":"no time","grade":"k1"}', STAMP, [("t", b"click")]),
    (b'{"type":"click","at":"no time","sort":"tap","grade":"k1"}', STAMP, None),
    (b'{"at":"no time","sort":"click","grade":"k1"}', STAMP, [("t", b"two")]),
    (b'no event, but {"grade":"k1"}', STAMP, None),
    (None, STAMP, None),
    (b'{"type":"click",%s,"sort":"click","grade":"k0"}' % AT.encode(), STAMP, None),
]


@pytest.mark.parametrize(
    ("source", "gone", "by_key"),
    [
        ({"field": "type"}, {0, 2, 3, 4, 5}, {6, 7}),
        ({"field": "sort"}, {1, 2, 3, 4, 5}, {6, 7}),
        ({"header": "t"}, {0, 2, 3, 4, 5}, {6, 7}),
        ({"topic": True}, {2, 3, 4, 5}, {6}),
    ],
)
@pytest.mark.parametrize("where", ["grade=k1", "_key=k"])
def test_of_one_type_it_finds_what_landings_leave_out(
    where: str, source: Any, gone: set[int], by_key: set[int]
):
    """The type is the one as which a row has landed. What was rejected has none, and is of any."""
    log = [(*record, b"k") for record in LOG]
    wanted = gone | by_key if where == "_key=k" else gone
    if where == "_key=k" and "header" in source:
        wanted = wanted - {7} | {7}
    world, lake, asked = World({("dc1", "bids"): [log]}), MemoryLake(), entry(where, kind="click")
    landed_by = pipeline(event={"type": source, "time": {"field": "at"}})
    world.resolve(SPEC, lake, hours(1))
    world.land(landed_by, lake, hours(1))
    ask(lake, asked)
    other = pipeline(event={"type": {"field": "nothing"}, "time": {"field": "at"}})
    [found] = searched(lake, where, asked, other).found.values()
    assert found.rows + found.rejected == len(wanted)
    assert (found.places[0].first, found.places[0].last) == (min(wanted), max(wanted))
    erase_owed(lake, [UNIT])
    for mode in ("", "reland"):
        if mode:
            world.land(landed_by, lake, hours(1), mode, mode)
        manifest = covered(landed_by, lake, asked)[UNIT]
        assert manifest.erased == len(wanted)
        assert offsets(lake, manifest) == set(range(len(LOG))) - wanted


def offsets(lake: MemoryLake, manifest: Manifest) -> set[int]:
    found: set[int] = set()
    for file in (*manifest.files, *manifest.rejected):
        with lake.local(file.key) as path:
            found |= set(pq.read_table(path, columns=["_offset"])["_offset"].to_pylist())
    return found


@pytest.mark.parametrize("kind", per_commit(["", "click", "bids", "t1", "k1"], 2))
@pytest.mark.parametrize("seed", per_commit(range(40), 3))
def test_after_it_no_search_finds_anything(seed: int, kind: str):
    """Whatever pipeline file a unit had landed by."""
    chance = Random(seed)
    before, after = any_file(chance), any_file(chance)
    where = chance.choice(["grade=k1", "country=DE", "_key=k3"])
    world, lake, asked = World(worlds()), MemoryLake(), entry(where, kind=kind)
    world.resolve(before, lake, hours(3))
    world.land(before, lake, hours(3))
    ask(lake, asked)
    erase_owed(lake, [*covered(before, lake, asked)])
    left = found_now(lake, where, asked, after, ErasureProgress())
    assert not left.found
    assert len(left.clean) == len(covered(after, lake, asked)) == 6
