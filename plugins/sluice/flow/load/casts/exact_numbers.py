"""Whether a number's text says what the event says: JSON numbers with a point or an exponent are doubles to
ClickHouse's parser. Beyond 15 digits a double's text may be another number's, and 1e-400 is 0 as a double."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sluice.clients.clickhouse.sql import Sql, both, either, literal

SHORT = 15  # digits that a double always keeps (DBL_DIG of IEEE 754)
_ZEROS = Sql(literal(r"^([^.eE]*(?:[.][0-9]*[1-9])?)[.]?0*$"))  # that say nothing: 1.50, 2.0
# A number with a point or an exponent and more digits: its double's text may be short, 72 for 71.99….
_PARTS = [rf"[0-9]{{{n}}}\.[0-9]{{{SHORT + 1 - n}}}" for n in range(1, SHORT + 1)]
# A number that may be too small for a double, 1e-400; with a shorter exponent it has many zeros before. What
# stands before a number tells it from a part of a UUID.
_TINY = r"[\s:,\[]-?[0-9]+([.][0-9]+)?[eE]-[0-9]{3}"
_LONG = "|".join([*_PARTS, rf"[0-9]{{{SHORT + 1}}}[.eE]", _TINY])
# What all of these have, found by Vectorscan at three times the speed of re2.
_LIKELY = [r"[0-9.]{16}", r"[0-9][eE]-[0-9]{3}"]
LONG = Sql(
    f"(multiMatchAny(_payload, [{', '.join(map(literal, _LIKELY))}]) AND match(_payload, {literal(_LONG)})) "
    "AS long_numbers"
)
"""To be selected before the fields: whether the event holds such a number at all. Few do."""


def _plain(number: str) -> str:
    """Returns the number without zeros at its end that say nothing. A string may have some, too: "1.50"."""
    return f"replaceRegexpOne({number}, {_ZEROS}, {literal(chr(92) + '1')})"


# A number with a point or an exponent; what stands before tells it from a part of a text, 10.0.0.1.
_NUMBERS = r"[\s:,\[](-?[0-9]+(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?)"
# Those whose doubles may read as another number: of more digits, or too small, and not 0 (-0.0, 0e-400).
# The double of any other is its own.
_ODD_ONES = [rf"(?:[.]?[0-9]){{{SHORT + 1}}}|[eE]-[0-9]{{3}}", r"^-?[0.]*[1-9]", "[.eE]"]
_FOUND = (
    f"arrayFilter(t -> {both(*(f'match(t, {literal(one)})' for one in _ODD_ONES))}, "
    f"extractAll(_payload, {literal(_NUMBERS)}))"
)
# They are found once for all columns, as doubles and as they are written.
_ODD = f"if(long_numbers, {_FOUND}, emptyArrayString())"
ODD = (
    Sql(f"arrayMap(t -> toFloat64OrZero(t), {_ODD}) AS odd_doubles"),
    Sql(f"arrayMap(t -> {_plain('t')}, {_ODD}) AS odd_numbers"),
)
"""To be selected beside them."""

# A whole number beyond 64 bits, for which the server's parser refuses the whole event: it reads a text of the
# same digits instead. Strings are tokens of their own, so that none is found inside one.
_TOKENS = literal(r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|[^"0-9-]+')
_MAY_BE_LARGE = f"match(_payload, {literal('[0-9]{20}|-[0-9]{19}')})"
_LARGE = both(
    f"match(t, {literal('^-?[0-9]{19,}$')})",
    "isNull(accurateCastOrNull(t, 'UInt64'))",
    "isNull(accurateCastOrNull(t, 'Int64'))",
)
_AS_TEXTS = f"arrayMap(t -> if({_LARGE}, concat('\"', t, '\"'), t), extractAll(_payload, {_TOKENS}))"
EVENT = Sql(f"if({_MAY_BE_LARGE}, arrayStringConcat({_AS_TEXTS}), _payload) AS event_text")
"""The event as the server can parse it."""
_LARGE_TEXT = literal('"(-?[0-9]{19,})"')
_ALL_LARGE = f"arrayFilter(t -> {_LARGE}, extractAll(_payload, {_TOKENS}))"
LARGE = Sql(f"if({_MAY_BE_LARGE}, {_ALL_LARGE}, emptyArrayString()) AS large_numbers")
"""The numbers that are texts there."""


def any_large(text: str, key: FieldText) -> str:
    """Returns the condition that a value, or something in it, may be such a number, which has no type that
    is chosen by the value. A string of the same digits in the same event counts as one."""
    if key is None:
        return "0"
    inside = f"extractAll({text}, {_LARGE_TEXT})"
    return both(
        "notEmpty(large_numbers)", either(f"has(large_numbers, {text})", f"hasAny(large_numbers, {inside})")
    )


def spelled_out(x: str, key: FieldText, quoted: str) -> str:
    """Returns the text `x` with its numbers as the event spells them, and NULL where that is not known:
    another number of the event is the same double, or a string has the same digits. A string stays as it is;
    `quoted` is the condition that it is one."""
    if key is None:
        return x
    double, number = "toFloat64OrZero(t)", literal("^-?[0-9]")
    rounded = both(f"match(t, {number})", f"has(odd_doubles, {double})")
    # Strings have a quote at both ends.
    digits = "substring(t, 2, length(t) - 2)"
    large = both(f"startsWith(t, {literal(chr(34))})", f"has(large_numbers, {digits})")
    same = both(f"match(n, {number})", f"toFloat64OrZero(n) = {double}")
    found = f"arrayFilter(n -> {same}, extractAll(_payload, {_TOKENS}))"
    numbers = f"arrayDistinct(arrayMap(n -> {_plain('n')}, {found}))"
    unknown = either(both(rounded, f"length({numbers}) != 1"), both(large, "position(_payload, t) > 0"))
    tokens = f"extractAll(assumeNotNull({x}), {_TOKENS})"
    text = (
        f"arrayStringConcat(arrayMap(t -> multiIf({rounded}, {numbers}[1], {large}, {digits}, t), {tokens}))"
    )
    plain = either(f"isNull({x})", both("empty(odd_doubles)", "empty(large_numbers)"), quoted or "0")
    return f"multiIf({plain}, {x}, arrayExists(t -> {unknown}, {tokens}), NULL, {text})"


Around = tuple[tuple[str, str], ...]
"""What may stand between a key and its value, and behind the value."""
_BARE: Around = ((":", ","), (":", "}"))
_SCALAR: Around = (*_BARE, (": ", ","), (": ", "}"), (':"', '"'), (': "', '"'))
_SPACED = Sql(literal(r"\s*([\[\]{},:])\s*"))


@dataclass(frozen=True)
class KeyUnless:
    """The field `key`, unless the value stands in another spelling of its path: the condition `elsewhere`."""

    key: str
    elsewhere: str


FieldText = str | KeyUnless | None
"""The field whose text is cast: empty where it is not known (an element of a container), and None where
the text is no JSON number's and says exactly what the value is."""


