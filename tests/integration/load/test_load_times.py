"""Random instants in every spelling, read by the casts of columns, elements, map values and typed paths."""

from __future__ import annotations

import random
from zoneinfo import ZoneInfo

import pytest
from clickhouse_connect import get_client

from sluice.clients.clickhouse.types import parse
from sluice.flow.load.casts.casts import cast
from sluice.time_grammar import Spelled
from tests.support.times_written import SPELLINGS, written

pytestmark = pytest.mark.integration
TYPE = "DateTime64(9, 'UTC')"
ZONES = ("Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns", "Asia/Kathmandu")


def nanoseconds(client, kind: str, zone: str, texts: list[str]) -> list[int]:
    value = cast(parse(kind), "x", key=None, spelled=Spelled(None, zone)).value
    time = {
        "Array": f"arrayElement({value}, 1)",
        "Map": f"arrayElement(mapValues({value}), 1)",
        "JSON": f"getSubcolumn({value}, 'at')",
    }
    read = time.get(kind.partition("(")[0], value)
    sql = (
        f"SELECT toUnixTimestamp64Nano(assumeNotNull({read})) FROM (SELECT CAST(t, 'Nullable(String)') AS x "
        "FROM (SELECT arrayJoin(arrayEnumerate({texts:Array(String)})) AS n, "
        "arrayElement({texts:Array(String)}, n) AS t) ORDER BY n)"
    )
    return [row[0] for row in client.query(sql, parameters={"texts": texts}).result_rows]


@pytest.mark.parametrize("zone", ZONES)
def test_a_column_reads_what_datetime_writes(clickhouse_server, zone):
    client, chance = get_client(**clickhouse_server.at.login), random.Random(zone)
    cases = [written(name, chance, ZoneInfo(zone)) for name in SPELLINGS for _ in range(100)]
    texts, wanted = [text for text, _ in cases], [at for _, at in cases]
    assert nanoseconds(client, TYPE, zone, texts) == wanted
    assert nanoseconds(client, f"Array({TYPE})", zone, [f'["{text}"]' for text in texts]) == wanted
    maps = [f'{{"k": "{text}"}}' for text in texts]
    assert nanoseconds(client, f"Map(String, {TYPE})", zone, maps) == wanted
    documents = [f'{{"at": "{text}"}}' for text in texts]
    assert nanoseconds(client, f"JSON(at {TYPE})", zone, documents) == wanted
