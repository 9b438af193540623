"""Each key of the pipeline file is a rule that a unit carries, makes a unit stale, or changes no row."""

from __future__ import annotations

from typing import Any

import pytest

from local.documents.pipeline_file import keys, sections
from sluice.config.mistakes import inner_model
from tests.support.landing_world import SPEC, pipeline
from tests.unit.state.test_differences import EVENT, TABLES, found

KAFKA = SPEC["kafka"][0]
AVRO = {**EVENT, "format": "avro", "registry": {"connection": "r"}}
COUNTED = {"table": "db.traffic", "by": {"country": "country"}}

# A change of each rule, and how the difference names it. `columns` and `missing` are those of the last load.
LANDING: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "kafka[].isolation": ("kafka.isolation", {}, {"kafka": [{**KAFKA, "isolation": "read_uncommitted"}]}),
    "event.type.field": ("event.type", {}, {"event": {**EVENT, "type": {"field": "kind"}}}),
    "event.type.header": ("event.type", {}, {"event": {**EVENT, "type": {"header": "kind"}}}),
    "event.type.topic": ("event.type", {}, {"event": {**EVENT, "type": {"topic": True}}}),
    "event.type.schema": (
        "event.type",
        {"event": AVRO},
        {"event": {**AVRO, "type": {"schema": True}}},
    ),
    "event.time.field": ("event.time", {}, {"event": {**EVENT, "time": {"field": "when"}}}),
    "event.time.format": (
        "event.time",
        {},
        {"event": {**EVENT, "time": {"field": "at", "format": "epoch_s"}}},
    ),
    "event.time.zone": (
        "event.time",
        {},
        {"event": {**EVENT, "time": {"field": "at", "zone": "Europe/Berlin"}}},
    ),
    "event.time.record": ("event.time", {}, {"event": {**EVENT, "time": {"record": True}}}),
    "event.rows.field": ("event.rows", {}, {"event": {**EVENT, "rows": {"field": "r"}}}),
    "event.rows.envelope": (
        "event.rows",
        {"event": {**EVENT, "rows": {"field": "r"}}},
        {"event": {**EVENT, "rows": {"field": "r", "envelope": "e"}}},
    ),
    "event.unpack": ("event.unpack", {}, {"event": {**EVENT, "unpack": "gzip"}}),
    "event.surrogates": ("event.surrogates", {}, {"event": {**EVENT, "surrogates": "replace"}}),
    "event.format": ("event.format", {"event": AVRO}, {"event": {**AVRO, "format": "protobuf"}}),
    "event.change": ("event.change", {}, {"event": {**EVENT, "change": "debezium"}}),
    "event.batch.header": ("event.batch", {}, {"event": {**EVENT, "batch": {"header": "b"}}}),
    "mask.<name>.drop": ("mask", {}, {"mask": {"ip": {"drop": True}}}),
    "mask.<name>.hash": ("mask", {}, {"mask": {"ip": {"hash": "0123456789abcdef"}}}),
    "mask.<name>.keep": (
        "mask",
        {"mask": {"ip": "drop"}},
        {"mask": {"ip": "drop", "_key": {"keep": True}}},
    ),
    "mask.<name>.keep_first": ("mask", {}, {"mask": {"ip": {"keep_first": 3}}}),
    "mask.<name>.types": (
        "mask",
        {"mask": {"ip": "drop"}},
        {"mask": {"ip": {"drop": True, "types": ["click"]}}},
    ),
    "max_types": ("max_types", {}, {"max_types": 7}),
    "max_early": ("max_early", {}, {"max_early": "7h"}),
    "max_late": ("max_late", {}, {"max_late": "7h"}),
    "counts[].table": ("counts of db.traffic", {}, {"counts": [COUNTED]}),
    "counts[].by": ("counts of db.traffic", {}, {"counts": [{**COUNTED, "by": ["city"]}]}),
    "counts[].types": ("counts of db.traffic", {}, {"counts": [{**COUNTED, "types": ["click"]}]}),
}
LOADS = {
    "tables.<name>.columns": "columns of db.clicks",
    "tables.<name>.times.<name>.format": "times of db.clicks",
    "tables.<name>.times.<name>.zone": "times of db.clicks",
    "tables.<name>.missing": "missing of db.clicks",
    "tables.<name>.checks.<name>.sql": "checks of db.clicks",
    "tables.<name>.checks.<name>.on_fail": "checks of db.clicks",
}

