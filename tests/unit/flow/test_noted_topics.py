"""What a run notes of how long Kafka keeps its topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from sluice.config.pipeline import Cluster
from sluice.errors import KafkaUnavailable
from sluice.flow import steps
from sluice.state.notes import TOPICS, read_versions
from tests.support.fakes import MemoryLake
from tests.support.page_world import START, pipeline

TWO = [
    {"cluster": "dc1", "bootstrap": "x:1", "topics": ["t", "u"]},
    {"cluster": "dc2", "bootstrap": "x:2", "topics": ["t"]},
]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """By cluster and topic `retention.ms`; a topic without one may not be described."""
    kept = {"dc1/t": "1000", "dc2/t": "2000"}

    @contextmanager
    def inquiry(cluster: Cluster) -> Iterator[SimpleNamespace]:
        def retention(topics: Sequence[str]) -> dict[str, dict[str, str]]:
            found = {topic: kept.get(f"{cluster.cluster}/{topic}") for topic in topics}
            return {topic: {"retention.ms": ms} if ms else {} for topic, ms in found.items()}

        yield SimpleNamespace(retention=retention)

    monkeypatch.setattr(steps, "open_inquiry", inquiry)
    return kept


def texts(lake: MemoryLake) -> list[list[str]]:
    return [version.text.splitlines() for version in read_versions(lake, TOPICS)]


def test_a_version_is_noted_where_a_setting_has_changed(kept: dict[str, str]):
    spec, lake = pipeline(kafka=TWO), MemoryLake()
    for hour in range(2):
        steps.note_topics(spec, lake, (), START.add(hours=hour))
    kept["dc1/t"] = "500"
    steps.note_topics(spec, lake, (), START.add(hours=2))
    assert texts(lake) == [
        ["dc1/t retention.ms=1000", "dc2/t retention.ms=2000"],
        ["dc1/t retention.ms=500", "dc2/t retention.ms=2000"],
    ]


def test_what_is_known_of_a_cluster_that_does_not_answer_stays(kept: dict[str, str]):
    spec, lake = pipeline(kafka=TWO), MemoryLake()
    steps.note_topics(spec, lake, (), START)
    kept.update({"dc1/u": "7", "dc2/t": "8"})
    steps.note_topics(spec, lake, {"dc2"}, START.add(hours=1))
    assert texts(lake)[-1] == [
        "dc1/t retention.ms=1000",
        "dc1/u retention.ms=7",
        "dc2/t retention.ms=2000",
    ]


def test_a_cluster_that_is_away_keeps_no_run_from_its_work(tmp_path, monkeypatch: pytest.MonkeyPatch):
    def away(cluster: Cluster) -> None:
        raise KafkaUnavailable(cluster.cluster, "x:1", "no answer")

    lake = MemoryLake()
    monkeypatch.setattr(steps, "open_inquiry", away)
    monkeypatch.setattr(steps, "open_lake", lambda _: lake)
    (tmp_path / "p.yaml").write_text("a: 1\n")
    steps.note_file(pipeline(), tmp_path / "p.yaml")
    assert [one.text for one in read_versions(lake)] == ["a: 1\n"]
    assert read_versions(lake, TOPICS) == ()
