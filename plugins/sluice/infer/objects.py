"""What the keys of many objects are like: a Map's, a Tuple's, or neither."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sluice.infer.rules import Rules
from sluice.safe_text import visible

_STABLE = 0.5  # of the objects have each key, on average
# Others are no path, reserved ("null") or hard to write in a SELECT.
_ELEMENT = re.compile(r"(?!null$)[^\W\d][\w$@:\- ]{0,99}|[$@][\w$@:\- ]{0,99}")

Keys = Mapping[str, Sequence[Any]]


def keys_of(objects: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns the values of each key, null among them."""
    found: dict[str, list[Any]] = defaultdict(list)
    for one in objects:
        for name, value in one.items():
            found[name].append(value)
    return dict(found)


def looks_like_map(keys: Keys, objects: int, rules: Rules) -> bool:
    """Many different keys, of which each object has few: they are values, such as days or users."""
    return len(keys) > rules.map_keys and _share(keys, objects) < _STABLE


def why_no_tuple(keys: Keys, objects: int, rules: Rules) -> str:
    """Empty where the keys may be a Tuple's."""
    if not keys:
        return "empty objects"
    if len(keys) > rules.tuple_keys:
        return f"objects with {len(keys):,} different keys"
    if _share(keys, objects) < _STABLE:
        return f"objects with {len(keys):,} keys that come and go"
    odd = [name for name in keys if not _ELEMENT.fullmatch(name)]
    return f"objects with a key {visible(odd[0], 40)!r}" if odd else ""


def _share(keys: Keys, objects: int) -> float:
    return sum(map(len, keys.values())) / (len(keys) * objects)
