"""The tables against manifests and ledger, word by word: each test breaks one thing of a sound range."""

from __future__ import annotations

from array import array
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from sluice.config.target import Rollup
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check_tables import (
    after_creation,
    check_counts,
    check_lost_views,
    check_missing_tables,
    check_readers_views,
    check_rollup,
    check_tables,
    cover,
    explained_tables,
)
from sluice.flow.verify.facts import NewestRows, RowIdentities, TableFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import LandedFile, Traffic
from sluice.slices import Slice, Unit
from sluice.state.boundaries.boundary import CODE, FoundBy, PartitionColumn, TopicBoundaries
from sluice.state.boundaries.model import Boundaries, LogEntry
from sluice.state.ledger import LedgerRow
from sluice.state.unit_state import UnitState
from tests.support.verified import CLICKS, ELEVEN, FACTS, FOUND, OTHER, START, TEN, pipeline

REPAIRS = Repairs("ads")
TWELVE = Unit(Slice(START.add(hours=2)), "dc1")
IN_CLICKS = {"slice": "2026-11-20T10Z", "cluster": "dc1", "table": "e.clicks"}


def repair(table: str, first: int = 10) -> str:
    words = f"--from 2026-11-20T{first}:00Z --to 2026-11-20T{first + 1}:00Z --mode repair --table {table}"
    return f"sluice run ads {words}"


def told(clicks: TableFacts, **changes: Any) -> list[Anomaly]:
    return list(check_tables(replace(FACTS, tables=(clicks, OTHER), **changes), REPAIRS))


def test_a_sound_range():
    assert told(CLICKS) == []


# ---- Rows of records.


def identity(first: int, last: int, **changes: Any) -> RowIdentities:
    return replace(RowIdentities(TEN, "bids", 0, 5, 5, first, last), **changes)


@pytest.mark.parametrize(
    ("found", "expected", "seen", "offsets"),
    [
        (identity(-1, 9), "offsets in [0, 10)", "offsets from -1 to 9", (-1, 10)),
        (identity(9, 10), "offsets in [0, 10)", "offsets from 9 to 10", (9, 11)),
        (identity(0, 0, partition=1), "offsets in [0, 0)", "offsets from 0 to 0", (0, 1)),
        (identity(3, 4, topic="wins"), "offsets in [0, 0)", "offsets from 3 to 4", (3, 5)),
    ],
)
def test_offsets_that_the_hour_has_not_read(found, expected, seen, offsets):
    place = {"topic": found.topic, "partition": found.partition, "offsets": offsets}
    assert told(replace(CLICKS, identities=(found,))) == [
        Anomaly(AnomalyKind.ROWS_FOREIGN, expected, seen, repair("e.clicks"), **IN_CLICKS, **place)
    ]
    assert told(replace(CLICKS, identities=(identity(0, 9), identity(4, 4)))) == []


@pytest.mark.parametrize(
    ("arrays", "by_row", "expected", "seen"),
    [
        (False, False, "a row for each record", "7 rows of 5 records"),
        (False, True, "a row for each record", "7 rows of 5 records"),
        (True, True, "each row of a record once", "7 rows of 5 different ones"),
        (True, False, "", ""),
    ],
)
def test_records_that_are_there_twice(arrays, by_row, expected, seen):
    """Without `_row` an array's rows look alike. What is there twice is not also called too many."""
    twice = identity(0, 9, rows=7, by_row=by_row)
    clicks = replace(CLICKS, rows={**CLICKS.rows, TEN: {"": 7}}, identities=(twice,))
    assert FOUND[0].manifest is not None
    first = replace(FOUND[0], manifest=replace(FOUND[0].manifest, rows=10 if arrays else None))
    place = {"topic": "bids", "partition": 0}
    duplicate = Anomaly(AnomalyKind.ROWS_DUPLICATE, expected, seen, repair("e.clicks"), **IN_CLICKS, **place)
    extra = Anomaly(AnomalyKind.ROWS_EXTRA, "5 rows", "7", repair("e.clicks"), **IN_CLICKS, type="click")
    assert told(clicks, statuses=(first, FOUND[1])) == [duplicate if expected else extra]
    more = replace(clicks, rows={**CLICKS.rows, TEN: {"": 8}})
    found = told(more, statuses=(first, FOUND[1]))
    assert [one.kind for one in found] == ([duplicate.kind] if expected else []) + [extra.kind]


