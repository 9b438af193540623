"""Every offset of a log against what the test itself put there, with Kafka, lake and boundaries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.errors import WrongUse
from sluice.flow.find.find import RecordFinder
from sluice.flow.find.outcome import LakeRow, Outcome, RecordFacts, outcome_of
from sluice.flow.resolve.resolve import accept_topic
from tests.support.fakes import FakeTopic
from tests.support.landing_world import GAP, NOW, START, World, event, hours, pipeline

TOPIC = ("dc1", "bids")
AT = datetime(2026, 1, 1, tzinfo=UTC)
BROKEN = b"no JSON"


@dataclass(frozen=True)
class Put:
    """What the test puts at an offset: an event's type and minute, nothing, or what is no event."""

    minute: int
    type: str = ""
    gap: bool = False

    @property
    def stored(self) -> tuple[bytes, int]:
        value, stamp = event(self.type or "x", self.minute)
        return (GAP if self.gap else value if self.type else BROKEN, stamp)


LOG = [
    [
        Put(1, "click"),
        Put(2),
        Put(3, "view"),
        Put(50, gap=True),
        Put(61, "click"),
        Put(62, "view"),
        Put(130, "click"),
    ],
    [Put(5, "view"), Put(70), Put(71, "click"), Put(200, "view")],
]
OUTCOMES = {
    "click": Outcome.NO_TABLE,
    "view": Outcome.NO_TABLE,
    "": Outcome.REJECTED,
}


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


def world() -> World:
    return World({TOPIC: [[put.stored for put in log] for log in LOG]})


def spec(**more: object):
    return pipeline(tables={}, **more)


def landed(lake: FolderLake, count: int = 2) -> RecordFinder:
    kafka = world()
    kafka.resolve(spec(), lake, hours(count))
    kafka.land(spec(), lake, hours(count))
    return RecordFinder(spec(), lake, kafka.topics_of)


def one(finder: RecordFinder, partition: int, offset: int) -> RecordFacts:
    (facts,) = finder.at("bids", partition, offset)
    return facts


def stored(lake: FolderLake, row: LakeRow) -> dict:
    """The row at the place that is said, read by itself."""
    group = pq.ParquetFile(lake.root / row.file).read_row_group(row.row_group)
    return group.slice(row.row, 1).to_pylist()[0]


def test_every_offset_of_two_hours(lake):
    finder = landed(lake)
    for partition, log in enumerate(LOG):
        for offset, put in enumerate(log):
            facts = one(finder, partition, offset)
            if put.minute >= 120:
                assert outcome_of(facts) == Outcome.NO_SLICE
                assert (facts.kafka.start, facts.kafka.end) == (0, len(log))
                continue
            assert facts.location.slice.id == f"2026-01-01T0{put.minute // 60}Z"
            if put.gap:
                assert (outcome_of(facts), facts.rows) == (Outcome.GAP, ())
                continue
            assert outcome_of(facts) == OUTCOMES[put.type]
            (row,) = facts.rows
            assert (row.place.partition, row.place.offset) == (partition, offset)
            found = stored(lake, row)
            assert (found["_partition"], found["_offset"]) == (partition, offset)
            value = put.stored[0]
            assert found["_payload"] == (value.decode() if put.type else value)
            assert (row.type, row.reason) == (put.type or None, None if put.type else "not JSON")
            assert row.event_time == (AT + timedelta(minutes=put.minute) if put.type else None)


def test_behind_the_log_and_in_no_partition(lake):
    finder = landed(lake)
    assert outcome_of(one(finder, 0, 7)) == Outcome.BEYOND
    assert outcome_of(one(finder, 1, 1 << 62)) == Outcome.BEYOND
    facts = one(finder, 9, 0)
    assert (outcome_of(facts), facts.kafka.error) == (Outcome.NO_SLICE, "topic bids has no partition 9")


