"""JSON columns: what is at a typed path is what the strict cast says (flow/load/casts/casts.py).

ClickHouse reads a typed path in its own way, and of times not every spelling. So a document gets the strict
value's own text at a path with a time in its type, unless the usual spelling is there. Then the strict values
are compared with what ClickHouse reads: what differs is a rejected row, and so is a key `a.b`, which it takes
for the path of two keys, and what is no object on the way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from sluice.clients.clickhouse.sql import both, either, listed, literal, summed
from sluice.clients.clickhouse.types import Type, named
from sluice.flow.load.casts.containers import twice_in_document
from sluice.flow.load.casts.exact_numbers import any_large
from sluice.flow.load.casts.judged import (
    Cast,
    Caster,
    Field,
    UnsupportedType,
    if_quoted,
    inside,
    let,
    repeats,
    unfit_of,
)
from sluice.flow.load.casts.times import RANGES

_NO_PATH = re.compile(r"SKIP |max_dynamic_(paths|types) ?=")  # the other arguments of a JSON
_MOST_KEYS = 6  # of one typed path: its spellings double with each

Named = tuple[tuple[str, str], ...]
"""Expressions with their names: (name, expression)."""


@dataclass(frozen=True)
class TypedPath:
    """A path of a JSON that has a type of its own. `text` and `unfit` are names: of what is there, and of the
    condition that it is a rejected row. `cast` is what the strict cast makes of the text, by name."""

    name: str
    kind: Type
    text: str
    cast: Cast
    unfit: str

    @property
    def keys(self) -> list[str]:
        return self.name.split(".")

    @property
    def where(self) -> str:
        """The place inside it, of a container."""
        return self.cast.where if self.cast.container else ""

    def differs(self, made: str) -> str:
        """Returns the condition that the JSON `made` has another value there."""
        stored = f"getSubcolumn({made}, {literal(self.name)})"
        # In an array two tuples with NULLs are the same; by themselves that is unknown.
        same = (f"[{stored}]", f"[{self.cast.value}]") if self.cast.container else (stored, self.cast.value)
        return both(f"isNotNull({self.text})", f"ifNull({same[0]} != {same[1]}, isNotNull({stored}))")


@dataclass(frozen=True)
class Document:
    """A JSON in SQL: its `value`, by the names that the `stages` give, each by those before it."""

    stages: tuple[Named, ...]
    paths: tuple[TypedPath, ...]
    value: str

    @property
    def named(self) -> Named:
        return tuple(pair for stage in self.stages for pair in stage)

    def let(self, body: str) -> str:
        for stage in reversed(self.stages):
            body = let(stage, body)
        return body

    def where(self, x: str, whole: str, depth: int) -> str:
        """Returns the place of a rejected row; `whole` is that of the whole value."""
        places = [
            part
            for path in self.paths
            for part in (path.unfit, inside(literal(f".{path.name}"), path.cast.where, depth))
        ]
        twice = twice_in_document(x, whole)
        return self.let(f"multiIf({listed(places)}, {twice})") if places else twice


def document(caster: Caster, kind: Type, field: Field, suffix: str) -> Document:
    """Returns the JSON of type `kind` in the field, by names that end with the suffix. Raises
    UnsupportedType."""
    x, name = field.x, f"document{suffix}"
    wrong = [any_large(f"ifNull({x}, '')", field.key)] if field.key is not None else []
    wrong += [repeats(f"JSONExtractKeys(ifNull({x}, ''))"), *if_quoted(field.quoted)]
    texts, casts, paths = [], [], []
    for number, (path_name, path_kind) in enumerate(_paths_of(kind)):
        text, value, unfit = (f"{letter}{suffix}_{number}" for letter in "tsb")
        path_cast = _cast_at(caster, field, path_name, path_kind, text)
        texts.append((text, f"JSONExtract({_place(x, path_name.split('.'))}, 'Nullable(String)')"))
        casts.append((value, path_cast.judged or path_cast.value))
        paths.append(TypedPath(path_name, path_kind, text, _by_name(path_cast, text, value), unfit))
    timed = [path for path in paths if _has_time(path.kind)]
    stages: list[Named] = [tuple(texts), tuple(casts)] if paths else []
    if timed:
        # What is no JSON object has no keys: written again it would be an empty one.
        odd = both(either(*map(_odd, timed)), f"JSONType(ifNull({x}, '')) = 'Object'")
        stages.append(((name, f"if({odd}, {_written(f'assumeNotNull({x})', _tree(timed))}, {x})"),))
    made = f"accurateCastOrNull({name if timed else x}, {literal(kind.text)})"
    if paths:
        stages.append(tuple((path.unfit, _unfit(path, x, path.differs(made))) for path in paths))
        wrong = [f"({summed([path.unfit for path in paths])}) > 0", *wrong]
    return Document(tuple(stages), tuple(paths), f"if({either(*wrong)}, NULL, {made})")


def _has_time(kind: Type) -> bool:
    return any(time in kind.text for time in RANGES)


def _odd(path: TypedPath) -> str:
    """Returns the condition that ClickHouse may read another time than is there."""
    kind = path.kind.plain
    if kind.name not in RANGES:
        return f"isNotNull({path.text})"
    digits = kind.arguments[0] if kind.name == "DateTime64" else "0"
    fraction = f"([.][0-9]{{1,{digits}}})?" if digits != "0" else ""
    clock = "" if kind.name in ("Date", "Date32") else f"[T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}{fraction}Z"
    usual = literal(f"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{clock}$")
    return f"ifNull(NOT match({path.text}, {usual}), 0)"


def _paths_of(kind: Type) -> list[tuple[str, Type]]:
    """Returns (path, type) of a JSON's typed paths. Raises UnsupportedType."""
    paths = [named(argument) for argument in kind.arguments if not _NO_PATH.match(argument)]
    if any(name.count(".") >= _MOST_KEYS for name, _ in paths):
        raise UnsupportedType(kind.text)
    return paths


