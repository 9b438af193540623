"""A run verifies while a slice is loaded for longer than it waits: that slice is not taken for judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pendulum
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.errors import Busy, Conservation, NotLoaded
from sluice.flow import steps
from sluice.flow import steps as freshness
from sluice.flow.verify import audit
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.causes import error_of, lacked_elsewhere, not_published
from sluice.flow.verify.check import check
from sluice.flow.verify.facts import TableFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.flow.verify.verdict import (
    Verdict,
    after,
    note_verified,
    opened_by,
    read_verdict,
    verification_of,
    within,
)
from sluice.slices import SliceRange, Unit
from sluice.state.unit_state import UnitState
from tests.support.verified import CLICKS, ELEVEN, FACTS, FOUND, OTHER, TEN, pipeline, status
from tests.unit.flow.verify.test_verification_settling import under_way


class Impatient:
    """A table is loaded all the time, and the patience of verify is over at once."""

    def __init__(self, *_: object) -> None:
        pass

    def read(self) -> dict[str, object]:
        return {}

    def busy(self, _: object) -> list[str]:
        return ["table e.clicks is being loaded"]

    def wait(self) -> bool:
        return False


@contextmanager
def nobody(*_: object) -> Iterator[list]:
    yield []


@pytest.fixture
def lake(tmp_path: Path, monkeypatch) -> FolderLake:
    found = FolderLake(tmp_path)
    for module in (audit, steps, freshness):
        monkeypatch.setattr(module, "open_lake", lambda _: found)
    monkeypatch.setattr(audit, "connect_shards", nobody)
    monkeypatch.setattr(audit, "leases_of", lambda *_: {})
    monkeypatch.setattr(audit, "LoadWatch", Impatient)
    monkeypatch.setattr(audit, "locate", lambda _facts, _clients, _lake, anomalies, _say: list(anomalies))
    return found


def reads(monkeypatch, facts: VerifyFacts) -> VerifyFacts:
    monkeypatch.setattr(audit, "read_facts", lambda *_: facts)
    return facts


def with_another_cluster(facts: VerifyFacts) -> VerifyFacts:
    """The hour of ten is complete in it, and empty."""
    unit = Unit(TEN.slice, "dc2")
    made = status(TEN, 0)
    manifest = replace(
        made.manifest, cluster="dc2", files=(), rejected=(), ranges=(), counts=(), read=0, rejected_records={}
    )
    rows = {
        table: replace(row, unit=unit, landed=0, rows=0, rejected_rows=0, types=(), manifest=manifest.id)
        for table, row in made.tables.items()
    }
    clusters = [{"cluster": c, "bootstrap": "h:1", "topics": ["bids"]} for c in ("dc1", "dc2")]
    return replace(
        facts,
        pipeline=pipeline(kafka=clusters),
        statuses=(
            facts.statuses[0],
            replace(made, unit=unit, manifest=manifest, ranges=(), tables=rows),
            facts.statuses[1],
        ),
        tables=tuple(replace(t, ledger={**t.ledger, unit: rows[t.table]}) for t in facts.tables),
    )


@pytest.mark.parametrize("beside", ["nothing", "not erased", "a cluster that waits"])
def test_a_slice_that_was_not_judged_is_not_handed_on(lake: FolderLake, monkeypatch, beside: str):
    """Whatever else stands beside it that breaks no equation."""
    facts = with_another_cluster(under_way())
    if beside == "not erased":
        facts = replace(facts, unerased={ELEVEN: 1})
    if beside == "a cluster that waits":
        waits = replace(
            FOUND[1], unit=Unit(ELEVEN.slice, "dc2"), state=UnitState.MISSING, manifest=None, tables={}
        )
        facts = replace(facts, statuses=(*facts.statuses, waits))
    reads(monkeypatch, facts)
    with pytest.raises(Busy):
        steps.verify_range(facts.pipeline, facts.slices)


def test_an_open_anomaly_of_a_slice_that_was_not_judged_stays_open(lake: FolderLake, monkeypatch):
    """Rows of ten were missing; ten is loaded again while rows of eleven are missing."""
    fewer = replace(FACTS, tables=(replace(CLICKS, rows={TEN: {"": 4}, ELEVEN: {"": 5}}), OTHER))
    note_verified(lake, FACTS.slices, FOUND, check(fewer, Repairs("ads")), pendulum.now("UTC"))
    moving = under_way()
    clicks = replace(moving.tables[0], rows={TEN: {"": 5}, ELEVEN: {"": 4}})
    facts = reads(monkeypatch, replace(moving, tables=(clicks, OTHER)))
    for _ in range(2):
        with pytest.raises(Conservation):
            steps.verify_range(facts.pipeline, facts.slices)
        still = {(one.kind, one.slices) for one in read_verdict(lake).anomalies}
        assert still == {(AnomalyKind.ROWS_MISSING, (unit.slice.id,)) for unit in (TEN, ELEVEN)}
        assert len(read_verdict(lake).anomalies) == 2


def one_table(monkeypatch) -> VerifyFacts:
    """`e.clicks` has both hours, `e.other` none."""
    landed = tuple(
        replace(one, state=UnitState.LANDED, tables={"e.clicks": one.tables["e.clicks"]}) for one in FOUND
    )
    return reads(monkeypatch, replace(FACTS, statuses=landed, tables=(CLICKS, TableFacts("e.other"))))


def test_what_another_table_lacks_fails_no_run_into_one_and_is_kept(lake: FolderLake, monkeypatch):
    facts = one_table(monkeypatch)
    monkeypatch.setattr(Impatient, "read", lambda _: {"e.clicks": None, "e.other": None})
    statuses = steps.verify_range(facts.pipeline, facts.slices, frozenset({"e.clicks"}))
    assert [one.state for one in statuses] == [UnitState.LANDED] * 2
    opened = read_verdict(lake).anomalies
    assert [(one.kind, one.slices) for one in opened] == [("incomplete", (one.id,)) for one in facts.slices]
    assert all("seen landed, and not in e.other" in one.message for one in opened)
    for tables in (None, frozenset({"e.other"})):
        with pytest.raises(NotLoaded):
            steps.verify_range(facts.pipeline, facts.slices, tables)


def test_of_a_run_into_one_table_only_whole_hours_are_published(monkeypatch):
    facts = one_table(monkeypatch)
    told: list[SliceRange] = []
    monkeypatch.setattr(
        steps, "publish", lambda _, slices, within, held: told.append(slices) or [len(within)]
    )
    found = [FOUND[0], facts.statuses[1]]
    only = frozenset({"e.clicks"})
    assert steps.publish_range(facts.pipeline, facts.slices, found, only) == [1]
    assert told == [SliceRange(TEN.slice.start, TEN.slice.end)]
    assert not_published(facts.pipeline, lacked_elsewhere(facts.pipeline, found, only)) == (
        "1 slice is not complete, and not published: not in e.other; `sluice run ads --from "
        "2026-11-20T11:00Z --to 2026-11-20T12:00Z --mode fill` loads the rest"
    )
    told.clear()
    assert steps.publish_range(facts.pipeline, facts.slices, facts.statuses, only) == told == []
    assert not_published(facts.pipeline, lacked_elsewhere(facts.pipeline, found, None)) == ""


@pytest.mark.parametrize(
    ("pending", "said"),
    [
        ([("2026-11-20T10Z", "dc1"), ("2026-11-20T09Z", "")], "2026-11-20T09Z, 2026-11-20T10Z/dc1"),
        ([("", "")], "what belongs to no slice"),
    ],
)
def test_what_was_not_judged_has_a_name(pending: list[tuple[str, str]], said: str):
    assert str(error_of([], FOUND, pending, "")).endswith(f"meanwhile: {said}; verify when that is done")
    assert error_of([], FOUND, [], "") is None


@pytest.mark.parametrize(
    ("start", "end", "open_"),
    [(15, 30, False), (0, 60, False), (20, 35, False), (0, 15, True), (30, 45, True)],
)
def test_rows_within_a_quarter_are_judged_with_it(start: int, end: int, open_: bool):
    """Rows of no slice, at 20 minutes and 5 seconds past ten, where slices are of a quarter."""
    at, now = TEN.slice.start, TEN.slice.start.add(hours=2)
    between = Anomaly(
        AnomalyKind.ROWS_UNCOVERED, "none", "3 rows", slice="2026-11-20T10:20:05Z", table="e.clicks"
    )
    quarter, other = (
        SliceRange(at.add(minutes=first), at.add(minutes=last), timedelta(minutes=15))
        for first, last in ((15, 30), (start, end))
    )
    first = verification_of(quarter, 1, 1, 1, now)
    verdict = after(Verdict(), first, [opened_by(between, first)])
    later = after(verdict, verification_of(other, 1, 1, 0, now), [])
    assert bool(later.anomalies) == open_
    assert bool(within(verdict, other).anomalies) == (not open_)
