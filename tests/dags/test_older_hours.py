"""What the hourly DAG's tasks do of hours before their own, and what they say when they cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pendulum
import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow import tasks
from sluice.airflow.run_params import to_xcom
from sluice.errors import KafkaUnavailable, SluiceError, UnknownTopic
from sluice.flow import choose_backlog, steps
from sluice.flow.choose_backlog import Older
from sluice.plan.plan import PlannedWork
from sluice.slices import SliceRange, floor
from tests.dags.pipeline_texts import TWO_TABLES

NOW = floor(pendulum.now("UTC"), pendulum.duration(hours=1))
OWN = SliceRange(NOW.subtract(hours=24), NOW)
LONG_AGO = SliceRange(NOW.subtract(days=9), NOW.subtract(days=8))


class Instance:
    """A task instance's XComs."""

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        assert task_ids == "resolve"
        return self.pushed.get(key)


class There:
    """`older` is what a look back gives, or raises."""

    def __init__(self, older: Older | SluiceError) -> None:
        self.older, self.asked = older, []

    def older_batches(self, pipeline, until, turn) -> Older:
        self.asked.append((until, turn))
        if isinstance(self.older, SluiceError):
            raise self.older
        return self.older


@pytest.fixture
def ads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "ads.yaml").write_text(TWO_TABLES)
    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path))
    return "ads"


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Instance:
    instance = Instance()
    monkeypatch.setattr(tasks, "get_current_context", lambda: {"params": {}, "ti": instance})
    monkeypatch.setattr(steps, "resolve_range", lambda *_: {"waiting": {}})
    monkeypatch.setattr("sluice.flow.steps.note_file", lambda *_: None)
    monkeypatch.setattr(steps, "work_in", lambda *_: PlannedWork((OWN,), ((1, 1),), ((1, 1),), (1, 1)))
    monkeypatch.setattr(steps, "verify_range", lambda *_: [])
    monkeypatch.setattr(steps, "refuse_rejected", lambda *_: None)
    return instance


def resolve(ads: str, monkeypatch, there: There, slices: SliceRange = OWN) -> list[dict[str, str]]:
    monkeypatch.setattr(choose_backlog, "older_batches", there.older_batches)
    return tasks.resolve_hour.function(ads, to_xcom(slices))


def test_older_hours_follow_the_runs_own(ads: str, instance: Instance, monkeypatch: pytest.MonkeyPatch):
    there = There(Older((LONG_AGO,)))
    assert resolve(ads, monkeypatch, there) == [to_xcom(OWN), to_xcom(LONG_AGO)]
    assert there.asked == [(OWN.start, int(NOW.timestamp()) // 3600)]
    assert tasks.verify_all.function(ads, to_xcom(OWN)) is None


def test_a_run_for_a_past_hour_takes_its_own_only(ads, instance, monkeypatch):
    there = There(Older((LONG_AGO,)))
    assert resolve(ads, monkeypatch, there, LONG_AGO) == [to_xcom(OWN)]
    assert there.asked == []


def test_an_older_hour_that_nobody_can_look_at_fails_the_run_after_its_own_hours(ads, instance, monkeypatch):
    there = There(UnknownTopic("dc1", "bids"))
    assert resolve(ads, monkeypatch, there) == [to_xcom(OWN)]
    with pytest.raises(AirflowFailException, match=r"hours before .*Z were left out: .*bids"):
        tasks.verify_all.function(ads, to_xcom(OWN))


def test_what_a_retry_cures_is_tried_again(ads, instance, monkeypatch):
    with pytest.raises(KafkaUnavailable):
        resolve(ads, monkeypatch, There(KafkaUnavailable("dc1", "k:9092", "no answer")))
    assert instance.pushed == {}
