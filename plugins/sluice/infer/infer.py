"""Chooses the type of a field from all its values: the narrowest that has room for the next ones."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sluice.infer.scalars import Finding, number, text
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
    nullable,
)
from sluice.infer.values import Kind, becomes_json, divided, readable


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
        return number(chosen, name, rules)
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
    if looks_like_map(keys, len(objects), rules):
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
