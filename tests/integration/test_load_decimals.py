"""Decimals of up to fifteen digits, which are computed as doubles: each arrives exactly, or is rejected."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from random import Random

import pytest

from sluice.clients.lake import layout
from sluice.manifest import encode
from tests.integration.landed import Event, World, client_of, land, unit

pytestmark = pytest.mark.integration

# precision, scale
TYPES = ((9, 0), (5, 2), (9, 2), (18, 4), (15, 15), (18, 18), (38, 10), (76, 18), (38, 20))
EACH = 1500


@pytest.fixture(scope="module")
def world(clickhouse_server, tmp_path_factory) -> World:
    made = World(tmp_path_factory.mktemp("lake"), client_of(clickhouse_server), "load_decimals")
    made.sql("CREATE DATABASE {db}")
    return made


def spelled(random: Random, scale: int) -> str:
    """A number of up to fifteen digits, as JSON: often at the edge of what the scale keeps."""
    places = min(15, random.choice([0, scale, scale, scale + 1, random.randint(0, 15)]))
    digits = random.choice(["9" * 15, "1" + "0" * 13 + "1", str(random.randrange(10**15))])
    digits = digits[: random.randint(max(1, places), 15)]
    whole, rest = digits[: len(digits) - places].lstrip("0"), digits[len(digits) - places :]
    if len(rest) == 15:
        rest = rest[:14]  # the zero before the point counts
    number = random.choice(["", "-"]) + (whole or "0") + (f".{rest}" if rest else "")
    return random.choice([number, f'"{number}"'])


def fits(number: Decimal, precision: int, scale: int) -> bool:
    units = number.scaleb(scale)
    return units == units.to_integral_value() and abs(units) < 10**precision


@pytest.mark.parametrize("looked_at", [True, False], ids=["event by event", "none is long"])
def test_what_the_type_holds_is_there_and_all_else_is_rejected(world: World, looked_at: bool):
    name = f"decimals_{looked_at}".lower()
    columns = ", ".join(f"c{n} Decimal({precision}, {scale})" for n, (precision, scale) in enumerate(TYPES))
    world.sql(
        f"CREATE TABLE {{db}}.{name} ({columns}, _offset Int64, _slice DateTime('UTC'), "
        "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _offset"
    )
    random, place = Random(16), unit(looked_at)
    cases = [(n, spelled(random, TYPES[n][1])) for n in range(len(TYPES)) for _ in range(EACH)]
    made = land(world.lake, place, [Event("t", f'{{"c{n}": {text}}}') for n, text in cases])
    manifest = encode(replace(made, long_numbers=looked_at))
    world.lake.put(layout.manifest(place.slice.id, place.cluster), manifest)
    world.load(world.pipeline({"t": name}), place)
    expected = {
        offset: Decimal(text.strip('"'))
        for offset, (n, text) in enumerate(cases)
        if fits(Decimal(text.strip('"')), *TYPES[n])
    }
    assert EACH < len(expected) < len(cases) - EACH, "it has to try both what fits and what does not"
    values = ", ".join(f"c{n}" for n in range(len(TYPES)))
    found = world.sql(f"SELECT _offset, {values} FROM {{db}}.{name}")
    assert {row[0]: row[1 + cases[row[0]][0]] for row in found} == expected
    rejected = world.sql(f"SELECT offset, column FROM sluice.rejected WHERE target = '{{db}}.{name}'")
    assert dict(rejected) == {
        offset: f"c{n}" for offset, (n, _) in enumerate(cases) if offset not in expected
    }
