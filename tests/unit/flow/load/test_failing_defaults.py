"""Which rows and columns are blamed when an INSERT fails, with a server that fails at chosen rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.sql import Sql
from sluice.clients.clickhouse.tables import Column, TargetTable
from sluice.flow.load.casts.columns import fill
from sluice.flow.load.failing_defaults import DefaultSuspects
from sluice.flow.load.fencing import LoadAttempt
from sluice.flow.load.writer import Writer
from sluice.slices import Unit
from tests.unit.flow.load.test_load_decide import unit

KEYS = (Column("_slice", "DateTime('UTC')"), Column("_cluster", "String"), Column("n", "Int64"))
ALIAS = Column("twice", "Int64", "ALIAS", "n * 2")
FIRST = Column("a", "Int64", "MATERIALIZED", "intDiv(1, n)")
SECOND = Column("b", "Int64", "MATERIALIZED", "intDiv(2, n)")
ROWS = 10
Fails = Callable[[int, int], bool]
"""Whether a row fails, by its number, when the first so many of the columns are computed."""


def failing(columns: tuple[Column, ...], fails: Fails) -> list[tuple[int, str]]:
    def run(sql: Sql, *_: object) -> None:
        into = re.search(r"INSERT INTO \S+_probe(\d+)`? ", sql)
        if into:
            limits = re.search(r"_number >= (\d+) AND _number < (\d+)", sql)
            if any(fails(number, int(into[1])) for number in range(int(limits[1]), int(limits[2]))):
                raise ServerError("server:8123", 153, "ILLEGAL_DIVISION", "INSERT", "Division by zero")

    def rows(sql: Sql, *_: object) -> list[tuple[object, ...]]:
        return [(0, "dc1", "t", 0, 7, 0)] if "_number = " in sql else []

    client = SimpleNamespace(run=run, rows=rows)
    writer = Writer(client, LoadAttempt("e.clicks", 2, 1), lambda: None, _unit_of, frozenset())
    target = TargetTable("e.clicks", "", "MergeTree", "MergeTree", columns, False, ())
    suspects = DefaultSuspects(target, fill(columns, {}), writer, ROWS)
    return [(one.number, one.column.name) for one in suspects.find()]


def _unit_of(start: int, cluster: str) -> Unit:
    return unit()


@pytest.mark.parametrize("columns", [(*KEYS, ALIAS), (*KEYS, FIRST), (*KEYS, FIRST, SECOND)])
def test_an_error_that_comes_without_any_default_is_blamed_on_none(columns: tuple[Column, ...]):
    assert failing(columns, lambda number, computed: number == 3) == []


def test_the_column_is_the_one_without_which_a_row_can_be_computed():
    needed = {3: 1, 8: 2}  # by row, how many columns are computed where it fails
    columns = (*KEYS, FIRST, ALIAS, SECOND)
    blamed = failing(columns, lambda number, computed: number in needed and computed >= needed[number])
    assert blamed == [(3, "a"), (8, "b")]


def test_no_row_fails():
    assert failing((*KEYS, FIRST, SECOND), lambda number, computed: False) == []
