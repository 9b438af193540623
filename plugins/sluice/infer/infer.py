"""Chooses the column of a field from all its values: the narrowest type that has room for the next ones.

A column's COMMENT outlives the rows, and their erasure: it says shares, lengths and kinds, and no value of
any event.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple, cast

from sluice.infer import types
from sluice.infer.types import (
    JSON,
    STRING,
    ArrayOf,
    Inferred,
    Leaf,
    MapOf,
    Rules,
    TupleOf,
    is_container,
    may_lack,
    names_identifier,
    names_time,
    nullable,
    nullable_inside,
    refuses_more,
    unfit,
)
from sluice.infer.values import Ambiguous, Kind, becomes_json, divided, is_local, parts, readable, scale
from sluice.safe_text import line
from sluice.time_grammar import AS_WRITTEN, EPOCHS, Spelled, TimeFormat

_EXAMPLES = 3
_COMMENT = 400


@dataclass(frozen=True)
class UnfitValue:
    """A sampled value that the type refuses; `place` is empty, or the path inside the field."""

    place: str
    value: Any

    def __str__(self) -> str:
        return f"{self.place} is {described(self.value)}" if self.place else described(self.value)


@dataclass(frozen=True)
class InferredColumn:
    """`present` of `total` events have the field and no null there; `refused` of them do not fit, the first
    of which are `unfit_values`. `longest`: characters of the longest text, 0 where the values are no
    texts. `spelled`: what the pipeline file has to say of its times."""

    kind: Inferred
    why: str
    present: int
    total: int
    longest: int = 0
    refused: int = 0
    unfit_values: tuple[UnfitValue, ...] = ()
    spelled: Spelled = AS_WRITTEN

    @property
    def type(self) -> str:
        return self.kind.text

    @property
    def comment(self) -> str:
        """Says in how many events it is, and why this type; bounded, and to be quoted."""
        share = "all" if self.present == self.total else f"{_percent(self.present, self.total)} of"
        parts = [f"in {share} {self.total:,} events", self.why]
        parts += [f"at most {self.longest:,} characters"] if self.longest else []
        parts += [self.warning] if self.refused else []
        return line("; ".join(parts), _COMMENT)

    @property
    def warning(self) -> str:
        """Says what would be rejected; empty where every sampled value fits."""
        if not self.refused:
            return ""
        named = ", ".join(map(str, self.unfit_values))
        return f"{self.refused:,} of {self.present:,} would be rejected: {named}"


def column(
    name: str, values: Sequence[Any], total: int, rules: Rules, always: bool = False
) -> InferredColumn:
    """Returns the column for a field `name` with `values` in some of `total` events.

    Nullable, and each element of an object, unless the field can be relied on (see `relied_on`); an array, a
    Map and a JSON that are missing are empty.
    """
    present = [value for value in values if value is not None]
    finding, refused = _fitting(present, name, rules)
    if relied_on(name, len(present), total, rules, always):
        kind: Inferred | None = finding.kind
    else:
        kind = nullable_inside(finding.kind) if len(present) == total else may_lack(finding.kind)
    if kind is None:
        finding = whole(present, rules, "objects that some events lack, with containers inside")
        kind, refused = nullable(finding.kind), _refused(finding.kind, present)
    longest = max((len(value) for value in present if isinstance(value, str)), default=0)
    few = tuple(refused[:_EXAMPLES])
    spelled = _spelling(kind, present)
    return InferredColumn(kind, finding.why, len(present), total, longest, len(refused), few, spelled)


def _spelling(kind: Inferred, values: Sequence[Any]) -> Spelled:
    """Texts without an offset are UTC, until somebody says another zone."""
    if isinstance(kind, Leaf) and kind.unit:
        return Spelled(cast("TimeFormat", kind.unit))
    if "DateTime64" in kind.text and any(is_local(part) for value in values for part, _ in parts(value)):
        return Spelled(zone="UTC")
    return AS_WRITTEN


def relied_on(name: str, present: int, total: int, rules: Rules, always: bool) -> bool:
    """Returns whether a field is taken never to be missing. That no sampled event lacks it does not say so:
    the default of a plain column could not be told from a value. Somebody says so (`always`), or many events
    have it and its name is that of an identifier or a time."""
    certain = total >= rules.certain and (names_identifier(name) or names_time(name))
    return present == total and (always or certain)


def optional_column(name: str, values: Sequence[Any], rules: Rules) -> InferredColumn:
    """Returns the column for a field that other rows of its table lack."""
    return column(name, values, len(values) + 1, rules)


def _fitting(values: Sequence[Any], name: str, rules: Rules) -> tuple[Finding, list[UnfitValue]]:
    """Returns a type that refuses no more values than the rules allow; what lies inside adds up, and is
    widened."""
    finding = infer(values, name, rules)
    refused = _refused(finding.kind, values)
    if len(refused) > rules.may_refuse(len(values)):
        finding = infer(values, name, replace(rules, unfit_values=0.0))
        refused = _refused(finding.kind, values)
    return finding, refused


def _refused(kind: Inferred, values: Sequence[Any]) -> list[UnfitValue]:
    refusals = (unfit(kind, value) for value in values)
    return [UnfitValue(*refusal) for refusal in refusals if refusal is not None]


def described(value: Any) -> str:
    """Returns what a value is, and nothing of it."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return f"a text of {len(value):,} characters"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, Mapping | list):
        return "an object" if isinstance(value, Mapping) else "an array"
    return "a number"


