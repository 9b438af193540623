"""Times at the edges of what a type holds, texts and the lake's stamps, against Python's whole numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.types import parse
from sluice.flow.load.casts.times import of_stamp
from tests.integration.casts import test_casts_evaluated
from tests.integration.casts.test_casts_evaluated import evaluate, event
from tests.support import oracle

pytestmark = pytest.mark.integration

client = test_casts_evaluated.client
# Name, digits of a second, and type.
KINDS = [
    *(("Date", 0, "Date"), ("Date32", 0, "Date32"), ("DateTime", 0, "DateTime('UTC')")),
    *(("DateTime64", digits, f"DateTime64({digits}, 'UTC')") for digits in range(10)),
]
# Around each edge: the last and the first that a type holds, and the same instants in other zones.
EDGES = [
    *("1899-12-31", "1899-12-31T23:59:59.999999999Z", "1899-12-31T23:30:00-01:00", "1899-12-31T23:30:00Z"),
    *("1900-01-01", "1900-01-01T00:59:59.9999+01:00", "1900-01-01T00:59:59.999999999+01:00"),
    *("1900-01-01T00:00:00.000000001Z", "1900-01-01T00:30:00+01:00", "1900-01-01T01:00:00+01:00"),
    *("1969-12-31", "1969-12-31T23:59:59.05Z", "1969-12-31T23:59:59.9996Z", "1969-12-31T23:59:58.999Z"),
    *("1969-12-31T23:59:59.99961Z", "1969-12-31T23:59:59.999999999Z", "1969-12-31T23:30:00-01:00"),
    *("1970-01-01", "1970-01-01T00:59:59.9999+01:00", "1970-01-01T01:00:00+01:00", "1969-12-31T12:00:00"),
    *("2106-02-07T06:28:15.9999999Z", "2106-02-07T06:28:16Z", "2106-02-07T07:28:15.999+01:00"),
    *("2149-06-06T23:59:59.9999999Z", "2149-06-07T00:00:00Z", "2149-06-07T00:30:00+01:00"),
    *("2149-06-06T23:30:00-01:00", "2262-04-11T23:47:16.854775807Z", "2262-04-11T23:47:16.854775808Z"),
    *("2262-04-11T23:47:17Z", "2262-04-12", "2299-12-31", "2299-12-31T23:59:59.999999999Z"),
    *("2299-12-31T23:30:00-01:00", "2300-01-01", "2300-01-01T00:30:00+01:00", "2300-01-01T00:00:00Z"),
    *("2000-01-01", "2099-12-31T23:59:59Z", "2100-02-29", "2199-10-10T20:20:20.5Z", "2200-01-01"),
    *("1800-01-01", "1801-01-01T00:00:00Z", "2399-12-31"),
]
# Each digit that a month, a day, a clock or a zone may have, and the first that it may not.
SPELLINGS = [
    *(f"2024-{month:02}-10T10:00:00.25Z" for month in range(14)),
    *(f"2024-12-{day:02} 10:00" for day in range(33)),
    *(f"2024-05-01T{hour:02}:00:00" for hour in range(26)),
    *(f"2024-05-01T10:{minute}:00Z" for minute in ("00", "09", "30", "59", "60", "99")),
    *(f"2024-05-01T10:00:{second}Z" for second in ("00", "09", "30", "59", "60", "61")),
    *(f"2024-05-01T10:00:00{sign}{hour:02}{minute}" for sign in "+-" for hour in range(25)
      for minute in (":00", "59", ":60")),
]  # fmt: skip


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/New_York"])
def machine_in(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("machine_in")
@pytest.mark.parametrize(("name", "digits", "kind"), KINDS)
@pytest.mark.parametrize("texts", [EDGES, SPELLINGS], ids=["edges", "spellings"])
def test_a_text_is_its_instant_where_the_type_holds_it(
    client: Client, name: str, digits: int, kind: str, texts: list[str]
):
    found = evaluate(client, kind, "toString({})", [event(f'"{text}"') for text in texts])
    verdicts = [oracle.time(name, digits, text) for text in texts]
    wanted = [(True, None) if said is None else (False, said.value) for said in verdicts]
    assert dict(zip(texts, found, strict=True)) == dict(zip(texts, wanted, strict=True))


SECOND = 1000
FIRST, END = -2_208_988_800 * SECOND, 10_413_792_000 * SECOND
RANGES = {
    "DateTime": (0, 2**32 * SECOND),
    "DateTime64": (FIRST, END),
    "DateTime64(9)": (FIRST, (2**63 - 1) // 10**6 + 1),
}
BESIDE = (-1001, -1000, -1, 0, 1, 10, 999, 1000)
STAMPS = sorted(
    {
        *(edge + by for one in RANGES.values() for edge in one for by in BESIDE),
        *(-(2**63), 2**63 - 1, -1_795_168_799_987, 1_795_168_799_987),
    }
)


@pytest.mark.usefixtures("machine_in")
@pytest.mark.parametrize(("name", "digits", "kind"), [one for one in KINDS if one[0].startswith("DateTime")])
def test_a_stamp_of_the_lake_is_its_instant_where_the_type_holds_it(
    client: Client, name: str, digits: int, kind: str
):
    """All in one block, as a load has them: what is out of range must not stop the others."""
    made = of_stamp(parse(kind), "x")
    ticks = "toInt64(toUnixTimestamp(v))" if name == "DateTime" else "reinterpretAsInt64(v)"
    rows = client.rows(
        f"SELECT at, {ticks}, toTypeName(v) FROM (SELECT at, {made} AS v FROM (SELECT at, "
        f"reinterpret(at, 'DateTime64(3, \\'UTC\\')') AS x FROM (SELECT arrayJoin("
        f"arrayMap(n -> toInt64(n), {[*map(str, STAMPS)]})) AS at))) ORDER BY at",
        settings=WRITE,
    )
    first, end = RANGES[name if digits < 9 else "DateTime64(9)"]
    wanted = [(at, at * 10**digits // SECOND if first <= at < end else None) for at in STAMPS]
    assert [(at, value) for at, value, _ in rows] == wanted
    assert {named for *_, named in rows} == {f"Nullable({kind})"}