STALE = {
    "tables.<name>.table": "a fill loads the types into the table that they are routed to now",
    "rollups.<name>.from": "a fill derives the unit's rows again",
    "rollups.<name>.sql": "a fill derives the unit's rows again",
    **{
        f"tables.<name>.latest{key}": "a fill takes the newest rows of the log again"
        for key in (".table", ".key", ".version", ".deleted")
    },
    "kafka[].topics": "a unit lacks a topic that was named since, and a reland brings it",
    "kafka[].exclude": "a unit lacks a topic that is excluded no more, and a reland brings it",
    "tables.<name>.evolve": "a unit lacks a column that was added since, and a refill fills it",
    "tables.<name>.evolve_rows": "it decides when a column is added, not what is in it",
    "clickhouse.shards[].name": "a fill loads again what another shard has to hold",
    "clickhouse.shard_by": "a fill loads again what another shard has to hold",
}
NO_ROW = {
    "the same records, wherever they come from": (
        "kafka[].cluster",
        "kafka[].bootstrap",
        "kafka[].connection",
    ),
    "an id of a registry never gets another schema": ("event.registry.connection",),
    "which hours there are; boundaries are stored once": ("kafka[].start", "start", "slice", "settle"),
    "what Kafka no longer had is in the manifest; what has landed has to be readable again": ("on_expired",),
    "a reland brings what a larger one takes, and asks before it rejects a row": ("max_record",),
    "how an hour is cut into reads decides no row": ("rows_per_read",),
    "where the files are, and how long": (
        "lake",
        "lake_connection",
        "keep.lake",
        "keep.rejected",
        "keep.tables",
    ),
    "how the server is reached, and how it commits": (
        *(
            f"clickhouse.{name}"
            for name in ("connection", "quorum", "takeover", "read", "named_collection", "lease")
        ),
        "clickhouse.shards[].connection",
        "clickhouse.shards[].replicas",
    ),
    "when runs start, and what else they do": ("grace", "lookback", "spark", "spark_connection", "airflow."),
    "what is noticed and shown": ("stalled_after", "alarms.", "rejected.fail_above", "page.payloads"),
}


def places() -> set[str]:
    """Every key that holds no section of its own."""
    return {
        f"{place}.{key.name}".lstrip(".")
        for place, model in sections()
        for key in keys(model)
        if inner_model(key.hint)[0] is None
    }


def test_every_key_is_a_rule_or_has_a_reason_why_it_is_none():
    named = [name for names in NO_ROW.values() for name in names]
    listed = [*LANDING, *LOADS, *STALE, *(name for name in named if not name.endswith("."))]
    rooms = tuple(name for name in named if name.endswith("."))
    assert len(listed) == len(set(listed))
    assert {place for place in places() if not place.startswith(rooms)} == set(listed)


@pytest.mark.parametrize("key", LANDING)
def test_another_value_of_a_rule_is_named(key: str):
    rule, before, after = LANDING[key]
    assert rule in [difference.rule for difference in found(pipeline(**before), pipeline(**after))]


def test_rules_of_a_load_are_named():
    then = pipeline(**TABLES)
    rules = list(dict.fromkeys(LOADS.values()))
    for times in ({"format": "epoch_s"}, {"zone": "Europe/Berlin"}):
        checks = {"positive": {"sql": "at > 0", "on_fail": "reject"}}
        click = {"table": "db.clicks", "missing": "reject", "times": {"at": times}, "checks": checks}
        now = pipeline(tables={"click": click})
        assert [one.rule for one in found(then, now, columns={"rider": "passenger"})] == rules
