"""Offsets that Spark did not bring: which are gaps on purpose, and which stop the landing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.lake.folder import FolderLake
from sluice.config.pipeline import Pipeline
from sluice.errors import CompactedAway, Conservation, ExpiredMeanwhile, RecordsExpired, TopicRecreated
from sluice.flow.land.gaps import without_record
from sluice.flow.land.land import land
from sluice.flow.land.read_plan import ReadGroup
from sluice.flow.land.task.reports import Gap, TaskReport
from sluice.flow.land.task.task import Task
from sluice.flow.resolve.clamp import Answers, boundaries_to_store
from sluice.slices import Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Era, LogEntry
from sluice.state.manifests import read_manifest
from tests.support.landing_world import GAP, NOW, InProcess, World, event, hours, pipeline, rows_in, state_of

BIDS = ("dc1", "bids")
LOG = tuple(event("click", minute) for minute in range(0, 60, 2))


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


def with_gaps(*offsets: int) -> World:
    log = [(GAP, at) if offset in offsets else (value, at) for offset, (value, at) in enumerate(LOG)]
    return World({BIDS: [log]})


@given(st.sets(st.integers(0, 40)), st.lists(st.integers(0, 40), max_size=8).map(sorted))
def test_what_is_without_a_record(offsets, edges):
    """Gaps may touch."""
    pairs = zip(edges[::2], edges[1::2], strict=False)
    gaps = [Gap(start, until) for start, until in pairs if start < until]
    for gap, ranges in zip(gaps, without_record(sorted(offsets), gaps), strict=True):
        assert all(start < until for start, until in ranges)
        empty = [offset for start, until in ranges for offset in range(start, until)]
        assert empty == [offset for offset in range(gap.start, gap.until) if offset not in offsets]


def test_on_a_plain_topic_a_gap_is_a_lost_record(lake):
    world = with_gaps(7, 8)
    world.plain = True
    world.resolve(pipeline(), lake, hours(1))
    with pytest.raises(Conservation, match=r"\[7, 9\) of dc1/bids/0 hold no record"):
        world.land(pipeline(), lake, hours(1))
    assert not list(lake.list("_slices/")) and not list(lake.list("_attempts/"))


def test_more_gaps_than_are_told_one_by_one(lake, monkeypatch):
    monkeypatch.setattr("sluice.flow.land.task.reports.MOST_GAPS", 1)
    empty = (1, 4, 5, 9, 12, 29)
    world = with_gaps(*empty)
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1), rows_per_read=100)
    manifest = read_manifest(lake, Unit(next(iter(hours(1))), "dc1"))
    assert manifest is not None
    assert (manifest.read, manifest.gaps) == (len(LOG) - len(empty), len(empty))


@dataclass
class ThenSomethingHappens(InProcess):
    """`then` happens when everything has been read."""

    then: Callable[[], None] = lambda: None

    def land(self, reads: Sequence[tuple[ReadGroup, Task]]) -> TaskReport:
        report = super().land(reads)
        self.then()
        return report


def land_while(world: World, lake: FolderLake, then: Callable[[], None]) -> None:
    engine = ThenSomethingHappens(world, then=then)
    land(pipeline(), lake, hours(1), "fill", "t", engine, lambda line: None, world.topics_of)


def test_a_topic_made_again_while_it_was_read_is_not_landed(lake):
    world = World({BIDS: [list(LOG)]})
    world.resolve(pipeline(), lake, hours(1))
    with pytest.raises(TopicRecreated):
        land_while(world, lake, lambda: setattr(world.kafka.topics[BIDS], "uuid", "another"))
    assert not list(lake.list("_slices/")) and not list(lake.list("_attempts/"))


def test_retention_that_overtakes_a_gap_is_cured_by_landing_again(lake):
    world = with_gaps(0)
    world.resolve(pipeline(), lake, hours(1))
    with pytest.raises(ExpiredMeanwhile, match=r"\[0, 1\) of dc1/bids/0 while they were read") as raised:
        land_while(world, lake, lambda: world.expire(*BIDS, 0, 9))
    assert raised.value.retryable
    with pytest.raises(RecordsExpired, match=r"9 offsets \[0, 9\)"):
        world.land(pipeline(), lake, hours(1))


class TestReland:
    def landed(self, lake, spec) -> World:
        world = World({BIDS: [list(LOG)], ("dc1", "clicks"): [list(LOG)]})
        world.resolve(spec, lake, hours(1))
        world.land(spec, lake, hours(1))
        return world

    def test_what_the_lake_holds_alone_is_kept_and_says_so(self, lake):
        spec = pipeline(on_expired="land_rest")
        world = self.landed(lake, spec)
        before = state_of(lake)
        world.expire(*BIDS, 0, 3)
        with pytest.raises(RecordsExpired, match=r"3 offsets \[0, 3\).*it is not landed again.*reload"):
            world.land(spec, lake, hours(1), "reland", "again")
        assert state_of(lake) == before

    def test_a_topic_made_again_has_nothing_of_what_was_landed(self, lake):
        spec = pipeline(on_expired="land_rest")
        world = self.landed(lake, spec)
        before = state_of(lake)
        log, start = BoundaryLog(lake), hours(1).start
        state = log.read()
        block = boundaries_to_store(None, Answers("dc1", "bids", "new", [int(start.timestamp())], {}))
        accepted = {("dc1", "bids"): Era("new", int(start.timestamp()))}
        assert log.append(state, LogEntry(spec.slice, (block,), accepted), NOW)
        world.kafka.topics[BIDS].uuid = "new"
        world.resolve(spec, lake, hours(1))
        with pytest.raises(
            RecordsExpired, match=rf"{len(LOG)} offsets \[0, {len(LOG)}\).*it is not landed again"
        ):
            world.land(spec, lake, hours(1), "reland", "again")
        assert state_of(lake) == before

    def test_a_topic_that_joined_later_may_have_lost_something(self, lake):
        first = pipeline(on_expired="land_rest")
        world = self.landed(lake, first)
        clusters = [{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids", "clicks"]}]
        world.expire("dc1", "clicks", 0, 4)
        for policy, error in (("fail", True), ("land_rest", False)):
            spec = pipeline(kafka=clusters, on_expired=policy)
            world.resolve(spec, lake, hours(1))
            if error:
                with pytest.raises(RecordsExpired, match=r"at most 4 offsets \[0, 4\) of dc1/clicks/0"):
                    world.land(spec, lake, hours(1), "reland", "again")
            else:
                world.land(spec, lake, hours(1), "reland", "again")
        manifest = read_manifest(lake, Unit(next(iter(hours(1))), "dc1"))
        assert manifest is not None
        assert manifest.read == 2 * len(LOG) - 4
        assert [(x.topic, x.start, x.until) for x in manifest.lost] == [("clicks", 0, 4)]

    @pytest.mark.parametrize("topics", [["bids", "clicks"], ["bids"]])
    def test_what_a_compaction_removed_since_is_kept(self, lake, topics):
        world, held = self.landed(lake, self.of_topics("bids", "clicks")), len(LOG)
        before = state_of(lake)
        world.logs[BIDS][0][:4] = [(GAP, at) for _, at in LOG[:4]]
        with pytest.raises(
            CompactedAway, match=f"holds {held} records of dc1/bids.*, Kafka only {held - 4} "
        ):
            world.land(self.of_topics(*topics), lake, hours(1), "reland", "again")
        assert state_of(lake) == before

    def test_what_a_compaction_removed_of_a_topic_that_left_the_file_stays_in_the_lake(self, lake):
        world = self.landed(lake, self.of_topics("bids", "clicks"))
        world.logs[BIDS][0][:4] = [(GAP, at) for _, at in LOG[:4]]
        with pytest.raises(CompactedAway):
            world.land(self.of_topics("clicks"), lake, hours(1), "reland", "again")
        manifest = read_manifest(lake, Unit(next(iter(hours(1))), "dc1"))
        assert manifest is not None
        kept = [(topic, 0, n) for topic in ("bids", "clicks") for n in range(len(LOG))]
        assert sorted(row[2:5] for row in rows_in(lake, [manifest])) == kept

    def of_topics(self, *topics: str) -> Pipeline:
        return pipeline(kafka=[{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": [*topics]}])
