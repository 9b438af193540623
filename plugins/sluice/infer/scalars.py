"""The types of numbers and texts, each with the reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from sluice.infer import spellings
from sluice.infer.fits import refuses_more
from sluice.infer.types import STRING, Inferred, Leaf, Rules
from sluice.infer.values import scale


class Finding(NamedTuple):
    """A type, and in a few words why."""

    kind: Inferred
    why: str


_MONEY = re.compile(
    r"price|total|amount|cost|tax|fee|revenue|balance|budget|bid|paid|discount|salary|payment|subtotal|turnover",
    re.IGNORECASE,
)
_FRACTIONS = 20  # with at most two digits: chance does not make so many
_MONEY_SCALE = 4
_ROOM_DIGITS = 3
_ROOM = 10**_ROOM_DIGITS  # the greatest number may be so many times greater


def number(values: Sequence[Any], name: str, rules: Rules) -> Finding:
    refused = rules.may_refuse(len(values))
    stamps = [digits for value in values if (digits := spellings.epoch_digits(value)) is not None]
    if spellings.names_time(name) and stamps and len(values) - len(stamps) <= refused:
        return Finding(Leaf("DateTime64", (_second_digits(stamps),)), "numbers that count from 1970")
    if all(isinstance(value, int) for value in values):
        return _integer(values)
    return _fraction(values, name)


def _integer(values: Sequence[int]) -> Finding:
    low, high = min(values), max(values)
    digits = len(str(max(-low, high)))
    why = f"whole numbers of at most {digits} digit{'' if digits == 1 else 's'}"
    why += ", some below 0" if low < 0 else ""
    if low >= 0:
        return Finding(Leaf("UInt64"), why)
    return Finding(Leaf("Int64" if high < 1 << 63 else "Int128"), why)


def _fraction(values: Sequence[Any], name: str) -> Finding:
    """Returns Decimal for numbers of few digits, as amounts of money are; else Float64."""
    scales = [scale(value) for value in values]
    exact = [digits for digits in scales if digits is not None]
    most, fractions = max(exact, default=0), sum(digits > 0 for digits in exact)
    named = _MONEY.search(name) is not None and most <= _MONEY_SCALE
    if len(exact) == len(scales) and (named or (fractions >= _FRACTIONS and most <= 2)):
        places = 2 if most <= 2 else _MONEY_SCALE
        why = f"numbers with at most {places} digits after the point"
        return Finding(Leaf("Decimal", (_precision(values, places), places)), why)
    return Finding(Leaf("Float64"), "numbers with a fraction or an exponent")


def _precision(values: Sequence[Any], places: int) -> int:
    most = max(abs(Decimal(str(value))) for value in values) * _ROOM
    return 18 if most < Decimal(10) ** (18 - places) else 38


def text(values: Sequence[str], name: str, rules: Rules) -> Finding:
    refused = rules.may_refuse(len(values))
    for kind, why in [*_amounts(values, name), *_spelled(values)]:
        if not refuses_more(kind, values, refused):
            return Finding(kind, why)
    different = len(set(values))
    why = f"{different:,} different text{'' if different == 1 else 's'}"
    if len(values) >= rules.dictionary and different <= min(rules.most_texts, len(values) // 10):
        return Finding(Leaf("String", dictionary=True), why)
    return Finding(STRING, why)


def _amounts(values: Sequence[str], name: str) -> list[tuple[Leaf, str]]:
    """Texts of digits are amounts only where the field is named like money: `"1.10"` may be a version."""
    digits = [counted for value in values if (counted := spellings.decimal_digits(value)) is not None]
    if _MONEY.search(name) is None or not digits or max(after for _, after in digits) > _MONEY_SCALE:
        return []
    places = 2 if max(after for _, after in digits) <= 2 else _MONEY_SCALE
    precision = 18 if max(before for before, _ in digits) + _ROOM_DIGITS + places <= 18 else 38
    return [
        (
            Leaf("Decimal", (precision, places)),
            f"texts of numbers with at most {places} digits after the point",
        )
    ]


def _spelled(values: Sequence[str]) -> list[tuple[Leaf, str]]:
    """Returns what a column of texts may be instead, the narrowest first."""
    digits = _second_digits([spellings.fraction_digits(value) for value in values])
    return [
        (Leaf("UUID"), "UUIDs"),
        (Leaf("IPv4"), "IPv4 addresses"),
        (Leaf("IPv6"), "IPv6 addresses"),
        (Leaf("Date"), "days"),
        (Leaf("Date32"), "days"),
        (Leaf("DateTime64", (digits,)), "times in ISO 8601"),
    ]


def _second_digits(fractions: Sequence[int]) -> int:
    """Returns the fewest of 3, 6 and 9 digits that hold all fractions."""
    most = max(fractions, default=0)
    return next((digits for digits in (3, 6) if digits >= most), 9)
