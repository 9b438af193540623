"""What each mode does to a unit in each state, and how it is told."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pendulum
import pytest

from sluice.config.event import Event
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import Rollup
from sluice.errors import FilesForgotten, WrongUse
from sluice.manifest import Forgotten, LandedFile, Loss, Masked, OffsetRange
from sluice.mask.mask_rules import mask_rules
from sluice.plan.dry_run import DryRun, lost, mask_lines, unit_json, unit_line
from sluice.plan.estimate import TimeEstimate
from sluice.plan.modes import MISSING_COLUMNS, MODES, asked_mode
from sluice.plan.plan import action, has_work, refuse_forgotten, rows_of, unresolved, work_of
from sluice.slices import Slice, Unit
from sluice.state.status import LackingTopic, UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.landing_world import START, pipeline
from tests.support.manifests import made_manifest

DAY = pendulum.datetime(2026, 11, 20)
RANGES = (OffsetRange("bids", "id", 0, 1_000, 6_500), OffsetRange("bids", "id", 1, 7, 7))
LOSSES = (Loss("bids", 0, 5, 9, exact=True), Loss("wins", 3, 0, 4, exact=False))
PIPELINE = Pipeline.model_construct(
    name="ads",
    event=Event.model_construct(),
    tables={"click": Target(table="e.clicks")},
    counts=(),
    rollups={"e.users": Rollup.model_construct(source="e.clicks", select="")},
)
AGAIN = "make again out of the lake and load"
DONE = (UnitState.COMPLETE, UnitState.COMPLETE_WITH_LOSS)


def status(
    state: UnitState, hour: int = 0, landed: bool | None = None, read: int = 40, **more: object
) -> UnitStatus:
    unit = Unit(Slice(DAY.add(hours=hour)), "dc1")
    manifest = None
    if landed if landed is not None else state in (UnitState.LANDED, UnitState.STALE, *DONE):
        manifest = made_manifest("p", unit.slice.id, "dc1", 1, "a", RANGES, (), (), read, {}, 0)
    if state is UnitState.FORGOTTEN:
        gone = Forgotten(lake="2026-12-24T00:00:00Z")
        manifest = made_manifest(
            "p", unit.slice.id, "dc1", 1, "a", RANGES, (), (), read, {}, 0, forgotten=gone
        )
    known = UnitStatus(unit, state, RANGES, (), manifest, {}, (), 3)
    return replace(known, **more)


@pytest.mark.parametrize(
    ("state", "fill", "reload", "remake", "reland"),
    [
        (UnitState.NOT_OVER, "wait", "wait", "wait", "wait"),
        (UnitState.MISSING, "land and load", "land and load", "land and load", "land and load"),
        (UnitState.EXPIRED, "fail: expired", "fail: expired", "fail: expired", "fail: expired"),
        (UnitState.LANDED, "load", "load again", AGAIN, "land and load again"),
        (UnitState.STALE, "load", "load again", AGAIN, "land and load again"),
        (UnitState.COMPLETE, "nothing", "load again", AGAIN, "land and load again"),
        (UnitState.COMPLETE_WITH_LOSS, "nothing", "load again", AGAIN, "land and load again"),
        (UnitState.FORGOTTEN, "nothing", "refuse: forgotten", "refuse: forgotten", "land and load again"),
    ],
)
def test_what_each_mode_does(state, fill, reload, remake, reland):
    found = status(state)
    modes = ("fill", "reload", "remake", "reland")
    assert [action(found, mode) for mode in modes] == [fill, reload, remake, reland]


@pytest.mark.parametrize("mode", ["fill", "reload", "remake", "reland"])
def test_what_has_expired_lands_as_far_as_it_is_there_where_the_file_says_so(mode):
    assert action(status(UnitState.EXPIRED), mode, "land_rest") == "land what is left and load"
    assert action(status(UnitState.MISSING), mode, "land_rest") == "land and load"


def test_nothing_is_read_again_that_kafka_no_longer_has():
    lost = status(UnitState.COMPLETE, losses=LOSSES)
    assert action(lost, "reland") == "refuse: expired"
    assert action(lost, "reload") == "load again"
    assert action(lost, "remake") == AGAIN
    assert action(lost, "fill") == "nothing"


@pytest.mark.parametrize("mode", ["fill", "reload", "remake", "reland"])
def test_what_nobody_could_resolve_waits_for_its_cluster(mode):
    silent = status(UnitState.MISSING, ranges=None)
    assert unresolved(silent)
    assert (action(silent, mode), has_work(silent, mode)) == ("wait for the cluster", False)
    # What has landed needs no offsets to be loaded.
    known = status(UnitState.LANDED, ranges=None)
    assert not unresolved(known)
    assert has_work(known, mode)
    assert not unresolved(status(UnitState.MISSING))


@pytest.mark.parametrize("state", list(UnitState))
def test_a_refill_is_a_fill_and_loads_what_lacks_a_column_again(state):
    plain = status(state)
    assert (action(plain, "reload --missing-columns"), has_work(plain, "reload --missing-columns")) == (
        action(plain, "fill"),
        has_work(plain, "fill"),
    )
    lacking = status(state, later={"e.clicks": {"coupon": 3}})
    if lacking.manifest is not None:
        refill = "reload --missing-columns"
        assert (action(lacking, refill), has_work(lacking, refill)) == ("load again", True)
        assert action(lacking, "fill") == action(plain, "fill")


@pytest.mark.parametrize("state", list(UnitState))
def test_work_is_what_an_action_is_taken_for(state):
    for mode in ("fill", "reload", "reland"):
        works = action(status(state), mode) not in ("wait", "nothing")
        assert has_work(status(state), mode) is works


def test_a_reload_of_what_the_lake_has_forgotten_is_refused_before_it_begins():
    found = [status(UnitState.COMPLETE), *(status(UnitState.FORGOTTEN, hour) for hour in (1, 2, 3))]
    for mode in ("fill", "reload --missing-columns", "remake", "reland"):  # a remake refuses unit by unit
        refuse_forgotten(PIPELINE, found, mode, None)
    refuse_forgotten(PIPELINE, found[:1], "reload", None)
    refuse_forgotten(PIPELINE, found, "reload", {"e.users"})  # it is made from the rows of e.clicks
    for tables in (None, {"e.users", "e.clicks"}):
        with pytest.raises(FilesForgotten) as refused:
            refuse_forgotten(PIPELINE, found, "reload", tables)
        assert str(refused.value) == (
            "3 units of the range are forgotten, as `keep` in the pipeline file says (slice "
            "2026-11-20T01Z/dc1 on 2026-12-24T00:00:00Z), and `reload` reads files, so nothing was changed: "
            "leave 2026-11-20T01Z/dc1 … 2026-11-20T03Z/dc1 out of the range, or bring the files back "
            "with `sluice run ads --from 2026-11-20T01:00Z --to 2026-11-20T04:00Z --mode reland`, as long "
            "as Kafka has them"
        )
        assert not refused.value.retryable and refused.value.exit_code == 1


def test_how_a_forgotten_unit_is_shown():
    found = status(UnitState.FORGOTTEN)
    assert unit_line(found, action(found, "fill")) == (
        "2026-11-20T00Z/dc1: complete; files forgotten on 2026-12-24 → nothing; 5,500 offsets, 3 reads"
    )
    behind = replace(found, state=UnitState.STALE)  # a rollup of it
    assert unit_line(behind, action(behind, "fill")) == (
        "2026-11-20T00Z/dc1: stale → load; 5,500 offsets, 3 reads, files forgotten on 2026-12-24"
    )
    assert unit_json(found, "nothing")["forgotten"] == "2026-12-24T00:00:00Z"


def test_rejected_records_that_are_forgotten_stay_in_a_remake():
    found = status(UnitState.COMPLETE)
    assert found.manifest is not None
    bad = LandedFile("_rejected/x", "a", None, "", 7, 1, "0")
    gone = Forgotten(rejected="2026-12-24T00:00:00Z")
    manifest = replace(found.manifest, rejected_records={"no type": 7}, rejected=(bad,), forgotten=gone)
    found = replace(found, manifest=manifest)
    assert unit_line(found, action(found, "remake")) == (
        "2026-11-20T00Z/dc1: complete → make again out of the lake and load; 5,500 offsets, 3 reads, 7 "
        "rejected ones stay as they are (the lake forgot their bytes)"
    )
    assert "rejected_records" not in unit_line(found, action(found, "fill"))
    assert unit_json(found, "nothing")["rejected_forgotten"] == {"no type": 7}


@pytest.mark.parametrize("state", [UnitState.LANDED, UnitState.STALE, *DONE])
def test_a_cluster_that_is_gone_is_loaded_and_never_landed(state):
    gone = status(state, gone=True)
    assert action(gone, "reland") == action(gone, "fill")
    assert has_work(gone, "reland") is (state not in DONE)
    assert action(gone, "reload") == "load again"
    assert has_work(gone, "reload")
    # Beside a unit that is read again, in the same batch.
    other = status(UnitState.COMPLETE, hour=1)
    works = work_of([gone, other], "reland")
    assert works.land == ((1, 40),)
    assert works.load == ((2, 80) if state not in DONE else (1, 40),)


def test_rows_are_those_that_landed_else_at_most_the_offsets():
    assert rows_of(status(UnitState.MISSING)) == 5_500
    assert rows_of(status(UnitState.LANDED, read=7)) == 7
    assert rows_of(status(UnitState.LANDED, read=0)) == 0


def test_units_are_summed_up_in_the_batch_of_their_slice():
    large = 30_000_000
    found = [
        status(UnitState.LANDED, 0, read=large),
        status(UnitState.MISSING, 1),
        status(UnitState.COMPLETE, 2),
        status(UnitState.LANDED, 3, read=large),
        status(UnitState.LANDED, 4, read=large),
        status(UnitState.NOT_OVER, 5),
    ]
    work = work_of(found, "fill")
    assert [(b.start.hour, b.end.hour) for b in work.batches] == [(0, 2), (3, 4), (4, 5)]
    assert work.land == ((1, 5_500), (0, 0), (0, 0))
    assert work.load == ((2, large + 5_500), (1, large), (1, large))
    assert work.check == (5, 3 * large + 5_500 + 40)
    assert (work.rows, work.units) == (3 * large + 5_500, 4)
    assert work.amounts("land") == work.land
    assert work.amounts("load") == work.load
    assert work.amounts("verify") == work.amounts("publish") == (work.check,)


def test_a_line_says_state_action_and_size():
    assert unit_line(status(UnitState.MISSING), "land and load") == (
        "2026-11-20T00Z/dc1: missing → land and load; 5,500 offsets, 3 reads"
    )


def test_a_line_says_what_is_lost_and_lacking():
    found = status(
        UnitState.EXPIRED,
        losses=LOSSES,
        lacking=(LackingTopic("wins", 25), LackingTopic("views", None)),
    )
    assert unit_line(found, action(found, "fill", "land_rest")) == (
        "2026-11-20T00Z/dc1: expired → land what is left and load; 5,500 offsets, 3 reads, "
        "Kafka no longer has bids/0 [5, 9); at most wins/3 [0, 4), "
        "lacks topics wins (25 offsets), views: reland brings it"
    )


def test_lost_offsets_that_touch_are_one_range():
    losses = [(1, 0, 5, True), (0, 4, 9, False), (0, 0, 4, True), (1, 6, 7, True)]
    assert lost(Loss("b", *span) for span in losses) == "at most b/0 [0, 9); b/1 [0, 5); b/1 [6, 7)"
    assert lost([]) == ""


def test_the_same_for_programs():
    found = status(
        UnitState.EXPIRED, losses=LOSSES, lacking=(LackingTopic("wins", 25),), uncounted=("e.traffic",)
    )
    assert unit_json(found, "land what is left and load") == {
        "slice": "2026-11-20T00Z",
        "cluster": "dc1",
        "state": "expired",
        "action": "land what is left and load",
        "offsets": 5500,
        "rows": 5500,
        "reads": 3,
        "ranges": [
            {"topic": "bids", "partition": 0, "from": 1000, "until": 6500},
            {"topic": "bids", "partition": 1, "from": 7, "until": 7},
        ],
        "expired": [
            {"topic": "bids", "partition": 0, "from": 5, "until": 9, "exact": True},
            {"topic": "wins", "partition": 3, "from": 0, "until": 4, "exact": False},
        ],
        "lacking_topics": {"wins": 25},
        "uncounted": ["e.traffic"],
        "frozen": [],
        "forgotten": "",
        "rejected_forgotten": {},
    }
    landed = unit_json(status(UnitState.STALE, ranges=None), "load again")
    assert (landed["rows"], landed["ranges"], landed["action"]) == (40, [], "load again")


def test_columns_that_would_be_added_have_their_lines():
    found = [status(UnitState.LANDED)]
    dry = DryRun(
        found,
        {},
        "fill",
        "fail",
        work_of(found, "fill"),
        TimeEstimate({}, ()),
        ("e.clicks: would add `coupon`",),
    )
    first, new, facts = dry.lines
    assert new == "e.clicks: would add `coupon`" and "→ load;" in first and "records to load: 40" in facts


@pytest.mark.parametrize(
    ("mode", "states", "hints"),
    [
        ("fill", [], []),
        (
            "fill",
            [UnitState.COMPLETE],
            ["1 slice lacks columns that were added: --mode reload --missing-columns"],
        ),
        (
            "fill",
            [UnitState.COMPLETE, UnitState.COMPLETE_WITH_LOSS],
            ["2 slices lack columns that were added: --mode reload --missing-columns"],
        ),
        ("fill", [UnitState.STALE], []),
        ("reload --missing-columns", [UnitState.COMPLETE], []),
        ("reload", [UnitState.COMPLETE], []),
    ],
)
def test_a_fill_says_which_mode_fills_columns_that_were_added(mode, states, hints):
    lacking = [status(state, hour, later={"e.clicks": {"coupon": 3}}) for hour, state in enumerate(states)]
    found = [*lacking, status(UnitState.COMPLETE, hour=9)]
    dry = DryRun(found, {}, mode, "fail", work_of(found, mode), TimeEstimate({}, ()))
    assert dry.hints == hints
    assert [line for line in dry.lines if "lack" in line] == hints


# ---- `sluice plan` says what is masked, and of how many hours that is not so yet.

KEY, NEW = "the first key of 2026", "the second key of 2026"
UNIT = Unit(Slice(START), "dc1")
BARE = made_manifest("p", "2026-01-01T00Z", "dc1", 1, "a", (), (), (), 0, {}, 0)


def lines(mask: dict[str, Any], *masked: Masked | None) -> list[str]:
    found = [SimpleNamespace(unit=UNIT, manifest=replace(BARE, masked=one)) for one in masked]
    return list(mask_lines(pipeline(mask=mask), [*cast("list[UnitStatus]", found), missing()]))


def missing() -> UnitStatus:
    return cast(UnitStatus, SimpleNamespace(manifest=None))


def applied(mask: dict[str, Any]) -> Masked:
    rules = mask_rules(pipeline(mask=mask))
    assert rules is not None
    return rules.applied


def test_without_a_mask_nothing_is_said():
    assert lines({}, None, applied({"ip": "drop"})) == []


def test_units_that_landed_without_it_or_with_another():
    mask = {"email": {"hash": KEY}, "ip": {"drop": True, "types": ["click"]}}
    said = "mask: _headers: hash; _key: hash; _rejected: hash; email: hash; ip: drop of click"
    whole = applied(mask)
    assert lines(mask, whole) == [said]
    more = applied({**mask, "phone": "drop"})  # what was masked beyond it stays hidden
    rotated = applied({**mask, "email": {"hash": [NEW, KEY]}})  # another key changes nothing
    assert lines(mask, whole, more, rotated) == [said]
    for_all = applied({"email": {"hash": KEY}, "ip": "drop"})
    command = "sluice run demo --from 2026-01-01T00:00Z --to 2026-01-01T01:00Z --mode remake"
    left = f"landed without this mask, or with another: `{command}` masks them"
    assert lines(mask, whole, None) == [said, f"1 unit was {left}"]
    assert lines(mask, None, for_all, applied({"email": "drop"})) == [said, f"3 units were {left}"]


def test_only_a_reload_takes_missing_columns():
    assert asked_mode("reload", missing_columns=True) == MISSING_COLUMNS
    assert [asked_mode(mode, missing_columns=False) for mode in MODES] == [*MODES]
    for mode in set(MODES) - {"reload"}:
        with pytest.raises(WrongUse, match=f"is for the mode reload, not {mode}"):
            asked_mode(mode, missing_columns=True)