def test_resolved_and_not_landed_or_expired(lake):
    kafka = world()
    kafka.resolve(spec(), lake, hours(2))
    finder = RecordFinder(spec(), lake, kafka.topics_of)
    assert outcome_of(one(finder, 0, 2)) == Outcome.NOT_LANDED
    kafka.expire(*TOPIC, 0, 3)
    assert outcome_of(one(finder, 0, 2)) == Outcome.LOST
    assert outcome_of(one(finder, 0, 4)) == Outcome.NOT_LANDED


def test_a_loss_that_was_accepted(lake):
    kafka = world()
    kafka.resolve(spec(), lake, hours(1))
    kafka.expire(*TOPIC, 0, 2)
    rest = spec(on_expired="land_rest")
    kafka.land(rest, lake, hours(1))
    finder = RecordFinder(rest, lake, kafka.topics_of)
    assert [outcome_of(one(finder, 0, offset)) for offset in (0, 1, 2)] == [
        Outcome.LOST,
        Outcome.LOST,
        Outcome.NO_TABLE,
    ]


def test_behind_an_open_transaction(lake):
    finder = landed(lake)
    kafka = world()
    kafka.kafka.topics[TOPIC].stable[0] = 6
    held = RecordFinder(finder.pipeline, lake, kafka.topics_of)
    assert outcome_of(one(held, 0, 6)) == Outcome.HELD
    assert outcome_of(one(held, 0, 5)) == Outcome.NO_TABLE


def test_a_cluster_that_does_not_answer(lake):
    kafka = world()
    kafka.resolve(spec(), lake, hours(1))
    kafka.kafka.silent.add("dc1")
    facts = one(RecordFinder(spec(), lake, kafka.topics_of), 0, 0)
    assert outcome_of(facts) == Outcome.NOT_LANDED
    assert "it is silent" in facts.kafka.error


def test_before_and_between_what_is_resolved(lake):
    kafka = world()
    kafka.resolve(spec(), lake, hours(1, first=1))
    kafka.resolve(spec(), lake, hours(1, first=5))
    finder = RecordFinder(spec(), lake, kafka.topics_of)
    assert outcome_of(one(finder, 0, 0)) == Outcome.BEFORE
    facts = one(finder, 0, 6)  # of the third hour: neither it nor the two after it are resolved
    assert outcome_of(facts) == Outcome.NO_SLICE
    assert (facts.location.after, facts.location.before) == (START.add(hours=2), START.add(hours=5))


def test_a_topic_that_was_recreated(lake):
    """Offset 0 of the old topic is in the first hour; of the new one in the second."""
    finder = landed(lake)
    kafka = world()
    new = event("view", 150)[1]
    kafka.kafka.topics[TOPIC] = FakeTopic("id-new", {0: [new], 1: [new]})
    accept_topic(spec(), lake, *TOPIC, START.add(hours=2), NOW, kafka.topics_of)
    kafka.resolve(spec(), lake, hours(1, first=2))
    newer, older = RecordFinder(finder.pipeline, lake, kafka.topics_of).at("bids", 0, 0)
    assert (newer.location.uuid, newer.location.slice.id) == ("id-new", "2026-01-01T02Z")
    assert (older.location.uuid, older.location.slice.id) == ("id-bids", "2026-01-01T00Z")
    assert outcome_of(newer) == Outcome.NOT_LANDED
    assert [row.type for row in older.rows] == ["click"]


def test_a_topic_that_came_after_the_slice_landed(lake):
    kafka = World({TOPIC: [[LOG[0][0].stored]], ("dc1", "more"): [[LOG[0][0].stored]]})
    both = spec(kafka=[{"cluster": "dc1", "bootstrap": "x:1", "topics": ["bids", "more"]}])
    kafka.resolve(spec(), lake, hours(1))
    kafka.land(spec(), lake, hours(1))
    kafka.resolve(both, lake, hours(1))
    (facts,) = RecordFinder(both, lake, kafka.topics_of).at("more", 0, 0)
    assert outcome_of(facts) == Outcome.LACKING


