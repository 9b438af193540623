"""Hours as partitions, with Airflow's scheduler and the guide's example DAGs as they are printed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.hour_consumers import CONSUMERS, DAILY, HOURLY, Consumers, consumers

pytestmark = pytest.mark.integration

TABLES = ("ads.bids", "ads.clicks")


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consumers]:
    with consumers(tmp_path_factory.mktemp("hours")) as there:
        yield there


def hours(day: str, *numbers: int) -> list[str]:
    return [f"{day}T{number:02}" for number in numbers]


def test_the_guide_has_two_examples():
    assert [sample.file for sample in CONSUMERS] == [f"dags/{HOURLY}.py", f"dags/{DAILY}.py"]


@pytest.mark.long
def test_an_hour_runs_once_and_a_day_when_its_last_hour_came(airflow: Consumers):
    """The last hour is late: the day's 24 are whole with hour 7."""
    day = "2026-11-20"
    on_time = hours(day, *range(7), *range(8, 24))
    airflow.announce("on_time", on_time)
    assert airflow.events() == sorted(
        [(f"sluice://ads/{t}/hours", f"{hour}:00:00", {}) for t in TABLES for hour in on_time]
        + [(f"sluice://ads/{t}", None, {"slices": {"2026-11-20T10Z": 1}}) for t in TABLES],
        key=str,
    )
    airflow.wait_for_runs(HOURLY, on_time, day)
    assert (airflow.runs(DAILY), airflow.pending(DAILY)) == ([], [day])

    airflow.announce("late", hours(day, 7))
    airflow.wait_for_runs(DAILY, [day])
    airflow.wait_for_runs(HOURLY, [*on_time, *hours(day, 7)], day)
    assert (airflow.pending(HOURLY), airflow.pending(DAILY)) == ([], [])
    assert airflow.runs("by_asset") == []


@pytest.mark.long
def test_an_hour_that_is_landed_again_runs_again_and_its_day_only_as_a_whole(airflow: Consumers):
    day = "2026-11-21"
    airflow.announce("first", hours(day, *range(24)))
    airflow.wait_for_runs(DAILY, [day], day)
    airflow.wait_for_runs(HOURLY, hours(day, *range(24)), day)

    airflow.announce("relanded", hours(day, 7))
    airflow.wait_for_runs(HOURLY, [*hours(day, *range(24)), *hours(day, 7)], day)
    assert (airflow.runs(DAILY, day), airflow.pending(DAILY, day)) == ([day], [day])

    airflow.announce("whole_day", hours(day, *range(24)))
    airflow.wait_for_runs(DAILY, [day, day], day)
    assert airflow.pending(DAILY, day) == []


@pytest.mark.long
def test_a_publish_without_a_whole_hour_sends_only_the_plain_events(airflow: Consumers):
    before = airflow.last_event()
    airflow.announce("nothing", [])
    extra = {"slices": {"2026-11-20T10Z": 1}}
    assert airflow.events(before) == [(f"sluice://ads/{table}", None, extra) for table in TABLES]


@pytest.mark.long
def test_two_halves_of_an_hour_wait_until_both_are_announced_again(airflow: Consumers):
    """What 71070 of Airflow leaves; it is written here, for SQLite cannot make it."""
    day = "2026-11-22"
    (hour,) = hours(day, 5)
    airflow.leave_halves(HOURLY, hour, f"{hour}:00:00", [f"sluice://ads/{table}/hours" for table in TABLES])
    airflow.announce("other_hour", hours(day, 6))  # the scheduler has looked at both halves
    airflow.wait_for_runs(HOURLY, hours(day, 6), day)
    assert airflow.pending(HOURLY, day) == [hour, hour]

    airflow.announce("again", [hour])
    airflow.wait_for_runs(HOURLY, hours(day, 6, 5), day)
    assert airflow.pending(HOURLY, day) == [hour]
