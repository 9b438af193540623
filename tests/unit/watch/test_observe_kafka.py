"""What one cluster's Kafka refuses is a problem of that cluster, and the watch goes on."""

from __future__ import annotations

from pathlib import Path

import pendulum
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.errors import KafkaUnavailable, PartitionMissing, SluiceError, TopicRecreated, UnknownTopic
from sluice.flow import choose_backlog as oldest_unlanded
from sluice.flow.choose_backlog import ask_oldest
from sluice.flow.resolve.resolve import Resolution
from sluice.manifest import Loss
from sluice.plan.backlog import Backlog
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.boundaries.model import Boundaries
from tests.unit.doctor.test_doctor_kafka import pipeline

NOW = pendulum.datetime(2026, 11, 20, 12, 5)
LOST = (Loss("bids", 0, 3, 9, exact=True),)
CLUSTERS = [{"cluster": c, "bootstrap": "nowhere:1", "topics": ["bids"]} for c in ("dc1", "dc2")]


@pytest.mark.parametrize(
    "error",
    [
        TopicRecreated("dc1", "bids", "old", "new"),
        UnknownTopic("dc1", "bids"),
        PartitionMissing("dc1", "bids", 3),
        KafkaUnavailable("dc1", "nowhere:1", "no answer"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_refusing_cluster_does_not_hide_the_losses_of_the_other(
    error: SluiceError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """All boundaries are stored, so that resolving asks Kafka nothing."""
    hour = Slice(NOW.start_of("hour").subtract(hours=1))

    def losses(_spec: object, _boundaries: object, units: list[Unit]) -> dict[Unit, tuple[Loss, ...]]:
        if units[0].cluster == "dc1":
            raise error
        return {Unit(hour, "dc2"): LOST}

    monkeypatch.setattr(oldest_unlanded, "resolve", lambda *_: Resolution(Boundaries(), {}, (), 0, ()))
    monkeypatch.setattr(oldest_unlanded, "retained_losses", losses)
    slices = SliceRange(hour.start, hour.end)
    asked = ask_oldest(pipeline(kafka=CLUSTERS), FolderLake(tmp_path), Backlog(), slices, NOW)
    assert (asked.lost, asked.mute) == ({Unit(hour, "dc2"): LOST}, {"dc1": str(error)})
