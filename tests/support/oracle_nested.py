"""What a JSON value has to become in a type of any nesting, by Python alone, and where it does not fit.

A type is a tree of these classes, each of which writes the type's name and judges a value. No type's name is
parsed here, and nothing of the load is used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from tests.support import oracle
from tests.support.oracle import Number, Verdict, Zero, unreadable

WHOLE = 1 << 63  # from here on a double in a container is a whole number, which the parser may refuse


@dataclass(frozen=True)
class Judged:
    """`value` counts where `rejected_rows`, the paths of what does not fit, is empty. What is at the paths of
    `doubts` may be refused, too."""

    value: Any
    rejected_rows: tuple[str, ...] = ()
    doubts: tuple[str | None, ...] = ()


def unfit(path: str) -> Judged:
    return Judged(None, (path,))


def doubted(path: str) -> Judged:
    return Judged(oracle.Anything(), doubts=(path,))


@dataclass(frozen=True)
class Scalar:
    """`judge` is what the value itself becomes; `read` the type that shows it; `default` what its column gets
    without a value."""

    type: str
    judge: Callable[[Any], Verdict]
    read: str = ""
    nullable: bool = False
    default: Any = None

    @property
    def blank(self) -> Any:
        return None if self.nullable else self.default

    @property
    def name(self) -> str:
        return _nullable(self.type) if self.nullable else self.type

    @property
    def shown(self) -> str:
        kind = self.read or self.type
        return _nullable(kind) if self.nullable else kind

    def of(self, value: Any, path: str) -> Judged:
        if value is None:
            return Judged(None) if self.nullable else unfit(path)
        found = self.judge(value)
        if found is None:
            return unfit(path)
        any_value = isinstance(found.value, oracle.Anything)  # which equals all
        made = Zero() if not any_value and found.value == {0.0} else found.value
        return Judged(made, doubts=() if found.certain else (path,))


def _nullable(kind: str) -> str:
    name, _, inner = kind.partition("(")
    return f"{name}(Nullable({inner[:-1]}))" if name == "LowCardinality" else f"Nullable({kind})"


@dataclass(frozen=True)
class ArrayOf:
    inner: Any

    @property
    def blank(self) -> Any:
        return []

    @property
    def name(self) -> str:
        return f"Array({self.inner.name})"

    @property
    def shown(self) -> str:
        return f"Array({self.inner.shown})"

    def of(self, value: Any, path: str) -> Judged:
        if not isinstance(value, list):
            return unfit(path)
        return _together(list, [self.inner.of(item, f"{path}[{n}]") for n, item in enumerate(value)])


@dataclass(frozen=True)
class MapOf:
    key: Scalar
    inner: Any

    @property
    def blank(self) -> Any:
        return Pairs()

    @property
    def name(self) -> str:
        return f"Map({self.key.name}, {self.inner.name})"

    @property
    def shown(self) -> str:
        return f"Map({self.key.shown}, {self.inner.shown})"

    def of(self, value: Any, path: str) -> Judged:
        if not isinstance(value, dict):
            return unfit(path)
        places = [f"{path}[{json.dumps(name[:60], ensure_ascii=False)}]" for name in value]
        keys = [self.key.of(name, place) for name, place in zip(value, places, strict=True)]
        items = [self.inner.of(item, place) for item, place in zip(value.values(), places, strict=True)]
        found = _together(list, [*keys, *items])
        if found.rejected_rows:
            return found
        if any(isinstance(key.value, oracle.Anything) for key in keys):  # it may be another's value
            return Judged(oracle.Anything(), doubts=(*found.doubts, *places))
        given = [repr(key.value) for key in keys]
        again = [place for n, place in enumerate(places) if given[n] in given[:n]]
        if again:
            return Judged(None, tuple(again), found.doubts)
        pairs = [(key.value, item.value) for key, item in zip(keys, items, strict=True)]
        return Judged(Pairs(pairs), doubts=found.doubts)


class Pairs(list):
    """A map's keys and values."""


@dataclass(frozen=True)
class Named:
    """A named Tuple; what else the object has is left out."""

    fields: tuple[tuple[str, Any], ...]

    @property
    def name(self) -> str:
        return f"Tuple({', '.join(f'{_quoted(name)} {kind.name}' for name, kind in self.fields)})"

    @property
    def shown(self) -> str:
        return f"Tuple({', '.join(f'{_quoted(name)} {kind.shown}' for name, kind in self.fields)})"

    @property
    def lacking(self) -> bool:
        return all(_lacking(kind) for _, kind in self.fields)

    def of(self, value: Any, path: str, filled: bool = False) -> Judged:
        """`filled`: it is a column, and its elements get defaults as columns do."""
        if not isinstance(value, dict):
            return unfit(path)
        parts = []
        for name, kind in self.fields:
            item, place = value.get(name), f"{path}.{name}"
            if isinstance(kind, Named):
                inner = {} if item is None and (filled or kind.lacking) else item
                parts.append(kind.of(inner, place, filled))
            elif item is None and filled:
                parts.append(Judged(kind.blank))
            else:
                parts.append(kind.of(item, place))
        return _together(tuple, parts)

    @property
    def blank(self) -> Any:
        return tuple(kind.blank for _, kind in self.fields)


