"""Files that the lake has forgotten on purpose are no damage; what tables hold is compared all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check import check_erased, check_states, check_views
from sluice.flow.verify.check_files import dead
from sluice.flow.verify.facts import (
    LakeFacts,
    TableFacts,
    VerifyFacts,
    ViewTableRows,
    lacking,
    targets_of,
)
from sluice.flow.verify.notes import notes
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Forgotten, ForgottenRecords, Manifest
from sluice.state.boundaries.model import Boundaries
from sluice.state.row_balance import balance_of
from sluice.state.unit_state import UnitState
from tests.support.verified import CLICKS, ELEVEN, FACTS, FOUND, OTHER, TEN, found, pipeline

ON = "2028-01-01T00:00:00Z"
TABLES = ("e.clicks", "e.other")
RELAND = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode reland"


def forgotten(said: Forgotten, gone: bool = True, **more: object) -> VerifyFacts:
    """The first hour's files are forgotten; `gone`: they are deleted, too."""
    first = FOUND[0]
    assert first.manifest is not None
    manifest = replace(first.manifest, forgotten=said)
    state = UnitState.FORGOTTEN if said.lake else UnitState.COMPLETE
    left = {file.key for file in first.manifest.all_files if file not in manifest.held_files} if gone else ()
    sizes = {key: size for key, size in FACTS.lake.sizes.items() if key not in left}
    named = {**FACTS.lake.named, (manifest.slice, "dc1"): manifest}
    status = replace(first, state=state, manifest=manifest)
    return replace(FACTS, statuses=(status, FOUND[1]), lake=LakeFacts(sizes=sizes, named=named), **more)


def held(facts: VerifyFacts) -> Manifest:
    assert facts.statuses[0].manifest is not None
    return facts.statuses[0].manifest


def test_forgotten_files_are_not_missed():
    facts = forgotten(Forgotten(ON, ON, TABLES, removed=True))
    assert found(facts) == []
    assert dead(facts) == []
    assert list(notes(facts)) == [
        "the lake has forgotten the files of 1 units, from 2026-11-20T10Z/dc1 to 2026-11-20T10Z/dc1: tables "
        "are compared with the counts of their manifests"
    ]


@pytest.mark.parametrize(("log_start", "command"), [(0, RELAND), (4, "")])
def test_an_erasure_that_could_not_search_forgotten_files_stays_named(
    log_start: int, command: str, monkeypatch: pytest.MonkeyPatch
):
    """Kafka may still have the hour: a landing reads the list. If not, a person searches the tables."""
    facts = forgotten(Forgotten(ON, ON, TABLES, removed=True), unerased={TEN: 3})
    monkeypatch.setattr(Boundaries, "log_start", lambda *_: log_start)
    [anomaly] = found(facts)
    assert (str(anomaly.kind), anomaly.slice, anomaly.command) == ("not erased", TEN.slice.id, command)
    assert "search the tables that still hold the slice" in anomaly.advice
    begun = forgotten(Forgotten(ON, ON, TABLES), gone=False, unerased={TEN: 3})
    assert [a.command for a in found(begun) if a.kind == "not erased"] == ["sluice erase ads --pending"]


def test_an_erasure_is_done_where_no_table_has_the_hour_any_more():
    facts = forgotten(Forgotten(ON, ON, TABLES, removed=True), unerased={TEN: 3})
    emptied = tuple(replace(table, rows={}, rejected_rows={}) for table in facts.tables)
    assert "not erased" not in [str(a.kind) for a in found(replace(facts, tables=emptied))]


def test_the_bytes_of_rejected_records_alone_may_be_forgotten():
    facts = forgotten(Forgotten(rejected=ON, tables=TABLES, removed=True))
    assert found(facts) == []
    assert list(notes(facts)) == [
        "the lake has forgotten the bytes of 1 rejected records of 1 units: they are counted, and no file "
        "has them"
    ]
    # Its other files are still looked for.
    lost = {key: size for key, size in facts.lake.sizes.items() if "type=click" not in key}
    kinds = [str(one.kind) for one in found(replace(facts, lake=replace(facts.lake, sizes=lost)))]
    assert kinds == ["file missing"] * 2


