"""The Kafka broker killed while hours are resolved and read: one retry, and everything is there once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from local.services import KafkaBroker, kafka_broker
from sluice.crash_points import Land, Point, Resolve
from tests.faults import kills_trials
from tests.faults.kills_commands import publish
from tests.faults.kills_points import Order, name_of
from tests.faults.kills_trials import Trials

pytestmark = [pytest.mark.faults, pytest.mark.long]  # each time a client has to give up first

POINTS = [Resolve.READ, Resolve.ASKED, Resolve.STORED, Land.PLANNED, Land.FILE_WRITTEN, Land.READ]
MOMENTS = 5


@pytest.fixture(scope="module")
def broker(tmp_path_factory) -> Iterator[KafkaBroker]:
    started = kafka_broker(tmp_path_factory.mktemp("killed_broker"))
    yield started
    started.kill()


@pytest.fixture(scope="module")
def trials(tmp_path_factory, broker: KafkaBroker) -> Iterator[Trials]:
    folder = tmp_path_factory.mktemp("broker_kills")
    started = kills_trials.start(folder, bootstrap=broker.bootstrap, topic="broker_kills")
    publish(broker.bootstrap, started.topic, started.sent)
    yield started
    kills_trials.stop(started)


@pytest.fixture(scope="module")
def revive(broker: KafkaBroker) -> Callable[[], None]:
    def start_again() -> None:
        broker.kill()  # it may be alive: a random moment may come after the run's end
        broker.start()

    return start_again


@pytest.mark.parametrize("point", POINTS, ids=name_of)
def test_the_broker_killed_at_a_point(trials: Trials, broker, revive, fault_log, point: Point):
    with fault_log.trial("kill", name_of(point), victim="Kafka broker"):
        trials.obeys("fill", Order(name_of(point), victim=str(broker.process.pid)), revive)


def test_the_broker_killed_at_random_moments(trials: Trials, broker, revive, fault_log, seed):
    moments = random.Random(f"{seed} broker")
    seconds = trials.duration("fill")
    for number in range(MOMENTS):
        mode = ("fill", "reland")[number % 2]
        with fault_log.trial("kill", "random moment", victim="Kafka broker"):
            trials.place(mode)
            trials.strikes(mode, moments.uniform(0, seconds), lambda child: broker.process.kill(), revive)
