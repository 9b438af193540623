"""Times that are numbers, against Python's Decimal: each is the instant that was written, cut to the column's
precision, or a rejected row; never the next second because a double reads so."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from random import Random

import pytest

from sluice.clients.clickhouse.client import Client
from sluice.flow.load.casts.exact_numbers import LONG
from tests.integration.casts import test_casts_evaluated
from tests.integration.casts.test_casts_evaluated import NONE_LONG, SIXTEEN, evaluate, event

pytestmark = pytest.mark.integration

client = test_casts_evaluated.client
SPELLED = re.compile(r"\d{10}(\.\d{1,9})?|\d{13}")
NINES = [f"1795168799.{'9' * digits}" for digits in range(1, 12)]
HOURS = [f"{stamp}.{'9' * digits}" for stamp in (1795172399, 1795129199) for digits in (5, 6, 7, 9)]
MILLIS = [f"1795168799999.{'9' * digits}" for digits in (0, 1, 2, 3, 4, 6, 7) if digits]
WHOLE = [
    "1795168800",
    "1795168800.0",
    "1795168800.0000000000",
    "1795168799999",
    "1795168799999.0",
    "9223372036",
]
EXPONENTS = [
    *(
        "1.7951687999999999e9",
        "1.795168799e9",
        "17951687999999999e-7",
        "1.795168799999e12",
        "1795168799999E0",
    ),
    *("1.7951687999999999999e12", "1795168800e0", "1795168800000000e-6", "1795168799999999999e-9"),
]
NEGATIVE = ["-1795168800", "-1795168799.9999999", "-1795168799999", "-1.7951687999999999e9", "-0.0"]
ODD = ["999999999.9999999999", "9999999999.9999999", "999999999999.9999999", "9999999999999.9999", "0.5"]


def drawn() -> list[str]:
    random = Random(4)
    digits = [random.randrange(1, 18) for _ in range(300)]
    return [f"{random.randrange(10**9, 4 * 10**9)}.{random.randrange(10**n):0{n}}" for n in digits]


NUMBERS = [*NINES, *HOURS, *MILLIS, *WHOLE, *EXPONENTS, *NEGATIVE, *ODD, *drawn()]


POWER_BY_DIGITS = {9: 0, 10: 0, 12: 3, 13: 3, 15: 6, 16: 6, 18: 9, 19: 9}


def seconds_of(token: str) -> Decimal | None:
    """The digits before the point say the unit, from seconds to nanoseconds; 0 is 1970."""
    value = Decimal(token)
    if not value:
        return Decimal(0)
    power = POWER_BY_DIGITS.get(len(str(int(abs(value)))))
    return None if power is None else value.scaleb(-power)


def wanted(kind: str, digits: int, token: str) -> str | None:
    """toString() in UTC of the instant; None where the column cannot hold all of it, or it is none."""
    with localcontext() as context:
        context.prec = 60
        seconds = seconds_of(token)
        limit = Decimal(2**32 if kind == "DateTime" else 2**63).scaleb(-digits)
        first = 0 if kind == "DateTime" else -2_208_988_800  # 1900
        if seconds is None or not first <= seconds < limit:
            return None
        ticks = seconds.scaleb(digits)
        if ticks != int(ticks):
            return None
    whole, fraction = divmod(int(ticks), 10**digits)
    written = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=whole)
    return f"{written:%Y-%m-%d %H:%M:%S}" + (f".{fraction:0{digits}}" if digits else "")


def certain(token: str, quoted: bool) -> bool:
    """A string is spelled as a time is; of a number the double's text says the same, digit for digit."""
    if quoted:
        return SPELLED.fullmatch(token) is not None
    text = repr(float(token)).removesuffix(".0")
    short = "e" not in token.lower() or sum(map(str.isdigit, token)) <= 15
    return short and SPELLED.fullmatch(text) is not None and Decimal(text) == Decimal(token)


@pytest.mark.parametrize(
    ("kind", "digits"), [("DateTime", 0), *(("DateTime64", digits) for digits in range(10))]
)
@pytest.mark.parametrize("quoted", [False, True])
def test_a_number_is_the_instant_that_was_written(client: Client, kind: str, digits: int, quoted: bool):
    name = f"DateTime64({digits}, 'UTC')" if kind == "DateTime64" else "DateTime('UTC')"
    wrong = []
    for long in (LONG, NONE_LONG):
        tokens = [t for t in NUMBERS if long is LONG or not SIXTEEN.search(event(t))]
        payloads = [event(f'"{token}"' if quoted else token) for token in tokens]
        for token, (unfit, value) in zip(
            tokens, evaluate(client, name, "toString({})", payloads, long), strict=True
        ):
            right = wanted(kind, digits, token)
            must = right is not None and certain(token, quoted)
            if must if unfit else value != right:
                wrong.append((token, unfit, value, right))
    assert wrong == []
    assert len(tokens) > 50  # also the short way was tried


ZEROS = [*range(13), 17, 18, 19, 20, 21, 30, 64, 195, 300, 5_000]
IN = {
    "DateTime64({}, 'UTC')": ("{}", "toString({})"),
    "Array(DateTime64({}, 'UTC'))": ("[{}]", "toString({}[1])"),
    "Map(String, DateTime64({}, 'UTC'))": ('{{"a": {}}}', "toString({}['a'])"),
    "Tuple(a DateTime64({}, 'UTC'))": ('{{"a": {}}}', "toString({}.a)"),
}


@pytest.mark.parametrize("kind", IN)
@pytest.mark.parametrize("digits", [3, 9])
@pytest.mark.parametrize(
    "written",
    ["2026-11-20T10:00:00.{}Z", "2026-11-20 10:00:00,{}", "20261120T120000.{}+0200", "1795168800.{}"],
)
def test_zeros_behind_a_fraction_say_nothing(client: Client, kind: str, digits: int, written: str):
    """However many there are. A digit behind them does."""
    around, read = IN[kind]
    said = {f"{tenth}{'0' * zeros}": str(tenth) for tenth in (0, 1, 9) for zeros in ZEROS}
    said |= {f"1{'0' * zeros}1": "" for zeros in ZEROS if zeros > 7}
    payloads = [event(around.format(f'"{written.format(fraction)}"')) for fraction in said]
    found = evaluate(client, kind.format(digits), read, payloads)
    wanted = [value and f"2026-11-20 10:00:00.{value:0<{digits}}" for value in said.values()]
    given = ["" if unfit else value for unfit, value in found]
    wrong = [(f, v) for f, v, want in zip(said, given, wanted, strict=True) if v != want]
    assert wrong == []
