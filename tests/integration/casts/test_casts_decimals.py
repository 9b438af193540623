"""Decimals by every way that their cast has: by the text, and by the arithmetic of doubles. As strings, which
say exactly what they are; the values are written here, digit by digit."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.sql import literal
from sluice.clients.clickhouse.types import parse
from sluice.flow.load.casts.scalars import _by_double, decimal
from tests.integration.casts import test_casts_evaluated
from tests.integration.casts.test_casts_evaluated import evaluate, event

pytestmark = pytest.mark.integration

client = test_casts_evaluated.client
REJECTED = None
NOUGHTS = "0" * 20
# Sixteen digits that are the same double as fifteen of the column's.
SIXTEEN = ("9.668132568596449", "8.367114229256419", "9.334343428016609", "9.634949125377659")
CASES: list[tuple[str, str, str | None]] = [
    # Zeros at the end say nothing, however many.
    ("Decimal(9, 2)", f"1.23{NOUGHTS}", "1.23"),
    ("Decimal(9, 2)", f"1.230{NOUGHTS}1", REJECTED),
    ("Decimal(9, 2)", f"-1.2{NOUGHTS}", "-1.2"),
    ("Decimal(9, 2)", f"123{NOUGHTS}e-23", REJECTED),
    *(("Decimal(9, 0)", zero, "0") for zero in ("0", "0.0", f"0.{NOUGHTS}", "-0.0", "0e5")),
    *(("Decimal(9, 0)", text, REJECTED) for text in ("0.1", f"0.{NOUGHTS}1", "1e-1", "1000000000")),
    ("Decimal(9, 0)", "1.0", "1"),
    ("Decimal(9, 9)", "0.000000001", "0.000000001"),
    ("Decimal(9, 9)", "0.0000000001", REJECTED),
    # A sign, which a JSON number does not have.
    ("Decimal(9, 2)", "+1.239", REJECTED),
    ("Decimal(9, 2)", f"+1.23{NOUGHTS}9", REJECTED),
    *(("Decimal(18, 14)", text, REJECTED) for text in SIXTEEN),
    *(("Decimal(18, 14)", text, text) for text in ("9.66813256859645", "-8.36711422925642")),
    # Scales that a double's powers of ten do not reach.
    ("Decimal(76, 30)", "1.23e-28", "0.000000000000000000000000000123"),
    ("Decimal(76, 30)", "1.23e-29", REJECTED),
    ("Decimal(38, 19)", "1.5", "1.5"),
    ("Decimal(38, 19)", "0.1234567890123456789", "0.1234567890123456789"),
    ("Decimal(38, 18)", "0.000000000000000001", "0.000000000000000001"),
    ("Decimal(38, 18)", "1e-19", REJECTED),
    # A long mantissa with an exponent.
    *(
        (kind, f"1.{'0' * noughts}e-30", f"0.{'0' * 29}1")
        for kind in ("Decimal(76, 30)", "Decimal(40, 30)", "Decimal(38, 30)", "Decimal(39, 38)")
        for noughts in (20, 46, 60, 100, 400)
    ),
    # The server's parser does not take more digits before the exponent than fit ("What is not there yet").
    *(("Decimal(9, 4)", text, REJECTED) for text in (f"12{NOUGHTS}e-20", f"0.{NOUGHTS}12e21")),
    *(("Decimal(9, 4)", text, "1.2") for text in ("12000e-4", "0.00012e4")),
    *(
        (kind, f"-1.2{'0' * noughts}E+3", "-1200")
        for kind in ("Decimal(9, 2)", "Decimal(18, 4)", "Decimal(30, 4)", "Decimal(76, 4)")
        for noughts in (5, 20, 80)
    ),
]


@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, _, _ in CASES))
def test_a_decimal_is_what_was_written(client: Client, kind: str):
    cases = {text: value for one, text, value in CASES if one == kind}
    found = evaluate(client, kind, "toString({})", [event(f'"{text}"') for text in cases])
    said = {text: REJECTED if unfit else value for text, (unfit, value) in zip(cases, found, strict=True)}
    assert said == cases


def test_short_decimals_are_read_by_arithmetic_alone(client: Client):
    """It takes half the time, so that nearly all have to go this way: of fifteen digits and a point."""
    taken = ["1.2345", "12345678901.2345", "-1234567890.2345", "99999999999", "0.0001", "-7", "0"]
    left = ["12345678901.23456", "123456789012.3456", "1.23456", "1000000000000000", "x"]
    made = _by_double(parse("Decimal(18, 4)"), 18, 4, "x", None, "NULL")
    texts = ", ".join(map(literal, taken + left))
    rows = client.rows(
        f"SELECT x, toString({made}) FROM (SELECT toNullable(arrayJoin([{texts}])) AS x)", settings=WRITE
    )
    assert dict(rows) == {text: text for text in taken} | dict.fromkeys(left)


def test_sixteen_digits_are_not_read_by_arithmetic(client: Client):
    made = _by_double(parse("Decimal(18, 14)"), 18, 14, "x", None, "NULL")
    texts = ", ".join(map(literal, SIXTEEN))
    rows = client.rows(
        f"SELECT toString({made}) FROM (SELECT toNullable(arrayJoin([{texts}])) AS x)", settings=WRITE
    )
    assert rows == [(None,)] * len(SIXTEEN)


@pytest.mark.parametrize(("scale", "arithmetic"), [(0, True), (18, True), (19, False), (30, False)])
def test_arithmetic_is_for_powers_of_ten_that_are_exact(scale: int, arithmetic: bool):
    made = decimal(parse(f"Decimal(76, {scale})"), "x", None)
    assert ("reinterpret" in made) is arithmetic
