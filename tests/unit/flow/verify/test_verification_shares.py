"""Each shard against its own ledger rows, and all equations together, word by word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check import check
from sluice.flow.verify.check_tables import check_shards
from sluice.flow.verify.facts import LeftRows, TableFacts, ViewTableRows
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Loss, OffsetRange, Traffic
from sluice.state.boundaries.model import Boundaries
from sluice.state.unit_state import UnitState
from tests.support.verified import CLICKS, ELEVEN, FACTS, FOUND, LAKE, LEDGERS, OTHER, TEN, pipeline

REPAIRS = Repairs("ads")
RUN_TEN = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode {}"
SLICE = {"slice": "2026-11-20T10Z", "cluster": "dc1"}
SHARE = TableFacts(
    "e.clicks",
    rows={TEN: {"": 5}, ELEVEN: {"": 5}},
    rejected_rows={TEN: {"click": 1}, ELEVEN: {"click": 1}},
    ledger=LEDGERS["e.clicks"],
    shard="s1",
)


def shards(**changes: object) -> list[Anomaly]:
    return list(check_shards(replace(FACTS, shards=(replace(SHARE, **changes),)), REPAIRS))


def on_shard(kind: AnomalyKind, expected: str, seen: str) -> Anomaly:
    repair = RUN_TEN.format("repair --table e.clicks")
    return Anomaly(kind, expected, seen, repair, table="e.clicks", shard="s1", **SLICE)


def of_ten(held: dict[str, int]) -> dict:
    return {TEN: held, ELEVEN: SHARE.rows[ELEVEN]}


@pytest.mark.parametrize(
    ("changes", "anomalies"),
    [
        ({}, []),
        ({"ledger": {}, "rows": {}}, []),
        ({"rows": of_ten({"": 4})}, [on_shard(AnomalyKind.ROWS_MISSING, "5 rows, by its ledger", "4")]),
        ({"rows": {ELEVEN: {"": 5}}}, [on_shard(AnomalyKind.ROWS_MISSING, "5 rows, by its ledger", "0")]),
        ({"rows": of_ten({"a": 3, "b": 2})}, []),
        ({"rows": of_ten({"": 1_234})}, [on_shard(AnomalyKind.ROWS_EXTRA, "5 rows, by its ledger", "1,234")]),
        ({"rows": of_ten({"": 4}), "expiring": True}, []),
        (
            {"rows": of_ten({"": 6}), "expiring": True},
            [on_shard(AnomalyKind.ROWS_EXTRA, "5 rows, by its ledger", "6")],
        ),
        ({"rows": of_ten({"": 4}), "expiring": True, "lasting": frozenset({ELEVEN})}, []),
        (
            {"rows": of_ten({"": 4}), "expiring": True, "lasting": frozenset({TEN})},
            [on_shard(AnomalyKind.ROWS_MISSING, "5 rows, by its ledger", "4")],
        ),
        (
            {"rejected_rows": {TEN: {"click": 1_000, "view": 1}, ELEVEN: {"click": 1}}},
            [on_shard(AnomalyKind.REJECTED_ROWS, "1 rejected rows, by its ledger", "1,001")],
        ),
        (
            {"rejected_rows": {ELEVEN: {"click": 1}}},
            [on_shard(AnomalyKind.REJECTED_ROWS, "1 rejected rows, by its ledger", "0")],
        ),
        (
            {"misplaced": {TEN: 1_000}},
            [on_shard(AnomalyKind.MISPLACED, "rows of its own only", "1,000 rows of other shards")],
        ),
        ({"misplaced": {TEN: 0}}, []),
    ],
)
def test_each_shard_holds_what_its_ledger_says(changes, anomalies):
    assert shards(**changes) == anomalies


def test_numbers_of_a_shard_are_told_in_thousands():
    ledger = {TEN: replace(SHARE.ledger[TEN], rows=2_000, rejected_rows=3_000)}
    assert [a.expected for a in shards(ledger=ledger)] == [
        "2,000 rows, by its ledger",
        "3,000 rejected rows, by its ledger",
    ]


def test_only_what_is_done_is_asked_of_a_shard():
    older = {name: replace(row, manifest="older") for name, row in FOUND[0].tables.items()}
    stale = replace(FOUND[0], state=UnitState.STALE, tables=older)
    facts = replace(FACTS, statuses=(stale, FOUND[1]), shards=(replace(SHARE, rows={}),))
    assert [a.slice for a in check_shards(facts, REPAIRS)] == ["2026-11-20T11Z"]


def test_a_shard_that_was_left():
    left = (LeftRows("s3", "ch3", "e.clicks", 12_345), LeftRows("s4", "ch4", "e.clicks", 9, only=2))
    assert list(check_shards(replace(FACTS, left=left), REPAIRS)) == [
        Anomaly(
            AnomalyKind.LEFT,
            "no rows: the pipeline file does not list the shard any more",
            "12,345 rows",
            advice="all of their hours are committed on the listed shards: take the table out of Distributed "
            "tables, then on connection ch3 run: DROP TABLE `e`.`clicks` SYNC",
            table="e.clicks",
            shard="s3",
        ),
        Anomaly(
            AnomalyKind.LEFT,
            "no rows: the pipeline file does not list the shard any more",
            "9 rows",
            advice="2 of them are of hours that the listed shards have not committed, and may be nowhere "
            "else: list shard s4 again, or load those hours first; until then keep the table",
            table="e.clicks",
            shard="s4",
        ),
    ]


def test_all_equations_are_looked_at_those_of_slices_first():
    other = replace(FOUND[1], state=UnitState.STALE)
    lake = replace(LAKE, sizes={**LAKE.sizes, "x": 1})
    broken = replace(FOUND[0], manifest=replace(FOUND[0].manifest, gaps=1))
    fed = ViewTableRows("e.sums", "e.view", {}, {TEN: 5})
    tables = (
        replace(CLICKS, view_tables=(fed,)),
        replace(OTHER, rows={TEN: {"view": 2}, ELEVEN: {"view": 3}}),
    )
    facts = replace(
        FACTS,
        statuses=(broken, other),
        lake=lake,
        tables=tables,
        shards=(replace(SHARE, misplaced={TEN: 1}, view_tables=(fed,)),),
    )
    assert [a.kind for a in check(facts, REPAIRS)] == [
        AnomalyKind.INCOMPLETE,
        AnomalyKind.READ,
        AnomalyKind.FILE_UNKNOWN,
        AnomalyKind.ROWS_MISSING,
        AnomalyKind.MISPLACED,
        AnomalyKind.VIEW,
    ]


def test_a_table_that_is_missing_comes_with_what_to_do_then():
    landed = tuple(replace(status, state=UnitState.LANDED, tables={}) for status in FOUND)
    gone = (TableFacts("e.clicks", missing="create it"), TableFacts("e.other", missing="make it"))
    then = "; then: sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T12:00Z --mode fill"
    found = check(replace(FACTS, statuses=landed, tables=gone), REPAIRS)
    assert [(a.kind, a.table, a.seen, a.advice) for a in found] == [
        (AnomalyKind.TABLE_MISSING, name, "none, and 2 landed slices that are not in it", create + then)
        for name, create in (("e.clicks", "create it"), ("e.other", "make it"))
    ]


def test_offsets_and_counts_come_with_their_commands():
    traffic = Traffic("e.traffic", {}, (), {"click": 6, "view": 2}, ())
    ranges = (OffsetRange("bids", "u1", 0, 0, 9),)
    broken = replace(FOUND[0], manifest=replace(FOUND[0].manifest, traffic=(traffic,), ranges=ranges))
    facts = replace(FACTS, statuses=(broken, FOUND[1]))
    found = [
        (a.kind, a.command) for a in check(facts, REPAIRS) if a.kind in (AnomalyKind.GAP, AnomalyKind.COUNTS)
    ]
    both = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T12:00Z --mode reland"
    assert found == [(AnomalyKind.GAP, both), (AnomalyKind.COUNTS, RUN_TEN.format("reland"))]


def test_a_cluster_that_was_taken_away_is_not_read_again():
    gone = (
        "the pipeline file does not ask its cluster for the hour: name the cluster there, without a later "
        "`start`, and run `sluice verify ads` again"
    )
    away = pipeline(kafka=[{"cluster": "dc2", "bootstrap": "h:1", "topics": ["bids"]}])
    left = tuple(replace(status, gone=True) for status in FACTS.statuses)
    start = "type=click/date=2026-11-20/hour=10/2026-11-20T10Z"
    missing = {key: size for key, size in LAKE.sizes.items() if not key.startswith(start)}
    facts = replace(FACTS, lake=replace(LAKE, sizes=missing))
    [one] = check(facts, REPAIRS)
    assert (one.kind, one.command, one.advice) == (AnomalyKind.FILE_MISSING, RUN_TEN.format("reland"), "")
    later = replace(facts, pipeline=away, statuses=left)
    [other] = [a for a in check(later, REPAIRS) if a.kind is AnomalyKind.FILE_MISSING]
    assert other == replace(one, command="", advice=gone)
    # What is loaded from the lake is repaired all the same, and a file of nobody's is removed.
    fewer = (replace(CLICKS, rows={TEN: {"": 4}, ELEVEN: {"": 5}}), OTHER)
    rows = [
        a
        for a in check(replace(FACTS, tables=fewer, pipeline=away), REPAIRS)
        if a.kind is AnomalyKind.ROWS_MISSING
    ]
    assert [a.command for a in rows] == [RUN_TEN.format("repair --table e.clicks")]
    stray = replace(
        FACTS, lake=replace(LAKE, sizes={**LAKE.sizes, f"{start}-dc1-1-9.parquet": 1}), pipeline=away
    )
    assert [a.command for a in check(stray, REPAIRS) if a.file] == [
        "sluice verify ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --clean"
    ]


def test_what_a_recreated_topic_had_is_not_read_again(monkeypatch: pytest.MonkeyPatch):
    """A reland is refused there: the file comes back from a copy, or not at all."""
    start = "type=click/date=2026-11-20/hour=10/2026-11-20T10Z"
    missing = {key: size for key, size in LAKE.sizes.items() if not key.startswith(start)}
    facts = replace(FACTS, lake=replace(LAKE, sizes=missing))
    monkeypatch.setattr(Boundaries, "uuid", lambda *_: "another")
    [one] = [a for a in check(facts, REPAIRS) if a.kind is AnomalyKind.FILE_MISSING]
    advice = "topic bids was recreated, so no `reland` reads what the hour had of it: put back a copy"
    assert (one.command, one.advice) == ("", advice)


@pytest.mark.parametrize(
    ("log_start", "lost", "gone"),
    [(0, 0, ""), (1, 0, "[0, 1)"), (10**6, 0, "[0, 10)"), (4, 4, ""), (5, 4, "[4, 5)")],
)
def test_what_kafka_has_expired_is_not_read_again(
    log_start: int, lost: int, gone: str, monkeypatch: pytest.MonkeyPatch
):
    """By the log starts that runs have seen. What the manifest names as lost was not landed before."""
    start = "type=click/date=2026-11-20/hour=10/2026-11-20T10Z"
    missing = {key: size for key, size in LAKE.sizes.items() if not key.startswith(start)}
    losses = (Loss("bids", 0, 0, lost, exact=True),) if lost else ()
    statuses = tuple(
        replace(one, manifest=replace(one.manifest, lost=losses)) if one.manifest else one
        for one in FACTS.statuses
    )
    facts = replace(FACTS, lake=replace(LAKE, sizes=missing), statuses=statuses)
    monkeypatch.setattr(Boundaries, "log_start", lambda *_: log_start)
    [one] = [a for a in check(facts, REPAIRS) if a.kind is AnomalyKind.FILE_MISSING]
    assert (one.command == "") == bool(gone)
    assert f"Kafka no longer has the offsets {gone} of bids/0, so no `reland`" in one.advice or not gone
