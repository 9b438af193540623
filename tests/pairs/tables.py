"""The tables of a case: their definitions, and the columns to read of each."""

from __future__ import annotations

from dataclasses import dataclass

from tests.pairs.columns import COMMON, ID, SETS, Column, at
from tests.pairs.events import time_path
from tests.pairs.options import Case

MAIN, BIDS, OTHER, TRAFFIC = "main", "bids", "other", "traffic"
# More partitions than this in one INSERT are refused: set for the tests' servers, so that few rows do.
PARTITIONS = 12
_LAKE = (
    "_type LowCardinality(String), _topic LowCardinality(String), _partition Int32, _offset Int64, "
    "_row UInt32, _timestamp DateTime64(3, 'UTC'), _key Nullable(String)"
)
_UNIT = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
# What each row says of where it came from, as the oracle has it.
READ_LAKE = (
    "toUnixTimestamp(_slice), _type, _cluster, _topic, _partition, _offset, _row, "
    "toUnixTimestamp64Milli(_timestamp), if(isNull(_key), NULL, hex(assumeNotNull(_key)))"
)
_VIEW_KEYS = "ENGINE = SummingMergeTree ORDER BY (_slice, _cluster, country)"
_TOTALS = f"({_UNIT}, country String, events UInt64, total UInt64)"
_SUMMED = (
    "SELECT _slice, _cluster, ifNull(country, '') AS country, toUInt64(count()) AS events, "
    "sum(n) AS total FROM {db}.{source} {where} GROUP BY _slice, _cluster, country"
)
_PASSED = f"({_UNIT}, id UInt64, said String)"


@dataclass(frozen=True)
class Shape:
    """What stands behind the columns of the main table, and what is made beside it. `views`: the tables of
    its views, with the SELECT that reads each."""

    tail: str = "ENGINE = MergeTree PARTITION BY toYYYYMM(_slice) ORDER BY (_slice, _cluster, id)"
    more: str = ""
    beside: tuple[str, ...] = ()
    views: tuple[tuple[str, str], ...] = ()


_READ_TOTALS = (
    "SELECT toUnixTimestamp(_slice) AS s, _cluster, country, sum(events), sum(total) FROM {db}.totals "
    "GROUP BY s, _cluster, country"
)
_READ_PASSED = "SELECT toUnixTimestamp(_slice), _cluster, id, said FROM {db}.passed"
_TO_TOTALS = "CREATE MATERIALIZED VIEW {db}.to_totals{n} TO {db}.totals AS "
_TOTALS_OF_MAIN = _SUMMED.replace("{source}", MAIN)
_PASS = (
    "CREATE MATERIALIZED VIEW {db}.to_passed TO {db}.passed AS SELECT _slice, _cluster, id, "
    "concat('<', user, '>') AS said FROM {db}.main WHERE n % 2 = 1"
)
_MAKE_TOTALS = f"CREATE TABLE {{db}}.totals {_TOTALS} {_VIEW_KEYS}"
_MAKE_PASSED = f"CREATE TABLE {{db}}.passed {_PASSED} ENGINE = MergeTree ORDER BY id"

