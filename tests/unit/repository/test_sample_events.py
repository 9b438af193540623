"""The demo's events: the same for the same hour, in their hour, and not all sound."""

import json
from datetime import UTC, datetime

import pytest

from local.sample_events import BROKEN_EVERY, HOUR, MISFIT_EVERY, hours_between, late, on_time, whole_hour

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def events(lines):
    return [json.loads(line) for line in lines]


def times(lines):
    return [datetime.fromisoformat(event["timestamp"]) for event in events(lines)]


def test_an_hour_is_the_same_whenever_it_is_made():
    assert list(on_time(NOON, 500)) == list(on_time(NOON, 500))
    assert list(on_time(NOON, 500)) != list(on_time(NOON + HOUR, 500))


def test_events_are_in_their_hour_and_in_order():
    found = times(on_time(NOON, 500))
    assert found == sorted(found)
    assert found[0] >= NOON
    assert found[-1] < NOON + HOUR


def test_late_events_are_of_the_hour_before():
    found = times(late(NOON, 1000))
    assert len(found) == 20
    assert all(NOON - HOUR <= at < NOON for at in found)


def test_ids_are_unique_over_hours():
    ids = [
        event["id"] for hour in (NOON, NOON + HOUR) for event in events([*on_time(hour, 2000), *late(hour)])
    ]
    assert len(set(ids)) == len(ids)


def test_some_are_misfits_and_some_are_broken():
    found = events(on_time(NOON, 20_000))
    broken = sum("type" not in event for event in found)
    misfits = sum(event.get("price") == "free" for event in found)
    assert broken == 20_000 // BROKEN_EVERY
    assert misfits == 20_000 // MISFIT_EVERY - broken


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20T12Z", NOON),
        ("2026-11-20T12:59", NOON),
        ("2026-11-20T13:10+01:00", NOON),
    ],
)
def test_an_instant_is_cut_to_its_hour(text: str, expected: datetime):
    assert whole_hour(text) == expected


def test_the_end_of_a_range_is_not_in_it():
    assert hours_between(NOON, NOON + 2 * HOUR) == [NOON, NOON + HOUR]
