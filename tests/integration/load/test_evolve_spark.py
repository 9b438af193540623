"""`evolve: add` from Kafka through Spark to the table: all steps of a run, and a refill."""

from __future__ import annotations

import pytest

from sluice.clients.lake.open import open_lake
from sluice.state.additions import additions_in
from sluice.state.survey import survey
from tests.support.spark_world import SparkWorld, event, hours

pytestmark = pytest.mark.integration


@pytest.mark.long
def test_a_run_adds_the_column_and_a_refill_fills_the_hour_before(spark_world: SparkWorld):
    world = spark_world
    topic, table = world.topic("events"), world.table("clicks", "n UInt16, at DateTime64(3, 'UTC')")
    kafka = world.cluster(topic)
    how = {"type": {"topic": True}, "time": {"field": "at"}}
    target = {"table": table, "evolve": "add", "evolve_rows": 3}
    pipeline = world.pipeline(kafka=kafka, event=how, tables={topic: target})
    world.send(topic, [event(n=1, coupon="early"), event(n=2)])
    world.send(topic, [event(61, n=n, coupon=f"c{n}") for n in range(3, 7)], minute=61)
    assert world.run(pipeline, hours()) == []
    assert world.run(pipeline, hours(1, 2)) == []
    [manifest, _] = world.manifests(pipeline, hours(0, 2))
    assert [(one.exact, one.fields["coupon"].filled) for one in manifest.fields] == [(True, 1)]
    rows = "SELECT n, coupon FROM DB.clicks ORDER BY n"
    late = [(n, f"c{n}") for n in range(3, 7)]
    assert world.rows(rows) == [(1, None), (2, None), *late]
    lacking = [status.later for status in survey(pipeline, hours(0, 2))]
    assert lacking == [{table: {"coupon": 1}}, {}]
    assert world.run(pipeline, hours(0, 2), mode="reload --missing-columns") == []
    assert world.rows(rows) == [(1, "early"), (2, None), *late]
    assert [status.later for status in survey(pipeline, hours(0, 2))] == [{}, {}]
    [added] = additions_in(open_lake(pipeline), hours(0, 2))
    assert (added.column, added.type, added.filled, added.rows) == ("coupon", "Nullable(String)", 4, 4)