def test_a_unit_that_was_remade_since_has_no_file_of_them():
    first = FOUND[0]
    assert first.manifest is not None
    gone = (ForgottenRecords(ON, {"not JSON": 1}),)
    counts = (replace(first.manifest.counts[0], without_bytes=1),)
    manifest = replace(first.manifest, rejected=(), without_bytes=gone, counts=counts)
    bad = first.manifest.rejected[0].key
    sizes = {key: size for key, size in FACTS.lake.sizes.items() if key != bad}
    named = {**FACTS.lake.named, (manifest.slice, "dc1"): manifest}
    facts = replace(
        FACTS,
        statuses=(replace(first, manifest=manifest), FOUND[1]),
        lake=LakeFacts(sizes=sizes, named=named),
    )
    assert found(facts) == []
    assert [line.partition(" of 1 units")[0] for line in notes(facts)] == [
        "the lake has forgotten the bytes of 1 rejected records"
    ]
    # Without the note of it each of them is missed.
    bare = replace(manifest, without_bytes=(), counts=first.manifest.counts)
    [one] = found(replace(facts, statuses=(replace(first, manifest=bare), FOUND[1])))
    assert (str(one.kind), one.expected, one.seen) == ("records rejected", "1 in _rejected/", "0")


def test_files_of_a_forgetting_that_is_not_done_are_left_to_it():
    facts = forgotten(Forgotten(ON, ON, TABLES), gone=False)
    assert (found(facts), dead(facts)) == ([], [])
    assert found(forgotten(Forgotten(ON, ON, TABLES))) == []


def test_a_file_that_comes_back_is_removed():
    facts = forgotten(Forgotten(ON, ON, TABLES, removed=True), gone=False)
    assert found(facts) == []
    assert dead(facts) == sorted(file.key for file in held(facts).all_files)
    only = forgotten(Forgotten(rejected=ON, removed=True), gone=False)
    assert dead(only) == [file.key for file in held(only).rejected]


def test_rows_that_are_missing_can_only_be_read_again():
    lost = replace(CLICKS, rows={TEN: {"": 4}, **{u: r for u, r in CLICKS.rows.items() if u != TEN}})
    [one] = found(forgotten(Forgotten(ON, ON, TABLES, removed=True), tables=(lost, OTHER)))
    assert (str(one.kind), one.command) == ("rows missing", RELAND)
    assert one.advice == (
        f"the lake forgot the unit's files on {ON}: it can be read again only as long as Kafka has it"
    )


def test_a_table_that_has_lost_its_commit_is_told_and_a_later_one_is_not():
    facts = forgotten(Forgotten(ON, ON, TABLES, removed=True))
    first = facts.statuses[0]
    rows = {t: row for t, row in first.tables.items() if t != "e.clicks"}
    without = replace(first, tables=rows, lost_in=("e.clicks",))
    assert without.seen == f"files forgotten on {ON[:10]}; not in e.clicks any more"
    lost = replace(CLICKS, rows={u: r for u, r in CLICKS.rows.items() if u != TEN}, rejected_rows={})
    lost = replace(lost, ledger={u: r for u, r in CLICKS.ledger.items() if u != TEN})
    facts = replace(facts, statuses=(without, FOUND[1]), tables=(lost, OTHER))
    told = [one for one in found(facts) if one.slice == TEN.slice.id]
    assert [(str(one.kind), one.table, one.command) for one in told] == [("incomplete", "e.clicks", RELAND)]
    later = TableFacts("e.later")
    spec = pipeline(tables={"click": "e.clicks", "view": "e.later", "*": "e.other"})
    new = forgotten(Forgotten(ON, ON, TABLES, removed=True), pipeline=spec, tables=(CLICKS, OTHER, later))
    new = replace(new, statuses=(new.statuses[0], replace(FOUND[1], state=UnitState.LANDED)))
    assert [one for one in found(new) if one.slice == TEN.slice.id] == []


MOVED = [{"click": "e.clicks", "view": "e.later", "*": "e.other"}, {"click": "e.clicks", "x": "e.other"}]


@pytest.mark.parametrize("tables", MOVED)
@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({"view": 3}, []),
        ({"view": 2}, [("rows missing", "e.other", "3 rows", "2")]),
        ({}, [("rows missing", "e.other", "3 rows", "0")]),
        ({"view": 4}, [("rows too many", "e.other", "3 rows", "4")]),
    ],
)
def test_rows_are_compared_by_the_routes_of_then(
    tables: dict[str, str], rows: dict[str, int], told: list[Any]
):
    """A type that has a table of its own since, or none any more, stays where it was."""
    there = replace(OTHER, rows={TEN: rows})
    seen = forgotten(Forgotten(ON, ON, TABLES, removed=True), pipeline=pipeline(tables=tables))
    facts = replace(seen, statuses=seen.statuses[:1], tables=(CLICKS, there))
    anomalies = [one for one in found(facts) if one.slice == TEN.slice.id]
    assert [(str(one.kind), one.table, one.expected, one.seen) for one in anomalies] == told
    assert [one.command for one in anomalies] == [RELAND] * len(told)