# ---- Rows that no ledger row covers.


def known_from(first: int, last: int) -> Boundaries:
    hours = range(first, last + 1)
    rows = [array("q", [0] * len(hours)) for _ in range(3)]
    column = PartitionColumn(0, *rows, array("b", [CODE[FoundBy.RECORD]] * len(hours)))
    instants = array("q", [START.add(hours=hour).int_timestamp for hour in hours])
    return Boundaries().with_entry(
        LogEntry(timedelta(hours=1), (TopicBoundaries("dc1", "bids", "u1", instants, {0: column}),))
    )


def at(hour: int, minute: int = 0, cluster: str = "dc1") -> Unit:
    return Unit(Slice(START.add(hours=hour, minutes=minute)), cluster)


FILL = "sluice run ads --from 2026-11-20T{}:00Z --to 2026-11-20T{}:00Z --mode fill"
NOT_YET = "Sluice did not write them, and the slice has not landed: its load takes them away"
NO_SLICE = "Sluice has no such slice, and did not write them; if they are not needed: "
TWELVE_SECONDS = 1_795_168_800 + 7_200


@pytest.mark.parametrize(
    ("unit", "edges", "command", "advice"),
    [
        (TEN, None, FILL.format(10, 11), ""),  # it has landed
        (at(2), (0, 3), FILL.format(12, 13), ""),
        (at(2), (2, 3), FILL.format(12, 13), ""),
        (at(2), (0, 2), "", NOT_YET),
        (at(2), (0, 1), "", NOT_YET),
        (at(2), None, "", f"DELETE FROM `e`.`clicks` WHERE _slice = {TWELVE_SECONDS} AND _cluster = 'dc1'"),
        (at(2), (3, 4), "", f"DELETE FROM `e`.`clicks` WHERE _slice = {TWELVE_SECONDS} AND _cluster = 'dc1'"),
        (
            at(2, cluster="it's"),
            (0, 3),
            "",
            f"DELETE FROM `e`.`clicks` WHERE _slice = {TWELVE_SECONDS} AND _cluster = 'it\\'s'",
        ),
        (
            at(1, 30),
            (0, 3),
            "",
            f"DELETE FROM `e`.`clicks` WHERE _slice = {TWELVE_SECONDS - 1800} AND _cluster = 'dc1'",
        ),
    ],
)
def test_what_takes_rows_away_that_nobody_committed(unit, edges, command, advice):
    facts = replace(FACTS, boundaries=known_from(*edges) if edges else Boundaries())
    said = NO_SLICE + advice if advice.startswith("DELETE") else advice
    assert cover(facts, unit, "e.clicks", False, REPAIRS) == (command, said)


def test_how_rows_are_deleted_from_each_table():
    where = f"slice = {TWELVE_SECONDS} AND cluster = 'dc1'"
    assert cover(FACTS, at(2), "sluice.rejected", False, REPAIRS)[1] == (
        f"{NO_SLICE}DELETE FROM `sluice`.`rejected` WHERE {where}"
    )
    # A lightweight DELETE refuses a table with projections.
    assert cover(FACTS, at(2), "e.clicks", True, REPAIRS)[1].startswith(
        f"{NO_SLICE}ALTER TABLE `e`.`clicks` DELETE WHERE _slice = {TWELVE_SECONDS} AND"
    )


