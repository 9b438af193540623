"""What is expected of a slice, with values from arithmetic on paper, and its band over simulated months."""

from __future__ import annotations

import math
import random

import pytest

from sluice.watch.expected import DAY, DAYS_NEEDED, LEAST_BURST, NARROWEST, WIDTH, Habit, expected, habit_of

HOUR = 3600
AT = 1_800_000_000 // DAY * DAY + 9 * HOUR


def smallest_volume(drop: float, certainty: float = 3.0) -> float:
    """Returns how many rows a slice has to have so that `drop` (a share above NARROWEST) of them is below the
    band, where records come independently: `certainty` standard deviations of the remaining count are below
    it, too.

    With n rows the remaining count deviates by sqrt((1 - drop) * n), and the expected one by sqrt(n / 4).
    """
    deviation = math.sqrt((1 - drop) + (1 - drop) ** 2 / 4)
    return max(
        ((WIDTH * math.sqrt(LEAST_BURST) + certainty * deviation) / drop) ** 2,
        (certainty * deviation / (drop - NARROWEST)) ** 2,
    )


def weekly(*rows: int | None) -> dict[int, int]:
    """The same hour, one week ago first."""
    return {AT - 7 * (n + 1) * DAY: count for n, count in enumerate(rows) if count is not None}


def test_three_of_four_same_weekdays_are_the_mean() -> None:
    known = weekly(100, 200, None, 600) | {AT - DAY: 9_999}
    found = expected(AT, known)
    assert found is not None
    assert (found.count, found.days) == (300.0, (AT - 7 * DAY, AT - 14 * DAY, AT - 28 * DAY))


def test_fewer_weeks_are_the_mean_of_the_last_seven_days() -> None:
    known = weekly(70, 999) | {AT - DAY: 10, AT - 2 * DAY: 40}
    found = expected(AT, known)
    assert found is not None
    assert (found.count, found.low, found.high) == (40.0, None, None)


def test_without_an_earlier_day_nothing_is_expected() -> None:
    assert expected(AT, {AT: 5, AT - HOUR: 7, AT - 8 * DAY: 7}) is None


def test_the_band_is_the_habit_around_the_mean() -> None:
    known = weekly(10_000, 10_000, 10_000, 10_000)
    quiet = expected(AT, known, Habit(centre=1.0, burst=1.25, noise=0.0))
    loud = expected(AT, known, Habit(centre=0.9, burst=1.25, noise=0.01))
    assert quiet is not None
    assert (quiet.low, quiet.high) == (7_500.0, 12_500.0)
    assert loud is not None
    width = 4.5 * math.sqrt(1.25 / 10_000 + 0.01)
    assert loud.low == pytest.approx(10_000 * (0.9 - width))
    assert loud.high == pytest.approx(10_000 * (0.9 + width))


def test_a_peak_of_one_week_does_not_raise_the_lower_edge() -> None:
    found = expected(AT, weekly(1_000, 1_000, 1_000, 9_000), Habit(1.0, 1.25, 0.0))
    assert found is not None
    assert (found.count, found.low) == (3_000.0, 750.0)


def test_there_is_no_band_for_days_of_other_weekdays_or_of_nothing() -> None:
    habit = Habit(1.0, 1.25, 0.0)
    for known in ({AT - DAY: 100, AT - 2 * DAY: 100, AT - 3 * DAY: 100}, weekly(0, 0, 0, 0)):
        found = expected(AT, known, habit)
        assert found is not None
        assert found.low is None


def month(
    seed: int, rows: float, days: int, noise: float = 0.03, weekly_growth: float = 0.0
) -> dict[int, int]:
    """Rows by hour: `rows` in the quietest hour of a working day and four times as many in the busiest, two
    thirds at weekends; noise that lasts for hours and for days, and counts of independent records."""
    dice, found = random.Random(seed), {}
    hourly = daily = 0.0
    for n in range(days * 24):
        daily = dice.gauss(0, noise / 2) if n % 24 == 0 else daily
        hourly = 0.6 * hourly + 0.8 * dice.gauss(0, noise)
        shape = (1 + 0.6 * math.sin((n % 24 - 9) * math.pi / 12)) / 0.4 * (0.67 if n // 24 % 7 >= 5 else 1)
        mean = rows * shape * math.exp(hourly + daily + weekly_growth * n / 168)
        found[n * HOUR] = max(round(dice.gauss(mean, math.sqrt(mean))), 0)
    return found


def test_a_band_needs_four_weeks() -> None:
    known = month(1, 1_000, 60)
    for days, there in ((DAYS_NEEDED - 1, False), (DAYS_NEEDED, True), (60, True)):
        part = {at: rows for at, rows in known.items() if at < days * DAY}
        assert (habit_of(part, days * DAY) is not None) is there, days


@pytest.mark.parametrize("growth", [-0.05, 0.0, 0.05])
@pytest.mark.parametrize("rows", [3, 60, 1_000, 40_000])
@pytest.mark.parametrize("seed", range(3))
def test_a_quiet_month_is_within_its_band(seed: int, rows: int, growth: float) -> None:
    """72 days: the first 42 are known, each hour of the 30 after them is compared with those before it."""
    known, outside, judged = month(seed, rows, 72, weekly_growth=growth), [], 0
    for day in range(42, 72):
        habit = habit_of(known, day * DAY)
        for at in range(day * DAY, (day + 1) * DAY, HOUR):
            found = expected(at, known, habit)
            assert found is not None
            assert found.low is not None
            judged += 1
            if known[at] < found.low:
                outside.append((at, known[at], found))
    assert (judged, outside) == (720, [])


@pytest.mark.parametrize("seed", range(3))
def test_a_drop_of_two_fifths_is_below_the_band_at_every_hour(seed: int) -> None:
    """The quietest hour, a weekend's night, has two thirds of `rows`, so 2.7 times the smallest volume."""
    rows = 4 * smallest_volume(0.4)
    known, missed = month(seed, rows, 49), []
    dice, habit = random.Random(seed), habit_of(known, 42 * DAY)
    for at in range(42 * DAY, 49 * DAY, HOUR):
        left = sum(dice.random() >= 0.4 for _ in range(known[at]))
        found = expected(at, known, habit)
        assert found is not None
        assert found.low is not None
        if left >= found.low:
            missed.append((at, known[at], left, found))
    assert missed == []


def test_the_smallest_volume_is_what_arithmetic_says() -> None:
    """0.4 n = 4.5 sqrt(1.25 n) + 3 sqrt(0.6 n + 0.09 n) has the root n = 354.2."""
    n = smallest_volume(0.4)
    assert 0.4 * n == pytest.approx(4.5 * math.sqrt(1.25 * n) + 3 * math.sqrt(0.69 * n))
    assert 350 < n < 360
    assert smallest_volume(0.5) < n < smallest_volume(0.3)
