"""Which units of a rollup are made of which commits, and out of what, field by field."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import Rollup
from sluice.flow.load.rollups.decide import (
    Input,
    RollupChoice,
    RollupFacts,
    SourceUnit,
    changed,
    frozen_line,
)
from sluice.flow.load.work import LoadWork
from sluice.slices import Slice, Unit
from sluice.state.ledger import LedgerRow, frozen_commit, is_frozen, is_settled, made_of, manifests_in
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.landing_world import SPEC, START
from tests.support.manifests import made_manifest

SELECT = "SELECT n FROM {source}"
ROLLUP = Rollup.model_construct(source="db.click", sql="r.sql", select=SELECT)
DIGEST = hashlib.sha256(b"('db.click', 'SELECT n FROM {source}')").hexdigest()[:8]
OTHER_DIGEST = ROLLUP.model_copy(update={"source": "db.view"}).digest
PIPELINE = Pipeline.model_validate(SPEC)


def unit(hour: int, cluster: str = "dc1") -> Unit:
    return Unit(Slice(START.add(hours=hour)), cluster)


def row(place: Unit, generation: int = 3, **more: Any) -> LedgerRow:
    known: dict[str, Any] = {
        "manifest": "1-a",
        "types": (),
        "landed": 9,
        "rows": 7,
        "rejected_rows": 2,
        "token": "",
    }
    return LedgerRow(unit=place, generation=generation, **{**known, **more})


def landed(place: Unit, rows: Mapping[str, LedgerRow]) -> UnitStatus:
    """Landed as `1-a`, without rows of any type."""
    manifest = made_manifest("demo", place.slice.id, place.cluster, 1, "a", (), (), (), 0, {}, 0)
    return UnitStatus(place, UnitState.LANDED, (), (), manifest, rows, (), 0)


SOURCE = {unit(n, c): row(unit(n, c), generation=n + 1) for n in range(3) for c in ("dc2", "dc1")}


def made(
    rollup: Rollup = ROLLUP, ledger: dict | None = None, mode: str = "fill", token: str = "", **more: Any
) -> RollupFacts:
    return RollupFacts(rollup, SOURCE, ledger or {}, mode, token, **more)


def choose(facts: RollupFacts, units: list[Unit], **known: Any) -> RollupChoice:
    """Chooses among units whose sources are as `known` says, and otherwise whole."""
    due = facts.due(units)
    whole = {"counted": 7, "steady": True, "work": None, **known}
    return facts.choose(units, {place: SourceUnit(SOURCE[place], **whole) for place in due})


def test_a_units_work_is_its_sources_commit_and_rows():
    choice = choose(made(sharding="s1 of s1"), [unit(1), unit(0, "dc2"), unit(0), unit(9)])
    assert choice == RollupChoice(
        todo=[
            LoadWork(unit(0), f"1-a@1#{DIGEST}", (), (), 7, False, "s1 of s1"),
            LoadWork(unit(0, "dc2"), f"1-a@1#{DIGEST}", (), (), 7, False, "s1 of s1"),
            LoadWork(unit(1), f"1-a@2#{DIGEST}", (), (), 7, False, "s1 of s1"),
        ],
        frozen=[],
        skipped=[],
    )
    assert choose(made(), [unit(0)]).todo[0].sharding == ""


FROZEN = f"1-a@0#{DIGEST} frozen for 1-a@1#{DIGEST}"


@pytest.mark.parametrize(
    ("held", "mode", "makes"),
    [
        ({"manifest": f"1-a@1#{DIGEST}"}, "fill", False),
        ({"manifest": f"1-a@2#{DIGEST}"}, "fill", True),
        ({"manifest": f"1-a@1#{OTHER_DIGEST}"}, "fill", True),
        ({"manifest": f"1-a@1#{DIGEST}", "sharding": "s1 of s1"}, "fill", True),
        ({"manifest": f"1-a@1#{DIGEST}", "token": "t"}, "reload", False),
        ({"manifest": f"1-a@1#{DIGEST}", "token": "t"}, "repair", False),
        ({"manifest": f"1-a@1#{DIGEST}", "token": "u"}, "reload", True),
        ({"manifest": f"1-a@1#{DIGEST}", "token": "u"}, "repair", True),
        ({"manifest": FROZEN}, "fill", False),
        ({"manifest": FROZEN, "token": "u"}, "reload", True),
        ({"manifest": FROZEN.replace("1-a@1", "1-a@2")}, "fill", True),
    ],
)
def test_what_the_rollups_own_ledger_holds_decides(held, mode, makes):
    known = row(unit(0), **held)
    choice = choose(made(ledger={unit(0): known}, mode=mode, token="t"), [unit(0)])
    assert [work.replaces for work in choice.todo] == [True] * makes
    assert choice.skipped == [known] * (not makes)


WORK = LoadWork(unit(0), "1-a", (), (), 9, True)


@pytest.mark.parametrize(
    ("known", "gives"),
    [
        ({"counted": 7, "work": WORK}, Input.TABLE),
        ({"counted": 7, "work": None}, Input.TABLE),
        ({"counted": 6, "work": WORK}, Input.LAKE),
        ({"counted": 8, "work": WORK}, Input.LAKE),
        ({"counted": 7, "steady": False, "work": WORK}, Input.LAKE),
        ({"counted": 6, "work": None}, Input.NONE),
        ({"counted": 7, "steady": False, "work": None}, Input.NONE),
        ({"counted": 6, "work": replace(WORK, manifest="2-b")}, Input.WAITS),
        ({"counted": 6, "work": replace(WORK, types=("view",))}, Input.WAITS),
        ({"counted": 6, "work": replace(WORK, sharding="s1 of s1")}, Input.WAITS),
    ],
)
def test_what_a_unit_is_made_from(known, gives):
    assert SourceUnit(row(unit(0)), **{"steady": True, **known}).input is gives
    held = row(unit(0), manifest=f"1-a@0#{DIGEST}", rows=4, rules="r")
    choice = choose(made(ledger={unit(0): held}), [unit(0)], **known)
    assert [work.source for work in choice.todo] == {Input.TABLE: [None], Input.LAKE: [WORK]}.get(gives, [])
    assert choice.skipped == [held] * (gives is Input.WAITS)
    frozen = LoadWork(unit(0), FROZEN, (), (), 4, True, rules="r", frozen=True)
    assert choice.frozen == [frozen] * (gives is Input.NONE)


def test_what_stays_frozen_names_the_commit_of_its_rows():
    old = row(unit(0), manifest=FROZEN)
    assert frozen_commit(old, "2-b@3#x") == f"1-a@0#{DIGEST} frozen for 2-b@3#x"
    assert frozen_commit(None, "2-b@3#x") == " frozen for 2-b@3#x"
    assert (made_of(FROZEN), made_of(f"1-a@1#{DIGEST}")) == (f"1-a@0#{DIGEST}", f"1-a@1#{DIGEST}")
    assert manifests_in(row(unit(0), manifest=f"0-z@0#{DIGEST} frozen for 1-a@1#{DIGEST}")) == {"0-z"}
    assert is_frozen(old) and not is_frozen(row(unit(0)))
    assert is_frozen(row(unit(0), shares=(("a", row(unit(0))), ("b", old))))


def test_what_has_changed_since_it_was_chosen():
    works = choose(made(), [unit(0), unit(1)]).todo
    assert changed(ROLLUP, works, SOURCE) == []
    newer = {**SOURCE, unit(0): row(unit(0), generation=8)}
    assert changed(ROLLUP, works, newer) == [unit(0)]
    gone = {place: one for place, one in SOURCE.items() if place != unit(1)}
    assert changed(ROLLUP, works, gone) == [unit(1)]
    assert changed(ROLLUP.model_copy(update={"select": "SELECT 1"}), works[:1], SOURCE) == [unit(0)]


@pytest.mark.parametrize(
    ("held", "fresh"),
    [
        (f"1-a@3#{DIGEST}", True),
        (f"1-a@2#{DIGEST}", False),
        (f"0-z@3#{DIGEST}", False),
        ("1-a", False),
        (f"0-z@3#{DIGEST} frozen for 1-a@3#{DIGEST}", True),
        (f"1-a@3#{DIGEST} frozen for 1-a@4#{DIGEST}", False),
    ],
)
def test_a_rollup_is_settled_when_it_is_of_the_sources_commit(held, fresh):
    assert is_settled(ROLLUP, row(unit(0), manifest=held), row(unit(0))) is fresh


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
def test_on_shards_it_is_settled_where_it_is_on_each(source, mine, fresh):
    assert is_settled(ROLLUP, row(unit(0), shares=tuple(mine.items())), source) is fresh


@pytest.mark.parametrize(
    ("source_sharding", "own", "stamp"),
    [("", None, "file"), ("moved", None, ""), ("moved", "its own", "its own"), ("", "its own", "file")],
)
def test_a_rollups_rows_are_where_its_sources_are(source_sharding, own, stamp):
    """The sources here are stamped with nothing, as `source_sharding` says or not."""
    ledger = {} if own is None else {unit(0): row(unit(0), sharding=own, manifest="0-z")}
    facts = made(ledger=ledger, sharding="file", source_sharding=source_sharding, rules="r")
    [work] = choose(facts, [unit(0)]).todo
    assert (work.sharding, work.rules) == (stamp, "r")


def test_units_whose_source_waits_are_skipped_as_the_ledger_has_them():
    held = {unit(1): row(unit(1), manifest="0-z")}
    stale = LoadWork(unit(0), "2-b", (), (), 9, True)
    choice = choose(made(ledger=held), [unit(0), unit(1)], counted=6, work=stale)
    assert (choice.todo, choice.frozen, choice.skipped) == ([], [], [held[unit(1)]])


def test_a_frozen_unit_has_the_rows_and_the_rules_of_its_load():
    held = {unit(1): row(unit(1), manifest="0-z", rules="r")}
    new, known = choose(made(ledger=held, rules="file"), [unit(0), unit(1)], counted=6).frozen
    assert (new.landed, new.rules, new.manifest) == (0, "", f" frozen for 1-a@1#{DIGEST}")
    assert (known.landed, known.rules, known.manifest) == (7, "r", f"0-z frozen for 1-a@2#{DIGEST}")


def test_a_repeat_without_a_token_makes_all_again():
    held = {unit(0): row(unit(0), manifest=f"1-a@1#{DIGEST}")}
    assert made(ledger=held, mode="reload").due([unit(0)]) == [unit(0)]
    assert made(ledger=held).due([unit(0)]) == []


@pytest.mark.parametrize(
    ("hours", "rows", "said"),
    [
        ([0], 1_234, "1 slices (2026-01-01T00Z/dc1): {why}: their 1,234 rows stay as they are"),
        (
            [0, 1, 2],
            2,
            "3 slices (2026-01-01T00Z/dc1 to 2026-01-01T02Z/dc1): {why}: their 6 rows stay as they are",
        ),
        ([0, 1], 0, "2 slices (2026-01-01T00Z/dc1 to 2026-01-01T01Z/dc1): {why}: they get no rows"),
    ],
)
def test_what_is_said_of_frozen_units(hours, rows, said):
    why = "rows of db.click that they are made from have expired there, and the lake has forgotten the files"
    works = [LoadWork(unit(hour), "m", (), (), rows, True) for hour in hours]
    target = Target(table="db.sums", rollup=ROLLUP)
    assert frozen_line(target, works) == f"db.sums: frozen: {said.format(why=why)}"


def test_why_a_unit_is_made_of_what():
    assert [str(one) for one in Input] == [
        "the source table's rows",
        "the lake's files",
        "nothing has all of its rows any more",
        "its source is to be loaded first",
    ]