def test_hours_before_the_files_start_are_not_loaded():
    late = replace(FACTS, pipeline=pipeline(start="2026-11-20T13:00:00Z"), boundaries=known_from(0, 9))
    assert cover(late, at(2), "e.clicks", False, REPAIRS)[0] == ""
    assert cover(late, at(3), "e.clicks", False, REPAIRS)[0] == FILL.format(13, 14)


def test_an_hour_that_is_to_come():
    soon = replace(FACTS, boundaries=known_from(0, 2), now=START.add(hours=2))
    assert cover(soon, at(2), "e.clicks", False, REPAIRS) == ("", NOT_YET)
    assert cover(soon, at(3), "e.clicks", False, REPAIRS)[1].startswith(NO_SLICE)


def test_rows_that_no_ledger_row_covers_are_told_by_table_and_hour():
    """Rows of before Sluice have no cluster, and are nobody's business."""
    foreign, before = at(2), at(3, cluster="")
    clicks = replace(
        CLICKS,
        rows={**CLICKS.rows, at(1, 30): {"": 2}, foreign: {"": 1}, before: {"": 9}},
        rejected_rows={**CLICKS.rejected_rows, foreign: {"click": 1, "": 2}},
        projections=True,
    )
    found = told(clicks)
    assert [(one.slice, one.table, one.seen, one.expected) for one in found] == [
        ("2026-11-20T11:30:00Z", "e.clicks", "2 rows", "none: no ledger row covers them"),
        ("2026-11-20T12Z", "e.clicks", "1 row", "none: no ledger row covers them"),
        (
            "2026-11-20T12Z",
            "sluice.rejected",
            "3 rejected rows of e.clicks",
            "none: no ledger row covers them",
        ),
    ]
    assert {one.kind for one in found} == {AnomalyKind.ROWS_UNCOVERED}
    assert ["ALTER TABLE" in one.advice for one in found] == [True, True, False]
    assert {(one.cluster, one.shard, one.cause) for one in found} == {("dc1", "", "")}
    parts = (
        replace(clicks, shard="s1", rows={foreign: {"": 1}}, rejected_rows={}),
        replace(OTHER, shard="s1"),
    )
    [on_shard] = told(replace(clicks, missing="create it"), shards=parts)
    assert (on_shard.shard, on_shard.cause, on_shard.seen) == ("s1", "e.clicks", "1 row")


# ---- Traffic counts.

COUNTED = pipeline(counts=[{"table": "e.traffic"}])
FILES = (LandedFile("_counts/a", "", "e.traffic", "", 7, 1, ""),)


def counts(sums: dict[str, int], held: dict[str, int], current: bool = True, **table: Any) -> list[Anomaly]:
    """Of the first hour; the manifest has landed 6 clicks and 3 views."""
    traffic = Traffic("e.traffic", {}, (), sums, FILES)
    statuses = []
    for status in FOUND:
        assert status.manifest is not None
        row = LedgerRow(status.unit, status.manifest.id if current else "0-z", (), 7, 7, 0, "t", 1)
        manifest = replace(status.manifest, traffic=(traffic,) if status.unit == TEN else ())
        tables = {**status.tables, "e.traffic": row}
        state = UnitState.COMPLETE if current else UnitState.STALE
        derived = frozenset({"e.traffic"})
        statuses.append(replace(status, state=state, manifest=manifest, tables=tables, derived=derived))
    facts = replace(
        FACTS,
        pipeline=COUNTED,
        statuses=tuple(statuses),
        tables=(TableFacts("e.traffic", counted={TEN: held}, **table),),
    )
    return list(check_counts(facts, REPAIRS))


RELAND = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode reland"
LANDED = {"click": 6, "view": 3}


def differing(expected: str, seen: str, kind: str, command: str) -> Anomaly:
    place = {"slice": "2026-11-20T10Z", "cluster": "dc1", "table": "e.traffic"}
    return Anomaly(AnomalyKind.COUNTS, expected, seen, command, type=kind, **place)


