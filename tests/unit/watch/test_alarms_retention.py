"""What a channel hears of an hour that Kafka is about to delete, watch after watch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pytest

from sluice.clients.kafka.topic_facts import PartitionFacts
from sluice.flow.verify.verdict import Verdict
from sluice.plan.backlog import Backlog
from sluice.plan.lag import Lag, PartitionLag
from sluice.slices import SliceRange
from sluice.state.boundaries.model import Boundaries
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.watch import watch
from sluice.watch.observe import Observation
from sluice.watch.problems import ProblemKind, ProblemSource, WatchState, bounded, pending, with_notified
from sluice.watch.watch import Watched, after, problems_of
from tests.support.channels import webhook
from tests.unit.doctor.test_doctor_kafka import pipeline
from tests.unit.watch.test_alarms_rules import TEN, facts, ms, status, unit

KEPT_THREE_DAYS = {"retention.ms": str(3 * 86_400_000)}
PLACE = "slice 2026-11-20T10Z/dc1"


@dataclass
class Watcher:
    """Runs watch after watch; `heard` has the notices of hour 10's deletion."""

    bound: str
    state: WatchState = field(default_factory=WatchState)

    def __post_init__(self) -> None:
        self.spec = pipeline(alarms={"retention": self.bound, "notify": [webhook("ops")]})
        self.heard: list[str] = []

    def sees(self, now: datetime, *, log_start: int = 0, settings: dict[str, str], **more: Any) -> None:
        slices = SliceRange(TEN, TEN.add(hours=1))
        at = PartitionLag("dc1", "bids", 0, None, log_start, 500, 1, None, 0.0)
        topics = facts(PartitionFacts(log_start, 500, ms(TEN)), **settings)
        parts = {"statuses": (), "lag": Lag("", [at], []), "topics": topics, **more}
        observation = Observation(
            slices=slices, boundaries=Boundaries(), verdict=Verdict(), server=None, **parts
        )
        problems = bounded(problems_of(self.spec, observation, self.state, now), self.state.alarms)
        self.state = after(self.spec, self.state, observation, problems, now)
        (channel,) = self.spec.alarms.notify
        notice = pending(self.state.alarms, channel.name)
        for what, alarms in (("begins", notice.raised), ("over", notice.cleared)):
            self.heard += [
                what for alarm in alarms if alarm.problem.key == f"{ProblemKind.RETENTION}|{PLACE}"
            ]
        alarms = with_notified(self.state.alarms, channel.name, notice)
        self.state = replace(self.state, alarms=alarms)


def waiting(hours: Iterable[int]) -> Backlog:
    return Backlog({unit(hour): UnitState.MISSING for hour in hours})


def begun() -> Watcher:
    """A week ahead, while the hour is among the `lookback`."""
    watcher = Watcher("7d")
    watcher.sees(TEN.add(hours=20), settings=KEPT_THREE_DAYS, statuses=(status(0, UnitState.MISSING),))
    assert watcher.heard == ["begins"]
    return watcher


def asked(*hours: int) -> dict[str, Any]:
    return {"oldest": tuple(status(hour, UnitState.MISSING) for hour in hours), "settings": KEPT_THREE_DAYS}


def test_an_hour_that_has_to_wait_behind_older_ones_is_no_second_notice():
    """Of the hours before the `lookback` only the oldest are asked of Kafka: it is not, and then it is."""
    watcher = begun()
    watcher.sees(TEN.add(hours=26), older=waiting(range(-30, 1)), **asked(*range(-30, -6)))
    watcher.sees(TEN.add(hours=30), older=waiting(range(-3, 1)), **asked(*range(-3, 1)))
    assert watcher.heard == ["begins"]
    watcher.sees(TEN.add(hours=31), older=waiting([]), **asked())
    assert watcher.heard == ["begins", "over"]


def test_an_older_hour_is_not_over_while_clickhouse_is_away():
    """Which hours are older and not complete is not known without it."""
    watcher = begun()
    away = {ProblemSource.CLICKHOUSE: "it does not answer"}
    watcher.sees(TEN.add(hours=26), silent=away, **asked())
    watcher.sees(TEN.add(hours=27), older=waiting([0]), **asked(0))
    assert watcher.heard == ["begins"]


def test_an_older_hour_is_over_when_kafka_keeps_it_longer_or_has_deleted_it():
    for end in ({"settings": {"retention.ms": "-1"}}, {"settings": KEPT_THREE_DAYS, "log_start": 150}):
        watcher = begun()
        watcher.sees(TEN.add(hours=26), older=waiting([0]), **{**asked(0), **end})
        assert watcher.heard == ["begins", "over"]
    expired = begun()
    older = Backlog({unit(0): UnitState.EXPIRED})
    expired.sees(TEN.add(hours=26), older=older, **asked())
    assert expired.heard == ["begins", "over"]


LEFT = "retention_seconds_left"


@pytest.mark.parametrize(
    ("statuses", "silent", "left"),
    [
        ((status(0, UnitState.MISSING), status(1, UnitState.MISSING)), False, [52 * 3600]),
        ((status(0, UnitState.COMPLETE), status(1, UnitState.COMPLETE)), False, [3_162_240_000]),
        ((), False, [3_162_240_000]),
        ((status(0, UnitState.MISSING),), True, [52 * 3600]),  # another cluster is silent
        ((status(0, UnitState.COMPLETE),), True, []),
    ],
    ids=["two hours wait", "all have landed", "no hour yet", "one waits, Kafka is silent", "Kafka is silent"],
)
def test_the_gauge_of_what_is_left_is_sent_when_nothing_waits_too(
    statuses: tuple[UnitStatus, ...], silent: bool, left: list[int]
):
    """Its last value would stay, and with it an alert. Hour 10 is kept for three days, for 52 hours more."""
    topics = facts(PartitionFacts(0, 500, ms(TEN)), **KEPT_THREE_DAYS)
    why = {ProblemSource.KAFKA: "no answer"} if silent else {}
    slices, lag = SliceRange(TEN, TEN.add(hours=2)), Lag("", [], [])
    seen = Observation(slices, Boundaries(), statuses, lag, topics, Verdict(), None, silent=why)
    samples = watch.watched(pipeline(), Watched(seen, (), {}, {}), "s3://lake", TEN.add(hours=20))
    assert [sample.value for sample in samples if sample.metric.name == LEFT] == left


def test_an_estimate_that_goes_to_and_fro_is_one_problem():
    """The log start moves by 20 offsets every two hours; the hour begins at offset 100, and goes with the
    sixth move. Between two moves the pace seems to fall to half."""
    watcher, endless = Watcher("6h"), {"retention.ms": "-1", "retention.bytes": "-1"}
    for half_hours in range(4 * 7):
        now, moved = TEN.add(hours=2, minutes=30 * half_hours), half_hours // 4
        statuses = (status(0, UnitState.MISSING),)
        watcher.sees(now, log_start=20 * moved, settings=endless, statuses=statuses)
    assert watcher.heard == ["begins", "over"]
