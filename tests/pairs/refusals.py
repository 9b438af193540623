"""Options that may not stand together, and tables that may not be loaded together: each with its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Refusal:
    """`spec`: the pipeline file's parts that say both options, over those of a plain case. `{db}` is the
    case's database. `message` is a part of the answer."""

    one: str
    other: str
    spec: Mapping[str, Any]
    message: str


_FIELDS = {"type": {"field": "type"}, "time": {"field": "at"}}
_PROTO = {"protobuf": {"file": "event.proto", "message": "pairs.Event"}}
_SHARDS = [{"name": "s1", "connection": "pairs_s1"}, {"name": "s2", "connection": "pairs_s2"}]
_ROLLUP = {"from": "{db}.main", "sql": "any.sql"}

# The pipeline file is refused when it is read: nothing has been done yet.
BY_THE_FILE = (
    Refusal(
        "rows: array",
        "format: avro",
        {"event": {**_FIELDS, "rows": "array", "format": {"avro": "event.avsc"}}},
        "`rows` is for messages in JSON, not in avro",
    ),
    Refusal(
        "rows: array",
        "format: protobuf",
        {"event": {**_FIELDS, "rows": "array", "format": _PROTO}},
        "`rows` is for messages in JSON, not in protobuf",
    ),
    Refusal(
        "mask",
        "format: avro",
        {"event": {**_FIELDS, "format": {"avro": "event.avsc"}}, "mask": {"user": "drop"}},
        "is for messages in JSON: of avro the lake keeps each message's own bytes",
    ),
    Refusal(
        "no schema file",
        "no registry",
        {"event": {**_FIELDS, "format": "avro"}},
        "`format: avro` needs a schema file or a `registry`",
    ),
    Refusal(
        "type by field",
        "type by topic",
        {"event": {**_FIELDS, "type": {"field": "type", "topic": True}}},
        "expected exactly one of {field: …}, {header: …}, {topic: true}",
    ),
    Refusal(
        "time by field",
        "time by record",
        {"event": {**_FIELDS, "time": {"field": "at", "record": True}}},
        "expected exactly one of {field: …, format: …} and {record: true}",
    ),
    Refusal(
        "connection",
        "shards",
        {"clickhouse": {"connection": "pairs_s1", "shards": _SHARDS}},
        "expected `connection` or `shards`, not both",
    ),
    Refusal(
        "shard_by",
        "no shards",
        {"clickhouse": {"connection": "pairs_s1", "shard_by": "id"}},
        "`shard_by` is for `shards`, and there are none",
    ),
    Refusal(
        "named_collection",
        "lake in a folder",
        {"clickhouse": {"connection": "pairs_s1", "named_collection": "lake"}},
        "clickhouse.named_collection: is for a lake in S3",
    ),
    Refusal(
        "counts",
        "a table that takes events",
        {"counts": [{"table": "{db}.main"}]},
        "expected a table of its own for each, which takes no events",
    ),
    Refusal(
        "rollup",
        "a table that takes events",
        {"rollups": {"{db}.bids": _ROLLUP}},
        "takes events or counts already",
    ),
    Refusal(
        "rollup",
        "from another rollup",
        {"rollups": {"{db}.first": _ROLLUP, "{db}.more": {**_ROLLUP, "from": "{db}.first"}}},
        "expected a table of events or counts",
    ),
    Refusal(
        "slice: 50m",
        "days of 24 hours",
        {"slice": "50m"},
        "expected 15m … 1d, a multiple of 15m that divides the day",
    ),
)

_TOTALS = (
    "CREATE TABLE {db}.totals (_slice DateTime('UTC'), _cluster LowCardinality(String), id UInt64) "
    "ENGINE = MergeTree ORDER BY id"
)
_FEEDS = (
    "CREATE MATERIALIZED VIEW {{db}}.from_{0} TO {{db}}.{1} AS SELECT _slice, _cluster, id FROM {{db}}.{0}"
)


@dataclass(frozen=True)
class Entangled:
    """Tables of which a load of one would delete or double rows of another. The answer has one of `named`."""

    name: str
    statements: tuple[str, ...]
    targets: tuple[str, ...]  # whose load is refused
    named: tuple[str, ...]


BY_THE_TABLES = (
    Entangled(
        "two targets' views into one table",
        (_TOTALS, _FEEDS.format("main", "totals"), _FEEDS.format("bids", "totals")),
        ("main", "bids"),
        ("totals",),
    ),
    Entangled(
        "a target that another target's view feeds",
        (_FEEDS.format("main", "bids"),),
        ("main", "bids"),
        ("bids",),
    ),
    Entangled(
        "a view that computes `_slice`",
        (
            _TOTALS,
            "CREATE MATERIALIZED VIEW {db}.from_main TO {db}.totals AS "
            "SELECT toStartOfDay(_slice) AS _slice, _cluster, id FROM {db}.main",
        ),
        ("main",),
        ("from_main", "totals"),
    ),
    Entangled(
        "a second view into the table, which does not select `_cluster`",
        (
            _TOTALS,
            _FEEDS.format("main", "totals"),
            "CREATE MATERIALIZED VIEW {db}.second TO {db}.totals AS SELECT _slice, id FROM {db}.main",
        ),
        ("main",),
        ("second", "totals"),
    ),
    Entangled(
        "a view that computes `_cluster`",
        (
            _TOTALS,
            "CREATE MATERIALIZED VIEW {db}.from_main TO {db}.totals AS SELECT _slice, 'all' AS _cluster, id "
            "FROM {db}.main",
        ),
        ("main",),
        ("from_main", "totals"),
    ),
)
