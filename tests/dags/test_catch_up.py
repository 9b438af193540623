"""The `cluster` tasks: what is done about one cluster of several, against steps that are written down."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path

import pendulum
import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow.dags import CatchUp
from sluice.config.files import read
from sluice.config.pipeline import Pipeline, Tables
from sluice.errors import ClusterWaits, KafkaUnavailable, SluiceError, UnknownTopic
from sluice.flow import batch_loop
from sluice.flow import batch_loop as module
from sluice.flow.batch_loop import catch_up
from sluice.manifest import OffsetRange
from sluice.plan.estimate import TimeEstimate
from sluice.plan.plan import PlannedWork
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.dags.pipeline_texts import TWO_TABLES
from tests.support.manifests import made_manifest

DAY = pendulum.datetime(2026, 11, 20)
RANGE = SliceRange(DAY, DAY.add(hours=3))
RANGES = (OffsetRange("bids", "id", 0, 0, 10),)
EVENTS = [{"table": "ads.bids", "slice": "2026-11-20T01Z", "rows": 5}]


def unit(hour: int, cluster: str, landed: bool) -> UnitStatus:
    of = Unit(Slice(DAY.add(hours=hour)), cluster)
    manifest = (
        made_manifest("ads", of.slice.id, cluster, 1, "a", RANGES, (), (), 10, {}, 0) if landed else None
    )
    return UnitStatus(
        of, UnitState.COMPLETE if landed else UnitState.MISSING, RANGES, (), manifest, {}, (), 1
    )


class Steps:
    """`lacking`: hours of dc2 that have not landed; `cause`: what dc2 says."""

    def __init__(self, lacking: Sequence[int] = (), cause: SluiceError | None = None) -> None:
        self.lacking, self.cause = lacking, cause
        self.did: list[str] = []

    def survey(self, pipeline: Pipeline, slices: SliceRange) -> list[UnitStatus]:
        hours = [piece.start.hour for piece in slices]
        both = [(hour, cluster) for hour in hours for cluster in ("dc1", "dc2")]
        return [unit(hour, c, c == "dc1" or hour not in self.lacking) for hour, c in both]

    def resolve_range(self, pipeline: Pipeline, slices: SliceRange) -> None:
        self.did.append(f"resolve {','.join(pipeline.clusters)} {slices}")

    def estimated_time(self, pipeline: Pipeline, work: PlannedWork) -> TimeEstimate:
        return TimeEstimate({}, ())

    def load_table(self, pipeline: Pipeline, table: str, slices: SliceRange, *more: object) -> None:
        self.did.append(f"load {table} {slices}")

    def verify_range(self, pipeline: Pipeline, slices: SliceRange, *more: object) -> None:
        self.did.append(f"verify {slices}")

    def publish_range(self, pipeline: Pipeline, slices: SliceRange, *more: object) -> list[dict]:
        self.did.append(f"publish {slices}")
        return EVENTS

    @contextmanager
    def topics_of(self, cluster):
        assert cluster.cluster == "dc2"
        if self.cause is not None:
            raise self.cause
        yield self

    def describe(self, topic: str) -> None:
        assert topic == "bids"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "ads.yaml"
    path.write_text(TWO_TABLES)
    return path


def run(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    there: Steps,
    cluster: str = "dc2",
    tables: Tables | None = None,
) -> list[dict]:
    for part in (module, batch_loop):
        monkeypatch.setattr(part, "steps", there)
    monkeypatch.setattr(module, "survey_past", there.survey)

    def land(batch: SliceRange) -> int:
        there.did.append(f"land {batch}")
        return 0

    asked = (read(config), cluster, RANGE, "fill", "run 7")
    return catch_up(*asked, land, lambda line: None, there.topics_of, tables)


def test_nothing_is_done_where_nothing_is_missing(config: Path, monkeypatch: pytest.MonkeyPatch):
    there = Steps(cause=KafkaUnavailable("dc2", "k:9092", "never asked"))
    assert run(config, monkeypatch, there) == []
    assert run(config, monkeypatch, Steps(lacking=[1]), "dc1") == []
    assert there.did == []


def test_a_cluster_that_answers_again_is_caught_up_alone(config: Path, monkeypatch: pytest.MonkeyPatch):
    there = Steps(lacking=[1, 2])
    assert run(config, monkeypatch, there) == EVENTS
    batch = "[2026-11-20T01:00Z, 2026-11-20T03:00Z)"
    assert there.did == [
        f"resolve dc2 {batch}",
        f"land {batch}",
        f"load ads.clicks {batch}",
        f"load ads.bids {batch}",
        f"verify {batch}",
        f"publish {batch}",
    ]


def test_a_choice_of_tables_is_loaded_alone_and_whole_hours_are_published(config: Path, monkeypatch):
    there = Steps(lacking=[1])
    assert run(config, monkeypatch, there, tables=frozenset({"ads.bids"})) == EVENTS
    batch = "[2026-11-20T01:00Z, 2026-11-20T02:00Z)"
    done = ("resolve dc2", "land", "load ads.bids", "verify", "publish")
    assert there.did == [f"{step} {batch}" for step in done]


def test_a_cluster_unavailable_is_tried_again_and_says_what_is_missing(
    config: Path, monkeypatch: pytest.MonkeyPatch
):
    there = Steps(lacking=[1], cause=KafkaUnavailable("dc2", "k:9092", "no answer"))
    with pytest.raises(
        ClusterWaits, match="hour 2026-11-20T01Z has not landed from Kafka cluster 'dc2'.*k:9092"
    ):
        run(config, monkeypatch, there)
    assert there.did == []


@pytest.mark.parametrize(
    ("cause", "raised"),
    [
        (KafkaUnavailable("dc2", "k:9092", "no answer"), ClusterWaits),
        (UnknownTopic("dc2", "bids"), AirflowFailException),
    ],
)
def test_only_what_a_retry_cures_is_tried_again_by_airflow(
    config: Path, monkeypatch: pytest.MonkeyPatch, cause: SluiceError, raised: type[Exception]
):
    there = Steps(lacking=[0], cause=cause)
    monkeypatch.setattr(module, "steps", there)
    monkeypatch.setattr(module, "survey_past", there.survey)
    monkeypatch.setattr(module, "probe_cluster", lambda cluster, topics_of: cause)
    monkeypatch.setenv("SLUICE_PIPELINES", str(config.parent))
    batch = {"from": str(RANGE.start), "to": str(RANGE.end)}
    task = CatchUp(task_id="cluster", pipeline="ads", connection="spark_default", batch=batch, cluster="dc2")
    with pytest.raises(raised, match="'dc2'"):
        task.execute({"params": {}, "run_id": "run 7", "outlet_events": {}})
