"""What a plan says while Kafka is silent: a mode that reads the lake waits for it only where it must."""

from __future__ import annotations

from functools import partial

import pendulum
import pytest

from sluice.errors import KafkaUnavailable
from sluice.flow.resolve import resolve
from sluice.plan.plan import action
from sluice.state.manifests import read_manifests
from sluice.state.status import statuses
from sluice.state.units import units_of
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline

BOTH = [{"cluster": name, "bootstrap": "nowhere:1", "topics": ["bids"]} for name in ("dc1", "dc2")]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Two clusters whose first hour has landed and whose second is resolved; then Kafka is silent."""
    minutes = [event("click", minute) for minute in range(180)]
    world, lake = World({(name, "bids"): [minutes] for name in ("dc1", "dc2")}), MemoryLake()
    world.resolve(pipeline(kafka=BOTH), lake, hours(2))
    world.land(pipeline(kafka=BOTH), lake, hours(1))
    world.kafka.silent.update({"dc1", "dc2"})

    def survey(spec, slices, lake, boundaries, expired):
        units = units_of(spec, slices, boundaries)
        now = pendulum.now("UTC")
        return statuses(spec, units, boundaries, read_manifests(lake, units), {}, now, expired)

    monkeypatch.setattr(resolve, "open_lake", lambda _: lake)
    monkeypatch.setattr(resolve, "survey_of", survey)
    for name in ("resolve", "retained_losses"):
        asked = partial(getattr(resolve, name), topics_of=world.topics_of)
        monkeypatch.setattr(resolve, name, asked)
    return world


@pytest.mark.parametrize("mode", ["remake", "reload"])
@pytest.mark.usefixtures("world")
def test_hours_that_have_landed_need_no_kafka(mode: str):
    seen = resolve.preview(pipeline(kafka=BOTH[:1]), hours(1), mode)
    assert seen.unreachable == {}
    does = {"remake": "make again out of the lake and load", "reload": "load again"}[mode]
    assert [action(one, mode) for one in seen.statuses if one.unit.cluster == "dc1"] == [does]


@pytest.mark.parametrize("until", [2, 3], ids=["resolved", "not resolved"])
@pytest.mark.usefixtures("world")
def test_an_hour_that_has_not_landed_waits_and_the_others_are_shown(until: int):
    seen = resolve.preview(pipeline(kafka=BOTH), hours(until), "remake")
    assert list(seen.unreachable) == ["dc1", "dc2"]
    assert sum(status.manifest is not None for status in seen.statuses) == 2


def test_one_cluster_waits_for_its_own_hours_alone(world: World):
    world.kafka.silent.discard("dc2")
    assert list(resolve.preview(pipeline(kafka=BOTH), hours(2), "remake").unreachable) == ["dc1"]
    assert resolve.preview(pipeline(kafka=BOTH), hours(1), "remake").unreachable == {}


@pytest.mark.parametrize("mode", ["fill", "reload --missing-columns", "reland"])
@pytest.mark.usefixtures("world")
def test_what_kafka_no_longer_has_is_asked_of_kafka(mode: str):
    with pytest.raises(KafkaUnavailable):
        resolve.preview(pipeline(kafka=BOTH), hours(1), mode)


@pytest.mark.usefixtures("world")
def test_where_nothing_has_landed_there_is_nothing_to_show():
    with pytest.raises(KafkaUnavailable):
        resolve.preview(pipeline(kafka=BOTH), hours(1, first=1), "remake")
