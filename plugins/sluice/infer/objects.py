"""What the keys of many objects are like: a Map's, a Tuple's, or neither."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sluice.infer.rules import Rules

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
