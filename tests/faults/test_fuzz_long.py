"""The long form of the column fuzz: values that no run has tried, by the printed seed."""

from __future__ import annotations

import pytest

from tests.integration.landed import World, client_of
from tests.integration.load.test_fuzz_columns import fuzz

# The short form: tests/integration/load/test_fuzz_columns.py.
pytestmark = [pytest.mark.faults, pytest.mark.long]

_ROUNDS, _VALUES = 5, 400


def test_new_values_are_exactly_there_or_rejected(clickhouse_server, tmp_path, name: str, seed: int):
    world = World(tmp_path, client_of(clickhouse_server), name)
    world.sql("CREATE DATABASE {db}")
    wrong = [line for n in range(_ROUNDS) for line in fuzz(world, f"t{n}", _VALUES, seed + n)]
    assert wrong == [], f"--seed {seed}"