def unrounded(key: FieldText) -> str:
    """Returns the condition that no number's text is rounded."""
    return "1" if key is None else "(long_numbers = 0)"


def exact(x: str, key: FieldText) -> str:
    """Returns the condition on `x`, the text of the field `key`.

    In an event without long numbers it is exact: a double's text is the shortest that gives it back, and has
    the digits of the event's number where these are no more than SHORT. So is an `x` that stands in the
    payload as the value of the only such key, which is quickly seen. Else no number in the payload may be the
    same double in another spelling with a point or an exponent.
    """
    if key is None:
        return "1"
    text = f"assumeNotNull({x})"
    slow = _alone(text)
    condition = either(_literally(text, key), slow) if key else slow
    return f"if(long_numbers, {condition}, 1)"


def all_exact(text: str, key: FieldText) -> str:
    """Returns the same of all numbers in `text`, which is an array or an object. It is searched for last, and
    without the spaces of either: where the brackets are the same, so are the numbers between them."""
    if key is None:
        return "1"
    slow = f"arrayAll(t -> {_alone('t')}, extractAll({text}, {literal(_NUMBERS)}))"
    condition = either(slow, _literally(_squeezed(text), key, _squeezed("_payload"), _BARE)) if key else slow
    return f"if(long_numbers, {condition}, 1)"


def _alone(text: str) -> str:
    """Returns the condition that all numbers of the same double are written the same."""
    return f"countEqual(odd_doubles, toFloat64OrNull({text})) = countEqual(odd_numbers, {_plain(text)})"


def _squeezed(text: str) -> str:
    return f"replaceRegexpAll({text}, {_SPACED}, {literal(chr(92) + '1')})"


def _literally(text: str, key: str | KeyUnless, payload: str = "_payload", around: Around = _SCALAR) -> str:
    """Returns the condition that `text` is the value of the only such key. It is false for a payload with a
    backslash, where a key may have another spelling."""
    if isinstance(key, KeyUnless):
        return both(f"NOT ({key.elsewhere})", _literally(text, key.key, payload, around))
    name = json.dumps(key, ensure_ascii=False)
    needles = [f"concat({literal(name + before)}, {text}, {literal(after)})" for before, after in around]
    once = f"countSubstrings({payload}, {literal(name)}) = 1"
    plain = f"position(_payload, {literal(chr(92))}) = 0"
    return both(once, plain, f"multiSearchAny({payload}, [{', '.join(needles)}])")
