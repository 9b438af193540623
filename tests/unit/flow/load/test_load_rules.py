"""By which rules a unit is loaded, which rows stay meanwhile, and what a load says of what it did."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.clients.clickhouse.shards import stamp
from sluice.errors import FilesForgotten
from sluice.flow.load.own_placement import OtherShards
from sluice.flow.load.work import (
    Kept,
    LoadResult,
    LoadWork,
    UnitLoad,
    UnitsRefused,
    by_rules,
    choose,
    rules_for,
    work_for,
)
from sluice.manifest import FieldSeen, Forgotten, Manifest, TypeFields
from sluice.state.additions import Addition
from sluice.state.ledger import LedgerRow
from tests.unit.flow.load.test_load_choices import CLICKS, SPEC, manifest
from tests.unit.flow.load.test_load_decide import unit

OWN = "digest"
THIS, AMENDED, ANOTHER = "1-a", "1-before", "1-other"


def landed(**changes: object) -> Manifest:
    return manifest(amends=(AMENDED,), **changes)


def row(hour: int = 0, held: str = THIS, **changes: object) -> LedgerRow:
    known = LedgerRow(unit(hour), held, ("click",), 4, 3, 1, "t", 1, rules=OWN)
    return replace(known, **changes)


FILE = dict.fromkeys(["this", "without the type", "amended", "another", "none"], "")
ROW = FILE | dict.fromkeys(["this", "without the type", "amended"], OWN)
FILL = ROW | {"without the type": ""}
RULES = {
    "fill": FILL,
    "reload --missing-columns": FILL,
    "repair": ROW,
    "reland": ROW,
    "retry": ROW,
    "amend": ROW,
    "reload": FILE,
    "remake": FILE,
}
NEWEST = {
    "this": row(),
    "without the type": row(types=("view",)),
    "amended": row(held=AMENDED, types=()),
    "another": row(held=ANOTHER),
    "none": None,
}


@pytest.mark.parametrize("mode", RULES)
@pytest.mark.parametrize("newest", NEWEST)
def test_whose_rules_a_unit_is_loaded_by(mode, newest):
    assert rules_for(landed(), NEWEST[newest], mode, ("click",)) == RULES[mode][newest]


def test_a_table_with_more_types_than_the_unit_has_no_new_one():
    for types in (("click", "view"), ("click",)):
        assert rules_for(landed(), row(types=types), "fill", ("click",)) == OWN
    assert rules_for(landed(), row(types=("click",)), "fill", ("click", "view")) == ""


@pytest.mark.parametrize("where", ["ledger", "revoked"])
def test_a_unit_is_loaded_by_the_rules_that_a_load_before_it_had(where):
    known: dict = {"ledger": {}, "revoked": {}} | {where: {unit(): row(sharding="s")}}
    ledger, revoked = known["ledger"], known["revoked"]
    found = {}
    for mode in ("repair", "reload"):
        [work], _ = choose(SPEC, CLICKS, {unit(): landed()}, ledger, mode, "u", revoked=revoked)
        found[mode] = work.rules
    assert found == {"repair": OWN, "reload": ""}


@pytest.mark.parametrize(
    ("mode", "known", "held"),
    [
        ("retry", row(), True),
        ("retry", row(held=AMENDED), True),
        ("retry", row(held=ANOTHER), True),
        ("repair", row(), False),
        ("reload", row(), False),
        ("fill", row(held=AMENDED), False),
        ("amend", row(held=AMENDED), False),
    ],
)
def test_rows_that_have_to_stay(mode, known, held):
    [work], skipped = choose(SPEC, CLICKS, {unit(): landed()}, {unit(): known}, mode, "u")
    assert (work.held, skipped) == (known if held else None, [])


def test_a_load_of_missing_columns_only_fills_those():
    added = Addition(CLICKS.table, "lang", "String", "s", 1, 1, "now", "me", shards={"": 2})
    fields = (TypeFields("click", 4, True, {"lang": FieldSeen(1, {})}),)
    known, mode = row(), "reload --missing-columns"
    [work], _ = choose(
        SPEC, CLICKS, {unit(): landed(fields=fields)}, {unit(): known}, mode, "u", additions=[added]
    )
    assert (work.held, work.rules) == (known, OWN)


def test_forgotten_units_stay_and_those_behind_them_are_loaded():
    gone = landed(forgotten=Forgotten(lake="2028-01-01T00:00:00Z"))
    found = {unit(0): gone, unit(1): landed(), unit(2): gone, unit(3): landed()}
    ledger = {unit(1): row(1), unit(2): row(2)}
    todo, skipped = choose(SPEC, CLICKS, found, ledger, "fill", "u")
    assert ([work.unit for work in todo], skipped) == ([unit(3)], [row(1), row(2)])
    with pytest.raises(FilesForgotten) as refused:
        choose(SPEC, CLICKS, found, ledger, "reload", "u")
    slice_ = unit().slice
    assert "`reload`" in str(refused.value)
    assert f"`sluice run p {' '.join(slice_.words)} --mode reland`" in str(refused.value)


def test_a_unit_whose_rows_stay_on_other_shards_is_not_loaded_here():
    placed = {name: stamp("s1, s2 by partition", name) for name in ("s1", "s2")}
    there = {"s2": "here"}
    stamps = {unit(0): there, unit(1): placed, unit(2): there, unit(4): there}
    others = OtherShards(stamps=stamps, rows={unit(3): (row(3),)})
    ledger = {unit(2): row(2), unit(1): row(1), unit(4): row(4)}
    found = {unit(hour): landed() for hour in range(5)}
    todo, skipped = choose(SPEC, CLICKS, found, ledger, "repair", "u", "file", shard="s1", shards=others)
    assert [(work.unit, work.sharding) for work in todo] == [(unit(1), placed["s1"]), (unit(3), "file")]
    assert skipped == [row(2), row(4)]
    # What no row of its own tells, another shard's does.
    assert [work.rules for work in todo] == [OWN, OWN]


@pytest.mark.parametrize(
    ("sharding", "kept"),
    [("", True), ("s1 of s1, s2 by partition", True), ("s1 of s1, s2 by user", False)],
)
def test_rows_that_are_placed_by_their_values_are_made_again(sharding, kept):
    known = {unit(): row(sharding=sharding)}
    [work], _ = choose(SPEC, CLICKS, {unit(): landed()}, known, "retry", "u", sharding)
    assert (work.kept is not None) is kept


WORK = LoadWork(unit(), THIS, ("click",), (), 9, True)


def test_what_nobody_has_said_of_a_unit():
    assert (WORK.held, WORK.rules, WORK.kept, WORK.source) == (None, "", None, None)
    assert (WORK.frozen, WORK.lacking) == (False, 0)


@pytest.mark.parametrize(
    ("held", "brought"),
    [
        (None, 0),
        (row(), 0),  # 4 rows of this very landing
        (row(held=AMENDED), 5),
        (row(held=AMENDED, rows=8), 0),
        (row(held=AMENDED, rows=20), 0),
    ],
)
def test_rows_that_landed_since(held, brought):
    assert replace(WORK, held=held).brought == brought


@pytest.mark.parametrize(
    ("counted", "fields", "may"),
    [
        (False, (), True),
        (True, (), False),
        (True, (TypeFields("click", 4, True, {"lang": FieldSeen(1, {})}),), True),
        (True, (TypeFields("click", 4, True, {"other": FieldSeen(1, {})}),), False),
        (True, (TypeFields("click", 4, True, {}, others=1),), True),
    ],
)
def test_rows_that_may_have_a_field(counted, fields, may):
    assert replace(WORK, counted=counted, fields=fields).may_have(["country", "lang"]) is may


def test_fields_are_looked_at_for_tables_that_may_get_columns():
    fields = (TypeFields("click", 4, True, {}), TypeFields("odd", 4, True, {}))
    found = {}
    for evolve in ("off", "warn", "add"):
        target = CLICKS.model_copy(update={"evolve": evolve})
        found[evolve] = work_for(SPEC, target, unit(), landed(fields=fields), False).fields
    assert found == {"off": (), "warn": (), "add": fields[:1]}


def test_units_that_are_refused_leave_the_others():
    works = [replace(WORK, unit=unit(hour)) for hour in range(3)]
    refused = UnitsRefused("db.t", "why", "remedy", frozenset({unit(1)}))
    assert refused.others(works) == [works[0], works[2]]


def test_units_of_the_same_rules_and_placement_are_loaded_at_once():
    kept = Kept(("_offset",), 3)
    works = [
        WORK,
        replace(WORK, rules=OWN),
        replace(WORK, landed=1),
        replace(WORK, routes=("click",)),
        replace(WORK, sharding="s"),
        replace(WORK, kept=kept),
        replace(WORK, rules=OWN, landed=1),
        replace(WORK, kept=replace(kept, rows=5)),
    ]
    groups = [[works.index(work) for work in group] for group in by_rules(works)]
    assert groups == [[0, 2], [1, 6], [3], [4], [5, 7]]


LOADED = (
    UnitLoad(unit(0), THIS, 5, 1, True, {"a": 2, "b": 1}, {"positive": 2}),
    UnitLoad.skipped(row(1, defaulted={"a": 9}, failed={"positive": 7})),
    UnitLoad(unit(2), THIS, 3, 0, True, {"a": 4}, {"positive": 1, "known": 3}),
)


def test_what_was_found_committed_is_no_load():
    assert LOADED[1] == UnitLoad(unit(1), THIS, 3, 1, False, {"a": 9}, {"positive": 7})
    plain = UnitLoad(unit(), THIS, 3, 1, True)
    assert (plain.defaulted, plain.failed) == ({}, {})
    assert len({plain, replace(plain, defaulted={"a": 1}, failed={"b": 1})}) == 2


def test_what_a_load_says():
    found = LoadResult("db.clicks", LOADED, statements=4, blocks=7)
    assert found.loaded == (LOADED[0], LOADED[2])
    assert (found.defaulted, found.failed) == (7, {"positive": 3, "known": 3})
    assert found.summary() == {"loaded": 2, "skipped": 1, "rows": 8, "rejected_rows": 1}
    said = found.as_dict()
    assert said.keys() == {"table", "units", "statements", "blocks"}
    assert (said["table"], said["statements"], said["blocks"]) == ("db.clicks", 4, 7)
    assert said["units"][0] == {
        "unit": str(unit(0)),
        "manifest": THIS,
        "rows": 5,
        "rejected_rows": 1,
        "loaded": True,
        "defaulted": {"a": 2, "b": 1},
        "failed": {"positive": 2},
    }
    assert [one["unit"] for one in said["units"]] == [str(unit(hour)) for hour in range(3)]
    nothing = LoadResult("db.clicks", ())
    assert (nothing.statements, nothing.blocks) == (0, 0)
