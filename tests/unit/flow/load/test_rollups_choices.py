"""Which units and hours of a rollup are made of which commits, field by field."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sluice.config.pipeline import Pipeline
from sluice.config.rollups import Rollup
from sluice.flow.load.rollups.decide import RollupFacts, changed, name_of
from sluice.flow.load.work import LoadWork
from sluice.manifest import Manifest
from sluice.slices import Slice, Unit
from sluice.state.ledger import LedgerRow
from sluice.state.rollup_commits import is_fresh, is_hour
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.landing_world import SPEC, START

SELECT = "SELECT n FROM {source}"
ROLLUP = Rollup.model_construct(source="db.click", sql="r.sql", grain="slice", time=None, select=SELECT)
HOURLY = ROLLUP.model_copy(update={"grain": "hour", "time": "at"})
DIGEST = hashlib.sha256(b"slice None SELECT n FROM {source}").hexdigest()[:8]
HOUR_DIGEST = hashlib.sha256(b"hour at SELECT n FROM {source}").hexdigest()[:8]
PIPELINE = Pipeline.model_validate(SPEC)


def unit(hour: int, cluster: str = "dc1") -> Unit:
    return Unit(Slice(START.add(hours=hour)), cluster)


def row(place: Unit, generation: int = 3, **more: Any) -> LedgerRow:
    known: dict[str, Any] = {
        "manifest": "1-a",
        "types": (),
        "landed": 9,
        "rows": 7,
        "misfits": 2,
        "token": "",
    }
    return LedgerRow(unit=place, generation=generation, **{**known, **more})


def landed(place: Unit, rows: Mapping[str, LedgerRow]) -> UnitStatus:
    """Landed as `1-a`, without rows of any type."""
    manifest = Manifest("demo", place.slice.id, place.cluster, 1, "a", (), (), (), 0, {}, 0)
    return UnitStatus(place, UnitState.LANDED, (), (), manifest, rows, (), 0)


SOURCE = {unit(n, c): row(unit(n, c), generation=n + 1) for n in range(3) for c in ("dc2", "dc1")}


def made(
    rollup: Rollup = ROLLUP, ledger: dict | None = None, mode: str = "fill", token: str = "", **more: Any
) -> RollupFacts:
    return RollupFacts(rollup, SOURCE, ledger or {}, mode, token, **more)


def test_a_units_work_is_its_sources_commit_and_rows():
    todo, skipped = made(sharding="s1 of s1").choose([unit(1), unit(0, "dc2"), unit(0), unit(9)])
    assert skipped == []
    assert todo == [
        LoadWork(unit(0), f"1-a@1#{DIGEST}", (), (), 7, False, "s1 of s1"),
        LoadWork(unit(0, "dc2"), f"1-a@1#{DIGEST}", (), (), 7, False, "s1 of s1"),
        LoadWork(unit(1), f"1-a@2#{DIGEST}", (), (), 7, False, "s1 of s1"),
    ]
    assert made().choose([unit(0)])[0][0].sharding == ""


@pytest.mark.parametrize(
    ("held", "mode", "makes"),
    [
        ({"manifest": f"1-a@1#{DIGEST}"}, "fill", False),
        ({"manifest": f"1-a@2#{DIGEST}"}, "fill", True),
        ({"manifest": f"1-a@1#{HOUR_DIGEST}"}, "fill", True),
        ({"manifest": f"1-a@1#{DIGEST}", "sharding": "s1 of s1"}, "fill", True),
        ({"manifest": f"1-a@1#{DIGEST}", "token": "t"}, "reload", False),
        ({"manifest": f"1-a@1#{DIGEST}", "token": "u"}, "reload", True),
    ],
)
def test_what_the_rollups_own_ledger_holds_decides(held, mode, makes):
    known = row(unit(0), **held)
    todo, skipped = made(ledger={unit(0): known}, mode=mode, token="t").choose([unit(0)])
    assert [work.replaces for work in todo] == [True] * makes
    assert skipped == [known] * (not makes)


HOUR = Unit(Slice(START), "")
NEXT = Unit(Slice(START.add(hours=1)), "")
NAMES = ("2026-01-01T00Z/dc1@1:1-a", "2026-01-01T01Z/dc1@2:1-a")


def test_a_commit_as_an_hour_names_it():
    assert name_of(SOURCE[unit(1)]) == "2026-01-01T01Z/dc1@2:1-a"
    assert is_hour(HOUR) and not is_hour(unit(0))


def test_an_hours_work_names_the_commits_of_its_units():
    works = made(HOURLY, sharding="s").hour_works(
        {NEXT: {unit(0): 2}, HOUR: {unit(1): 5, unit(0): 4, unit(9): 8}}
    )
    parts = [NAMES, NAMES[:1]]
    digests = [hashlib.sha256(" ".join(names).encode()).hexdigest()[:16] for names in parts]
    assert works == [
        LoadWork(HOUR, f"{digests[0]}#{HOUR_DIGEST}", parts[0], (), 9, True, "s"),
        LoadWork(NEXT, f"{digests[1]}#{HOUR_DIGEST}", parts[1], (), 2, True, "s"),
    ]


def test_an_hour_that_holds_the_same_commits_is_made_only_by_a_reload():
    [work] = made(HOURLY).hour_works({HOUR: {unit(0): 4}})
    held = {HOUR: row(HOUR, manifest=work.manifest, types=work.types, token="t")}
    assert made(HOURLY, held).hour_works({HOUR: {unit(0): 4}}) == []
    assert made(HOURLY, held, "reload", "t").hour_works({HOUR: {unit(0): 4}}) == []
    [again] = made(HOURLY, held, "reload", "u").hour_works({HOUR: {unit(0): 4}})
    assert again == work and work.replaces
    assert made(HOURLY, held, sharding="s").hour_works({HOUR: {unit(0): 4}}) != []


def test_hours_are_found_by_the_units_that_they_were_made_of():
    held = {
        HOUR: row(HOUR, types=NAMES),
        NEXT: row(NEXT, types=("2026-01-01T01Z/dc1@1:0-z",)),
        unit(5): row(unit(5), types=("click",)),
    }
    assert made(HOURLY, held).hours_naming([unit(1)]) == {HOUR, NEXT}
    assert made(HOURLY, held).hours_naming([unit(0)]) == {HOUR}
    assert made(HOURLY, held).hours_naming([unit(1, "dc2"), unit(2)]) == set()
    assert made(HOURLY, held).hours_naming([]) == set()


def test_what_has_changed_since_it_was_chosen():
    works = [
        *made().choose([unit(0), unit(1)])[0],
        *made(HOURLY).hour_works({HOUR: {unit(0): 1, unit(1): 1}}),
    ]
    assert changed(ROLLUP, works, SOURCE) == []
    newer = {**SOURCE, unit(0): row(unit(0), generation=8)}
    assert changed(ROLLUP, works, newer) == [unit(0), HOUR]
    gone = {place: one for place, one in SOURCE.items() if place != unit(1)}
    assert changed(ROLLUP, works, gone) == [unit(1), HOUR]
    assert changed(HOURLY, works[:1], SOURCE) == [unit(0)]
    assert changed(ROLLUP, [LoadWork(HOUR, "", (), (), 0, False)], {}) == []


@pytest.mark.parametrize(
    ("held", "fresh"),
    [(f"1-a@3#{DIGEST}", True), (f"1-a@2#{DIGEST}", False), (f"0-z@3#{DIGEST}", False), ("1-a", False)],
)
def test_a_rollup_is_fresh_when_it_is_of_the_sources_commit(held, fresh):
    assert is_fresh(ROLLUP, row(unit(0), manifest=held), row(unit(0))) is fresh


SHARED = row(unit(0), shares=(("a", row(unit(0), 1)), ("b", row(unit(0), 2))))
MINE = {"a": row(unit(0), manifest=f"1-a@1#{DIGEST}"), "b": row(unit(0), manifest=f"1-a@2#{DIGEST}")}


@pytest.mark.parametrize(
    ("source", "mine", "fresh"),
    [
        (SHARED, MINE, True),
        (SHARED, {"b": MINE["b"], "a": MINE["a"]}, True),
        (SHARED, {**MINE, "b": MINE["a"]}, False),
        (SHARED, {**MINE, "b": None}, False),
        (SHARED, {"a": MINE["a"]}, False),
        (replace(SHARED, shares=(SHARED.shares[0], ("b", None))), MINE, False),
        (replace(SHARED, shares=SHARED.shares[:1]), MINE, True),
    ],
)
def test_on_shards_it_is_fresh_where_it_is_on_each(source, mine, fresh):
    assert is_fresh(ROLLUP, row(unit(0), shares=tuple(mine.items())), source) is fresh
