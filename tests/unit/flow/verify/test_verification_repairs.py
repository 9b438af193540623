"""Slices that are not done, and the commands that repair, word by word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check import check_states
from sluice.flow.verify.facts import TableFacts
from sluice.flow.verify.repairs import RangedCommand, Repairs, as_printed, commands, is_repair, merged, ranged
from sluice.manifest import Loss
from sluice.slices import Slice
from sluice.state.unit_state import UnitState
from tests.support.verified import CLICKS, ELEVEN, FACTS, FOUND, OTHER, START, TEN, manifest, pipeline

REPAIRS = Repairs("ads")
RUN_TEN = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode {}"
CLEAN_TEN = "sluice verify ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --clean"
SLICE = {"slice": "2026-11-20T10Z", "cluster": "dc1"}


def states(*changes: dict, on_expired: str = "fail", unreadable: dict | None = None) -> list[Anomaly]:
    found = tuple(replace(FOUND[n], **change) for n, change in enumerate(changes))
    facts = replace(
        FACTS, statuses=found, pipeline=pipeline(on_expired=on_expired), unreadable=unreadable or {}
    )
    return list(check_states(facts, REPAIRS))


@pytest.mark.parametrize("state", [UnitState.NOT_OVER, UnitState.COMPLETE])
def test_states_that_break_nothing(state):
    assert states({"state": state}) == []


@pytest.mark.parametrize("state", [UnitState.MISSING, UnitState.LANDED, UnitState.STALE])
def test_states_that_a_fill_ends(state):
    assert states({"state": state}) == [
        Anomaly(AnomalyKind.INCOMPLETE, "complete", str(state), RUN_TEN.format("fill"), **SLICE)
    ]


ACCEPT = "Kafka cannot give it back: `on_expired: land_rest` in the pipeline file accepts the loss"


def lost(seen: str, partition: int, start: int, until: int) -> Anomaly:
    place = {**SLICE, "topic": "bids", "partition": partition, "offsets": (start, until)}
    return Anomaly(AnomalyKind.LOSS, "all offsets in Kafka", seen, advice=ACCEPT, **place)


LOSSES = (Loss("bids", 0, 5, 2_005, exact=True), Loss("bids", 3, 0, 7, exact=False))
TOLD = [lost("2,000 expired", 0, 5, 2_005), lost("up to 7 expired", 3, 0, 7)]


@pytest.mark.parametrize("on_expired", ["fail", "land_rest"])
def test_what_expired_and_has_not_landed_is_told_whatever_the_file_says(on_expired):
    change = {"state": UnitState.EXPIRED, "losses": LOSSES, "manifest": None}
    assert states(change, on_expired=on_expired) == TOLD


def test_a_recorded_loss_is_told_until_it_is_accepted():
    change = {"state": UnitState.COMPLETE_WITH_LOSS, "manifest": replace(manifest(TEN, 0), lost=LOSSES)}
    assert states(change) == TOLD
    assert states(change, on_expired="land_rest") == []
    assert states({**change, "manifest": None}) == []


def test_a_manifest_that_cannot_be_read_is_no_missing_hour():
    advice = (
        "put it back from a copy; without one, and if Kafka still has the hour, delete the object and run "
        f"`{RUN_TEN.format('fill')}`"
    )
    found = states({"state": UnitState.MISSING}, {"state": UnitState.MISSING}, unreadable={TEN: "it is cut"})
    assert found[0] == Anomaly(AnomalyKind.MANIFEST, "a manifest", "it is cut", advice=advice, **SLICE)
    assert [(a.kind, a.slice) for a in found[1:]] == [(AnomalyKind.INCOMPLETE, ELEVEN.slice.id)]


def test_a_table_that_is_missing_is_told_once_and_not_by_each_hour():
    """Both hours are landed. The first lacks only the missing table, the second the other one, too."""
    gone = TableFacts("e.clicks", missing="create it")
    landed = [replace(status, state=UnitState.LANDED, tables={}) for status in FOUND]
    landed[0] = replace(landed[0], tables={"e.other": FOUND[0].tables["e.other"]})
    there = [
        ("2026-11-20T10Z", "landed, and not in e.clicks"),
        ("2026-11-20T11Z", "landed, and not in e.clicks, e.other"),
    ]
    lacks = [("2026-11-20T11Z", "landed, and not in e.other")]
    for tables, expected in (((gone, OTHER), lacks), ((CLICKS, OTHER), there)):
        facts = replace(FACTS, statuses=tuple(landed), tables=tables)
        assert [(a.slice, a.seen) for a in check_states(facts, REPAIRS)] == expected


def test_the_commands_as_a_person_types_them():
    night = Slice(START.set(year=2026, month=3, day=4, hour=23, minute=0))
    assert REPAIRS.fill(night) == "sluice run ads --from 2026-03-04T23:00Z --to 2026-03-05T00:00Z --mode fill"
    assert REPAIRS.repair(TEN.slice, "e.c l") == RUN_TEN.format("repair") + " --table 'e.c l'"
    assert REPAIRS.reland(TEN.slice) == RUN_TEN.format("reland")
    assert REPAIRS.remake(TEN.slice) == RUN_TEN.format("remake")
    assert REPAIRS.erase_pending() == "sluice erase ads --pending"
    assert Repairs.of(pipeline()) == REPAIRS
    assert REPAIRS.run([TEN.slice, ELEVEN.slice], "fill").endswith(
        "10:00Z --to 2026-11-20T12:00Z --mode fill"
    )
    assert REPAIRS.clean(TEN.slice) == CLEAN_TEN
    assert REPAIRS.clean() == "sluice verify ads --clean"
    with_file = replace(REPAIRS, config="/a b/ads.yaml")
    assert with_file.clean() == "sluice verify ads --config '/a b/ads.yaml' --clean"
    assert with_file.fill(TEN.slice).startswith(
        "sluice run ads --config '/a b/ads.yaml' --from 2026-11-20T10:00Z"
    )


def test_commands_are_run_in_the_order_in_which_they_repair():
    """Those of hours that meet are one; a `fill` is one in any case, for it does only what is missing."""
    late = Slice(START.add(hours=9))
    lines = [
        REPAIRS.clean(),
        REPAIRS.erase_pending(),
        REPAIRS.repair(late, "e.clicks"),
        REPAIRS.repair(TEN.slice, "e.clicks"),
        REPAIRS.remake(late),
        REPAIRS.fill(late),
        REPAIRS.fill(TEN.slice),
        REPAIRS.reland(ELEVEN.slice),
        REPAIRS.reland(TEN.slice),
        "",
        REPAIRS.clean(),
    ]
    anomalies = [Anomaly(AnomalyKind.VIEW, "", "", line) for line in lines]
    assert commands(anomalies) == [
        "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T12:00Z --mode reland",
        "sluice run ads --from 2026-11-20T19:00Z --to 2026-11-20T20:00Z --mode remake",
        "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T20:00Z --mode fill",
        RUN_TEN.format("repair") + " --table e.clicks",
        "sluice run ads --from 2026-11-20T19:00Z --to 2026-11-20T20:00Z --mode repair --table e.clicks",
        "sluice verify ads --clean",
        "sluice erase ads --pending",
    ]


def test_what_is_a_repair():
    assert is_repair(REPAIRS.repair(TEN.slice, "e.clicks")) and is_repair(RUN_TEN.format("repair"))
    others = (RUN_TEN.format("reload"), REPAIRS.clean(TEN.slice), REPAIRS.clean(), "")
    assert not any(map(is_repair, others))
    assert RangedCommand("sluice run ads", "a", "b", " --mode fill").named == ""


def test_commands_of_other_kinds_stay_as_they_are():
    """A fill, a clean and what has no range, beside a repair of the same hour."""
    lines = [REPAIRS.fill(TEN.slice), REPAIRS.clean(TEN.slice), REPAIRS.erase_pending(), ""]
    found = [Anomaly(AnomalyKind.VALUES, "", "", line, **SLICE) for line in lines]
    assert as_printed(pipeline(), (), found) == found
    wrong = Anomaly(AnomalyKind.ROW_TYPE, "5", "4", command="c", advice="look", **SLICE)
    reload = Anomaly(AnomalyKind.VALUES, "", "", RUN_TEN.format("reload"), **SLICE)
    printed = as_printed(pipeline(), (), [wrong, *found, reload])
    assert printed == [wrong, *found, replace(reload, command="c", advice="look")]


def test_a_retry_of_the_next_hour_needs_no_yes():
    retried = replace(FOUND[1], manifest=replace(manifest(ELEVEN, 0), retried=("one",)))
    found = Anomaly(AnomalyKind.FILE_MISSING, "", f"`{RUN_TEN.format('reland')}`", RUN_TEN.format("reland"))
    assert as_printed(pipeline(), [retried], [found]) == [found]


def test_a_path_like_a_range_stays_part_of_the_command():
    named = replace(REPAIRS, config="/a --from b/ads.yaml")
    first, second = (named.repair(unit.slice, "e.clicks") for unit in (TEN, ELEVEN))
    assert merged([first, second, first]) == [
        "sluice run ads --config '/a --from b/ads.yaml' --from 2026-11-20T10:00Z --to 2026-11-20T12:00Z "
        "--mode repair --table e.clicks"
    ]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (["e.clicks"], " --table e.clicks"),
        (["e.traffic", "e.clicks", "e.clicks"], " --table e.clicks --table e.traffic"),
        (["e.clicks", "e.other", "e.traffic"], ""),
    ],
)
def test_a_repair_names_the_tables_of_an_hour_that_are_wrong(wrong: list[str], named: str):
    spec = pipeline(counts=[{"table": "e.traffic"}])
    found = [Anomaly(AnomalyKind.VALUES, "", "", REPAIRS.repair(TEN.slice, table)) for table in wrong]
    beside = [
        Anomaly(AnomalyKind.VALUES, "", "", REPAIRS.repair(ELEVEN.slice, "e.other")),
        Anomaly(AnomalyKind.GAP, "", "", REPAIRS.reland(TEN.slice)),
        Anomaly(AnomalyKind.LOSS, "", "", advice="none"),
    ]
    once = as_printed(spec, (), [*found, *beside])
    assert {one.command for one in once[: len(found)]} == {RUN_TEN.format("repair") + named}
    assert once[len(found) :] == beside
    assert as_printed(spec, (), once) == once


def test_a_reland_of_what_a_retry_brought_in_has_the_yes_that_it_needs():
    """Only where it takes rows out; and what brings them in again is said beside it."""
    retried = replace(FOUND[0], manifest=replace(manifest(TEN, 0), retried=("one", "other")))
    found = [
        Anomaly(AnomalyKind.FILE_MISSING, "", f"`{(reland := REPAIRS.reland(one.slice))}`", reland, advice)
        for one, advice in ((TEN, ""), (TEN, "put back a copy"), (ELEVEN, ""))
    ]
    printed = as_printed(pipeline(), [retried, *FOUND[1:]], found)
    assert [one.command for one in printed] == [
        *[f"{RUN_TEN.format('reland')} --yes"] * 2,
        REPAIRS.reland(ELEVEN.slice),
    ]
    retry = f"sluice rejected {RUN_TEN.removeprefix('sluice run ').partition(' --mode')[0]} --retry"
    said = (
        f"what retries have brought in by other rules goes to _rejected/ again; then `{retry}` with each of "
        "these rules in the pipeline file (_rules/one.json, _rules/other.json) brings it in"
    )
    assert [one.advice for one in printed] == [said, f"put back a copy; {said}", ""]
    assert [one.seen for one in printed] == [f"`{one.command}`" for one in printed]
    assert as_printed(pipeline(), [retried], printed) == printed
    assert merged(one.command for one in printed) == [printed[0].command, printed[2].command]
    run = ranged(printed[0].command)
    assert run is not None and (run.mode, run.yes, str(run)) == ("reland", True, printed[0].command)


def test_the_tables_of_a_printed_repair_are_read_back():
    repair = ranged(REPAIRS.run([TEN.slice], "repair", "e.clicks", "e.it's a `t`"))
    assert repair is not None
    assert (repair.tables, repair.mode) == (["e.clicks", "e.it's a `t`"], "repair")
    assert ranged(str(repair)) == repair


@pytest.mark.parametrize("known", [True, False], ids=["found before", "found now"])
@pytest.mark.parametrize("waits", [True, False], ids=["waits for a table", "is due"])
def test_nothing_is_loaded_out_of_rows_that_are_wrong_in_the_lake(known: bool, waits: bool):
    """A repair would take right rows out of the tables. A later look that compares counts only knows that,
    too; other hours keep theirs."""
    reland = RUN_TEN.format("reland")
    wrong = Anomaly(AnomalyKind.ROW_TYPE, "5", "4", command=reland, advice="look", **SLICE)
    repair = REPAIRS.repair(TEN.slice, "e.clicks")
    missing = Anomaly(AnomalyKind.ROWS_MISSING, "5", "4", table="e.clicks", **SLICE)
    missing = replace(missing, later=repair) if waits else replace(missing, command=repair)
    eleven = REPAIRS.repair(ELEVEN.slice, "e.clicks")
    other = replace(missing, slice=ELEVEN.slice.id, command=eleven, later="")
    damage = {TEN.slice.id: (reland, "look")} if known else {}
    found = as_printed(pipeline(), [], [*([] if known else [wrong]), missing, other], damage)
    assert [(one.command, one.later, one.advice) for one in found if one.table] == [
        (reland, "", "look"),
        (eleven, "", ""),
    ]
