"""A thousand columns of each type, pulled and pushed: a long number in one event, a rejected row in the
last."""

from __future__ import annotations

import pytest

from tests.integration.landed import World, client_of
from tests.integration.load.test_load_wide import SHAPES, Shape, examine, load_wide, mixed

# The short form is tests/integration/load/test_load_wide.py.
pytestmark = [pytest.mark.faults, pytest.mark.long]

_COLUMNS = 1000


@pytest.fixture
def wide(clickhouse_server, tmp_path, name: str, monkeypatch) -> World:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    world = World(tmp_path, client_of(clickhouse_server), name)
    world.sql("CREATE DATABASE {db}")
    return world


@pytest.mark.parametrize("read", ["pull", "push"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.type)
def test_a_thousand_columns_of_a_type(wide: World, shape: Shape, read: str):
    load_wide(wide, [shape] * _COLUMNS, read)


@pytest.mark.parametrize("read", ["pull", "push"])
def test_a_thousand_columns_of_all_types(wide: World, read: str):
    load_wide(wide, mixed(_COLUMNS), read)
    examine(wide, mixed(_COLUMNS))
