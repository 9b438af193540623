"""Hours that consumers are told of are in the tables. Lake and ClickHouse are real, all else in process."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta

import pytest

from sluice.flow.load.load import load
from sluice.flow.publish import proven_hours, publish_event_hours
from sluice.slices import SliceRange
from sluice.state.units import units_of
from tests.integration.backfilled import Backfilled
from tests.support.landing_world import START, hours

pytestmark = pytest.mark.integration

EARLY, GRACE = 2, 4


class Told(Backfilled):
    """Hour h waits for the slices from h - EARLY up to h + GRACE."""

    def __init__(self, *known: object) -> None:
        super().__init__(*known)
        self.pipeline = self.pipeline.model_copy(update={"grace": timedelta(hours=GRACE)})

    def told(self, slices: SliceRange) -> list[int]:
        return [(hour - START).in_hours() for hour in proven_hours(self.pipeline, slices)]

    def missing(self, hour: int) -> set[str]:
        """Ids of events of the hour that have come in time and are in no table."""
        start, end = START.add(hours=hour), START.add(hours=hour + 1 + GRACE).timestamp() * 1000
        records = (pair for log in self.world.logs["dc1", "bids"] for pair in log)
        found = [json.loads(value) for value, recorded in records if recorded < end]
        own = {e["id"] for e in found if start <= datetime.fromisoformat(e["at"]) < start.add(hours=1)}
        return own - set(self.loaded())


@pytest.fixture
def there(tmp_path, clickhouse_server, name, monkeypatch) -> Told:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    return Told(tmp_path, clickhouse_server, name, 7)


@pytest.mark.long
def test_hour_by_hour_each_is_told_once_and_is_there(there: Told):
    told = []
    for hour in range(12):
        there.run(hours(1, hour), "fill", f"t{hour}")
        told += there.told(hours(1, hour))
        assert [there.missing(one) for one in told] == [set()] * len(told)
    assert told == list(range(12 - GRACE))


@pytest.mark.long
def test_in_any_order_each_is_told_when_its_last_slice_is_loaded(there: Told):
    order = list(range(8))
    random.Random(3).shuffle(order)
    there.world.resolve(there.pipeline, there.lake, hours(8))
    told: list[int] = []
    for position, hour in enumerate(order):
        there.run(hours(1, hour), "fill", f"t{hour}")
        done = set(order[: position + 1])
        new = there.told(hours(1, hour))
        waits = {h: set(range(max(0, h - EARLY), h + 1 + GRACE)) for h in range(8 - GRACE)}
        assert new == [h for h, slices in waits.items() if hour in slices <= done]
        assert all(there.missing(one) == set() for one in new)
        told += new
    assert sorted(told) == list(range(8 - GRACE))


@pytest.mark.long
def test_a_slice_that_lacks_one_table_holds_back_its_hours_in_all(there: Told):
    """They have landed, and `_SUCCESS` is there."""
    late = 5
    there.run(hours(late), "fill", "a")
    there.run(hours(24 - late - 1, late + 1), "fill", "b")
    there.world.resolve(there.pipeline, there.lake, hours(24))
    there.world.land(there.pipeline, there.lake, hours(1, late), token="c")
    clicks, rest = there.pipeline.targets
    units = list(units_of(there.pipeline, hours(1, late)))
    load(there.pipeline, clicks, units, there.lake, there.client, mode="fill", token="c")

    last = 24 - GRACE
    held = range(late - GRACE, late + EARLY + 1)
    assert len(publish_event_hours(there.pipeline, there.lake, hours(24))) == last
    assert there.told(hours(24)) == [hour for hour in range(last) if hour not in held]
    assert any(there.missing(hour) for hour in held)
    load(there.pipeline, rest, units, there.lake, there.client, mode="fill", token="d")
    assert there.told(hours(1, late)) == list(held)
    there.run(hours(1, late), "reload", "e")
    assert there.told(hours(1, late)) == list(held)