def _lacking(kind: Any) -> bool:
    return kind.lacking if isinstance(kind, Named) else bool(getattr(kind, "nullable", False))


@dataclass(frozen=True)
class Unnamed:
    parts: tuple[Any, ...]
    alias: str = ""

    @property
    def blank(self) -> Any:
        return tuple(part.blank for part in self.parts)

    @property
    def name(self) -> str:
        return self.alias or f"Tuple({', '.join(part.name for part in self.parts)})"

    @property
    def shown(self) -> str:
        return f"Tuple({', '.join(part.shown for part in self.parts)})"

    def of(self, value: Any, path: str) -> Judged:
        if not isinstance(value, list) or len(value) != len(self.parts):
            return unfit(path)
        found = [
            part.of(item, f"{path}[{n}]")
            for n, (part, item) in enumerate(zip(self.parts, value, strict=True))
        ]
        return _together(tuple, found)


@dataclass(frozen=True)
class Variant:
    """`parts` are (kinds of JSON, type), those first that are tried first."""

    parts: tuple[tuple[tuple[str, ...], Any], ...]
    nullable: bool = True
    blank = None

    @property
    def name(self) -> str:
        return f"Variant({', '.join(part.name for _, part in self.parts)})"

    shown = name

    def of(self, value: Any, path: str) -> Judged:
        if value is None:
            return Judged(None)
        kind = json_kind(value)
        own = [part for kinds, part in self.parts if kind in kinds]
        for part in (*own, *(part for _, part in self.parts)):
            found = part.of(value, path)
            if found.rejected_rows:
                continue
            return doubted(path) if found.doubts else found
        return unfit(path)


@dataclass(frozen=True)
class Dynamic:
    """Strings, booleans, whole numbers of 64 bits, and doubles that read as the number does."""

    nullable: bool = True
    blank = None
    name = shown = "Dynamic"

    def of(self, value: Any, path: str) -> Judged:
        if value is None:
            return Judged(None)
        if isinstance(value, list | dict):
            return doubted(path)
        return Judged(_plain(value)) if not isinstance(value, Number) or _short(value) else doubted(path)


def json_kind(value: Any) -> str:
    if isinstance(value, Number):
        return "number"
    kinds = {bool: "bool", str: "string", list: "array", dict: "object"}
    return kinds[type(value)]


def _plain(value: Any) -> Any:
    if not isinstance(value, Number):
        return value
    return int(value) if value.lstrip("-").isdigit() and value != "-0" else float(value)


def _short(value: Number) -> bool:
    return len(value) <= 15 and "e" not in value.lower()


def _together(made: Callable[[list], Any], parts: Sequence[Judged]) -> Judged:
    rejected_rows = tuple(path for part in parts for path in part.rejected_rows)
    doubts = tuple(path for part in parts for path in part.doubts)
    return Judged(None if rejected_rows else made([part.value for part in parts]), rejected_rows, doubts)


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def judge(kind: Any, token: str, filled: bool = False) -> Judged:
    """Of a JSON text that is no null. Where it holds a number that the parser may refuse, all is doubted, and
    `doubts` has None. `filled`: of a column, where fields that an object lacks get defaults."""
    value = oracle.loads(token)
    found = kind.of(value, "", filled) if isinstance(kind, Named) else kind.of(value, "")
    if not unreadable(value, WHOLE):
        return found
    return Judged(found.value, found.rejected_rows, (*found.doubts, None))


def choosing(kind: Any) -> bool:
    """Whether a Variant is in it, which takes another alternative where one refuses a doubted number."""
    parts = [
        getattr(kind, "inner", None),
        *getattr(kind, "parts", ()),
        *(part for _, part in getattr(kind, "fields", ())),
    ]
    return isinstance(kind, Variant) or any(choosing(part) for part in parts if part is not None)


def same(wanted: Any, found: Any) -> bool:
    """Compares what clickhouse-connect reads: named tuples are dicts, maps are dicts, others are tuples."""
    if isinstance(wanted, oracle.Anything):
        return True
    if isinstance(wanted, Pairs):
        pairs = list(found.items())
        return len(pairs) == len(wanted) and all(
            any(same(key, k) and same(item, v) for k, v in pairs) for key, item in wanted
        )
    if isinstance(found, date):
        return str(found) == wanted
    if isinstance(wanted, tuple):
        parts = list(found.values()) if isinstance(found, dict) else list(found)
        return len(parts) == len(wanted) and all(map(same, wanted, parts))
    if isinstance(wanted, list):
        return len(wanted) == len(found) and all(map(same, wanted, found))
    if isinstance(wanted, set):
        return found in wanted
    if isinstance(found, bool) != isinstance(wanted, bool):
        return False
    if isinstance(found, str) and isinstance(wanted, bytes):
        found = found.encode()
    return bool(wanted == found)
