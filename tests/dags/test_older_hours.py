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
from sluice.plan.auto_remake import Remakes
from sluice.plan.plan import PlannedWork
from sluice.slices import SliceRange, Unit, floor
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
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
    monkeypatch.setattr("sluice.flow.note_file.note_file", lambda *_: None)
    monkeypatch.setattr(steps, "work_in", lambda *_: PlannedWork((OWN,), ((1, 1),), ((1, 1),), (1, 1)))
    monkeypatch.setattr(steps, "verify_range", lambda *_: [])
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


REMADE = SliceRange(NOW.subtract(days=3), NOW.subtract(days=3, hours=-2))


def remake_auto(monkeypatch: pytest.MonkeyPatch, found: Remakes | SluiceError, path: Path) -> list[tuple]:
    """The pipeline file says `remake: auto`, and that is what is to be remade."""
    asked: list[tuple] = []

    def hourly_remakes(pipeline, own, apart, turn, older):
        asked.append((pipeline.remake, own, list(apart), turn, older))
        if isinstance(found, SluiceError):
            raise found
        return found

    path.write_text(f"{TWO_TABLES}\nremake: auto\n")
    monkeypatch.setattr("sluice.flow.auto_remakes.hourly_remakes", hourly_remakes)
    return asked


def test_what_is_remade_follows_as_batches_of_their_own(ads, instance, monkeypatch, tmp_path):
    units = [Unit(slice_, "dc1") for slice_ in REMADE]
    statuses = tuple(UnitStatus(u, UnitState.COMPLETE, (), (), None, {}, (), 1) for u in units)
    asked = remake_auto(monkeypatch, Remakes(statuses), tmp_path / "ads.yaml")
    found = resolve(ads, monkeypatch, There(Older((LONG_AGO,))))
    own = {"mode": "remake", "only": "dc1=0-1"}
    assert found == [to_xcom(OWN), to_xcom(LONG_AGO), {**to_xcom(REMADE), **own}]
    turn = int(NOW.timestamp()) // 3600
    assert asked == [("auto", OWN, [OWN, LONG_AGO], turn, True)]


def test_what_keeps_hours_from_being_remade_fails_the_run_at_its_end(ads, instance, monkeypatch, tmp_path):
    remake_auto(monkeypatch, UnknownTopic("dc1", "gone"), tmp_path / "ads.yaml")
    assert resolve(ads, monkeypatch, There(Older())) == [to_xcom(OWN)]
    with pytest.raises(AirflowFailException, match="^what `remake: auto` asks for was not remade: .*gone"):
        tasks.verify_all.function(ads, to_xcom(OWN))


def test_of_older_hours_and_remakes_both_errors_are_told(ads, instance, monkeypatch, tmp_path):
    remake_auto(monkeypatch, UnknownTopic("dc1", "gone"), tmp_path / "ads.yaml")
    assert resolve(ads, monkeypatch, There(UnknownTopic("dc1", "bids"))) == [to_xcom(OWN)]
    older, remade = UnknownTopic("dc1", "bids"), UnknownTopic("dc1", "gone")
    with pytest.raises(AirflowFailException) as failure:
        tasks.verify_all.function(ads, to_xcom(OWN))
    assert str(failure.value) == (
        f"hours before {OWN.start:%Y-%m-%dT%H:%MZ} were left out: {older}; what `remake: auto` asks for was "
        f"not remade: {remade}"
    )


def test_a_batch_for_some_units_is_landed_and_loaded_as_it_says(ads, instance, monkeypatch):
    loaded: list[tuple] = []

    def load_table(pipeline, table, slices, mode, token, say, only):
        loaded.append((table, slices, mode, token, only))
        return {"rows": 0}

    monkeypatch.setattr(tasks, "get_current_context", lambda: {"params": {}, "ti": instance, "run_id": "r"})
    monkeypatch.setattr(tasks, "extend", lambda *_: None)
    monkeypatch.setattr(steps, "load_table", load_table)
    batch = {**to_xcom(REMADE), "mode": "remake", "only": "dc1=1"}
    tasks.load.function(ads, "ads.clicks", batch)
    tasks.load.function(ads, "ads.clicks", to_xcom(REMADE))
    last = Unit(list(REMADE)[1], "dc1")
    assert loaded == [
        ("ads.clicks", REMADE, "remake", "r", {last}),
        ("ads.clicks", REMADE, "fill", "r", None),
    ]
