"""How much a message of an Avro schema becomes: what each has, and what each item and each branch adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.flow.land.expansion import ESCAPED, Room, Size, largest
from sluice.flow.land.formats.connect_types import MOST_DIGITS
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
        if "logicalType" in schema:  # a decimal with a scale of its own
            size += Size(0, MOST_DIGITS)
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
    zeros = abs(schema.get("scale", 0)) + schema.get("length", 0)
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


# Walks a message in Avro's binary encoding, for what fastavro's compiled reader does not refuse: an index of
# an enum's symbol or of a union's branch below zero, which it counts from the end, and a length below zero.
#
# Only messages of schemas with an enum or a union are walked, and those that may become too large: what they
# become is counted on the way. Nothing is decoded: each part is a function from the offset where a datum
# begins to that where it ends, made of the schema.

Walk = Callable[[bytes, int], int]
"""Takes a message and where a datum begins; returns where it ends. Raises IndexError for a message that ends
before, and for an index that its schema does not have; ValueError for a length below zero."""

_FIXED = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_MORE = 0x80
_MOST_BITS = 70  # of ten bytes, the most that a long takes


@dataclass(frozen=True)
class _Count:
    """Counts what a message becomes: `sizes` of its schema, taken from `room`."""

    sizes: SchemaSizes
    room: Room


def walk_of(schema: Any, named: Mapping[str, Any]) -> Walk | None:
    """Returns the walk of a parsed schema; None where it has neither an enum nor a union. `named`: the types
    that it names."""
    if not _has_index(schema, named, set()):
        return None
    return _walk(_part(schema, named, {}, None))


def counted_walk_of(schema: Any, named: Mapping[str, Any], sizes: SchemaSizes, room: Room) -> Walk:
    """Returns a walk that raises Rejected where a message becomes more than there is `room`, which is filled
    again for each."""
    return _walk(_part(schema, named, {}, _Count(sizes, room)))


def _has_index(schema: Any, named: Mapping[str, Any], seen: set[str]) -> bool:
    if isinstance(schema, list):
        return True
    if isinstance(schema, str):
        if schema not in named or schema in seen:
            return False
        seen.add(schema)
        return _has_index(named[schema], named, seen)
    if schema["type"] in ("record", "error"):
        seen.add(schema["name"])
        return any(_has_index(part["type"], named, seen) for part in schema["fields"])
    inner = [schema[key] for key in ("items", "values") if key in schema]
    return schema["type"] == "enum" or any(_has_index(part, named, seen) for part in inner)


def _part(schema: Any, named: Mapping[str, Any], walks: dict[str, Walk], count: _Count | None) -> Walk | int:
    """Returns the walk of a datum, or the bytes that every one takes."""
    if isinstance(schema, list):
        branches = [_walk(_part(branch, named, walks, count)) for branch in schema]
        return _union(branches) if count is None else _counted_union(branches, schema, count)
    if isinstance(schema, str) and schema in named:
        return _named(schema, named[schema], named, walks, count)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in ("record", "error", "enum", "fixed"):
        return _named(schema["name"], schema, named, walks, count)
    if kind in ("array", "map"):
        inner = schema["items" if kind == "array" else "values"]
        key: list[Walk | int] = [] if kind == "array" else [_content("string", "string", count)]
        item = _record([*key, _part(inner, named, walks, count)])
        return _blocks(item) if count is None else _blocks(item, count.sizes.item(inner), count.room)
    if kind in _FIXED:
        return _FIXED[kind]
    return _content(kind, schema, count) if kind in ("string", "bytes") else _long


def _named(
    name: str, schema: Any, named: Mapping[str, Any], walks: dict[str, Walk], count: _Count | None
) -> Walk | int:
    if schema["type"] == "fixed":
        return int(schema["size"])
    if schema["type"] == "enum":
        return _enum(len(schema["symbols"]))
    if name not in walks:
        # A type that holds itself finds its walk when it is walked.
        walks[name] = lambda message, at: walks[name](message, at)
        fields = [_part(field["type"], named, walks, count) for field in schema["fields"]]
        walks[name] = _walk(_record(fields))
    return walks[name]


def _walk(part: Walk | int) -> Walk:
    return (lambda message, at: at + part) if isinstance(part, int) else part


def _long(message: bytes, at: int) -> int:
    while message[at] & _MORE:
        at += 1
    return at + 1


def _number(message: bytes, at: int) -> tuple[int, int]:
    """Returns a number, and where it ends."""
    bits = shift = 0
    while True:
        byte = message[at]
        bits |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & _MORE:
            return (bits >> 1) ^ -(bits & 1), at
        if shift >= _MOST_BITS:
            raise ValueError("a number of more than ten bytes")


def leading_number(message: bytes) -> int:
    """Returns the number with which a message begins: of a union its branch."""
    return _number(message, 0)[0]


def _past_text(message: bytes, at: int) -> int:
    length = message[at]
    if length & _MORE:
        number, at = _number(message, at)
        length = 2 * number
    else:
        at += 1
    if length & 1 or length < 0:
        raise ValueError("a length below zero")
    return at + (length >> 1)


def _content(kind: str, schema: Any, count: _Count | None) -> Walk:
    if count is None:
        return _past_text
    room, resolved = count.room, count.sizes.reader is not None
    decimal = isinstance(schema, Mapping) and "logicalType" in schema

    def walk(message: bytes, at: int) -> int:
        until = _past_text(message, at)
        if until > len(message):
            raise IndexError("the message ends before")
        # A reader may take bytes as a string, and a string as bytes.
        if kind == "string" or resolved:
            room.take_string(message[at:until])
        if kind == "bytes" or resolved:
            room.take_bytes((until - at) * (2 if decimal else 1))
        return until

    return walk


def _index(message: bytes, at: int, count: int) -> tuple[int, int]:
    index, at = _number(message, at)
    if not 0 <= index < count:
        raise IndexError(f"index {index} of {count}")
    return index, at


def _enum(count: int) -> Walk:
    return lambda message, at: _index(message, at, count)[1]


def _union(branches: Sequence[Walk]) -> Walk:
    count = len(branches)

    def walk(message: bytes, at: int) -> int:
        index = message[at]
        if index & (_MORE | 1) or index >= 2 * count:
            number, at = _index(message, at, count)
            return branches[number](message, at)
        return branches[index >> 1](message, at + 1)

    return walk


def _counted_union(branches: Sequence[Walk], schemas: Sequence[Any], count: _Count) -> Walk:
    sizes, room = [*map(count.sizes.branch, schemas)], count.room

    def walk(message: bytes, at: int) -> int:
        number, at = _index(message, at, len(branches))
        room.take(sizes[number])
        return branches[number](message, at)

    return walk


def _record(parts: Sequence[Walk | int]) -> Walk | int:
    """Joins neighbours of a fixed size."""
    joined: list[Walk | int] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, int) and isinstance(last, int):
            joined[-1] = last + part
        elif part != 0:
            joined.append(part)
    if not joined or (len(joined) == 1 and isinstance(joined[0], int)):
        return joined[0] if joined else 0
    walks = [_walk(part) for part in joined]

    def walk(message: bytes, at: int) -> int:
        for part in walks:
            at = part(message, at)
        return at

    return walk


def _blocks(item: Walk | int, size: Size | None = None, room: Room | None = None) -> Walk:
    """Walks an array or a map, whose blocks may say their size in bytes before their items; each item takes
    `size` of the room."""
    each = _walk(item)

    def walk(message: bytes, at: int) -> int:
        while True:
            count, at = _number(message, at)
            if count < 0:
                count, at = -count, _long(message, at)
            if not count:
                return at
            if count > len(message) - at:
                raise IndexError("the message ends before")
            if size is not None and room is not None:
                room.take(size, count)
            for _ in range(count):
                if at > len(message):
                    raise IndexError("the message ends before")
                at = each(message, at)

    return walk
