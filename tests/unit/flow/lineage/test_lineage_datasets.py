"""Which datasets a step reads and writes, by the pipeline file and by what it did."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.tables import Column
from sluice.clients.openlineage.delivery import ColumnSource, Dataset, DatasetName, Datasets, Offsets
from sluice.flow.lineage import Places, StepFacts, datasets, lake_name
from sluice.manifest import OffsetRange
from tests.support.landing_world import pipeline

LAKE = DatasetName("file", "/data/lake")
SHARDS = ("clickhouse://a:8123", "clickhouse://b:8123")
SPEC = pipeline()
TABLE = SPEC.targets[0].table


def places(*servers: str) -> Places:
    topics = {
        (cluster.cluster, topic): DatasetName(f"kafka://{cluster.cluster}:9092", topic)
        for cluster in SPEC.kafka
        for topic in cluster.topics
    }
    return Places(topics, LAKE, servers or SHARDS[:1], opened=None)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("file:///data/lake/adx", ("file", "/data/lake/adx")),
        ("s3://bucket/a/b", ("s3://bucket", "a/b")),
        ("s3://bucket/", ("s3://bucket", "")),
    ],
)
def test_a_lake_is_named_by_the_rules_of_the_specification(url: str, name: tuple[str, str]):
    assert lake_name(url) == DatasetName(*name)


def test_a_resolved_range_has_each_partition_from_its_first_to_its_last_offset():
    [(cluster, topic), name] = next(iter(places().topics.items()))
    ranges = {
        cluster: [
            OffsetRange(topic, "u", 1, 7, 9),
            OffsetRange(topic, "u", 0, 10, 30),
            OffsetRange(topic, "u", 0, 5, 10),
            OffsetRange("another", "u", 0, 0, 99),
        ]
    }
    found = datasets("resolve", SPEC, places(), facts=StepFacts(ranges=ranges))
    read = next(one for one in found.inputs if one.at == name)
    assert read.offsets == (Offsets(0, 5, 30), Offsets(1, 7, 9))
    assert (read.rows, found.outputs) == (None, ())


def test_a_load_has_the_columns_that_it_fills_and_where_from():
    columns = [
        Column("id", "String"),
        Column("_offset", "Int64"),
        Column("made", "String", kind="MATERIALIZED", default="upper(id)"),
        Column("once", "String", kind="EPHEMERAL"),
    ]
    found = datasets("load", SPEC, places(), TABLE, StepFacts(rows=4, columns=columns))
    [output] = found.outputs
    assert found.inputs == (Dataset(LAKE),)
    assert output.at == DatasetName(SHARDS[0], TABLE)
    assert output.rows == 4
    assert output.columns == (("id", "String"), ("_offset", "Int64"), ("made", "String"))
    assert output.sources["id"] == ColumnSource(LAKE, ("id",), cast="String")
    assert output.sources["_offset"] == ColumnSource(LAKE, ("_offset",))
    assert "made" not in output.sources


def test_rows_of_several_shards_are_said_of_none_of_them():
    found = datasets("load", SPEC, places(*SHARDS), TABLE, StepFacts(rows=4))
    assert [(one.at, one.rows) for one in found.outputs] == [
        (DatasetName(server, TABLE), None) for server in SHARDS
    ]


def test_a_step_that_has_not_ended_has_names_alone():
    found = datasets("verify", SPEC, places())
    tables = {DatasetName(SHARDS[0], target.table) for target in SPEC.targets}
    assert {one.at for one in found.inputs} == {*places().topics.values(), LAKE, *tables}
    assert found.outputs == ()
    assert all(one == Dataset(one.at) for one in found.inputs)


def test_publish_writes_no_data():
    found = datasets("publish", SPEC, places())
    assert isinstance(found, Datasets)
    assert found.outputs == ()
