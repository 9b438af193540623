"""A landing that would reject rows which are there needs a yes, and says how many: record by record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.clients.lake import layout
from sluice.config.pipeline import Pipeline
from sluice.errors import NotAllLanded, RecordsExpired, Relanded, WouldReject
from sluice.flow.land import kafka_source
from sluice.flow.land.amend.retry_unit import UnitRetry
from sluice.flow.land.commit import commit_again
from sluice.flow.land.remake import forecast
from sluice.manifest import Forgotten, Manifest, encode
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landed_contents import contents
from tests.support.landing_world import START, World, event, hours, pipeline, rows_in
from tests.unit.flow.land.test_landing_crashes import FreshLake

BIDS, WINS, OTHER = ("dc1", "bids"), ("dc1", "wins"), ("dc2", "bids")
UNITS = [Unit(slice_, "dc1") for slice_ in hours(3)]
BY_WHEN = {"type": {"field": "type"}, "time": {"field": "when"}}
NOW = pipeline(event=BY_WHEN)
NOON = START.add(hours=12)


def renamed(some: tuple[bytes, int]) -> tuple[bytes, int]:
    return some[0].replace(b'"at"', b'"when"'), some[1]


@pytest.fixture
def world() -> World:
    """In the first hour 20 rows have the old field, and 30 rejected ones the new one; the second hour has
    rejected ones alone, the third one nothing."""
    old = [event("click", n, grade=f"g{n}") for n in range(20)]
    new = [*map(renamed, [*old, *old[:10]])]
    return World({BIDS: [[*old, *new, *map(renamed, [event("click", 61), event("bid", 62)])]]})


def landed(world: World, by: Pipeline, count: int = 1) -> MemoryLake:
    lake = FreshLake()
    world.resolve(by, lake, hours(count))
    world.land(by, lake, hours(count))
    return lake


def again(world: World, lake: MemoryLake, by: Pipeline, mode: str, count: int = 1) -> None:
    world.land(by, lake, hours(count), mode, "again", accept_loss=False)


def first(lake: MemoryLake) -> Manifest:
    return read_manifests(lake, UNITS)[UNITS[0]]


def test_a_net_gain_is_no_reason_to_take_rows_out(world: World) -> None:
    lake = landed(world, pipeline(), 3)
    before = read_manifests(lake, UNITS)
    assert (before[UNITS[0]].landed, before[UNITS[0]].refused) == (20, 30)
    files = {key: data for key, data in lake.objects.items() if key.startswith("type=")}
    [told, gains, _] = forecast(NOW, lake, before)
    assert told.lost is not None and (told.lost.rows, told.lost.example) == (20, "dc1/bids/0/0")
    assert "20 rows would be 30" in str(told) and "20 rows that are there would be rejected" in str(told)
    assert gains.lost is not None and gains.lost.rows == 0 and "--yes" not in str(gains)
    world.reads.clear()
    with pytest.raises(NotAllLanded, match="01T00Z/dc1 did not land.*would reject 20 of its 20 rows"):
        again(world, lake, NOW, "remake", 3)
    now = read_manifests(lake, UNITS)
    assert now[UNITS[0]] == before[UNITS[0]]
    assert files.items() <= lake.objects.items()
    assert not [key for key in lake.objects if key.startswith("_attempts/")]
    assert (now[UNITS[1]].landed, now[UNITS[1]].generation) == (2, 2)
    assert len(world.reads) == 0
    world.land(NOW, lake, hours(3), "remake", "accepted", accept_loss=True)
    assert first(lake).landed == 30


def test_the_error_of_one_slice_says_what_to_do(world: World) -> None:
    lake = landed(world, pipeline())
    with pytest.raises(WouldReject, match=r"the first dc1/bids/0/0 \(no time\).*take them out: --yes"):
        again(world, lake, NOW, "remake")
    assert not [key for key in lake.objects if key.startswith("_attempts/")]


def test_what_was_rejected_before_may_stay_rejected_for_another_reason(world: World) -> None:
    lake = landed(world, NOW)
    again(world, lake, pipeline(event=BY_WHEN, max_late="30m"), "remake")
    assert first(lake).generation == 2


def test_the_refusal_of_one_cluster_is_an_error_although_the_other_has_landed(world: World) -> None:
    clusters = [{"cluster": name, "bootstrap": "nowhere:1", "topics": ["bids"]} for name in ("dc1", "dc2")]
    both = World({**world.logs, OTHER: [[renamed(event("bid", 3))]]})
    lake = landed(both, pipeline(kafka=clusters))
    with pytest.raises(WouldReject, match="slice 2026-01-01T00Z/dc1"):
        again(both, lake, pipeline(kafka=clusters, event=BY_WHEN), "remake")
    other = read_manifests(lake, [Unit(slice_, "dc2") for slice_ in hours(1)])
    assert [(manifest.generation, manifest.landed) for manifest in other.values()] == [(2, 1)]


def test_records_that_the_lake_has_never_had_are_no_loss() -> None:
    """A topic that comes into the file, and has rejected records at the offsets of rows."""
    world = World({BIDS: [[event("click", n) for n in range(4)]], WINS: [[(b"{oops", event()[1])] * 4]})
    lake = landed(world, pipeline())
    wider = pipeline(kafka=[{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids", "wins"]}])
    world.resolve(wider, lake, hours(1))
    again(world, lake, wider, "reland")
    assert (first(lake).landed, first(lake).refused) == (4, 4)


ARRAYS = {"type": {"field": "type"}, "time": {"field": "at"}, "rows": "array"}
A, B = event("click", 1)[0], renamed(event("click", 2))[0]


@pytest.mark.parametrize(
    ("message", "now", "lost"),
    [
        (b"[%s,%s]" % (A, A), {**ARRAYS, "time": {"field": "when"}}, 2),
        (b"[%s,%s]" % (B, A), {**ARRAYS, "time": {"field": "when"}}, 1),
        (b"[%s,%s]" % (A, A), {**ARRAYS, "rows": "one"}, 1),  # a message that is rejected as a whole
        (b"[%s]" % B, {**ARRAYS, "rows": "one"}, 0),
        (b"7", {**ARRAYS, "time": {"field": "when"}}, 0),
        (b"[]", ARRAYS, 0),
    ],
)
def test_elements_of_arrays_are_compared_one_by_one(message: bytes, now: Any, lost: int) -> None:
    """Beside a record that is rejected before and after."""
    world = World({BIDS: [[(b"7", event()[1]), (message, event()[1])]]})
    lake = landed(world, pipeline(event=ARRAYS))
    if lost:
        with pytest.raises(WouldReject, match=rf"would reject {lost} of its .*dc1/bids/0/1"):
            again(world, lake, pipeline(event=now), "remake")
    else:
        again(world, lake, pipeline(event=now), "remake")
    assert first(lake).generation == (1 if lost else 2)


def forget(lake: MemoryLake, what: dict[str, str]) -> None:
    old = first(lake)
    new = replace(old, forgotten=Forgotten(**what))
    lake.put(layout.manifest(old.slice, old.cluster), encode(new))
    lake.put(layout.slice_success(old.slice, old.cluster), new.id.encode())
    for file in new.forgotten_files:
        del lake.objects[file.key]


ODD = [(b"{oops", event()[1]), event("click", 1), event("bid", 2), renamed(event("click", 3))]
ON = "2028-01-01T00:00:00Z"


@pytest.mark.parametrize("gone", [{}, {"rejected": ON}, {"lake": ON}])
@pytest.mark.parametrize("now", [NOW, pipeline(max_types=9), pipeline(max_late="1m")])
def test_a_reland_keeps_the_rules_of_its_hour(gone: dict[str, str], now: Pipeline) -> None:
    """Also those of an hour that has landed nothing by them, and of one whose files are gone."""
    world = World({BIDS: [[*ODD, (b"{oops", event(minute=61)[1])]]})
    lake = landed(world, pipeline(), 2)
    before = contents(lake, UNITS)
    if gone:
        forget(lake, gone)
    again(world, lake, now, "reland", 2)
    assert contents(lake, UNITS) == before
    assert {manifest.generation for manifest in read_manifests(lake, UNITS).values()} == {2}


def test_an_hour_whose_retry_went_by_other_rules_needs_a_yes_and_no_row_is_read_otherwise(
    world: World,
) -> None:
    """The 20 rows of its landing stay what they are; the 30 that the retry brought in would be rejected."""
    lake = landed(world, pipeline())
    before = rows_in(lake, [first(lake)])
    UnitRetry(NOW, lake).retry(UNITS[0], first(lake), NOON)
    assert first(lake).landed == 50
    with pytest.raises(WouldReject, match="would reject 30 of its 50 rows"):
        again(world, lake, NOW, "reland")
    assert first(lake).landed == 50
    world.land(NOW, lake, hours(1), "reland", "accepted", accept_loss=True)
    assert (first(lake).landed, first(lake).refused) == (20, 30)
    assert [row[4:] for row in rows_in(lake, [first(lake)])] == [row[4:] for row in before]


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_reland_repairs_files(damage: str) -> None:
    world = World({BIDS: [ODD]})
    lake = landed(world, pipeline())
    before = rows_in(lake, [first(lake)])
    for file in first(lake).all_files:
        del lake.objects[file.key]
        if damage == "damaged":
            lake.put(file.key, b"PAR1")
    again(world, lake, NOW, "reland")
    assert [row[4:] for row in rows_in(lake, [first(lake)])] == [row[4:] for row in before]


def test_a_reland_takes_no_other_rules_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run applies the file's between the read and the commit."""
    world = World({BIDS: [[event("click", 1), event("click", 2)]]})
    lake = landed(world, NOW)
    assert first(lake).landed == 0

    def overtaken(*arguments: Any) -> Manifest:
        monkeypatch.undo()
        world.land(pipeline(), lake, hours(1), "remake", "other")
        return commit_again(*arguments)

    monkeypatch.setattr(kafka_source, "commit_again", overtaken)
    with pytest.raises(Relanded, match="01T00Z/dc1 was landed by other rules while Kafka was read"):
        again(world, lake, NOW, "reland")
    assert (first(lake).token, first(lake).landed) == ("other", 2)
    assert not [key for key in lake.objects if key.startswith("_attempts/")]


def test_the_compared_manifest_is_the_one_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run brings in rejected records between the read and the commit, by other rules."""
    world = World({BIDS: [[event("click", 1), event("click", 2)]]})
    lake = landed(world, NOW)

    def overtaken(*arguments: Any) -> Manifest:
        monkeypatch.undo()
        UnitRetry(pipeline(), lake).retry(UNITS[0], first(lake), NOON)
        return commit_again(*arguments)

    monkeypatch.setattr(kafka_source, "commit_again", overtaken)
    with pytest.raises(WouldReject, match="would reject 2 of its 2 rows"):
        again(world, lake, NOW, "reland")
    assert first(lake).landed == 2


def test_an_hour_that_neither_kafka_nor_the_lake_has_names_no_command() -> None:
    world = World({BIDS: [ODD]})
    lake = landed(world, pipeline())
    forget(lake, {"lake": ON})
    world.expire(*BIDS, 0, 2)
    before = dict(lake.objects)
    with pytest.raises(RecordsExpired, match=f"the lake forgot its files on {ON}, so nothing brings") as told:
        again(world, lake, pipeline(), "reland")
    assert "sluice run" not in str(told.value) and lake.objects == before