def _percent(part: int, total: int) -> str:
    """Formats a share of less than all; it is never 100 %."""
    return f"{min(99.9, 100 * part / total):.1f} %"


def infer(values: Sequence[Any], name: str, rules: Rules, level: int = 0) -> Finding:
    """Returns the type of `values`, with nulls among them, of a field `name`; `level` counts the containers
    around.

    A null, or a field that is missing, is not of this type: its place decides whether it may be there.
    """
    groups = divided([value for value in values if value is not None])
    if not groups:
        return Finding(STRING, "nothing but null")
    chief, chosen = next(iter(groups.items()))
    count = sum(map(len, groups.values()))
    if chief is Kind.UNREADABLE or count - len(chosen) > rules.may_refuse(count):
        return Finding(STRING, "; ".join(f"{len(group):,} {kind}" for kind, group in groups.items()))
    if chief is Kind.BOOL:
        return Finding(Leaf("Bool"), "true or false")
    if chief is Kind.NUMBER:
        return number(chosen, name, rules, level)
    if chief is Kind.TEXT:
        return text(chosen, name, rules)
    if level >= rules.levels:
        return whole(chosen, rules, f"more than {rules.levels} levels")
    return (_objects if chief is Kind.OBJECT else _arrays)(chosen, name, rules, level)


def _arrays(arrays: Sequence[Sequence[Any]], name: str, rules: Rules, level: int) -> Finding:
    items = [item for array in arrays for item in array]
    if not items:
        return Finding(ArrayOf(STRING), "empty arrays")
    kind, why = infer(items, name, rules, level + 1)
    if None in items:
        if is_container(kind):
            return Finding(STRING, f"arrays with null beside {why}")
        kind = nullable(kind)
    array_type = ArrayOf(kind)
    return Finding(array_type if rules.fills(array_type.text) else STRING, f"arrays of {why}")


def _objects(objects: Sequence[Mapping[str, Any]], name: str, rules: Rules, level: int) -> Finding:
    keys = keys_of(objects)
    ambiguous = any(isinstance(one, Ambiguous) for one in objects)
    if looks_like_map(keys, len(objects), rules) and not ambiguous:
        finding = _map(keys, len(objects), name, rules, level)
        if finding is not None:
            return finding
    reason = why_no_tuple(keys, len(objects), rules)
    if not reason:
        finding, reason = _tuple(keys, len(objects), rules, level)
        if finding is not None:
            return finding
    return whole(objects, rules, reason)


def _map(
    keys: Mapping[str, Sequence[Any]], count: int, name: str, rules: Rules, level: int
) -> Finding | None:
    """Returns None where the values are of several types."""
    values = [value for key_values in keys.values() for value in key_values]
    if len(divided([value for value in values if value is not None])) != 1:
        return None
    kind, why = infer(values, name, rules, level + 1)
    if None in values:
        if is_container(kind):
            return None
        kind = nullable(kind)
    map_type = MapOf(kind)
    reason = f"{count:,} objects with {len(keys):,} different keys and values of one type: {why}"
    return Finding(map_type, reason) if rules.fills(map_type.text) else None