@pytest.mark.parametrize(
    ("sums", "held", "anomalies"),
    [
        (LANDED, LANDED, []),
        (
            {"click": 5, "view": 3},
            {"click": 5, "view": 3},
            [differing("counts for 6 rows landed", "5", "click", RELAND)],
        ),
        (LANDED, {"click": 6}, [differing("counts for 3 rows counted", "0", "view", repair("e.traffic"))]),
        (
            {**LANDED, "odd": 1_000},
            {},
            [
                differing("counts for 0 rows landed", "1,000", "odd", RELAND),
                differing("counts for 6 rows counted", "0", "click", repair("e.traffic")),
                differing("counts for 1,000 rows counted", "0", "odd", repair("e.traffic")),
                differing("counts for 3 rows counted", "0", "view", repair("e.traffic")),
            ],
        ),
    ],
)
def test_counts_that_do_not_add_up(sums, held, anomalies):
    assert counts(sums, held) == anomalies


def test_counts_that_need_not_be_there():
    assert counts(LANDED, {}, current=False) == []
    assert counts(LANDED, {}, aged=START) == []
    assert len(counts(LANDED, {}, aged=START.subtract(hours=1))) == 2


# ---- Rollups and tables of newest rows.


def rollup(rows: dict[Unit, int], there: dict[Unit, int], **table: Any) -> list[Anomaly]:
    spec = pipeline().model_copy(update={"rollups": {"e.users": _rollup()}})
    digest = spec.rollups["e.users"].digest
    ledger = {
        unit: LedgerRow(unit, f"{s.manifest.id if s.manifest else ''}@1#{digest}", (), n, n, 0, "t", 1)
        for s in FOUND
        for unit, n in rows.items()
        if unit == s.unit
    }
    statuses = tuple(
        replace(s, tables={**s.tables, "e.users": ledger[s.unit]}, derived=frozenset({"e.users"}))
        if s.unit in ledger
        else s
        for s in FOUND
    )
    facts = replace(FACTS, pipeline=spec, statuses=statuses)
    held = {unit: {"": n} for unit, n in there.items()}
    return list(check_rollup(facts, TableFacts("e.users", rows=held, ledger=ledger, **table), REPAIRS))


def _rollup() -> Rollup:
    return Rollup.model_construct(source="e.clicks", sql="r.sql", select="SELECT 1 FROM {source}")


def test_rows_of_a_rollup_by_hour():
    found = rollup({ELEVEN: 4, TEN: 4}, {TEN: 5})
    assert [(one.kind, one.expected, one.seen, one.slice) for one in found] == [
        (AnomalyKind.ROWS_EXTRA, "4 rows, by the ledger", "5", "2026-11-20T10Z"),
        (AnomalyKind.ROWS_MISSING, "4 rows, by the ledger", "0", "2026-11-20T11Z"),
    ]
    assert {(one.cluster, one.table, one.advice) for one in found} == {("dc1", "e.users", "")}
    assert [one.command for one in found] == [repair("e.users"), repair("e.users", 11)]
    assert [one.slice for one in rollup({TEN: 4, ELEVEN: 4}, {TEN: 4})] == ["2026-11-20T11Z"]


def test_rows_of_a_rollup_that_may_be_gone():
    assert rollup({TEN: 4}, {TEN: 3}, aged=START) == []
    [found] = rollup({TEN: 4}, {TEN: 5}, aged=START)
    assert found.kind is AnomalyKind.ROWS_EXTRA


def test_newest_rows_that_are_wrong():
    clicks = replace(
        CLICKS, newest={TWELVE: NewestRows(9, 9), ELEVEN: NewestRows(0, 2_000), TEN: NewestRows(1_000, 0)}
    )
    assert told(clicks) == [
        Anomaly(
            AnomalyKind.ROWS_MISSING,
            "each key's newest row",
            "keys without it: 1,000",
            repair("e.clicks"),
            **IN_CLICKS,
        ),
        Anomaly(
            AnomalyKind.ROWS_FOREIGN,
            "only rows of its log",
            "rows that the log lacks: 2,000",
            repair("e.clicks", 11),
            **{**IN_CLICKS, "slice": "2026-11-20T11Z"},
        ),
    ]


