"""What is read out of the server's query trees: texts as ClickHouse 26.7 prints them."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.query_tree import (
    candidates,
    parse,
    passes,
    pushed,
    reads,
    reads_once,
    same_reading,
)
from sluice.clients.clickhouse.sql import Sql

PLAIN = """\
QUERY id: 0
  PROJECTION COLUMNS
    n UInt16
    _slice DateTime('UTC')
    _slice x UInt8
    _cluster LowCardinality(String)
  PROJECTION
    LIST id: 1, nodes: 4
      COLUMN id: 2, column_name: n, result_type: UInt16, source_id: 3
      COLUMN id: 4, column_name: _slice, result_type: DateTime('UTC'), source_id: 3
      CONSTANT id: 5, constant_value: UInt64_1, constant_value_type: UInt8
      FUNCTION id: 6, function_name: lower, function_type: ordinary, result_type: LowCardinality(String)
        ARGUMENTS
          LIST id: 7, nodes: 1
            COLUMN id: 8, column_name: _cluster, result_type: LowCardinality(String), source_id: 3
  JOIN TREE
    TABLE id: 3, alias: __table1, table_name: d.clicks"""
BRANCH = """\
          QUERY id: {id}, alias: __table2
            PROJECTION COLUMNS
              n UInt16
              at DateTime('UTC')
            PROJECTION
              LIST id: {id}1, nodes: 2
                COLUMN id: {id}2, column_name: n, result_type: UInt16, source_id: {id}9
                COLUMN id: {id}3, column_name: {column}, result_type: DateTime('UTC'), source_id: {id}9
            JOIN TREE
              TABLE id: {id}9, alias: __table3, table_name: d.clicks"""
UNION = """\
QUERY id: 0
  PROJECTION COLUMNS
    _slice DateTime('UTC')
  PROJECTION
    LIST id: 1, nodes: 1
      COLUMN id: 2, column_name: at, result_type: DateTime('UTC'), source_id: 3
  JOIN TREE
    UNION id: 3, alias: __table1, is_subquery: 1, union_mode: UNION_ALL
      QUERIES
        LIST id: 7, nodes: 2
{branches}"""
SELF = """\
QUERY id: 0
  PROJECTION COLUMNS
    _slice DateTime('UTC')
  PROJECTION
    LIST id: 1, nodes: 1
      COLUMN id: 2, column_name: _slice, result_type: DateTime('UTC'), source_id: 3
  JOIN TREE
    JOIN id: 4, strictness: ALL, kind: INNER
      LEFT TABLE EXPRESSION
        TABLE id: 3, alias: __table1, table_name: d.clicks
      RIGHT TABLE EXPRESSION
        TABLE id: 5, alias: __table2, table_name: {other}
      JOIN EXPRESSION
        CONSTANT id: 6, constant_value: UInt64_1, constant_value_type: UInt8
  WHERE
    FUNCTION id: 7, function_name: in, function_type: ordinary, result_type: UInt8
      ARGUMENTS
        LIST id: 8, nodes: 1
          QUERY id: 9, is_subquery: 1
            PROJECTION COLUMNS
              n UInt16
            PROJECTION
              LIST id: 10, nodes: 1
                COLUMN id: 11, column_name: n, result_type: UInt16, source_id: 12
            JOIN TREE
              TABLE id: 12, alias: __table3, table_name: {inner}"""


def tree(text: str):
    return parse(text.splitlines())


def union(*columns: str) -> str:
    branches = [BRANCH.format(id=10 + number, column=name) for number, name in enumerate(columns)]
    return UNION.format(branches="\n".join(branches))


def test_a_column_passes_only_as_it_is():
    root = tree(PLAIN)
    assert [passes(root, name, "d.clicks") for name in ("n", "_slice", "_slice x", "_cluster", "gone")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert not passes(root, "_slice", "d.other")


@pytest.mark.parametrize(
    ("columns", "right"),
    [(("_slice", "_slice"), True), (("_slice", "day"), False), (("day", "_slice"), False)],
)
def test_a_column_is_followed_through_every_branch_of_a_union(columns: tuple[str, str], right: bool):
    assert passes(tree(union(*columns)), "_slice", "d.clicks") is right
    assert reads_once(tree(union(*columns)), "d.clicks")


def test_the_server_pushes_only_the_first_select_of_a_union():
    both = "UNION id: 0\n  QUERIES\n    LIST id: 1, nodes: 2\n" + "\n".join(
        f"      {line}"
        for text in (SELF.format(other="d.dim", inner="d.dim"), PLAIN)
        for line in text.splitlines()
    )
    root = tree(both)
    assert reads(root, "d.clicks") == 2
    assert reads(pushed(root), "d.clicks") == 1


@pytest.mark.parametrize(
    ("other", "inner", "times", "once"),
    [
        ("d.dim", "d.dim", 1, True),
        ("d.clicks", "d.dim", 2, False),
        ("d.dim", "d.clicks", 2, False),
        ("d.clicks2", "x d.clicks", 1, True),
    ],
)
def test_a_source_is_read_in_one_place(other: str, inner: str, times: int, once: bool):
    root = tree(SELF.format(other=other, inner=inner))
    assert (reads(root, "d.clicks"), reads_once(root, "d.clicks")) == (times, once)


def test_a_select_that_reads_nothing_of_the_source_is_no_view_of_it():
    assert not reads_once(tree(SELF.format(other="d.dim", inner="d.dim")), "d.other")


def test_trees_are_the_same_but_for_the_source_and_what_was_evaluated():
    moved = PLAIN.replace("table_name: d.clicks", "table_name: s.tmp")
    assert same_reading(PLAIN.splitlines(), "d.clicks", moved.splitlines(), "s.tmp")
    assert not same_reading(PLAIN.splitlines(), "d.clicks", PLAIN.splitlines(), "s.tmp")
    literal = moved.replace("constant_value: UInt64_1", "constant_value: UInt64_2")
    assert not same_reading(PLAIN.splitlines(), "d.clicks", literal.splitlines(), "s.tmp")
    line = "      CONSTANT id: 5, constant_value: UInt64_1, constant_value_type: UInt8"
    evaluated = f"{line}\n        EXPRESSION\n          FUNCTION id: 9, function_name: now"
    later = evaluated.replace("UInt64_1", "UInt64_2")
    pair = [PLAIN.replace(line, evaluated), moved.replace(line, later)]
    assert same_reading(pair[0].splitlines(), "d.clicks", pair[1].splitlines(), "s.tmp")


@pytest.mark.parametrize(
    ("select", "first", "second"),
    [
        ("SELECT n FROM d.clicks", "SELECT n FROM `s`.`t`", "SELECT n FROM `s`.`t` AS `clicks`"),
        (
            "SELECT clicks.n, d.clicks.k FROM d.clicks",
            "SELECT clicks.n, `s`.`t`.k FROM `s`.`t`",
            "SELECT clicks.n, `clicks`.k FROM `s`.`t` AS `clicks`",
        ),
        ("SELECT c.n FROM d.clicks AS c", "SELECT c.n FROM `s`.`t` AS c", "SELECT c.n FROM `s`.`t` AS c"),
        ("SELECT 'd.clicks', \"d\".`clicks`.n", None, None),
        ("SELECT 'it\\'s d.clicks' FROM x.d.clicks", "", ""),
        ("SELECT d.clicks2, dd.clicks, d.`cli\\`cks`", "", ""),
    ],
)
def test_only_the_sources_name_is_replaced(select: str, first: str | None, second: str | None):
    found = list(candidates(select, "d.clicks", Sql("`s`.`t`")))
    if first is None:
        assert found == ["SELECT 'd.clicks', `s`.`t`.n", "SELECT 'd.clicks', `clicks`.n"]
    else:
        assert found == [first or select, second or select]
