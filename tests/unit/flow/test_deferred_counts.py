"""What a deferred landing is counted and reported with: what was landed since it began, and nothing else."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice.clients.lake import layout
from sluice.clients.lake.open import open_lake
from sluice.clients.openlineage.values import RunState
from sluice.config.pipeline import Pipeline
from sluice.errors import SparkFailed
from sluice.flow.deferred_landing import deferred_landing
from sluice.flow.lineage import observe
from sluice.flow.lineage.runs import Destination
from sluice.manifest import Manifest, encode
from sluice.metrics import sink
from tests.support.landing_world import SPEC, hours

SINCE = datetime(2026, 2, 1, 12, 0, 5, tzinfo=UTC)
SLICES = hours(3)
# An hour that another run had landed before, and two of this landing.
LANDED = {0: "2026-02-01T12:00:04Z", 1: "2026-02-01T12:00:05Z", 2: "2026-02-01T12:07:00Z"}


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    pipeline = Pipeline.model_validate({**SPEC, "lake": f"file://{tmp_path}"})
    lake = open_lake(pipeline)
    for hour, (slice_, stamp) in enumerate(zip(SLICES, LANDED.values(), strict=True)):
        manifest = Manifest("demo", slice_.id, "dc1", 1, "a", (), (), (), 10**hour, {}, 0, landed_at=stamp)
        lake.create(layout.manifest(slice_.id, "dc1"), encode(manifest))
    return pipeline


def read_records(pipeline: Pipeline, end) -> float:
    samples: list[sink.MetricSample] = []
    with sink.taken_by(samples.append):
        with suppress(SparkFailed):
            deferred_landing(pipeline, SLICES, SINCE, end)
    return sum(one.value for one in samples if one.metric.name == "records_read")


def test_what_was_landed_since_it_began_is_counted(pipeline: Pipeline):
    assert read_records(pipeline, lambda: 0) == 10 + 100


def test_it_is_counted_also_when_the_rest_has_failed(pipeline: Pipeline):
    def fail() -> int:
        raise SparkFailed("killed")

    assert read_records(pipeline, fail) == 10 + 100


class Kept:
    """A delivery that makes its events at once."""

    def __init__(self) -> None:
        self.events: list = []

    def put(self, make) -> None:
        self.events.append(make())


def test_its_run_began_when_the_driver_was_started(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch):
    kept = Kept()
    to = Destination(SimpleNamespace(new_id=lambda: "id"), "ads")
    monkeypatch.setattr(observe, "_listeners", [observe._Listener(kept, to)])
    assert deferred_landing(pipeline, SLICES, SINCE, lambda: 0) == 0
    start, end = kept.events
    assert (start.state, start.at) == (RunState.START, SINCE)
    assert (end.state, end.run, end.at > SINCE) == (RunState.COMPLETE, start.run, True)