SHAPES: dict[str, Shape] = {
    "plain": Shape(),
    "view": Shape(
        beside=(
            "CREATE MATERIALIZED VIEW {db}.inner "
            + _VIEW_KEYS
            + " AS "
            + _TOTALS_OF_MAIN.replace("{where}", ""),
        ),
        views=(("totals", _READ_TOTALS.replace("{db}.totals", "{db}.inner")),),
    ),
    "two views": Shape(
        beside=(
            _MAKE_TOTALS,
            _MAKE_PASSED,
            _TO_TOTALS.replace("{n}", "") + _TOTALS_OF_MAIN.replace("{where}", ""),
            _PASS,
        ),
        views=(("totals", _READ_TOTALS), ("passed", _READ_PASSED)),
    ),
    "two views into one table": Shape(
        beside=(
            _MAKE_TOTALS,
            _TO_TOTALS.replace("{n}", "0") + _TOTALS_OF_MAIN.replace("{where}", "WHERE n % 2 = 0"),
            _TO_TOTALS.replace("{n}", "1") + _TOTALS_OF_MAIN.replace("{where}", "WHERE n % 2 = 1"),
        ),
        views=(("totals", _READ_TOTALS),),
    ),
    "view of a view": Shape(
        beside=(
            _MAKE_PASSED,
            "CREATE TABLE {db}.lengths (_slice DateTime('UTC'), _cluster LowCardinality(String), "
            "letters UInt64, events UInt64) ENGINE = SummingMergeTree ORDER BY (_slice, _cluster, letters)",
            _PASS,
            "CREATE MATERIALIZED VIEW {db}.to_lengths TO {db}.lengths AS SELECT _slice, _cluster, "
            "lengthUTF8(said) AS letters, toUInt64(count()) AS events FROM {db}.passed "
            "GROUP BY _slice, _cluster, letters",
        ),
        views=(
            ("passed", _READ_PASSED),
            (
                "lengths",
                "SELECT toUnixTimestamp(_slice) AS s, _cluster, letters, sum(events) FROM {db}.lengths "
                "GROUP BY s, _cluster, letters",
            ),
        ),
    ),
    "ttl": Shape(
        tail="ENGINE = MergeTree PARTITION BY toYYYYMM(_slice) ORDER BY id "
        "TTL _slice + INTERVAL 70 YEAR, _slice + INTERVAL 1 DAY RECOMPRESS CODEC(ZSTD(3))"
    ),
    "projection": Shape(more=", PROJECTION by_country (SELECT country, sum(n) GROUP BY country)"),
    "partitioned": Shape(
        tail="ENGINE = MergeTree PARTITION BY (toYYYYMM(_slice), n % 5, _cluster) ORDER BY id"
    ),
    "narrow view": Shape(
        beside=(
            _MAKE_PASSED.replace("ORDER BY", "PARTITION BY (_slice, id % 9) ORDER BY"),
            _PASS.replace("n % 2 = 1", "1"),
        ),
        views=(("passed", _READ_PASSED),),
    ),
}


CHECK, CHECKED = "sane", "n % 3 != 1 OR country = 'DE'"
"""A check of the main table; it is NULL, and so fails, for some rows without a country."""


def main_columns(case: Case) -> tuple[Column, ...]:
    return (*COMMON, at(time_path(case)), *SETS[case.columns])


def paths_of(case: Case) -> dict[str, str]:
    """`columns` of the main table in the pipeline file."""
    return {c.name: ".".join(c.field) for c in main_columns(case) if c.field != (c.name,)}


def definitions(case: Case) -> list[str]:
    """The statements that make the tables, with `{db}` for the database."""
    shape = SHAPES[case.target]
    columns = ", ".join(column.definition for column in main_columns(case))
    plain = f"{ID.definition}, _payload String, {_LAKE}, {_UNIT}"
    found = [
        f"CREATE TABLE {{db}}.{MAIN} ({columns}, {_LAKE}, {_UNIT}{shape.more}) {shape.tail}",
        f"CREATE TABLE {{db}}.{BIDS} ({plain}) ENGINE = MergeTree PARTITION BY _slice ORDER BY id",
        *shape.beside,
    ]
    if case.catch_all == "yes":
        other = f"_payload String, {_LAKE}, {_UNIT}"
        found.append(f"CREATE TABLE {{db}}.{OTHER} ({other}) ENGINE = MergeTree ORDER BY (_slice, _offset)")
    if case.counts != "none":
        found.append(
            f"CREATE TABLE {{db}}.{TRAFFIC} (hour DateTime('UTC'), type String, country Nullable(String), "
            f"city Nullable(String), count UInt64, {_UNIT}) ENGINE = MergeTree ORDER BY (hour, type)"
        )
    return found


def reading(case: Case, table: str) -> str:
    """The SELECT of a target's rows: the lake's columns, then its own values."""
    own = [column.select.format(f"`{column.name}`") for column in main_columns(case)]
    values = {MAIN: ", ".join(own), BIDS: "id, _payload", OTHER: "_payload"}[table]
    return f"SELECT {READ_LAKE}, {values} FROM {{db}}.{table}"
