"""Which units the lake forgets: the table of docs/design/forget.md, row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pendulum
import pytest

from sluice.flow.forget import ForgetAction, ForgetDecision, files_begun, forgettable
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.manifest import Forgotten, LandedFile
from sluice.plan.due import KeepEdges
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.page_world import TABLE, complete, missing, pipeline, unit

AT, EARLIER = "2028-01-01T00:00:00Z", "2027-01-01T00:00:00Z"
END = unit(0).slice.end
BOTH = KeepEdges(lake=END, rejected=END)
REJECTED = KeepEdges(lake=None, rejected=END)
BAD = LandedFile("_rejected/x.parquet", "a", None, "", 1, 7, "0")
WRONG = Anomaly(AnomalyKind.ROWS_MISSING, "5 rows", "4", slice=unit(0).slice.id, cluster="dc1", table=TABLE)
WAITS = ForgetAction.WAIT


def status(
    said: Forgotten | None = None, state: UnitState | None = None, bad: bool = True, **more: Any
) -> UnitStatus:
    found = complete(unit(0), **more)
    assert found.manifest is not None
    manifest = replace(found.manifest, forgotten=said, rejected=(BAD,) if bad else ())
    return replace(found, manifest=manifest, state=state or found.state)


def decided(found: UnitStatus, edges: KeepEdges = BOTH, *anomalies: Anomaly) -> ForgetDecision:
    [decision] = forgettable([found], anomalies, edges, AT)
    return decision


def test_what_is_complete_and_old_enough_is_forgotten():
    decision = decided(status())
    assert decision.action is ForgetAction.FORGET
    assert decision.new == Forgotten(lake=AT, rejected=AT, tables=(TABLE,))
    assert [file.bytes for file in decision.going] == [50, 7]
    # An hour without rejected records has none to forget.
    assert decided(status(bad=False)).new == Forgotten(lake=AT, tables=(TABLE,))


def test_bytes_of_rejected_records_may_go_earlier():
    decision = decided(status(), REJECTED)
    assert decision.new == Forgotten(rejected=AT, tables=(TABLE,))
    assert [file.key for file in decision.going] == [BAD.key]
    assert decided(status(bad=False), REJECTED).action is ForgetAction.NOTHING
    later = decided(status(Forgotten(rejected=EARLIER, tables=(TABLE,), removed=True)))
    assert (later.action, later.new) == (ForgetAction.FORGET, Forgotten(AT, EARLIER, (TABLE,)))
    assert [file.bytes for file in later.going] == [50]


def test_an_hour_counts_from_its_end():
    before = END.subtract(seconds=1)
    for edges in (KeepEdges(before, before), KeepEdges(None, None)):
        assert decided(status(), edges).action is ForgetAction.NOTHING
    assert decided(status(), KeepEdges(END, None)).action is ForgetAction.FORGET


@pytest.mark.parametrize("state", [UnitState.LANDED, UnitState.STALE])
def test_what_a_table_lacks_waits(state: UnitState):
    decision = decided(status(state=state))
    assert (decision.action, decision.why) == (WAITS, f"it is {state}: a table lacks it")
    assert decided(status(state=state), KeepEdges(None, None)).action is ForgetAction.NOTHING


def test_what_verify_finds_wrong_waits():
    decision = decided(status(), BOTH, WRONG)
    assert (decision.action, decision.why) == (WAITS, "verify: rows missing: expected 5 rows, seen 4")
    elsewhere = replace(WRONG, slice=unit(1).slice.id)
    assert decided(status(), BOTH, elsewhere).action is ForgetAction.FORGET
    # Nothing repairs a recorded loss.
    loss = replace(WRONG, kind=AnomalyKind.LOSS)
    assert decided(status(state=UnitState.COMPLETE_WITH_LOSS), BOTH, loss).action is ForgetAction.FORGET


def test_what_it_landed_without_is_in_kafka_if_anywhere():
    lacks = replace(WRONG, kind=AnomalyKind.LACKING, table="", topic="wins")
    assert decided(status(), BOTH, lacks).action is ForgetAction.FORGET


@pytest.mark.parametrize("state", [UnitState.MISSING, UnitState.EXPIRED, UnitState.NOT_OVER])
def test_what_has_not_landed_has_nothing_to_forget(state: UnitState):
    assert decided(missing(unit(0), state)).action is ForgetAction.NOTHING


@pytest.mark.parametrize("edges", [BOTH, KeepEdges(None, None)])
def test_a_forgetting_that_was_killed_is_finished_whatever_the_file_says_now(edges: KeepEdges):
    begun = status(Forgotten(AT, AT, (TABLE,)), UnitState.FORGOTTEN)
    assert decided(begun, edges, WRONG).action is ForgetAction.FINISH
    done = status(Forgotten(AT, AT, (TABLE,), removed=True), UnitState.FORGOTTEN)
    assert decided(done, edges, WRONG).action is ForgetAction.NOTHING


def test_what_a_table_has_lost_meanwhile_is_forgotten_no_more():
    """It was killed before a file was deleted, and a load was half done: its files have to stay."""
    for said, back in (
        (Forgotten(AT, AT, (TABLE,)), None),
        (Forgotten(rejected=AT, tables=(TABLE,)), None),
        (Forgotten(AT, EARLIER, (TABLE,)), Forgotten("", EARLIER, (TABLE,), removed=True)),
    ):
        lost = replace(status(said, UnitState.FORGOTTEN), tables={})
        decision = decided(lost)
        assert (decision.action, decision.new) == (ForgetAction.RESTORE, back)
        # Once a file is deleted, nothing says again that it is there.
        [gone] = forgettable([lost], [], BOTH, AT, deleted=[lost.unit])
        assert (gone.action, gone.new) == (ForgetAction.FINISH, said)
    stale = status(Forgotten(AT, AT, (TABLE,)), UnitState.FORGOTTEN)
    other = replace(stale.tables[TABLE], manifest="0-z")
    assert decided(replace(stale, tables={TABLE: other})).action is ForgetAction.RESTORE


@pytest.mark.parametrize(
    ("said", "begun"),
    [
        (Forgotten(AT, AT, (TABLE,)), [50, 7]),
        (Forgotten(rejected=AT, tables=(TABLE,)), [7]),
        (Forgotten(AT, EARLIER, (TABLE,)), [50]),  # those of `_rejected/` are long gone
        (Forgotten(AT, AT, (TABLE,), removed=True), []),
        (None, []),
    ],
)
def test_files_that_a_killed_run_may_have_deleted(said: Forgotten | None, begun: list[int]):
    assert [file.bytes for file in files_begun(status(said))] == begun


def test_edges_of_a_keep():
    now = pendulum.datetime(2026, 11, 25)
    edges = KeepEdges.of(pipeline(keep={"lake": "400d", "rejected": "30d"}).keep, now)
    assert (edges.lake, edges.rejected) == (pendulum.datetime(2025, 10, 21), pendulum.datetime(2026, 10, 26))
    assert edges.last == edges.rejected
    only = KeepEdges.of(pipeline(keep={"rejected": "30d"}).keep, now)
    assert (only.lake, only.last) == (None, pendulum.datetime(2026, 10, 26))
    lake = KeepEdges.of(pipeline(keep={"lake": "400d"}).keep, now)
    assert lake.rejected == lake.lake == pendulum.datetime(2025, 10, 21)
