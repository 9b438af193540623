"""The long form of the nested types: new ones and new values, by the printed seed."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.client import Client
from tests.integration import nested_types
from tests.integration.casts.test_casts_nested import tried
from tests.integration.generated import generate
from tests.integration.landed import client_of

# The short form: tests/integration/casts/test_casts_nested.py.
pytestmark = [pytest.mark.faults, pytest.mark.long]

_VALUES, _TYPES_AT_ONCE, _OF_A_TYPE = 100_000, 50, 250


@pytest.fixture
def client(clickhouse_server) -> Client:
    return client_of(clickhouse_server)


def test_new_values_of_new_types_fit_exactly_or_are_rejected_rows(client: Client, seed: int):
    wrong, judged, number = [], 0, seed
    while judged < _VALUES:
        for kind in generate(nested_types.TYPES, _TYPES_AT_ONCE, number):
            lines, fitting, rejected_rows = tried(client, kind, _OF_A_TYPE, number)
            wrong, judged = wrong + lines, judged + fitting + rejected_rows
        number += 1
    assert wrong == [], f"--seed {seed}"
