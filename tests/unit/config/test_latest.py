"""`latest:` of a table: what it is made of, and what is refused before any server is asked."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sluice.config.clickhouse import columns_in
from sluice.config.pipeline import Pipeline, chosen_tables
from sluice.config.target import Newest

LATEST = {"table": "shop.customer", "key": ["id"], "version": ["source.lsn"]}
LOG = {"table": "shop.customer_log", "columns": {"lsn": "source.lsn"}, "latest": LATEST}
SHARDS = [{"name": "s1", "connection": "ch1"}, {"name": "s2", "connection": "ch2"}]


def pipeline(**changes: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "p",
            "kafka": [{"cluster": "dc1", "bootstrap": "b:1", "topics": ["t"]}],
            "event": {"type": {"field": "type"}, "time": {"record": True}},
            "lake": "file:///lake",
            "tables": {"customer": LOG},
            **changes,
        }
    )


def test_it_is_a_target_made_of_its_log():
    log, customer = pipeline().targets
    assert (log.table, log.rollup) == ("shop.customer_log", None)
    assert customer.table == "shop.customer"
    expected = Newest(source="shop.customer_log", key=("id",), version=("lsn",), deleted=None, by_row=False)
    assert customer.rollup == expected


def test_a_field_may_be_one_of_several_of_a_column():
    log = {**LOG, "columns": {"lsn": ["source.lsn", "source.pos"]}}
    assert pipeline(tables={"customer": log}).derived["shop.customer"].version == ("lsn",)


def test_another_version_is_another_definition():
    digests = {
        pipeline(tables={"customer": {**LOG, "latest": {**LATEST, **change}}}).derived["shop.customer"].digest
        for change in ({}, {"version": []}, {"key": ["id", "region"]}, {"deleted": "gone"})
    }
    assert len(digests) == 4


def test_it_goes_with_its_log():
    tables = {"customer": LOG, "order": "shop.orders"}
    assert chosen_tables(pipeline(tables=tables), ["customer"]) == {"shop.customer_log", "shop.customer"}


@pytest.mark.parametrize(
    ("changes", "place", "says"),
    [
        ({"tables": {"c": {**LOG, "latest": {**LATEST, "table": LOG["table"]}}}}, "table", "of its own"),
        ({"tables": {"c": LOG, "o": LATEST["table"]}}, "table", "of its own"),
        ({"tables": {"c": LOG, "d": {**LOG, "table": "shop.d_log"}}}, "table", "of its own"),
        ({"tables": {"c": {**LOG, "latest": {**LATEST, "key": []}}}}, "key", "at least 1"),
        ({"tables": {"c": {**LOG, "latest": {**LATEST, "key": ["id", "id"]}}}}, "key", "twice"),
        ({"keep": {"tables": {"*": "400d"}}}, "keep.tables.*", "keeps all rows"),
        ({"keep": {"tables": {LOG["table"]: "400d"}}}, "keep.tables.shop.customer_log", "keeps all rows"),
        ({"clickhouse": {"shards": SHARDS}}, "key", "on one shard"),
        ({"clickhouse": {"shards": SHARDS, "shard_by": "cityHash64(user)"}}, "key", "on one shard"),
        ({"clickhouse": {"shards": SHARDS, "shard_by": "cityHash64(id, user)"}}, "key", "on one shard"),
    ],
)
def test_what_cannot_be_right_is_refused(changes: dict[str, Any], place: str, says: str):
    with pytest.raises(ValidationError) as raised:
        pipeline(**changes)
    text = str(raised.value)
    assert place in text
    assert says in text


def test_shards_by_the_key_are_fine():
    by_key = {"shards": SHARDS, "shard_by": {LOG["table"]: "cityHash64(id)"}}
    assert pipeline(clickhouse=by_key).derived.keys() == {"shop.customer"}


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("", []),
        ("id", ["id"]),
        ("id, `a b`", ["id", "a b"]),
        ("cityHash64(id, toString(region)) % 1e3", ["id", "region"]),
        ("xxHash64(\"x y\", 'not_a_column') + 0x1F", ["x y"]),
        ("toYYYYMM (_slice)", ["_slice"]),
    ],
)
def test_the_columns_that_an_expression_reads(expression: str, names: list[str]):
    assert columns_in(expression) == set(names)
