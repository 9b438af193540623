"""How much a message of an Avro schema becomes: what each has, and what each item and each branch adds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.flow.land.expansion import ESCAPED, Size, largest
from sluice.flow.land.reject_reasons import BadSchema

# A few shared types, each twice in the next, make an empty message of a billion values.
MOST_VALUES = 100_000
# Each takes fastavro's compiled reader some hundred bytes of a stack that ends with the process.
MOST_LEVELS = 1_000

_NUMBER, _INSTANT = 26, 44  # bytes of the longest
_SHORTER = {"null": 4, "boolean": 5, "int": 14, "long": 24}  # a reader may take numbers as floats
_DIGITS = 3  # of a byte of a decimal, or of base64
_ITEM = Size(0, 4)  # a comma; of a map's also a colon and quotes


@dataclass(frozen=True)
class _Kind:
    """Of each datum of a schema: whether it takes no byte, and its size without what a message adds: items,
    branches of unions, and the contents of strings."""

    weightless: bool
    size: Size


@dataclass
class SchemaSizes:
    """Walks a schema and all within it, each named type once.

    With a `reader` what its defaults add to each record of its name is counted, too.
    """

    named: Mapping[str, Any]
    reader: ReaderSizes | None = None
    deep: bool = False
    """A type holds itself, or types nest in more than MOST_LEVELS."""
    whole: Size = field(default_factory=Size)
    """What each message becomes."""
    byte: Size = field(default_factory=Size)
    """What a byte adds at most: it begins an item, is the number of a branch, or stands in a string; an item
    may begin with the number of a branch."""
    _kinds: dict[str, _Kind | None] = field(default_factory=dict)
    _levels: dict[str, int | None] = field(default_factory=dict)
    _items: list[Size] = field(default_factory=list)
    _branches: list[Size] = field(default_factory=list)

    @classmethod
    def of(cls, schema: Any, named: Mapping[str, Any], reader: ReaderSizes | None = None) -> SchemaSizes:
        """Raises BadSchema."""
        sizes = cls(named, reader)
        sizes.whole = sizes._kind(schema).size
        sizes._walk(schema)
        if sizes.whole.values > MOST_VALUES:
            most = f"expected at most {MOST_VALUES:,}"
            raise BadSchema(f"each of its messages has {sizes.whole.values:,} values: {most}")
        sizes.byte = largest(sizes._items) + largest(sizes._branches) + Size(0, ESCAPED)
        return sizes

    def item(self, schema: Any) -> Size:
        """Returns what each item of an array becomes, or each value of a map, without its key's content."""
        return self._kind(schema).size + _ITEM

    def branch(self, schema: Any) -> Size:
        return self._kind(schema).size

    def _walk(self, schema: Any) -> int:
        """Meets all items and branches. Returns in how many levels types nest."""
        if isinstance(schema, str):
            return self._walk_named(schema, self.named[schema]) if schema in self.named else 1
        if isinstance(schema, list):
            levels = max(map(self._walk, schema), default=0)
            self._branches += map(self.branch, schema)
            return 1 + levels
        if schema["type"] in ("record", "error"):
            return self._walk_named(schema["name"], schema)
        levels = 0
        for key in ("items", "values"):
            if key in schema:
                levels = self._walk(schema[key])
                self._items.append(self.item(schema[key]))
        if "items" in schema and self._kind(schema["items"]).weightless:
            raise BadSchema("it has an array whose items take no bytes, and which could be of any length")
        return 1 + levels

    def _walk_named(self, name: str, schema: Any) -> int:
        if name not in self._levels:
            self._levels[name] = None
            parts = (self._walk(part["type"]) for part in schema.get("fields", ()))
            self._levels[name] = 1 + max(parts, default=0)
        levels = self._levels[name]
        self.deep |= levels is None or levels > MOST_LEVELS
        return levels or 0

    def _kind(self, schema: Any) -> _Kind:
        if isinstance(schema, str):
            return self._named(schema, self.named[schema]) if schema in self.named else _leaf(schema, {})
        if isinstance(schema, list):
            return _Kind(False, Size())
        if schema["type"] in ("array", "map"):
            return _Kind(False, Size(1, 2))
        return self._named(schema["name"], schema) if "name" in schema else _leaf(schema["type"], schema)

    def _named(self, name: str, schema: Any) -> _Kind:
        if name not in self._kinds:
            self._kinds[name] = None
            self._kinds[name] = self._sized(schema)
        kind = self._kinds[name]
        if kind is None:
            raise BadSchema(f"each {name} holds another: no message of it could end")
        return kind

    def _sized(self, schema: Any) -> _Kind:
        if schema["type"] not in ("record", "error"):
            symbol = 0 if self.reader is None else self.reader.symbol
            return _leaf(schema["type"], schema, symbol)
        fields = [(_name(part["name"]), self._kind(part["type"])) for part in schema["fields"]]
        size = sum((name + kind.size for name, kind in fields), Size(1, 2))
        if self.reader is not None:
            size += self.reader.record(schema["name"])
        return _Kind(all(kind.weightless for _, kind in fields), size)


@dataclass(frozen=True)
class ReaderSizes:
    """What a reader's schema may add: to each record its names and defaults, to each enum another symbol."""

    records: Mapping[str, Size]
    symbol: int

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> ReaderSizes:
        records: dict[str, Size] = {}
        for schema in named.values():
            if schema["type"] in ("record", "error"):
                for name in {schema["name"], *schema.get("aliases", ())}:
                    sizes = [records.get(_short(name), Size()), _defaults(schema)]
                    records[_short(name)] = largest(sizes)
        symbols = [_text(schema.get("default")) for schema in named.values() if schema["type"] == "enum"]
        return cls(records, max(symbols, default=0))

    def record(self, name: str) -> Size:
        return self.records.get(_short(name), Size())


def _defaults(schema: Any) -> Size:
    return sum(
        (
            _name(part["name"]) + Size(_values(part.get("default")), _text(part.get("default")))
            for part in schema["fields"]
        ),
        Size(),
    )


def _leaf(kind: str, schema: Mapping[str, Any], symbol: int = 0) -> _Kind:
    """Returns the kind of a type without parts; a reader may give an enum a `symbol` of so many bytes."""
    zeros = schema.get("scale", 0)
    if kind == "fixed":
        return _Kind(schema["size"] == 0, Size(1, _DIGITS * schema["size"] + _INSTANT + zeros))
    if kind == "enum":
        return _Kind(False, Size(1, max([symbol, *map(_text, schema["symbols"])])))
    text = _INSTANT if "logicalType" in schema else _SHORTER.get(kind, _NUMBER)
    return _Kind(kind == "null", Size(1, text + zeros))


def _name(name: str) -> Size:
    return Size(0, _text(name) + 2)


def _text(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _values(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_values, inner))


def _short(name: str) -> str:
    return name.rpartition(".")[2]
