"""An hour that fails for one cause lands and loads, and then the run says so until it is repaired."""

from __future__ import annotations

import json

import pytest

from sluice.cli.commands import commands
from sluice.clients.lake.open import open_lake
from sluice.errors import MostlyRejected
from sluice.flow import steps
from sluice.flow.verify.audit import audit
from tests.support.spark_world import START, SparkWorld, hours

pytestmark = pytest.mark.integration

MS = int(START.add(minutes=70).timestamp() * 1000)


def event(n: object, at: object) -> bytes:
    return json.dumps({"n": n, "at": at}).encode()


def done(pipeline, slices) -> list[str]:
    """Verifies and publishes, as a run does; the slices that were published."""
    statuses = steps.verify_range(pipeline, slices)
    return sorted({one["slice"] for one in steps.publish_range(pipeline, slices, statuses)})


def marked(pipeline) -> set[str]:
    """The hours that have _SUCCESS."""
    keys = [key for key in open_lake(pipeline).list("type=") if key.endswith("_SUCCESS")]
    return {key.split("hour=")[1][:2] for key in keys}


def test_an_hour_that_fails_for_one_cause_is_not_complete(spark_world: SparkWorld, capsys):
    topic = spark_world.topic("t")
    table = spark_world.table("t", "n UInt8, _offset Int64")
    right = f"{START.add(minutes=1):%Y-%m-%dT%H:%M:%S}Z"
    spark_world.send(topic, [event(n, right) for n in range(3)], minute=1)
    spark_world.send(topic, [event(n, MS) for n in range(3)], minute=70)
    spark_world.send(topic, [event("x", right), event("y", right), event(3, right)], minute=130)
    spec = {
        "kafka": spark_world.cluster(topic),
        "event": {"type": {"topic": True}, "time": {"field": "at"}},
        "tables": {topic: table},
        "max_late": "7d",
        "grace": "0s",
    }
    spec["event"]["time"]["format"] = "iso8601"
    pipeline = spark_world.pipeline(**spec, rejected={})
    slices = hours(0, 3)
    found = spark_world.run(pipeline, slices)
    assert [(one.kind, one.slice, one.seen) for one in found] == [
        (
            "mostly rejected",
            hours(1, 2).start.strftime("%Y-%m-%dT%HZ"),
            "3 of 3 records (100 %): time not understood",
        ),
        (
            "mostly rejected",
            hours(2, 3).start.strftime("%Y-%m-%dT%HZ"),
            "2 of 3 rows (66.7 %): n does not fit",
        ),
    ]
    rows = f"SELECT count() FROM {table}"
    assert spark_world.client.rows(rows) == [(4,)]
    first = START.strftime("%Y-%m-%dT%HZ")
    for _ in range(2):  # the same run says it again
        assert done(pipeline, slices) == [first]
        with pytest.raises(
            MostlyRejected, match=r"3 of 3 records \(100 %\): time not understood \(and 1 more\)"
        ):
            steps.refuse_rejected(pipeline, slices)
    steps.refuse_rejected(pipeline, hours(0, 1))
    raised = spark_world.pipeline(**spec, rejected={"fail_above": 0.7})
    done(raised, slices)
    with pytest.raises(MostlyRejected, match="not understood; "):
        steps.refuse_rejected(raised, slices)

    spec["event"]["time"]["format"] = "epoch_ms"
    fixed = spark_world.pipeline(**spec, rejected={"fail_above": 0.7})
    words = ["rejected", fixed.name, "--config", str(fixed.config), *slices.words, "--retry", "--yes"]
    with pytest.raises(SystemExit) as ended:
        commands([*words, "--reason", "time not understood"])
    assert ended.value.code in (0, None), capsys.readouterr()
    assert spark_world.client.rows(rows) == [(7,)]
    assert audit(fixed, slices).anomalies == []
    assert len(done(fixed, slices)) == 3
    steps.refuse_rejected(fixed, slices)
