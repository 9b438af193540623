"""ClickHouse's type names as trees: `Map(String, Nullable(UInt8))` and so on."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SPLIT = re.compile(r"""'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|[(),]|[^'`(),]+""", re.DOTALL)

_NAMED = re.compile(r"(`(?:\\.|[^`\\])*`|[\w.]+)\s+(.+)", re.DOTALL)


_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "0": "\0"}  # as the server writes them

# https://clickhouse.com/docs/sql-reference/data-types/geo
_GEOMETRY = {
    "Point": "Tuple(Float64, Float64)",
    "Ring": "Array(Point)",
    "LineString": "Array(Point)",
    "MultiLineString": "Array(LineString)",
    "Polygon": "Array(Ring)",
    "MultiPolygon": "Array(Polygon)",
}


@dataclass(frozen=True)
class Type:
    """`text` is the whole name; `arguments` are the texts between its commas."""

    text: str
    name: str
    arguments: tuple[str, ...] = ()

    def argument(self, index: int) -> Type:
        return parse(self.arguments[index])

    def named_arguments(self) -> list[tuple[str, Type]]:
        """Returns (name, type) of a Tuple's elements or a JSON's typed paths, the name empty where there is
        none."""
        return [named(text) for text in self.arguments]

    @property
    def spelled_names(self) -> list[str]:
        """The names of a named Tuple's elements, as the server spells them; none of an unnamed one."""
        matches = [_NAMED.fullmatch(text) for text in self.arguments]
        return [match[1] for match in matches if match is not None]

    @property
    def plain(self) -> Type:
        """Without LowCardinality and Nullable, which do not change what a value may be."""
        return self.argument(0).plain if self.name in ("LowCardinality", "Nullable") else self

    @property
    def stored(self) -> Type:
        """The type of the values that are stored: of a SimpleAggregateFunction, its argument's."""
        return self.argument(1) if self.name == "SimpleAggregateFunction" else self

    @property
    def shape(self) -> Type:
        """The plain type, the shapes of geometry and a Nested as the arrays and tuples that they are."""
        plain = self.plain
        if plain.name == "Nested":
            return parse(f"Array(Tuple({', '.join(plain.arguments)}))")
        return parse(_GEOMETRY[plain.name]) if plain.name in _GEOMETRY else plain

    @property
    def nullable(self) -> bool:
        if self.name == "LowCardinality":
            return self.argument(0).nullable
        return self.name in ("Nullable", "Variant", "Dynamic")


def parse(text: str) -> Type:
    """Returns the tree of a type's name as system.columns gives it."""
    name, bracket, rest = text.strip().partition("(")
    if not bracket:
        return Type(name, name)
    return Type(text.strip(), name.strip(), tuple(_arguments(rest[:-1])))


def named(text: str) -> tuple[str, Type]:
    """Returns (name, type) of one of these arguments."""
    match = _NAMED.fullmatch(text)
    if match is None:
        return "", parse(text)
    name = _unescaped(match[1][1:-1]) if match[1].startswith("`") else match[1]
    return name, parse(match[2])


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text, flags=re.DOTALL)


def _arguments(text: str) -> list[str]:
    """Splits at the commas that are outside brackets and quotes."""
    parts, depth = [""], 0
    for token in _SPLIT.findall(text):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if token == "," and depth == 0:  # noqa: S105 - a part of a type
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts]


def takes(column: Type, given: Type) -> bool:
    """Returns whether every value of the type `given` is the same in the column: the types are the same apart
    from LowCardinality and time zones, and the column may be Nullable."""
    column, given = _bare(column), _bare(given)
    if column.name == "Nullable":
        return takes(column.argument(0), given.argument(0) if given.name == "Nullable" else given)
    if column.name != given.name:
        return False
    if column.name == "DateTime":
        return True
    if column.name == "DateTime64":
        return column.arguments[0] == given.arguments[0]
    if column.name in ("Array", "Map", "Tuple"):
        pairs = list(zip(column.named_arguments(), given.named_arguments(), strict=False))
        same_names = all(mine == theirs for (mine, _), (theirs, _) in pairs)
        same_count = len(column.arguments) == len(given.arguments)
        return same_count and same_names and all(takes(mine, theirs) for (_, mine), (_, theirs) in pairs)
    return column.text == given.text


def _bare(kind: Type) -> Type:
    """Returns the type of the values: how they are stored, and that merges add them up, changes none."""
    if kind.name == "LowCardinality":
        return _bare(kind.argument(0))
    return _bare(kind.stored) if kind.name == "SimpleAggregateFunction" else kind
