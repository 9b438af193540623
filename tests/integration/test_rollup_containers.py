"""Typed values inside of containers against column types: the same as the values alone, or a misfit."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.settings import WRITE
from sluice.clients.clickhouse.sql import literal
from sluice.clients.clickhouse.types import parse
from sluice.flow.load.casts.casts import Cast
from sluice.flow.load.rollups.values import Unprovable, convert
from tests.integration import test_casts_evaluated
from tests.integration.test_rollup_values import VALUES, given_as, is_refused, judged, shape

pytestmark = pytest.mark.integration

client = test_casts_evaluated.client
# What is around a type, a value of it, and the value that is read again, `{}` being the inner one.
AROUND = {
    "map": ("Map(String, {})", "map('k', {})", "arrayElement(mapValues({}), 1)"),
    "tuples": ("Array(Tuple(UInt8, {}))", "[(toUInt8(1), {})]", "tupleElement(arrayElement({}, 1), 2)"),
    "nullable": ("Array(Nullable({}))", "[{}]", "arrayElement({}, 1)"),
}
SETTINGS = {name: value for name, value in WRITE.items() if "sync" not in name}


@pytest.mark.parametrize("given", VALUES)
@pytest.mark.parametrize("around", AROUND)
def test_inside_of_a_container_a_value_is_judged_as_alone(client: Client, around: str, given: str):
    kind, value, read = AROUND[around]
    made = dict(casts(kind, given))
    columns = []
    for wanted, cast in made.items():
        zone = ", 'UTC'" if shape(wanted).family == "moment" else ""
        inside = read.format(f"CAST({cast.value}, {literal(kind.format(wanted))})")
        columns += [f"if({cast.misfit}, NULL, toString({inside}{zone}))", f"toUInt8({cast.misfit})"]
    values = [value.format(given_as(given, one)) for one in VALUES[given]]
    of_type = f"CAST(arrayJoin([{', '.join(values)}]), {literal(kind.format(given))})"
    rows = client.rows(f"SELECT {', '.join(columns)} FROM (SELECT {of_type} AS g0)", settings=SETTINGS)
    wrong = []
    for one, row in zip(VALUES[given], rows, strict=True):
        for place, wanted in enumerate(made):
            wrong += judged(given, wanted, one, row[2 * place], row[2 * place + 1])
    assert wrong == []


def casts(kind: str, given: str) -> list[tuple[str, Cast]]:
    """Those of the types that take what the type inside gives; the others are refused."""
    made = []
    for wanted in VALUES:
        try:
            found = convert(parse(kind.format(given)), parse(kind.format(wanted)), "g0")
        except Unprovable:
            assert is_refused(given, wanted), wanted
            continue
        assert not is_refused(given, wanted), wanted
        made.append((wanted, found))
    return made
