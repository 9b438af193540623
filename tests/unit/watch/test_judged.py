"""Which slices are judged, by hand; and watches that miss ten hours of simulated months."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache

import pendulum
import pytest

from sluice.slices import Slice
from sluice.watch.expected import HISTORY_DAYS, RowHistory, SliceRows
from sluice.watch.problems import WatchState, decide, decode, encode, first_judged, to_judge
from sluice.watch.rules import too_few
from tests.unit.doctor.test_doctor_kafka import pipeline
from tests.unit.watch.test_expected import month

VOLUMES = {"bid": 20_000, "click": 1_500}
KNOWN = HISTORY_DAYS * 24
DAY = pendulum.datetime(2026, 11, 20)


def hours(first: int, last: int) -> list[Slice]:
    """Slices from one hour of DAY to another, both included; 24 is the next day's first."""
    return [Slice(DAY.add(hours=n)) for n in range(first, last + 1)]


def judged(known: list[Slice], before: dict[str, str]) -> list[int]:
    return [int((one.start - DAY).total_seconds()) // 3600 for one in to_judge(known, before)]


def test_a_watch_after_each_hour_judges_the_newest_three() -> None:
    before = first_judged(hours(0, 9), {})
    for last in range(10, 40):
        assert judged(hours(0, last), before) == [last - 2, last - 1, last]
        before = first_judged(hours(0, last), before)


def test_the_first_watch_takes_earlier_hours_for_judged() -> None:
    assert judged(hours(0, 20), {}) == [18, 19, 20]
    before = first_judged(hours(0, 20), {})
    assert judged(hours(0, 20), before) == [18, 19, 20]
    assert judged(hours(0, 21), before) == [19, 20, 21]


def test_hours_without_a_watch_are_judged_until_three_more_have_come() -> None:
    before = first_judged(hours(0, 5), {})
    for last, expected in [
        (16, [*range(6, 17)]),
        (16, [*range(6, 17)]),
        (17, [*range(6, 18)]),
        (18, [*range(6, 19)]),
        (19, [17, 18, 19]),
    ]:
        assert judged(hours(0, last), before) == expected
        before = first_judged(hours(0, last), before)


def test_no_more_than_a_day_is_judged_and_remembered() -> None:
    before = first_judged(hours(0, 5), {})
    assert judged(hours(0, 60), before) == [*range(37, 61)]
    assert len(first_judged(hours(0, 60), before)) == 24


def test_an_hour_that_lands_late_is_judged_once() -> None:
    """Hours 6 and 7 land after hour 12."""
    late = [*hours(0, 5), *hours(8, 12)]
    before = first_judged(late, first_judged(hours(0, 5), {}))
    before = first_judged(hours(0, 15), first_judged([*late, *hours(13, 15)], before))
    assert judged(hours(0, 15), before) == [6, 7, 13, 14, 15]
    assert judged(hours(0, 18), first_judged(hours(0, 18), before)) == [16, 17, 18]


def test_days_are_slices_too() -> None:
    days = [Slice(DAY.add(days=n), timedelta(days=1)) for n in range(9)]
    before = first_judged(days[:4], {})
    assert to_judge(days[:5], before) == days[2:5]
    assert to_judge(days, before) == days[6:]


def test_without_slices_nothing_is_judged_or_forgotten() -> None:
    assert to_judge([], {"a": "b"}) == []
    assert first_judged([], {"a": "b"}) == {"a": "b"}


def test_the_lake_keeps_what_was_judged() -> None:
    known = WatchState(judged=first_judged(hours(0, 5), {}))
    assert decode(encode(known), "") == known
    assert decode(b'{"alarms": {}}', "").judged == {}


@dataclass
class Watches:
    """Watches of one pipeline: `rows` of each hour by type, from the first on; what they have raised."""

    rows: list[dict[str, int]]
    state: WatchState = field(default_factory=WatchState)
    raised: list[tuple[int, str]] = field(default_factory=list)

    def run(self, until: int) -> list[str]:
        """Runs a watch when the hours before number `until` have landed; returns the problems it sees."""
        slices = {
            Slice(DAY.add(hours=n)): SliceRows(sum(self.rows[n].values()), self.rows[n])
            for n in range(max(until - KNOWN, 0), until)
        }
        found = list(too_few(pipeline(), RowHistory(slices), to_judge(slices, self.state.judged)))
        alarms = decide(found, self.state.alarms, (), str(until))
        self.raised += [(until, a.problem.place) for k, a in alarms.items() if k not in self.state.alarms]
        self.state = WatchState(alarms, judged=first_judged(slices, self.state.judged))
        return [problem.place for problem in found]


@cache
def quiet(seed: int, days: int) -> tuple[dict[str, int], ...]:
    """Rows of each hour by type: noise, and no drop."""
    series = {name: month(seed * 10 + n, rows, days) for n, (name, rows) in enumerate(VOLUMES.items())}
    return tuple({name: series[name][n * 3600] for name in VOLUMES} for n in range(days * 24))


def traffic(seed: int, days: int) -> list[dict[str, int]]:
    return list(quiet(seed, days))


def test_a_quiet_month_is_quiet_for_a_watch_that_misses_ten_hours_again_and_again() -> None:
    watches = Watches(traffic(1, HISTORY_DAYS + 30))
    ends = range(KNOWN, KNOWN + 30 * 24 + 1, 11)
    assert [(until, found) for until in ends if (found := watches.run(until))] == []
    assert len(ends) == 66


@pytest.mark.parametrize("missed", [0, 10])
def test_a_drop_while_no_watch_ran_is_told_by_the_next_and_once(missed: int) -> None:
    """One type is two fifths short in one hour. The watch runs before it, and then `missed` hours late."""
    dice = random.Random(missed)
    for n, name in enumerate(VOLUMES):
        drop = KNOWN + 5 + n * 9
        rows = traffic(2, HISTORY_DAYS + 3)
        rows[drop] = rows[drop] | {name: sum(dice.random() >= 0.4 for _ in range(rows[drop][name]))}
        watches, place = Watches(rows), f"type {name}"
        for until in range(drop - 3, drop + 1):
            assert watches.run(until) == []
        back = drop + 1 + missed
        assert [watches.run(back + later) for later in range(4)] == [[place], [place], [place], []]
        assert watches.run(back + 14) == []
        assert watches.raised == [(back, place)]


def test_what_was_over_before_the_watch_stopped_is_no_news() -> None:
    rows, drop = traffic(3, HISTORY_DAYS + 3), KNOWN + 4
    rows[drop] = rows[drop] | {"click": rows[drop]["click"] // 2}
    watches = Watches(rows)
    for until in range(drop, drop + 5):
        watches.run(until)
    assert watches.run(drop + 15) == []
    assert watches.raised == [(drop + 1, "type click")]


@pytest.mark.parametrize(("ago", "there"), [(23, True), (24, False)])
def test_what_is_older_than_a_day_is_no_news(ago: int, there: bool) -> None:
    """The watch comes back after two days: `ago` hours before the newest one came too little."""
    rows = traffic(4, HISTORY_DAYS + 4)
    watches = Watches(rows)
    watches.run(KNOWN)
    drop = KNOWN + 48 - 1 - ago
    rows[drop] = rows[drop] | {"click": rows[drop]["click"] // 2}
    assert watches.run(KNOWN + 48) == (["type click"] if there else [])
