"""What a retry brings in and loads again: the table of retry_plan.py, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.rejected.rejections import Rejection, RejectionCause, RejectionFilter, RejectionTally
from sluice.flow.rejected.retry import (
    Cure,
    RetryCandidates,
    RetryResult,
    candidates,
    refused_units,
    retry_plan,
    tried_units,
)
from sluice.flow.steps import rules_now
from sluice.manifest import Forgotten, Manifest, Remade
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.landing_world import hours, pipeline
from tests.support.manifests import made_manifest

TIME = RejectionCause("record", "", "", "time not understood")
TYPE = RejectionCause("record", "", "", "no type")
TOMBSTONE = RejectionCause("record", "", "", "no value")
SMALL = RejectionCause("row", "db.click", "small", "does not fit UInt8")
UNITS = [Unit(slice_, "dc1") for slice_ in hours(9)]
FORGOTTEN = Forgotten(lake="2026-03-01T00:00:00Z")
NOW = rules_now(pipeline())
OTHER = "another"


def manifest(unit: Unit, **changes) -> Manifest:
    old = made_manifest("p", unit.slice.id, unit.cluster, 1, "a", (), (), (), 10, {}, 0, rules=OTHER)
    return replace(old, **changes)


def status(unit: Unit, state: UnitState = UnitState.COMPLETE, gone: bool = False, **changes) -> UnitStatus:
    return UnitStatus(unit, state, (), (), manifest(unit, **changes), {}, (), 1, gone)


def statuses(*found: UnitStatus) -> dict[Unit, UnitStatus]:
    return {one.unit: one for one in found}


@pytest.mark.parametrize(
    ("cause", "changes", "why"),
    [
        (TIME, {}, None),
        (TIME, {"rules": ""}, None),
        (TIME, {"rules": NOW}, "landed by the rules that the file has now: they would be rejected again"),
        (SMALL, {"rules": NOW}, None),
        (TIME, {"retried": (NOW,)}, None),  # of another reason, maybe: the trial says what comes in
        (
            TIME,
            {"rules": NOW, "retried": (OTHER,)},
            "landed by the rules that the file has now: they would be rejected again",
        ),
        (TOMBSTONE, {}, "no value: no change of the file or of a table brings these records in"),
        (TIME, {"gone": True}, "its cluster is no longer in the pipeline file"),
        (SMALL, {"gone": True}, None),
        (TIME, {"forgotten": FORGOTTEN}, "the lake forgot its files on 2026-03-01"),
        (SMALL, {"forgotten": FORGOTTEN}, "the lake forgot its files on 2026-03-01"),
    ],
)
def test_which_rejections_may_come_in(cause: RejectionCause, changes: dict, why: str | None):
    one = Rejection(UNITS[0], cause, 7)
    found = candidates(pipeline(), [one], statuses(status(UNITS[0], **changes)), NOW)
    if why is None:
        assert (*found.rejected_records, *found.rejected_rows) == (one,)
        assert not found.left
    else:
        assert (found.rejected_records, found.rejected_rows) == ((), ())
        [(said, units)] = found.left.items()
        assert said.startswith(why) and units == 1


def test_records_without_bytes_stay_and_others_of_their_reason_may_come_in():
    gone, some = (Rejection(UNITS[0], TIME, 7, forgotten) for forgotten in (7, 6))
    own = statuses(status(UNITS[0]))
    left = "the lake forgot the bytes of these records, as `keep` in the pipeline file says"
    assert candidates(pipeline(), [gone], own, NOW).left == {left: 1}
    assert candidates(pipeline(), [some], own, NOW).rejected_records == (some,)
    # What the lake holds is what is tried first.
    other = Rejection(UNITS[1], TIME, 2)
    assert tried_units([some, other], most=1) == [UNITS[1], UNITS[0]]


def test_a_unit_without_a_manifest_is_left():
    found = candidates(pipeline(), [Rejection(UNITS[0], SMALL, 1)], {}, NOW)
    assert list(found.left) == ["its manifest is gone: `sluice verify demo` names the repair"]


def test_schemas_of_a_registry_may_be_back_though_the_file_is_the_same():
    event = {
        "type": {"topic": True},
        "time": {"record": True},
        "format": "avro",
        "registry": {"connection": "r"},
    }
    spec = pipeline(event=event)
    known = statuses(status(UNITS[0], rules=rules_now(spec)))
    one = Rejection(UNITS[0], RejectionCause("record", "", "", "unknown schema id"), 1)
    assert candidates(spec, [one], known, rules_now(spec)).rejected_records == (one,)


def test_records_of_a_slice_are_brought_in_or_it_is_loaded_again_and_not_both():
    found = RetryCandidates(
        (Rejection(UNITS[0], TIME, 1), Rejection(UNITS[1], TYPE, 1), Rejection(UNITS[2], TIME, 4)),
        (Rejection(UNITS[0], SMALL, 1), Rejection(UNITS[3], SMALL, 1)),
    )
    cures = {TIME: Cure(True), TYPE: Cure(False), SMALL: Cure(True)}
    plan = retry_plan(found, cures, statuses(*map(status, UNITS)), ())
    assert [one.unit for one in plan.bring_in] == [UNITS[0], UNITS[2]]
    assert {t: [one.unit for one in own] for t, own in plan.reload.items()} == {"db.click": [UNITS[3]]}
    assert plan.units == {UNITS[0], UNITS[2], UNITS[3]}
    assert list(plan.lines) == [
        "bring in rejected records of 2 slices, 2026-01-01T00Z … 2026-01-01T02Z (20 records), and load them "
        "into all tables",
        "load 2026-01-01T03Z (10 records) again into db.click",
    ]


def test_a_unit_that_a_table_would_refuse_stays():
    found = RetryCandidates(
        (Rejection(UNITS[0], TIME, 1), Rejection(UNITS[1], TIME, 1)),
        (Rejection(UNITS[2], SMALL, 1), Rejection(UNITS[3], SMALL, 1)),
    )
    cures = {
        TIME: Cure(True, "", {UNITS[1]: "table db.click: no"}),
        SMALL: Cure(True, "", {UNITS[2]: "table db.click: no", UNITS[4]: "table db.click: odd"}),
    }
    plan = retry_plan(found, cures, statuses(*map(status, UNITS)), ())
    assert plan.units == {UNITS[0], UNITS[3]}
    assert refused_units(cures.values()) == {
        "table db.click: no": [UNITS[1], UNITS[2]],
        "table db.click: odd": [UNITS[4]],
    }


def test_what_is_not_cured_is_not_touched():
    found = RetryCandidates((Rejection(UNITS[0], TIME, 1),), (Rejection(UNITS[1], SMALL, 1),))
    assert not retry_plan(
        found, {TIME: Cure(False), SMALL: Cure(False)}, statuses(*map(status, UNITS)), UNITS
    )


@pytest.mark.parametrize(
    ("state", "remade", "stopped", "commits", "completed"),
    [
        (UnitState.STALE, True, False, ["1-a"], True),  # killed before a load
        (UnitState.STALE, True, False, ["2-a", "1-a"], True),  # killed between two tables
        (UnitState.STALE, True, False, ["2-a", "1-a@7#5"], True),  # killed before the load of a rollup
        (UnitState.LANDED, True, True, ["2-a"], True),  # killed within a load
        (UnitState.LANDED, False, True, [], True),
        (UnitState.STALE, True, False, ["2-a"], False),  # another routing since
        (UnitState.STALE, True, False, ["2-a", "2-a@7#5"], False),  # another SELECT since
        (UnitState.STALE, True, False, ["2-a", "1-a@7#5 frozen for 2-a@8#5"], False),
        (UnitState.LANDED, True, False, ["2-a"], False),  # another table since
        (UnitState.LANDED, False, False, [], False),
        (UnitState.STALE, False, False, ["1-a"], False),
        (UnitState.COMPLETE, True, True, ["2-a"], False),
        (UnitState.COMPLETE_WITH_LOSS, True, True, ["2-a"], False),
    ],
)
def test_only_what_a_stopped_run_left_is_completed(
    state: UnitState, remade: bool, stopped: bool, commits: list[str], completed: bool
):
    one = status(UNITS[0], state, generation=2, remade=Remade("1-a", 1, {}) if remade else None)
    rows = {f"db.t{n}": LedgerRow(one.unit, held, (), 1, 1, 0, "", 1) for n, held in enumerate(commits)}
    plan = retry_plan(
        RetryCandidates(), {}, statuses(replace(one, tables=rows)), UNITS[:1] if stopped else ()
    )
    assert [one.unit for one in plan.unfinished] == (UNITS[:1] if completed else [])


@pytest.mark.parametrize(
    ("held", "completed"),
    [
        ("1-a@6#5", True),  # the table was loaded again since
        ("1-a@7#5", False),  # another SELECT since
        ("1-a@6#5 frozen for 1-a@7#5", False),
        ("", False),  # it was never made
    ],
)
def test_a_load_that_did_not_come_to_a_derived_table_is_completed(held: str, completed: bool):
    one = status(UNITS[0], UnitState.STALE)
    rows = {"db.click": LedgerRow(one.unit, "1-a", (), 1, 1, 0, "", 7)}
    if held:
        rows["db.sums"] = LedgerRow(one.unit, held, (), 1, 1, 0, "", 9)
    found = statuses(replace(one, tables=rows))
    plan = retry_plan(RetryCandidates(), {}, found, (), {"db.sums": "db.click"})
    assert [one.unit for one in plan.unfinished] == (UNITS[:1] if completed else [])


def test_those_with_most_records_are_tried_and_some_others():
    rejections = [
        Rejection(unit, TIME, 50 if number == 4 else number + 1) for number, unit in enumerate(UNITS)
    ]
    tried = tried_units(rejections, most=2, spread=3)
    assert tried[:2] == [UNITS[4], UNITS[8]]
    assert len(set(tried)) == len(tried) == 5
    assert tried_units(rejections[:1]) == UNITS[:1]


def test_what_came_in_is_counted_by_the_landing_and_rejected_rows_table_by_table():
    """A record that is rejected for another reason has not come in, and no total says so."""
    other = RejectionCause("row", "db.other", "n", "does not fit UInt8")
    before = [Rejection(UNITS[0], TIME, 10), Rejection(UNITS[1], SMALL, 5), Rejection(UNITS[1], other, 1)]
    after = [Rejection(UNITS[0], TYPE, 3), Rejection(UNITS[1], SMALL, 1), Rejection(UNITS[1], other, 3)]
    found = RetryResult.of(before, after, parsed=7)
    assert (found.before[TIME], found.after) == (10, {TYPE: 3, SMALL: 1, other: 3})
    assert (found.came_in, found.newly_rejected, found.left) == (11, 2, 7)
    assert RetryResult.of(before, before).came_in == 0


def test_a_year_is_summed_up_by_cause():
    tally = RejectionTally()
    tally.add(Rejection(unit, TIME, 2) for unit in UNITS)
    tally.add(Rejection(replace(unit, cluster=c), SMALL, 1) for unit in UNITS[3:5] for c in ("dc1", "dc2"))
    first, second = tally.sorted
    assert (first.cause, first.records, first.slices) == (TIME, 18, 9)
    assert (second.cause, second.records, second.slices) == (SMALL, 4, 2)
    assert (second.first, second.last) == (UNITS[3].slice, UNITS[4].slice)


@pytest.mark.parametrize(
    ("wanted", "rejected_records"),
    [
        (RejectionFilter(), True),
        (RejectionFilter(reason="TIME"), True),
        (RejectionFilter(column="n"), False),
        (RejectionFilter(type="click"), False),
        (RejectionFilter(tables=frozenset({"db.click"})), False),
    ],
)
def test_a_column_type_or_table_is_asked_of_rejected_rows(wanted: RejectionFilter, rejected_records: bool):
    assert wanted.rejected_records == rejected_records
    assert wanted.takes("time not understood")
    assert not RejectionFilter(reason="type").takes("time not understood")