@pytest.mark.parametrize("tables", MOVED)
def test_a_table_that_holds_a_forgotten_unit_by_the_routes_of_then_lacks_nothing(tables: dict[str, str]):
    """A rollup that is still to be made keeps the unit from being complete."""
    spec = pipeline(tables=tables)
    landed = replace(forgotten(Forgotten(ON, ON, TABLES, removed=True)).statuses[0], state=UnitState.LANDED)
    targets = {name: one for name, one in targets_of(spec).items() if name in TABLES}
    assert lacking(spec, targets, landed) == set()
    taken = replace(landed, tables={"e.clicks": landed.tables["e.clicks"]})
    assert lacking(spec, targets, taken) == {"e.other"}


@pytest.mark.parametrize("tables", MOVED)
def test_rows_by_the_routes_of_then_are_loaded(tables: dict[str, str]):
    seen = forgotten(Forgotten(ON, ON, TABLES, removed=True), pipeline=pipeline(tables=tables))
    assert str(balance_of(seen.pipeline, seen.statuses[:1])) == (
        "9 rows parsed = 8 loaded + 1 rejected + 0 without a table + 0 not loaded"
    )


@pytest.mark.parametrize(
    ("aged", "told"),
    [(None, True), (TEN.slice.start, False), (TEN.slice.start.subtract(seconds=1), True)],
)
def test_rows_are_missed_until_keep_says_that_they_may_be_gone(aged: Any, told: bool):
    """Without a TTL as with one: the file decides. A TTL by `_slice` counts from its begin."""
    for expiring in (False, True) if aged is not None else (False,):
        lost = replace(CLICKS, rows={**CLICKS.rows, TEN: {"": 2}}, aged=aged, expiring=expiring)
        facts = replace(FACTS, tables=(lost, OTHER))
        assert [str(one.kind) for one in found(facts)] == (["rows missing"] if told else [])
        said = ["table e.clicks: missing rows of 1 slices are not reported, because they are older than "]
        assert [line[: len(said[0])] for line in notes(facts)] == ([] if told else said)
    # Rows that are too many, or another table's, are wrong at any age.
    more = replace(CLICKS, rows={**CLICKS.rows, TEN: {"": 9}}, aged=aged)
    assert [str(one.kind) for one in found(replace(FACTS, tables=(more, OTHER)))] == ["rows too many"]


# ---- Word by word.

PLACE = {"slice": "2026-11-20T10Z", "cluster": "dc1"}
ENTRY = (
    "nothing that entry 3 of the erasure list names",
    "manifest 1-a, which landed without it and was not searched",
)


@pytest.mark.parametrize(
    ("said", "command", "advice"),
    [
        (
            None,
            "sluice erase ads --pending",
            "or an erasure is at work, or was stopped: the same erasure, asked for again, goes on",
        ),
        (
            Forgotten(ON, ON, TABLES),
            "sluice erase ads --pending",
            "or an erasure is at work, or was stopped: the same erasure, asked for again, goes on",
        ),
        (
            Forgotten(ON, ON, TABLES, removed=True),
            RELAND,
            "the lake forgot its files: search the tables that still hold the slice",
        ),
    ],
    ids=["held", "half forgotten", "forgotten"],
)
def test_an_hour_that_an_erasure_has_not_searched(said, command, advice):
    known = replace(forgotten(said) if said else FACTS, unerased={TEN: 3})
    assert list(check_erased(known, Repairs("ads"))) == [
        Anomaly(AnomalyKind.NOT_ERASED, *ENTRY, command, advice, **PLACE)
    ]


@pytest.mark.parametrize(
    ("tables", "named"),
    [
        ((), True),  # nobody has looked
        ((TableFacts("e.clicks"), TableFacts("e.other")), False),
        ((TableFacts("e.clicks", rows={ELEVEN: {"": 1}}),), False),
        ((TableFacts("e.clicks"), TableFacts("e.other", rows={TEN: {"": 1}})), True),
        ((TableFacts("e.clicks", rejected_rows={TEN: {"": 1}}),), True),
        ((TableFacts("e.clicks", rejected_rows={ELEVEN: {"": 1}}),), False),
        ((TableFacts("e.clicks", missing="create it"),), True),
        ((TableFacts("e.clicks", view_tables=(ViewTableRows("e.sums", "e.mv", {TEN: 1}, {}),)),), True),
        ((TableFacts("e.clicks", view_tables=(ViewTableRows("e.sums", "e.mv", {ELEVEN: 1}, {}),)),), False),
    ],
)
def test_where_rows_of_a_forgotten_hour_may_be(tables, named):
    known = forgotten(Forgotten(ON, ON, TABLES, removed=True), unerased={TEN: 3}, tables=tables)
    assert bool(list(check_erased(known, Repairs("ads")))) is named


