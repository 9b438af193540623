"""What an erasure leaves behind in Kafka, the lake and ClickHouse, and how the receipt says it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pendulum
import pytest

from sluice.clients.kafka.topic_facts import PartitionFacts, TopicFacts
from sluice.flow.erase.search import unsearched_lines
from sluice.flow.erase.what_is_left import (
    LeftAttempt,
    LeftInKafka,
    LeftOnDisk,
    LeftParts,
    Removed,
    ServerParts,
    forgotten_lines,
    judged,
    left_in_kafka,
    left_lines,
    note_lines,
    places_of,
    remove_left,
)
from sluice.manifest import Forgotten, ForgottenRecords, LandedFile, PartitionCount
from sluice.slices import Unit
from sluice.state.erasures import ErasureProgress, FoundPlace, FoundUnit
from sluice.state.manifests import read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline
from tests.support.manifests import made_manifest

DAY = 86_400_000
NEWEST = 1_767_225_600_000  # 2026-01-01T00:00Z
UNIT = Unit(next(iter(hours(1))), "dc1")
PLACE = FoundPlace("bids", 0, 10, 90, NEWEST)


def topic(start: int, **settings: str) -> dict[str, TopicFacts]:
    found = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bids": TopicFacts("dc1", "bids", 1, 0, None, found, {0: PartitionFacts(start, 200)})}


@pytest.mark.parametrize(
    ("facts", "holds", "earliest", "latest", "why"),
    [
        (topic(91, retention_ms=str(DAY)), False, "", "", ""),
        (topic(90, retention_ms=str(DAY)), True, "2026-01-02", "", ""),
        (topic(0, retention_ms=str(DAY), segment_ms=str(DAY)), True, "2026-01-02", "2026-01-03", ""),
        (topic(0, retention_ms="-1"), True, "", "", "for ever"),
        (topic(0), True, "", "", "for ever, or does not say"),
        (topic(0, cleanup_policy="compact", retention_ms=str(DAY)), True, "", "", "compacted"),
        (topic(0, cleanup_policy="compact,delete", retention_ms=str(DAY)), True, "2026-01-02", "", ""),
    ],
)
def test_what_kafka_still_has_and_until_when(facts: Any, holds: bool, earliest: str, latest: str, why: str):
    [found] = judged("dc1", [PLACE], facts)
    assert (found.holds, found.earliest[:10], found.latest[:10]) == (holds, earliest, latest)
    assert why in found.why and bool(found.why) is bool(why)


def test_of_rejected_records_that_are_forgotten_nothing_is_searched_and_the_receipt_says_so():
    counts = (PartitionCount("bids", 0, 9, 5, without_bytes=3),)
    bad = LandedFile("_rejected/x", "a", None, "", 2, 1, "0")
    before = (ForgottenRecords("2026-03-01T00:00:00Z", {"no type": 3}),)
    remade = made_manifest("p", "s", "dc1", 2, "a", (), (), (bad,), 9, {"no type": 5}, 0, counts=counts)
    remade = replace(remade, without_bytes=before)
    assert unsearched_lines(MemoryLake(), {UNIT: remade}) == []
    [line] = forgotten_lines([remade, replace(remade, without_bytes=())])
    assert line.startswith("the lake forgot the bytes of 3 rejected records of 1 units before")
    since = replace(remade, forgotten=Forgotten(rejected="2026-04-01T00:00:00Z", removed=True))
    assert unsearched_lines(MemoryLake(), {UNIT: since}) == []
    assert forgotten_lines([since])[0].startswith(
        "the lake forgot the bytes of 5 rejected records of 1 units"
    )
    # Of a forgetting that was killed files may be there, which no search reads.
    begun = replace(since, forgotten=Forgotten(rejected="2026-04-01T00:00:00Z"))
    [line] = unsearched_lines(MemoryLake(), {UNIT: begun})
    assert (
        "began to forget its rejected records on 2026-04-01T00:00:00Z" in line
        and "`sluice forget demo --yes`" in line
    )
    assert forgotten_lines([begun]) == []
    assert forgotten_lines([replace(remade, forgotten=Forgotten(lake="2026-04-01T00:00:00Z"))]) == []


def test_places_of_several_hours_are_one_of_each_partition():
    bare = ("1-a", 1, 0, 0, 0, ())
    found = {
        "2026-01-01T00Z/dc1": FoundUnit(*bare, (FoundPlace("bids", 0, 5, 9, 100),)),
        "2026-01-01T01Z/dc1": FoundUnit(
            *bare, (FoundPlace("bids", 0, 12, 15, 70), FoundPlace("wins", 1, 1, 1, 1))
        ),
        "2026-01-01T01Z/dc2": FoundUnit(*bare, (FoundPlace("bids", 0, 2, 2, 3),)),
    }
    assert places_of(found) == {
        "dc1": [FoundPlace("bids", 0, 5, 15, 100), FoundPlace("wins", 1, 1, 1, 1)],
        "dc2": [FoundPlace("bids", 0, 2, 2, 3)],
    }


def test_what_a_cluster_holds_that_the_file_no_longer_has_is_not_known():
    found = {"2026-01-01T00Z/dc9": FoundUnit("1-a", 1, 0, 0, 0, (), (PLACE,))}
    why = (
        "pipeline demo has no Kafka cluster 'dc9', so it is not asked: put it back under `kafka` in the "
        "pipeline file"
    )
    left = left_in_kafka(pipeline(), found)
    assert left == [LeftInKafka("dc9", "bids", 0, 10, 90, None, why=why)]
    assert note_lines(left, [], force=False) == [
        f"Kafka dc9/bids/0: whether it still has offsets [10, 90] is not known: {why}"
    ]


def test_dead_attempts_and_superseded_files_go_and_live_ones_stay(monkeypatch):
    world, lake = World({("dc1", "bids"): [[event("click", n) for n in range(9)]]}), MemoryLake()
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1), "reland", "again")
    [(unit, manifest)] = read_manifests(lake, [Unit(piece, "dc1") for piece in hours(1)]).items()
    stand = {file.key for file in manifest.all_files}
    back = next(iter(stand)).replace("-dc1-2-", "-dc1-1-")
    other = "type=click/date=2026-01-01/hour=00/2026-01-01T05Z-dc1-1-0.parquet"
    attempts = [f"_attempts/2026-01-01T0{hour}Z/x/f.parquet" for hour in (0, 1, 7)]
    for key in (back, other, *attempts):
        lake.put(key, b"x")
    found = ErasureProgress({}, {str(unit): FoundUnit("1-a", 1, 0, 0, 0, (), ())})

    def covers(slice_id: str) -> bool:
        """The second hour has never landed: its attempt died before it committed."""
        return slice_id in ("2026-01-01T00Z", "2026-01-01T01Z")

    newest = max(item.modified for item in lake.list("_attempts/"))
    early = remove_left(lake, covers, {unit: manifest}, found, newest.add(hours=5))
    assert (early.files, early.attempts) == (1, 0)
    names = [("2026-01-01T00Z", "x", 1), ("2026-01-01T01Z", "x", 1)]
    assert [(one.slice, one.attempt, one.files) for one in early.left] == names
    late = remove_left(lake, covers, {unit: manifest}, found, newest.add(hours=7))
    assert (late.files, late.attempts, late.left) == (0, 2, ())
    left = {item.key for item in lake.list("") if item.key.endswith(".parquet")}
    assert left == {*stand, other, attempts[2]}


def test_an_attempt_that_has_written_to_another_slice_since_may_be_alive():
    lake, midnight = MemoryLake(), pendulum.datetime(2026, 1, 1)
    for hour, written in ((0, 0), (9, 7)):
        stamp = midnight.add(hours=written).int_timestamp
        lake.objects[f"_attempts/2026-01-01T0{hour}Z/x/f.parquet"] = (b"x", stamp)
    for now, removed in ((12, 0), (13, 1)):
        at = midnight.add(hours=now)
        found = remove_left(lake, lambda name: name == "2026-01-01T00Z", {}, ErasureProgress(), at)
        assert (found.attempts, len(found.left)) == (removed, 1 - removed)
    assert [item.key for item in lake.list("_attempts/")] == ["_attempts/2026-01-01T09Z/x/f.parquet"]


def test_what_is_left_is_said():
    attempt = LeftAttempt("2026-01-01T00Z", "x", 2, "2026-01-01T06:00:00Z")
    full = LeftOnDisk("ch:8123", (LeftParts("db.t", 2, 3, 480),), 1, 480)
    empty = LeftOnDisk("ch:8123", (LeftParts("db.t", 0, 0, 480),), 0, 480)
    removed = Removed(0, 0, (attempt,))
    assert left_lines(removed, [], [full], force=False) == [
        "attempt 2026-01-01T00Z/x may be at work, and has 2 files that nobody reads: the same words "
        "remove it after 2026-01-01T06:00:00Z"
    ]
    assert left_lines(Removed(0, 0, ()), ["u"], [full], force=True) == [
        "not searched: u",
        "ch:8123 still has 3 replaced parts and 1 dropped tables on its disk: the same words with --now wait "
        "again",
    ]
    assert left_lines(Removed(0, 0, ()), [], [empty], force=True) == []
    assert note_lines([], [empty], force=False) == []
    assert [line.partition(":")[0] for line in note_lines([], [full], force=False)] == ["ch", "ch"]
    assert pendulum.parse(attempt.removable) is not None


class WaitingServer:
    """Has two replaced parts for 130 s, and one of them for 200 s."""

    address = "ch:8123"
    now = 0.0

    def rows(self, statement: str, parameters: Any = None) -> list[tuple]:
        if "system.parts" in statement:
            gone = (130, 200)
            return [("sluice.rejected", f"all_{n}_0", 0) for n, until in enumerate(gone) if self.now < until]
        return [] if "dropped_tables" in statement else [(480, 480)]

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_wait_ends_when_the_plan_says_that_it_does_at_most(monkeypatch):
    """Of a server that keeps parts for 480 s, and never cleans up."""
    monkeypatch.setattr("sluice.flow.erase.what_is_left.read_table", lambda *_: None)
    monkeypatch.setattr(
        WaitingServer,
        "rows",
        lambda self, text, _=None: (
            [("sluice.rejected", "all_1_0", 0)]
            if "system.parts" in text
            else []
            if "dropped_tables" in text
            else [(480, 480)]
        ),
    )
    server = WaitingServer()
    parts = ServerParts(server, pipeline(), lambda _: None, server.sleep, lambda: server.now)
    planned = parts.left().wait(dropped=True)
    assert (planned.server, planned.kept, planned.longest) == ("ch:8123", 480, 480 + 15 * 60)
    assert not parts.force().nothing
    assert planned.longest <= server.now < planned.longest + 10


def test_a_wait_says_a_line_once_when_it_changes_and_each_minute(monkeypatch):
    monkeypatch.setattr("sluice.flow.erase.what_is_left.read_table", lambda *_: None)
    server, said = WaitingServer(), []
    parts = ServerParts(server, pipeline(), said.append, server.sleep, lambda: server.now)
    assert parts.force().nothing
    lines = [line.partition("ch:8123: ")[2].partition(" and 0 dropped") for line in said]
    assert [(what, after.partition("; waited ")[2]) for what, _, after in lines] == [
        ("2 replaced parts", ""),
        ("2 replaced parts", "60 s"),
        ("2 replaced parts", "120 s"),
        ("1 replaced parts", "130 s"),
        ("1 replaced parts", "190 s"),
    ]
