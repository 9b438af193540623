"""What doctor says of times that lack an offset, and of numbers in another unit than the file says."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sluice.clients.clickhouse.tables import Column
from sluice.clients.kafka.topics import SampledRecord
from sluice.config.target import Target
from sluice.doctor.check import Level
from sluice.doctor.events import parse, sample_checks, time_checks
from tests.unit.doctor.test_doctor_kafka import pipeline as spec

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
AT = Column("at", "Array(Nullable(DateTime64(3, 'UTC')))")


def warnings(checks) -> list[str]:
    return [f"{check.finding}; {check.remedy}" for check in checks if check.level is Level.WARN]


def of_column(times: dict, value: object) -> list[str]:
    target = Target(table="db.t", types=("a",), times=times)
    return warnings(time_checks(target, [AT, Column("n", "UInt8")], [{"at": value, "n": 1}], NOW))


def test_a_column_of_times_without_an_offset():
    [said] = of_column({}, ["2026-11-20T10:00:00"])
    assert said.startswith(
        "column at: times such as 2026-11-20T10:00:00 have no offset: they are read as UTC; "
    )
    assert "`times: {at: …}`: `zone: Europe/Berlin` or `zone: UTC`" in said
    assert of_column({"at": {"zone": "UTC"}}, ["2026-11-20T10:00:00"]) == []
    assert of_column({}, ["2026-11-20T10:00:00Z", "2026-11-20", 1_795_168_800]) == []


def test_a_column_of_numbers_in_another_unit():
    [said] = of_column({"at": {"format": "epoch_ms"}}, [1_795_168_800])
    assert "are decades away: 1970-01-21" in said
    assert said.endswith(["they are probably seconds: set `format: epoch_s` under `times.at`"][-1])
    assert of_column({"at": {"format": "epoch_s"}}, [1_795_168_800]) == []


@pytest.mark.parametrize(
    ("value", "shown", "unit"),
    [([1_795_168_800, -86_400], "-86400", "epoch_s"), ("17951688000", "17951688000", "epoch_ms")],
)
def test_a_column_of_numbers_without_a_unit(value, shown, unit):
    assert of_column({}, value) == [
        f"column at: the size of numbers such as {shown} says no unit; "
        f"name it: `times: {{at: {{format: {unit}}}}}`"
    ]
    assert not any("says no unit" in line for line in of_column({"at": {"format": unit}}, value))
    assert of_column({}, [0, 20_261_120, "1795168800"]) == []


@pytest.mark.parametrize(("zone", "said"), [(None, 1), ("UTC", 0), ("Europe/Berlin", 0)])
def test_event_times_without_an_offset(zone, said):
    pipeline = spec(event={"type": {"topic": True}, "time": {"field": "at", "zone": zone}})
    value = b'{"at": "2026-11-20T12:00:00"}'
    sample = parse(pipeline.event, [SampledRecord("t", 0, 0, 0, value, ())])
    lines = [line for line in warnings(sample_checks(pipeline, sample, NOW)) if "offset" in line]
    assert len(lines) == said