def _tuple(
    keys: Mapping[str, Sequence[Any]], count: int, rules: Rules, level: int
) -> tuple[Finding | None, str]:
    """Returns the Tuple, or why there is none.

    An object that lacks an element, or has null there, fits only where the element is Nullable, which no
    container is: an element that was not seen often enough to rely on is Nullable, or makes no Tuple.
    """
    elements: list[tuple[str, Inferred]] = []
    for name, values in keys.items():
        kind = infer(values, name, rules, level + 1).kind
        present = sum(value is not None for value in values)
        if present < count or count < rules.sure:
            if is_container(kind):
                return None, _unsure(present, count)
            kind = nullable(kind)
        elements.append((name, kind))
    tuple_type = TupleOf(tuple(elements))
    if not rules.fills(tuple_type.text):
        return None, "objects with stable keys, and a load fills no such Tuple"
    return Finding(tuple_type, f"objects with {len(keys):,} stable keys"), ""


def _unsure(present: int, count: int) -> str:
    seen = f"{present:,} of {count:,} objects have" if present < count else f"only {count:,} objects show"
    return f"{seen} a container at one of their keys, which a Tuple needs in each row"


def whole(values: Sequence[Any], rules: Rules, why: str) -> Finding:
    """Returns JSON for objects that a JSON column holds, else String."""
    document = all(isinstance(value, Mapping) and becomes_json(value) and readable(value) for value in values)
    return Finding(JSON if document and rules.fills(JSON.text) else STRING, why)


# What the keys of many objects are like: a Map's, a Tuple's, or neither.
_STABLE = 0.5  # of the objects have each key, on average
# Others are no path, reserved ("null") or hard to write in a SELECT.
_ELEMENT = re.compile(r"(?!null$)[^\W\d][\w$@:\- ]{0,99}|[$@][\w$@:\- ]{0,99}")

Keys = Mapping[str, Sequence[Any]]


def keys_of(objects: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns the values of each key, null among them."""
    values_by_key: dict[str, list[Any]] = defaultdict(list)
    for members in objects:
        for name, value in members.items():
            values_by_key[name].append(value)
    return dict(values_by_key)


def looks_like_map(keys: Keys, objects: int, rules: Rules) -> bool:
    """Returns whether the keys are many, and each object has few of them: such keys are values."""
    return len(keys) > rules.map_keys and _share(keys, objects) < _STABLE


def why_no_tuple(keys: Keys, objects: int, rules: Rules) -> str:
    """Returns why the keys make no Tuple; empty where they may."""
    if not keys:
        return "empty objects"
    if len(keys) > rules.tuple_keys:
        return f"objects with {len(keys):,} different keys"
    if _share(keys, objects) < _STABLE:
        return f"objects with {len(keys):,} keys that come and go"
    odd = [name for name in keys if not _ELEMENT.fullmatch(name)]
    return "objects with a key that is no name" if odd else ""


def _share(keys: Keys, objects: int) -> float:
    return sum(map(len, keys.values())) / (len(keys) * objects)


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


def number(values: Sequence[Any], name: str, rules: Rules, level: int = 0) -> Finding:
    refused = rules.may_refuse(len(values))
    stamps = [digits for value in values if (digits := types.epoch_digits(value)) is not None]
    if types.names_time(name) and stamps and len(values) - len(stamps) <= refused:
        return Finding(Leaf("DateTime64", (_second_digits(stamps),)), "numbers that count from 1970")
    if level == 0 and types.names_time(name) and (unit := types.unit_beside(values)):
        kind = Leaf("DateTime64", (_second_digits([EPOCHS[unit]]),), unit=unit)
        return Finding(kind, f"numbers that count from 1970 ({unit})")
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
    digits = [counted for value in values if (counted := types.decimal_digits(value)) is not None]
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
    digits = _second_digits([types.fraction_digits(value) for value in values])
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
