"""Decimals by every way that their cast has: by the text, and by the arithmetic of doubles. As strings, which
say exactly what they are; the values are written here, digit by digit."""

from __future__ import annotations

import pytest

from sluice.clickhouse.client import Client
from tests.integration import test_casts_evaluated
from tests.integration.test_casts_evaluated import evaluate, event

pytestmark = pytest.mark.integration

client = test_casts_evaluated.client
REJECTED = None
NOUGHTS = "0" * 20
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
    # Sixteen digits that are the same double as fifteen of the column's.
    *(
        ("Decimal(18, 14)", text, REJECTED)
        for text in ("9.668132568596449", "8.367114229256419", "9.334343428016609", "9.634949125377659")
    ),
    *(("Decimal(18, 14)", text, text) for text in ("9.66813256859645", "-8.36711422925642")),
    # Scales that a double's powers of ten do not reach.
    ("Decimal(76, 30)", "1.23e-28", "0.000000000000000000000000000123"),
    ("Decimal(76, 30)", "1.23e-29", REJECTED),
    ("Decimal(38, 19)", "1.5", "1.5"),
    ("Decimal(38, 19)", "0.1234567890123456789", "0.1234567890123456789"),
    ("Decimal(38, 18)", "0.000000000000000001", "0.000000000000000001"),
    ("Decimal(38, 18)", "1e-19", REJECTED),
]


@pytest.mark.parametrize("kind", dict.fromkeys(kind for kind, _, _ in CASES))
def test_a_decimal_is_what_was_written(client: Client, kind: str):
    cases = {text: value for one, text, value in CASES if one == kind}
    found = evaluate(client, kind, "toString({})", [event(f'"{text}"') for text in cases])
    said = {text: REJECTED if misfit else value for text, (misfit, value) in zip(cases, found, strict=True)}
    assert said == cases