# ---- Tables and views that are not there.


def missing(*statuses: Any, **changes: Any) -> VerifyFacts:
    gone = replace(CLICKS, missing="create it")
    return replace(FACTS, statuses=statuses or FOUND, tables=(gone, OTHER), **changes)


def test_a_table_that_is_missing():
    waiting = tuple(replace(status, tables={}, state=UnitState.LANDED) for status in FOUND)
    then = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T12:00Z --mode fill"
    assert list(check_missing_tables(missing(*waiting), REPAIRS)) == [
        Anomaly(
            AnomalyKind.TABLE_MISSING,
            "a table",
            "none, and 2 landed slices that are not in it",
            advice=f"create it; then: {then}",
            table="e.clicks",
        )
    ]
    assert list(check_missing_tables(missing(), REPAIRS)) == [
        Anomaly(AnomalyKind.TABLE_MISSING, "a table", "none", advice="create it", table="e.clicks")
    ]
    part = replace(CLICKS, missing="create it", shard="s2")
    [on_shard] = check_missing_tables(missing(shards=(replace(CLICKS, shard="s1"), part)), REPAIRS)
    assert (on_shard.table, on_shard.shard) == ("e.clicks", "s2")
    assert list(check_missing_tables(FACTS, REPAIRS)) == []


def test_what_a_missing_table_explains():
    spec = pipeline().model_copy(update={"rollups": {"e.users": _rollup()}})
    assert explained_tables(missing(pipeline=spec)) == {"e.clicks", "e.users"}
    assert explained_tables(replace(FACTS, pipeline=spec)) == frozenset()


def test_a_command_waits_until_the_table_is_there():
    run, clean = repair("e.other"), "sluice verify ads --clean"
    wrong = Anomaly(AnomalyKind.VALUES, "", "", run, "look")
    waits = after_creation(missing(), wrong)
    assert (waits.command, waits.later) == ("", run)
    assert waits.advice == f"look; when e.clicks is created: {run}"
    assert after_creation(FACTS, wrong) == wrong
    other = Anomaly(AnomalyKind.FILE_UNKNOWN, "", "", clean)
    assert after_creation(missing(), other) == other


def test_a_readers_view_that_shows_something_else():
    wrong = replace(CLICKS, viewed=False)
    nothing = replace(OTHER, viewed=False, ledger={})
    assert list(check_readers_views(replace(FACTS, tables=(wrong, nothing)), REPAIRS)) == [
        Anomaly(
            AnomalyKind.READERS_VIEW,
            "the view sluice.`e.clicks` of its committed slices",
            "another one, or none",
            repair("e.clicks", 11),
            table="e.clicks",
        )
    ]
    parts = (replace(CLICKS, shard="s1"), replace(wrong, shard="s2"))
    [on_shard] = check_readers_views(replace(FACTS, shards=parts), REPAIRS)
    assert (on_shard.table, on_shard.shard) == ("e.clicks", "s2")


def test_a_view_that_is_gone():
    lost = replace(CLICKS, lost_views={"e.sums_mv": "CREATE …"})
    expected = Anomaly(
        AnomalyKind.VIEW_MISSING,
        "materialized view e.sums_mv, as at the last load",
        "none",
        advice="create it as it was: CREATE …; the next load goes on without it",
        table="e.clicks",
    )
    assert list(check_lost_views(replace(FACTS, tables=(lost, OTHER)))) == [expected]
    parts = (replace(lost, shard="s1"), replace(CLICKS, shard="s2"))
    assert list(check_lost_views(replace(FACTS, shards=parts))) == [replace(expected, shard="s1")]
