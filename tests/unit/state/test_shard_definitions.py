"""What shards have to change to define a table alike."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.tables import Column
from sluice.state.additions import Addition
from sluice.state.shard_definitions import find_unlike, had_elsewhere

TEXT, NUMBER = Column("id", "String"), Column("id", "UInt32")
CODE = Column("code", "Nullable(UInt64)")
ALIAS = Column("a", "String", "ALIAS", "id")


def addition(kind: str = "Nullable(UInt64)", *shards: str) -> Addition:
    return Addition("d.t", "code", kind, "s", 1, 1, "at", "by", shards=dict.fromkeys(shards, 1))


@pytest.mark.parametrize(
    "definitions",
    [
        {},
        {"s1": (TEXT,)},
        {"s1": (TEXT, CODE), "s2": (CODE, TEXT)},  # their order means nothing
        {"s1": (TEXT, ALIAS), "s2": (TEXT,)},
    ],
)
def test_alike(definitions):
    assert find_unlike("d.t", definitions) is None


@pytest.mark.parametrize(
    ("definitions", "said", "statements"),
    [
        (
            {"s1": (TEXT,), "s2": (NUMBER,)},
            "id is UInt32 on s2 and String on s1",
            "on s2: ALTER TABLE `d`.`t` MODIFY COLUMN `id` String",
        ),
        (
            {"s1": (TEXT,), "s2": (NUMBER,), "s3": (NUMBER,)},  # most decide
            "id is String on s1 and UInt32 on s2",
            "on s1: ALTER TABLE `d`.`t` MODIFY COLUMN `id` UInt32",
        ),
        (
            {"s1": (TEXT,), "s2": (NUMBER,), "s3": (TEXT,), "s4": ()},
            "id is UInt32 on s2 and String on s1, 1 more shards differ",
            "on s2: ALTER TABLE `d`.`t` MODIFY COLUMN `id` String",
        ),
        (
            {"s1": (TEXT, CODE), "s2": (TEXT,)},
            "code is missing on s2 and Nullable(UInt64) on s1",
            "on s2: ALTER TABLE `d`.`t` ADD COLUMN `code` Nullable(UInt64)",
        ),
        (
            {"s1": (TEXT,), "s2": (Column("id", "UInt32", "DEFAULT", "3"),)},
            "id is UInt32 DEFAULT 3 on s2 and String on s1",
            "on s2: ALTER TABLE `d`.`t` MODIFY COLUMN `id` REMOVE DEFAULT; "
            "ALTER TABLE `d`.`t` MODIFY COLUMN `id` String",
        ),
        (
            {"s1": (TEXT, ALIAS), "s2": (TEXT, Column("a", "String", "ALIAS", "upper(id)"))},
            "a is String ALIAS upper(id) on s2 and String ALIAS id on s1",
            "on s2: ALTER TABLE `d`.`t` MODIFY COLUMN `a` String ALIAS id",
        ),
    ],
)
def test_unlike(definitions, said, statements):
    found = find_unlike("d.t", definitions)
    assert found is not None
    assert found.reason == (f"its shards have other columns: {said}; rows could be on no shard, or on two")
    assert found.remedy == f"make them alike; {statements}"


def test_only_a_column_that_a_load_brings_as_it_is_may_lack():
    lacking = {"s1": (TEXT, CODE), "s2": (TEXT,)}
    assert find_unlike("d.t", lacking, {"code": addition()}) is None
    assert find_unlike("d.t", lacking, {"code": addition("Nullable(String)")}) is not None
    other = {"s1": (CODE,), "s2": (Column("code", "Nullable(String)"),)}
    assert find_unlike("d.t", other, {"code": addition()}) is not None


@pytest.mark.parametrize(
    ("definitions", "shards", "had"),
    [
        ({"s1": (TEXT,), "s2": (TEXT, CODE)}, ("s1", "s2"), {"code"}),  # s1 has lost it
        ({"s1": (TEXT,), "s2": (TEXT,)}, ("s1", "s2"), set()),  # both have
        ({"s1": (TEXT,)}, ("s1", "s2"), {"code"}),  # s2 does not answer, and had it
        ({"s1": (TEXT,)}, ("s1",), set()),  # s2 does not answer, and never had it
        ({"s1": (CODE,), "s2": (TEXT,)}, ("s1",), set()),  # only s1 itself has it
        ({"s1": (TEXT,), "s2": (TEXT,)}, ("s1", "s9"), set()),  # s9 has left the list
    ],
)
def test_which_columns_another_shard_has(definitions, shards, had):
    found = had_elsewhere("s1", ["s1", "s2"], definitions, {"code": addition("Nullable(UInt64)", *shards)})
    assert found == had
