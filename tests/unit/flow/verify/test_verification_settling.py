"""What a load beside verify explains is no anomaly; what it does not explain is one at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.audit import TwoReads
from sluice.flow.verify.facts import NewestRows, TableFacts, VerifyFacts
from sluice.flow.verify.read_lake import LoadWatch, unmoved
from sluice.state.lease import Lease
from sluice.state.unit_state import UnitState
from tests.support.verified import CLICKS, ELEVEN, FACTS, FOUND, OTHER, TEN, found, pipeline

BOTH = frozenset({"e.clicks", "e.other"})


def settle(first: VerifyFacts, second: VerifyFacts, quiet=BOTH):
    settled = TwoReads(first, second, quiet).settle(found(first), found(second))
    return [(a.kind, a.slice) for a in settled.sure], [(a.kind, a.slice) for a in settled.pending]


def with_clicks(**changes) -> VerifyFacts:
    return replace(FACTS, tables=(replace(CLICKS, **changes), OTHER))


FEWER = with_clicks(rows={TEN: {"": 4}, ELEVEN: {"": 5}})


def under_way() -> VerifyFacts:
    """The hour of ten is revoked in `clicks`, and its rows are there."""
    ten = replace(FOUND[0], state=UnitState.LANDED, tables={"e.other": FOUND[0].tables["e.other"]})
    clicks = replace(CLICKS, ledger={ELEVEN: CLICKS.ledger[ELEVEN]})
    return replace(FACTS, statuses=(ten, FOUND[1]), tables=(clicks, OTHER))


def generation(number: int) -> TableFacts:
    rows = {TEN: {"": 4}, ELEVEN: {"": 5}}
    return replace(
        CLICKS, rows=rows, ledger={**CLICKS.ledger, TEN: replace(CLICKS.ledger[TEN], generation=number)}
    )


def test_a_commit_that_stands_needs_no_lease():
    assert settle(FEWER, FEWER, quiet=()) == ([(AnomalyKind.ROWS_MISSING, TEN.slice.id)], [])


def test_a_commit_that_was_replaced_between_the_looks_is_looked_at_again():
    newer = replace(FACTS, tables=(generation(2), OTHER))
    assert settle(FEWER, newer) == ([], [(AnomalyKind.ROWS_MISSING, TEN.slice.id)])


def test_what_only_the_second_look_sees_is_looked_at_again():
    assert settle(FACTS, FEWER) == ([], [(AnomalyKind.ROWS_MISSING, TEN.slice.id)])
    assert settle(FEWER, FACTS) == ([], [])


def test_a_unit_without_a_commit_is_broken_only_while_nobody_loads_its_table():
    # Its rows, and its rejected rows, which are known to be of no table whose commit stands.
    uncovered = [(kind, TEN.slice.id) for kind in (AnomalyKind.INCOMPLETE, *2 * [AnomalyKind.ROWS_UNCOVERED])]
    assert settle(under_way(), under_way()) == (uncovered, [])
    assert settle(under_way(), under_way(), quiet={"e.other"}) == ([], uncovered)
    assert settle(under_way(), under_way(), quiet={"e.clicks"}) == (uncovered, [])


def test_damage_is_told_beside_a_load_of_another_hour():
    moving = under_way()
    damaged = replace(moving, tables=(replace(moving.tables[0], rows={TEN: {"": 5}, ELEVEN: {"": 4}}), OTHER))
    sure, pending = settle(damaged, damaged, quiet=())
    assert sure == [(AnomalyKind.ROWS_MISSING, ELEVEN.slice.id)]
    assert {slice_id for _, slice_id in pending} == {TEN.slice.id}


def test_newest_rows_are_judged_only_while_nobody_loads_their_table():
    """A reload of another hour deletes rows before it puts the keys' older ones back."""
    latest = {"table": "e.newest", "key": ["id"]}
    spec = pipeline(tables={"click": {"table": "e.clicks", "latest": latest}, "*": "e.other"})
    ledger = {s.unit: replace(s.tables["e.clicks"], manifest="a") for s in FOUND}
    newest = TableFacts("e.newest", newest={TEN: NewestRows(outdated=1)}, ledger=ledger)
    damaged = replace(FACTS, pipeline=spec, tables=(CLICKS, OTHER, newest))
    missing = [(AnomalyKind.ROWS_MISSING, TEN.slice.id)]
    assert settle(damaged, damaged, quiet=BOTH) == ([], missing)
    assert settle(damaged, damaged, quiet={"e.newest"}) == (missing, [])


def test_a_manifest_that_changed_is_looked_at_again():
    first = FOUND[0]
    assert first.manifest is not None
    wrong = replace(FACTS, statuses=(replace(first, manifest=replace(first.manifest, read=99)), FOUND[1]))
    again = replace(
        FACTS, statuses=(replace(first, manifest=replace(first.manifest, read=99, attempt="b")), FOUND[1])
    )
    sure, _ = settle(wrong, wrong)
    assert sure and settle(wrong, again)[0] == []


class Clock:
    """Seconds that pass only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def lake(tmp_path) -> FolderLake:
    return FolderLake(tmp_path / "lake")


def watch(lake: FolderLake, clock: Clock) -> LoadWatch:
    return LoadWatch(lake, {"e.clicks": ("e.clicks",), "e.other": ("e.other",)}, 30.0, clock, clock.sleep)


def held(lake: FolderLake) -> Lease:
    return Lease.acquire(lake, "e.clicks", "a", timedelta(seconds=30), timedelta(0))


def test_a_lease_that_is_held_is_a_load_until_it_is_given_back(lake: FolderLake):
    lease, watching = held(lake), watch(lake, Clock())
    assert watching.read() == {"e.other": ("",)}
    assert [line.split(" by ")[0] for line in watching.busy(("e.clicks", "e.other"))] == [
        "table e.clicks is being loaded"
    ]
    lease.release()
    assert set(watching.read()) == {"e.clicks", "e.other"}
    assert watching.busy(("e.clicks", "e.other")) == []


def test_a_lease_of_a_dead_holder_is_no_load_after_its_term(lake: FolderLake):
    clock = Clock()
    held(lake)
    watching = watch(lake, clock)
    waited = 0
    while "e.clicks" not in watching.read():
        assert watching.wait()
        waited += 1
    assert (waited, clock.now) == (10, 30.0)


def test_a_living_holder_is_waited_for_ten_terms(lake: FolderLake):
    clock, lease = Clock(), held(lake)
    watching = watch(lake, clock)
    while watching.wait():
        lease.renew()
        assert "e.clicks" not in watching.read()
    assert clock.now == 300.0


def test_a_load_from_its_beginning_to_its_end_between_two_looks_is_seen(lake: FolderLake):
    watching = watch(lake, Clock())
    before = watching.read()
    held(lake).release()
    assert lake.read(layout.lease("e.clicks")) is not None
    assert unmoved(before, watching.read()) == {"e.other"}
