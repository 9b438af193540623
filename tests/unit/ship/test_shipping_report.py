"""What a shipment says where the pipeline file and its lines do not go together."""

from __future__ import annotations

import pytest

from sluice.config.event import Event
from sluice.ship.shipment import ShipmentEnd, ShipReport, untimed

REMEDY = (
    "correct event.time or event.rows in the pipeline file, and publish the lines again (a file with --again)"
)


def report(events: int, no_time: int, time_refused: int, stamped_now: int) -> ShipReport:
    return ShipReport(
        "dc1", "orders", ShipmentEnd.DONE, events, 9, events, 0, no_time, time_refused, stamped_now, 0, 0, 1.0
    )


def event(rows: str = "one", **time: object) -> Event:
    return Event.model_validate({"type": {"topic": True}, "time": time, "rows": rows})


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (
            event(field="meta.at"),
            "no line has a time in the field meta.at: all 1,200 records have the current time, "
            f"and are not in their events' hours; {REMEDY}",
        ),
        (
            event("array", field="at", format="epoch_ms"),
            "no line has a time in the field at (epoch_ms) of an array's elements: all 1,200 records have "
            f"the current time, and are not in their events' hours; {REMEDY}",
        ),
    ],
)
def test_lines_of_which_none_has_a_time(source: Event, line: str):
    assert untimed(report(1200, 1200, 0, 1200), source) == line


@pytest.mark.parametrize(
    "found",
    [
        report(0, 0, 0, 0),
        report(1200, 0, 0, 0),
        report(1200, 1199, 0, 0),
        report(1200, 1199, 0, 600),  # one of two files has a time
        report(1200, 1199, 1, 1200),  # its time is understood, and the topic does not take it
        report(1200, 1200, 0, 0),  # the rest of a file: they have the time of the line before
    ],
)
def test_nothing_is_said_of_other_lines(found: ShipReport):
    assert untimed(found, event(field="at")) is None


def test_nothing_is_said_where_the_record_has_the_time():
    assert untimed(report(5, 5, 0, 5), event(record=True)) is None
