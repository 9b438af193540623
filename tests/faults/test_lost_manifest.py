"""A manifest, or the whole lake, is lost: an hour is landed again only if nothing of it goes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from local.readiness import wait_until
from sluice.clients.lake.open import open_lake
from sluice.errors import Conservation, ManifestLost, TargetRefused
from tests.faults.test_topic_leaves import TwoTopics, story
from tests.faults.topics import SECONDS, hour

__all__ = ["story"]
pytestmark = pytest.mark.faults

LANDED = {0: [1, 2, 3, 4], 1: [5, 6]}


def lose_manifest(story: TwoTopics) -> None:
    folder: Path = story.folder / "lake" / story.pipeline.name / "_slices" / hour(0).id
    (found,) = folder.glob("*/manifest.json")
    found.unlink()


def data_files(story: TwoTopics) -> dict[str, bytes]:
    root: Path = story.folder / "lake" / story.pipeline.name
    return {str(path.relative_to(root)): path.read_bytes() for path in root.glob("type=*/**/*.parquet")}


def forget_other(story: TwoTopics) -> None:
    story.other.admin.delete_topics([story.other.name])[story.other.name].result(30)
    gone = lambda: story.other.name not in story.other.admin.list_topics(timeout=10).topics  # noqa: E731
    wait_until(gone, "the deletion", SECONDS)


def test_a_topic_that_left_the_file_comes_back_with_its_hour(story: TwoTopics, fault_log):
    with fault_log.trial("fault", "a manifest is lost, a topic has left the file", victim="lake"):
        story.read(story.topic)
        lose_manifest(story)
        story.run(0, 1)
        story.holds_rows(LANDED)
        story.verify(0, 1)  # removes the files of the lost landing
        story.holds(LANDED)
        assert (story.states(0, 1), story.anomalies()) == (["complete"] * 2, [])


def test_other_rules_take_no_row_of_it_out(story: TwoTopics, fault_log):
    with fault_log.trial("fault", "a manifest is lost, the file has other rules", victim="lake"):
        before = data_files(story)
        time = {"field": "no such field"}
        story.read(story.topic, story.other, event={"type": {"field": "type"}, "time": time})
        lose_manifest(story)
        with pytest.raises(ManifestLost, match="would reject 4 of its 4 rows.*--mode reland --yes"):
            story.land(0, 1)
        story.load(0, 1)
        assert data_files(story) == before
        story.holds(LANDED)


def expire(story: TwoTopics) -> None:
    story.read(story.topic, story.other, on_expired="land_rest")
    story.other.expire(2)


def leave(story: TwoTopics) -> None:
    story.read(story.topic)
    forget_other(story)


@pytest.mark.parametrize("happen", [expire, leave])
def test_what_kafka_no_longer_has_stays_until_it_is_given_up(
    story: TwoTopics, happen: Callable[[TwoTopics], None], fault_log
):
    with fault_log.trial("fault", "a manifest is lost, and Kafka lacks its records", victim="lake"):
        before = data_files(story)
        happen(story)
        lose_manifest(story)
        for mode in ("fill", "reland"):
            with pytest.raises(ManifestLost, match=r"\[0, 2\) of .*b/0.*--mode reland --yes"):
                story.land(0, 1, mode, token=mode)
        story.load(0, 1)
        assert data_files(story) == before
        story.holds(LANDED)
        story.land(0, 0, "reland", token="given up", accept_loss=True)
        story.load(0, 0, "reland")
        story.read(story.topic)
        with pytest.raises(Conservation, match="`on_expired: land_rest` in the pipeline file accepts"):
            story.verify(0, 1)
        story.read(story.topic, on_expired="land_rest")
        story.verify(0, 1)
        story.holds({0: [1, 2], 1: [5, 6]})
        assert story.states(0, 1) == ["complete with loss", "complete"]


def test_the_rows_of_a_lost_lake_stay_until_they_are_given_up(story: TwoTopics, fault_log):
    with fault_log.trial("fault", "the lake is lost, and Kafka lacks records", victim="lake"):
        expire(story)
        shutil.rmtree(story.folder / "lake")
        story.resolve(0, 1)
        story.land(0, 1)
        with pytest.raises(TargetRefused, match=r"4 rows of slice .*the lake has only 2.*--mode remake"):
            story.load(0, 1)
        assert sorted(story.numbers()) == [1, 2, 3, 4, 5, 6]
        story.land(0, 0, "remake", token="given up")
        story.load(0, 1, "remake")
        assert sorted(story.numbers()) == [1, 2, 5, 6]
        assert open_lake(story.pipeline).read("_boundaries/0000000000.json") is not None