def _cast_at(caster: Caster, field: Field, name: str, kind: Type, text: str) -> Cast:
    keys = name.split(".")
    at = Field(
        text,
        field.depth + 1,
        None if field.key is None else keys[-1],
        f"JSONType({_place(field.x, keys)}) = 'String'",
    )
    return caster(kind, at)


def _by_name(path_cast: Cast, text: str, name: str) -> Cast:
    """Returns the cast by the name of its value, or of its value and whether it does not fit."""
    if not path_cast.judged:
        return replace(path_cast, value=name, unfit=unfit_of(text, name))
    value, unfit = f"tupleElement({name}, 1)", f"tupleElement({name}, 2)"
    return replace(path_cast, value=value, unfit=unfit, judged=name)


def _unfit(path: TypedPath, x: str, differs: str) -> str:
    keys = path.keys
    odd = [f"JSONHas({_place(x, way)})" for way in _spellings(keys)]
    odd += [f"JSONType({_place(x, keys[:end])}) NOT IN ('Object', 'Null')" for end in range(1, len(keys))]
    there = both(f"isNotNull({path.text})", either(path.cast.unfit, differs))
    return both(f"isNotNull({x})", either(there, *odd))


def _place(x: str, keys: Sequence[str]) -> str:
    return f"assumeNotNull({x}), {listed(map(literal, keys))}"


def _spellings(keys: list[str]) -> list[list[str]]:
    """Returns the other ways to write a path of several keys: `a.b` as one key."""
    return [
        [".".join(keys[start:end]) for start, end in zip((0, *ends), (*ends, len(keys)), strict=True)]
        for count in range(len(keys) - 1)
        for ends in combinations(range(1, len(keys)), count)
    ]


# The text of a document with the strict values at their paths.

Tree = dict[str, "Tree | TypedPath"]


def _tree(paths: Sequence[TypedPath]) -> Tree:
    """Returns the paths by their keys. The value at a path has what is at a path inside it, too."""
    tree: Tree = {}
    for path in sorted(paths, key=lambda path: len(path.keys)):
        node: Tree | TypedPath = tree
        for key in path.keys[:-1]:
            node = node.setdefault(key, {}) if isinstance(node, dict) else node
        if isinstance(node, dict):
            node[path.keys[-1]] = path
    return tree


def _written(raw: str, tree: Tree, depth: int = 0) -> str:
    """Returns the object `raw`, with what the tree has for its keys."""
    entry = f"f{depth}"
    key, there = f"tupleElement({entry}, 1)", f"tupleElement({entry}, 2)"
    known = []
    for name, node in tree.items():
        if isinstance(node, TypedPath):
            value = f"if(isNull({node.text}), {there}, {_token(node.kind, node.cast.value)})"
        else:
            value = f"if(startsWith({there}, '{{'), {_written(there, node, depth + 1)}, {there})"
        known += [f"{key} = {literal(name)}", value]
    member = f"concat(toJSONString({key}), ':', multiIf({listed([*known, there])}))"
    return _around("{", f"arrayMap({entry} -> {member}, JSONExtractKeysAndValuesRaw({raw}))", "}")


def _around(first: str, members: str, last: str) -> str:
    return f"concat({literal(first)}, arrayStringConcat({members}, ','), {literal(last)})"


def _token(kind: Type, value: str, depth: int = 0) -> str:
    """Returns the JSON text from which ClickHouse reads the value. It writes a time without its zone, so that
    an hour that is there twice is lost: in UTC it has one."""
    name, shape, item = kind.plain.name, kind.shape, f"i{depth}"
    if not _has_time(kind):
        return f"ifNull(toJSONString({value}), 'null')"
    if name in ("DateTime", "DateTime64"):
        return f"ifNull(concat('\"', toString(toTimeZone({value}, 'UTC')), 'Z\"'), 'null')"
    if shape.name == "Array":
        return _around("[", f"arrayMap({item} -> {_token(shape.argument(0), item, depth + 1)}, {value})", "]")
    if shape.name == "Map":
        entry = f"concat(toJSONString(k{item}), ':', {_token(shape.argument(1), item, depth + 1)})"
        members = f"arrayMap((k{item}, {item}) -> {entry}, mapKeys({value}), mapValues({value}))"
        return _around("{", members, "}")
    if shape.name == "Tuple":
        parts = [
            f"concat({literal(json.dumps(name, ensure_ascii=False) + ':' if name else '')}, "
            f"{_token(part, f'tupleElement({value}, {number})', depth)})"
            for number, (name, part) in enumerate(shape.named_arguments(), start=1)
        ]
        first, last = "{}" if shape.named_arguments()[0][0] else "[]"
        return _around(first, f"[{listed(parts)}]", last)
    if name == "Variant":
        alternatives = [kind.plain.argument(number) for number in range(len(kind.plain.arguments))]
        chosen = [
            part
            for of in alternatives
            for part in (
                f"toString(variantType({value})) = {literal(of.text)}",
                _token(of, f"variantElement({value}, {literal(of.text)})", depth),
            )
        ]
        return f"multiIf({listed(chosen)}, 'null')"
    return f"ifNull(toJSONString({value}), 'null')"