def lost(**changes: Any) -> list[Anomaly]:
    """Of the first hour, whose files are forgotten."""
    known = forgotten(Forgotten(ON, ON, ("e.clicks", "e.other", "e.old"), removed=True))
    statuses = (replace(known.statuses[0], **changes), known.statuses[1])
    return list(check_states(replace(known, statuses=statuses), Repairs("ads")))


def test_tables_that_have_lost_a_forgotten_hour():
    repair = RELAND.replace("reland", "repair --table e.{}")
    tables = FOUND[0].tables
    assert lost() == []
    assert lost(lost_in=("e.clicks",)) == [
        Anomaly(
            AnomalyKind.INCOMPLETE,
            "complete",
            "not in e.clicks any more, and its files are forgotten",
            repair.format("clicks"),
            table="e.clicks",
            **PLACE,
        )
    ]
    lacking_share = replace(tables["e.other"], shares=(("s1", None),))
    assert [(one.table, one.command) for one in lost(tables={**tables, "e.other": lacking_share})] == [
        ("e.other", repair.format("other"))
    ]
    moved = replace(tables["e.clicks"], left=("s3", "s4"))
    assert lost(tables={**tables, "e.clicks": moved}, lost_in=("e.clicks",)) == [
        Anomaly(
            AnomalyKind.INCOMPLETE,
            "complete",
            "a part of it is on shard s3, s4, which left the file",
            advice="its files are forgotten: list the shard under `clickhouse.shards` again",
            table="e.clicks",
            **PLACE,
        )
    ]
    # What had no commit of it then, and a unit that nobody landed.
    assert lost(manifest=None, lost_in=("e.clicks",)) == []


def views(rows: dict, gave: dict, table: dict | None = None, **view: Any) -> list[Anomaly]:
    fed = ViewTableRows("e.sums", "e.mv", rows, gave, **view)
    clicks = replace(CLICKS, view_tables=(fed,), **(table or {}))
    return list(check_views(replace(FACTS, tables=(clicks, OTHER)), Repairs("ads"), ()))


def test_what_a_view_gave_and_its_table_has():
    [wrong] = views({TEN: 2, ELEVEN: 3}, {TEN: 1_000, ELEVEN: 3})
    repair = RELAND.replace("reland", "repair --table e.clicks")
    assert (wrong.expected, wrong.seen, wrong.command) == (
        "1,000 rows that e.mv gave, by the ledger",
        "2",
        repair,
    )
    assert [one.slice for one in views({TEN: 2}, {TEN: 2, ELEVEN: 3})] == [ELEVEN.slice.id]
    # A TTL, and `keep.tables`, of the first hour only.
    assert views({}, {TEN: 2}, expiring=True) == []
    assert [one.seen for one in views({TEN: 3}, {TEN: 2}, expiring=True)] == ["3"]
    assert [one.slice for one in views({}, {TEN: 2, ELEVEN: 3}, {"aged": TEN.slice.start})] == [
        ELEVEN.slice.id
    ]
    lasting = {"expiring": True, "lasting": frozenset({ELEVEN})}
    assert [one.slice for one in views({}, {TEN: 2, ELEVEN: 3}, lasting)] == [TEN.slice.id, ELEVEN.slice.id]


def test_a_view_of_a_shard_and_of_a_missing_table():
    fed = ViewTableRows("e.sums", "e.mv", {}, {TEN: 2})
    part = replace(CLICKS, view_tables=(fed,), shard="s2")
    whole = replace(CLICKS, missing="create it")
    known = replace(FACTS, tables=(whole, OTHER), shards=(replace(CLICKS, shard="s1"), part))
    [wrong] = check_views(known, Repairs("ads"), ())
    assert (wrong.shard, wrong.cause) == ("s2", "e.clicks")
    assert list(check_views(known, Repairs("ads"), {(TEN.slice.id, "dc1", "e.clicks")})) == []