def test_two_clusters_have_the_topic(lake):
    kafka = World({(name, "bids"): [[event(name, 1)]] for name in ("dc1", "dc2")})
    both = spec(kafka=[{"cluster": c, "bootstrap": "x:1", "topics": ["bids"]} for c in ("dc1", "dc2")])
    kafka.resolve(both, lake, hours(1))
    kafka.land(both, lake, hours(1))
    finder = RecordFinder(both, lake, kafka.topics_of)
    assert [(f.place.cluster, f.rows[0].type) for f in finder.at("bids", 0, 0)] == [
        ("dc1", "dc1"),
        ("dc2", "dc2"),
    ]
    assert [f.place.cluster for f in finder.at("bids", 0, 0, "dc2")] == ["dc2"]
    with pytest.raises(WrongUse, match="has never read dc3/bids"):
        finder.at("bids", 0, 0, "dc3")
    with pytest.raises(WrongUse, match="has never read topic 'clicks'"):
        finder.at("clicks", 0, 0)


ARRAYS = {"type": {"field": "type"}, "time": {"field": "at"}, "rows": "array"}


def test_a_message_of_several_rows(lake):
    rows = [event(kind, minute)[0] for kind, minute in (("click", 1), ("view", 2), ("click", 3))]
    values = [b"[" + b",".join(rows) + b",7]", b"[]", b"[" + rows[0] + b"]"]
    kafka = World({TOPIC: [[(value, event()[1]) for value in values]]})
    arrays = spec(event=ARRAYS)
    kafka.resolve(arrays, lake, hours(1))
    kafka.land(arrays, lake, hours(1))
    finder = RecordFinder(arrays, lake, kafka.topics_of)
    found = one(finder, 0, 0)
    assert sorted((row.number, row.type, row.reason) for row in found.rows) == [
        (0, "click", None),
        (1, "view", None),
        (2, "click", None),
        (3, None, "not an object"),
    ]
    for row in found.rows:
        assert stored(lake, row)["_row"] == row.number
    assert outcome_of(one(finder, 0, 1)) == Outcome.EMPTY
    assert [row.number for row in one(finder, 0, 2).rows] == [0]


def test_a_file_that_is_gone_or_damaged(lake):
    finder = landed(lake)
    (row,) = one(finder, 0, 0).rows
    path = lake.root / row.file
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(b"x" * len(data))
    damaged = one(finder, 0, 0)
    assert (outcome_of(damaged), len(damaged.unreadable)) == (Outcome.UNREADABLE, 1)
    path.unlink()
    gone = one(finder, 0, 0)
    assert (outcome_of(gone), gone.unreadable) == (Outcome.UNREADABLE, (f"{row.file}: it is missing",))


def test_files_that_have_not_moved_yet(lake):
    """As a kill leaves them between the manifest and the move."""
    finder = landed(lake)
    unit = one(finder, 0, 0)
    (file,) = [f for f in unit.manifest.files if f.key == unit.rows[0].file]
    lake.move(file.key, file.attempt_key)
    (row,) = one(finder, 0, 0).rows
    assert (row.type, row.file) == ("click", file.key)


def test_times_that_no_datetime_holds(lake):
    """The first and the last of all event times, and stamps of a producer that writes other numbers."""
    times = ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"]
    stamps = [event()[1], -(1 << 60)]
    values = [f'{{"type":"x","at":"{at}"}}'.encode() for at in times]
    kafka = World({TOPIC: [list(zip(values, stamps, strict=True))]})
    ever = spec(max_early="none")
    kafka.resolve(ever, lake, hours(1))
    kafka.land(ever, lake, hours(1))
    rows = [one(RecordFinder(ever, lake, kafka.topics_of), 0, offset).rows[0] for offset in (0, 1)]
    assert [row.event_time.isoformat() for row in rows] == [
        "0001-01-01T00:00:00+00:00",
        "9999-12-31T23:59:59.999000+00:00",
    ]
    assert [row.stamp for row in rows] == stamps
