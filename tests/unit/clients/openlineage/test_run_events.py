"""An event as it is sent, word by word, and valid by the specification's own schemas."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from openlineage.client.serde import Serde

from sluice import __version__
from sluice.clients.openlineage.delivery import (
    ColumnSource,
    Dataset,
    DatasetName,
    Datasets,
    JobKind,
    LineageEvent,
    Offsets,
    Parent,
    RunOfJob,
    RunState,
)
from sluice.clients.openlineage.open_client import run_event
from tests.support.lineage_server import check_event

RUN, PARENT, ROOT = (f"0194a7b2-0000-7000-8000-00000000000{number}" for number in (1, 2, 3))
TOPIC = DatasetName("kafka://broker:9092", "bids")
LAKE = DatasetName("s3://lake", "adx")
TABLE = DatasetName("clickhouse://db:8123", "ads.bids")


def at(hour: int) -> datetime:
    return datetime(2026, 11, 20, hour, tzinfo=UTC)


def sent(state: RunState, datasets: Datasets, **more: object) -> dict:
    run = RunOfJob("prod", "sluice.adx.load.ads.bids", RUN)
    parents = Parent(RunOfJob("prod", "adx.batch.load", PARENT), RunOfJob("prod", "adx", ROOT))
    event = LineageEvent(state, at(12), run, JobKind.STEP, at(10), at(11), parents, datasets, **more)
    found = json.loads(Serde.to_json(run_event(event)))
    check_event(found)
    return found


_META = ("_producer", "_schemaURL")


def without_schemas(value: object) -> object:
    """The facets without `_producer` and `_schemaURL`, which check_event has followed."""
    if isinstance(value, dict):
        return {key: without_schemas(one) for key, one in value.items() if key not in _META}
    return [without_schemas(one) for one in value] if isinstance(value, list) else value


def test_a_load():
    columns = (("id", "UInt64"), ("country", "LowCardinality(String)"))
    sources = {
        "id": ColumnSource(LAKE, ("user.id",), cast="UInt64"),
        "_offset": ColumnSource(LAKE, ("_offset",)),
    }
    made = Dataset(TABLE, rows=41, columns=columns, sources=sources)
    found = sent(RunState.COMPLETE, Datasets((Dataset(LAKE),), (made,)))
    assert found["producer"] == f"urn:sluice:{__version__}"
    assert found["eventTime"] == "2026-11-20T12:00:00.000Z"
    assert found["eventType"] == "COMPLETE"
    assert (found["job"]["namespace"], found["job"]["name"]) == ("prod", "sluice.adx.load.ads.bids")
    run = without_schemas(found["run"])
    assert run["runId"] == RUN
    assert run["facets"]["nominalTime"] == {
        "nominalStartTime": "2026-11-20T10:00:00.000Z",
        "nominalEndTime": "2026-11-20T11:00:00.000Z",
    }
    parent = run["facets"]["parent"]
    assert (parent["run"]["runId"], parent["job"]["name"]) == (PARENT, "adx.batch.load")
    assert (parent["root"]["run"]["runId"], parent["root"]["job"]["name"]) == (ROOT, "adx")
    [output] = without_schemas(found["outputs"])
    assert (output["namespace"], output["name"]) == TABLE
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 41
    assert [(one["name"], one["type"]) for one in output["facets"]["schema"]["fields"]] == list(columns)
    [one] = output["facets"]["columnLineage"]["fields"]["id"]["inputFields"]
    assert (one["namespace"], one["name"], one["field"]) == (*LAKE, "user.id")
    assert one["transformations"][0]["description"] == "as UInt64, or the row is a rejected row"
    [copied] = output["facets"]["columnLineage"]["fields"]["_offset"]["inputFields"]
    assert copied["transformations"][0]["subtype"] == "IDENTITY"


def test_a_landing_says_its_offsets_by_partition():
    read = Dataset(TOPIC, rows=30, offsets=(Offsets(0, 5, 25), Offsets(3, 0, 10)))
    found = sent(RunState.COMPLETE, Datasets((read,), (Dataset(LAKE, rows=29, size=4_096, files=2),)))
    [topic] = without_schemas(found["inputs"])
    assert topic["inputFacets"]["sluice_offsets"]["partitions"] == [
        {"partition": 0, "from": 5, "until": 25},
        {"partition": 3, "from": 0, "until": 10},
    ]
    assert topic["inputFacets"]["inputStatistics"]["rowCount"] == 30
    [lake] = without_schemas(found["outputs"])
    counts = lake["outputFacets"]["outputStatistics"]
    assert (counts["rowCount"], counts["size"], counts["fileCount"]) == (29, 4_096, 2)


def test_a_failure_has_its_line():
    found = sent(RunState.FAIL, Datasets((Dataset(TOPIC),)), error="Kafka cluster 'dc1' does not answer")
    message = found["run"]["facets"]["errorMessage"]
    assert (message["message"], "stackTrace" in message) == ("Kafka cluster 'dc1' does not answer", False)


def test_what_could_not_be_read_of_a_step_is_said():
    found = sent(RunState.COMPLETE, Datasets(), unread="lake s3://lake does not answer")
    [error] = found["run"]["facets"]["extractionError"]["errors"]
    assert error["errorMessage"] == "lake s3://lake does not answer"
