"""Says how what is there differs from what is expected, by the first few rows."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

_FEW = 3
_WIDTH = 100


def rows_differ(name: str, expected: Mapping[tuple, tuple], seen: list[tuple[tuple, tuple]]) -> list[str]:
    """Rows by what identifies them: missing, too many, twice, and those with other values."""
    twice = [key for key, count in Counter(key for key, _ in seen).items() if count > 1]
    found = dict(seen)
    missing = [key for key in expected if key not in found]
    extra = [key for key in found if key not in expected]
    other = [
        f"{key}: {_difference(expected[key], found[key])}"
        for key in expected
        if key in found and not same(expected[key], found[key])
    ]
    counts = f"{name}: {len(expected)} rows expected, {len(seen)} seen"
    return [
        *_told(f"{counts}; missing", [f"{key}: {expected[key]}" for key in missing]),
        *_told(f"{counts}; too many", [f"{key}: {found[key]}" for key in extra]),
        *_told(f"{counts}; twice", twice),
        *_told(f"{counts}; other values", other),
    ]


def counters_differ(name: str, expected: Counter[tuple], seen: Counter[tuple]) -> list[str]:
    return [
        *_told(f"{name}: missing", list((expected - seen).items())),
        *_told(f"{name}: too many", list((seen - expected).items())),
    ]


def _told(what: str, items: list[Any]) -> list[str]:
    if not items:
        return []
    few = "\n    ".join(_short(str(item)) for item in sorted(items, key=str)[:_FEW])
    return [f"{what}: {len(items)}, first\n    {few}"]


def _short(text: str) -> str:
    return text if len(text) <= 4 * _WIDTH else f"{text[: 4 * _WIDTH]}… ({len(text)} characters)"


def _difference(expected: tuple, found: tuple) -> str:
    parts = [
        f"[{place}] expected {_short(repr(one))}, seen {_short(repr(other))}"
        for place, (one, other) in enumerate(zip(expected, found, strict=True))
        if not same(one, other)
    ]
    return "; ".join(parts)


def same(wanted: Any, found: Any) -> bool:
    """`wanted` may hold sets of floats, any of which is right, and what oracle.py compares itself."""
    if isinstance(wanted, set):
        return any(one == found and math.copysign(1, one) == math.copysign(1, found) for one in wanted)
    if isinstance(wanted, (list, tuple)):
        return len(wanted) == len(found) and all(map(same, wanted, found))
    if isinstance(wanted, dict):
        return wanted.keys() == found.keys() and all(same(wanted[key], found[key]) for key in wanted)
    return bool(wanted == found)


class Said:
    """Equals each JSON text that says the same event; `stamp` is the path of a time that may be spelled with
    another fraction."""

    def __init__(self, text: str, stamp: tuple[str, ...]) -> None:
        self.text, self._stamp = text, stamp

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self._plain(other) == self._plain(self.text)

    __hash__ = None

    def __repr__(self) -> str:
        return f"as {self.text}"

    def _plain(self, text: str) -> Any:
        event = json.loads(text)
        place = event
        for name in self._stamp[:-1]:
            place = place.get(name) or {}
        if isinstance(place.get(self._stamp[-1]), str):
            place[self._stamp[-1]] = _without_zeros(place[self._stamp[-1]])
        return event


def _without_zeros(time: str) -> str:
    head, point, fraction = time.removesuffix("Z").partition(".")
    return head + (point + fraction.rstrip("0") if fraction.rstrip("0") else "")
