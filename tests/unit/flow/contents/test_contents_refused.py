"""Tables that are compared in parts, of which some cannot be: what is reported, and what stays open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from sluice.clients.clickhouse.sql import Sql
from sluice.clients.clickhouse.tables import TargetTable, ViewTable, view_stamps
from sluice.errors import Conservation, TargetRefused
from sluice.flow import steps
from sluice.flow.contents import compare_tables, derived_tables
from sluice.flow.contents.comparable_columns import Comparison
from sluice.flow.contents.compare import ContentsReport
from sluice.flow.contents.compare_tables import Comparing, TableContents
from sluice.flow.contents.derived_tables import DerivedTables
from sluice.flow.load.work import LoadWork, work_for
from sluice.flow.verify.anomaly import ROW_KINDS, Anomaly, AnomalyKind
from sluice.flow.verify.repairs import Repairs
from sluice.flow.verify.verdict import Verdict, after, note_verified, opened_by, read_verdict, verification_of
from sluice.slices import Slice, Unit
from tests.support.fakes import MemoryLake
from tests.support.verified import ELEVEN, FACTS, FOUND, START, TEN, pipeline

BOTH = {(unit.slice.id, unit.cluster) for unit in (TEN, ELEVEN)}
CLICKS, PER_DAY, OTHER = "e.clicks", "e.per_day", "e.other"


def works() -> list[LoadWork]:
    target = pipeline().targets[0]
    return [work_for(pipeline(), target, s.unit, s.manifest, True) for s in FOUND if s.manifest]


def comparing(monkeypatch, bad: dict[Unit, Exception]) -> Comparing:
    """Of a table with a view, where staging any of the `bad` units gives its error."""

    def check(_: Comparing, staged: list[LoadWork], *more: Any) -> None:
        for work in staged:
            if work.unit in bad:
                raise bad[work.unit]
        contents: TableContents = more[0]
        contents.rows += sum(work.landed for work in staged)

    per_day = SimpleNamespace(called=PER_DAY)
    monkeypatch.setattr(compare_tables, "read_table", lambda *_: SimpleNamespace(stored=(per_day,)))
    monkeypatch.setattr(Comparing, "_check", check)
    placement = SimpleNamespace(shard="")
    stage = SimpleNamespace(
        ledger=dict, lake=MemoryLake(), client=None, target=pipeline().targets[0], placement=placement
    )
    return Comparing(cast("Any", stage), Repairs("ads"))


def values(unit: Unit, table: str) -> Anomaly:
    return Anomaly(AnomalyKind.VALUES, "5", "4", slice=unit.slice.id, cluster=unit.cluster, table=table)


def compared(units: dict[str, frozenset], report: ContentsReport, old: Verdict) -> list[tuple[str, str]]:
    """What is open after a verification that covered these units and found nothing."""
    verification = verification_of(FACTS.slices, 2, 20, 0, FACTS.slices.end)
    left = after(old, verification, [], units, (), report.uncompared).anomalies
    return [(anomaly.slices[0], anomaly.table) for anomaly in left]


ALL = [(unit, table) for unit in (TEN, ELEVEN) for table in (CLICKS, PER_DAY, OTHER)]
OPENED_AT = verification_of(FACTS.slices, 2, 20, 6, FACTS.slices.end)
OPEN = Verdict(tuple(opened_by(values(unit, table), OPENED_AT) for unit, table in ALL))
COVERED = dict.fromkeys(map(str, ROW_KINDS), frozenset(BOTH))


def test_values_that_differ_stay_open_where_the_table_cannot_be_compared(monkeypatch):
    """The table of its view cannot be compared either; all others were."""
    monkeypatch.setattr(compare_tables, "_MOST_UNITS", 1)
    refused = TargetRefused(CLICKS, "no load of it can succeed", "correct the view")
    found = comparing(monkeypatch, {ELEVEN: refused}).check(works())
    assert (found.notes, found.blocked) == ([], [str(refused)])
    report = ContentsReport()
    report.add(found)
    assert report.blocked == [str(refused)]
    eleven = ELEVEN.slice.id
    assert compared(COVERED, report, OPEN) == [(eleven, CLICKS), (eleven, PER_DAY)]
    assert compared(COVERED, ContentsReport(), OPEN) == []


def test_one_damaged_hour_is_reported_alone_and_the_others_are_compared(monkeypatch):
    slices = [replace(works()[0], unit=Unit(Slice(START.add(hours=n)), "dc1"), landed=2**n) for n in range(7)]
    broken = {slices[n].unit: Conservation(f"slice {slices[n].unit}: 99 rows") for n in (2, 5)}
    manifests = {work.unit: SimpleNamespace(id=work.manifest, forgotten_on="") for work in slices}
    monkeypatch.setattr(
        compare_tables, "read_manifests", lambda _, units: {unit: manifests[unit] for unit in units}
    )
    contents = comparing(monkeypatch, broken).check(slices)
    assert [(one.kind, one.slice, one.seen, one.command) for one in contents.anomalies] == [
        (AnomalyKind.VALUES, unit.slice.id, str(error), Repairs("ads").reland(unit.slice))
        for unit, error in broken.items()
    ]
    assert (contents.rows, contents.moved) == (1 + 2 + 8 + 16 + 64, [])


def test_a_damaged_hour_that_was_landed_again_meanwhile_has_moved(monkeypatch):
    error = Conservation("99 rows")
    now = {ELEVEN: SimpleNamespace(id="another", forgotten_on="")}
    monkeypatch.setattr(compare_tables, "read_manifests", lambda *_: now)
    contents = comparing(monkeypatch, {TEN: error, ELEVEN: error}).check(works())
    assert (contents.anomalies, contents.moved) == ([], [TEN, ELEVEN])


def test_what_differs_again_is_open_once():
    again = opened_by(values(TEN, CLICKS), OPENED_AT)
    left_out = {(TEN.slice.id, "dc1", CLICKS)}
    assert after(OPEN, OPENED_AT, [again], COVERED, (), left_out).anomalies == (again,)


def test_other_kinds_of_the_table_are_judged():
    counted = opened_by(
        Anomaly(AnomalyKind.ROWS_MISSING, "5", "4", slice=TEN.slice.id, cluster="dc1", table=CLICKS),
        OPENED_AT,
    )
    left_out = {(TEN.slice.id, "dc1", CLICKS)}
    assert after(Verdict((counted,)), OPENED_AT, [], COVERED, (), left_out).anomalies == ()


def test_a_views_table_is_not_compared_with_slices_from_before_the_view(monkeypatch):
    """Its views have changed since ten was loaded, and a load of ten would compare it."""

    view_table = ViewTable("e.view", PER_DAY, "MergeTree", "", (), frozenset(), projections=False)
    target_table = TargetTable(CLICKS, "", "MergeTree", "MergeTree ORDER BY n", (), False, (view_table,))
    stamp = view_stamps(target_table)[PER_DAY]
    monkeypatch.setattr(derived_tables, "view_commits", lambda *_: {TEN: {"older": 5}, ELEVEN: {stamp: 5}})
    monkeypatch.setattr(derived_tables, "compare", lambda *_: Comparison((), (), Sql("1")))
    monkeypatch.setattr(derived_tables, "reads_more", lambda *_: False)
    monkeypatch.setattr(derived_tables, "sums_of", lambda *_: {})
    monkeypatch.setattr(derived_tables, "read_table", lambda *_: target_table)
    stage = SimpleNamespace(client=None, pipeline=pipeline(), target=pipeline().targets[0])
    staged = SimpleNamespace(
        target_table=target_table, target=stage.target, view_tables={PER_DAY: Sql("staged")}
    )
    views = DerivedTables(
        cast("Any", stage),
        works(),
        cast("Any", staged),
        Sql("n"),
        Repairs("ads"),
        lambda unit: partial(values, unit),
    )
    views.views()
    assert views.uncompared == [(TEN, PER_DAY)]
    assert "1 slices are not compared: they were loaded before its views last changed" in views.notes[0]


class Auditor:
    def sample(self, _: object) -> ContentsReport:
        return ContentsReport(covered=COVERED, uncompared={(TEN.slice.id, "dc1", CLICKS)})


def test_a_run_that_could_not_compare_a_table_repairs_nothing(monkeypatch):
    lake = MemoryLake()

    @contextmanager
    def untimed(*_: object) -> Iterator[Any]:
        yield lambda _: None

    monkeypatch.setattr(steps, "open_lake", lambda _: lake)
    monkeypatch.setattr(steps, "audit", lambda *_: (FOUND, [], [], ()))
    monkeypatch.setattr(steps, "auditor", lambda *_, **__: Auditor())
    monkeypatch.setattr(steps, "timed", untimed)
    monkeypatch.setattr(steps, "note_freshness", lambda *_: None)
    both = [values(TEN, CLICKS), values(TEN, OTHER)]
    note_verified(lake, FACTS.slices, FOUND, both, FACTS.slices.end, COVERED)
    steps.verify_range(pipeline(), FACTS.slices)
    assert [anomaly.table for anomaly in read_verdict(lake).anomalies] == [CLICKS]
