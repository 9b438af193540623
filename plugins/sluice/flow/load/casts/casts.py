"""From a field's text to a column's type, strictly: a value fits exactly, or it is a misfit.

Every function takes `x`, an expression of type Nullable(String): the field as JSONExtract gives it (a string
without its quotes, anything else as JSON text), NULL where the field is missing or null. A string may read as
an array or object, so these ask what it is. ClickHouse's own casts let through much of what this refuses:
February 30th, 1.23456 as Decimal(18, 4), `nan`, `12` as a time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from sluice.clients.clickhouse.sql import both, either, listed, literal, summed
from sluice.clients.clickhouse.types import Type, named
from sluice.flow.load.casts.decimals import decimal
from sluice.flow.load.casts.exact_numbers import Key, exact
from sluice.flow.load.casts.times import RANGES, time

_INTEGERS = re.compile(r"U?Int(8|16|32|64)")
_WIDE_INTEGERS = re.compile(r"U?Int(128|256)")
_QUOTE = literal('"')
_CONTAINERS = ("Array", "Map", "JSON")
_PASSED_THROUGH = ("UUID", "IPv4", "IPv6", "FixedString")
_NUMBER_NAMED = re.compile(r"'-?[0-9]")  # a name that a JSON number may be taken for
_NO_PATH = re.compile(r"SKIP |max_dynamic_(paths|types) ?=")  # the other arguments of a JSON
_MOST_KEYS = 6  # of one typed path: its spellings double with each


class UnsupportedType(ValueError):
    """A type that no JSON value fits, or that Sluice does not fill."""


@dataclass(frozen=True)
class Cast:
    """`misfit`: `x` does not fit. There, and where `x` is NULL, `value` is NULL (a container: empty)."""

    value: str
    misfit: str
    container: bool = False


def cast(kind: Type, x: str, depth: int = 0, key: Key = "", quoted: str = "") -> Cast:
    """The cast of `x`, the value of the field `key`, to `kind`. `depth` counts the containers around it.

    `quoted` is the condition that a value which reads as an array or object is a string; empty where none is.
    Raises UnsupportedType.
    """
    plain = kind.plain
    if plain.name == "Array":
        return _array(plain.argument(0), x, depth, key, quoted)
    if plain.name == "Map":
        return _map(plain.argument(0), plain.argument(1), x, depth, key, quoted)
    if plain.name == "JSON":
        misfits = [_written_out(plain, x, path, depth, key) for path in _paths_of(plain)]
        value = document(plain, x, misfits, quoted)
    else:
        value = _scalar(plain, x, key)
    return Cast(value, "0" if plain.name == "String" else misfit_of(x, value))


def misfit_of(x: str, value: str) -> str:
    """`value` is NULL and `x` is not, as one comparison: AND and OR cost more, as they evaluate lazily."""
    return f"(isNull({value}) > isNull({x}))"


def _scalar(kind: Type, x: str, key: Key) -> str:
    if kind.name == "String":
        return x
    if _INTEGERS.fullmatch(kind.name):
        return f"if({exact(x, key)}, accurateCastOrNull({x}, '{kind.name}'), NULL)"
    if kind.name in _PASSED_THROUGH:
        return f"accurateCastOrNull({x}, {literal(kind.text)})"
    if _WIDE_INTEGERS.fullmatch(kind.name):
        # These wrap around without a word: the value has to read as it was written.
        number = f"accurateCastOrNull({x}, '{kind.name}')"
        return f"if({both(f'toString({number}) = {x}', exact(x, key))}, {number}, NULL)"
    if kind.name in ("Float32", "Float64"):
        number = f"accurateCastOrNull({x}, '{kind.name}')"
        return f"if(isFinite({number}), {number}, NULL)"
    if kind.name == "Decimal":  # as ClickHouse names Decimal32(4), too
        return decimal(kind, x, key)
    if kind.name in RANGES:
        return time(kind, x, key)
    if kind.name == "Bool":
        words = {"true": "true", "false": "false", "1": "true", "0": "false"}
        value = ", ".join(f"{x} = '{word}', {truth}" for word, truth in words.items())
        return f"if({exact(x, key)}, multiIf({value}, NULL), NULL)"
    if kind.name in ("Enum8", "Enum16"):
        names = ", ".join(part.rpartition("=")[0].strip() for part in kind.arguments)
        known = f"transform({x}, [{names}], [{names}], NULL)"
        if _NUMBER_NAMED.search(names):
            known = f"if({exact(x, key)}, {known}, NULL)"
        return f"CAST({known}, {literal(f'Nullable({kind.text})')})"
    raise UnsupportedType(kind.text)


def _array(element: Type, x: str, depth: int, field: Key, quoted: str) -> Cast:
    items, item = f"JSONExtract(ifNull({x}, ''), 'Array(Nullable(String))')", f"x{depth}"
    value, misfit = _inner(element, item, depth, field)
    bad = [f"NOT startsWith({x}, '[')", both(f"empty({items})", f"{x} != '[]'"), *_if_quoted(quoted)]
    if element.plain.name in _CONTAINERS:
        raw = f"JSONExtractArrayRaw(ifNull({x}, ''))"
        bad += _if_quoted(f"arrayExists(raw -> startsWith(raw, {_QUOTE}), {raw})")
    bad.append(f"arrayExists({item} -> {misfit}, {items})")
    return Cast(
        f"arrayMap({item} -> {value}, {items})", both(f"isNotNull({x})", either(*bad)), container=True
    )


def _map(key: Type, value: Type, x: str, depth: int, field: Key, quoted: str) -> Cast:
    pairs = f"JSONExtract(ifNull({x}, ''), 'Map(String, Nullable(String))')"
    keys, items = f"arrayMap(k -> toNullable(k), mapKeys({pairs}))", f"mapValues({pairs})"
    name, item = f"k{depth}", f"x{depth}"
    key_value, key_misfit = _inner(key, name, depth, None)  # a text says exactly what it is
    item_value, item_misfit = _inner(value, item, depth, field)
    bad = [f"NOT startsWith({x}, '{{')", both(f"empty({pairs})", f"{x} != '{{}}'"), *_if_quoted(quoted)]
    if value.plain.name in _CONTAINERS:
        raw = f"JSONExtractKeysAndValuesRaw(ifNull({x}, ''))"
        bad += _if_quoted(f"arrayExists(raw -> startsWith(tupleElement(raw, 2), {_QUOTE}), {raw})")
    bad.append(f"arrayExists({name} -> {key_misfit}, {keys})")
    bad.append(f"arrayExists({item} -> {item_misfit}, {items})")
    built = f"arrayMap({name} -> {key_value}, {keys}), arrayMap({item} -> {item_value}, {items})"
    misfit = both(f"isNotNull({x})", either(*bad))
    return Cast(f"mapFromArrays({built})", misfit, container=True)


def _if_quoted(condition: str) -> list[str]:
    """The condition, asked only in events that hold a string which begins like an array or object."""
    return [both("quoted_brackets", condition)] if condition else []


@dataclass(frozen=True)
class TypedPath:
    """A path of a JSON that has a type of its own; `text` is what is there. `named` are (expression, name)
    that the others use."""

    name: str
    type: str
    text: str
    misfit: str
    named: tuple[tuple[str, str], ...]


def typed_paths(kind: Type, x: str, suffix: str, key: Key) -> list[TypedPath]:
    """Those of the JSON type `kind`, by names that end with the suffix.

    ClickHouse casts what is there loosely: it has to be what the strict cast says. It takes a key `a.b` for
    the path of two keys, too, and hides what is no object on the way; such events are misfits.
    Raises UnsupportedType.
    """
    return [
        _typed_path(kind, x, path, f"{suffix}_{number}", key) for number, path in enumerate(_paths_of(kind))
    ]


def _paths_of(kind: Type) -> list[tuple[str, Type]]:
    found = [named(argument) for argument in kind.arguments if not _NO_PATH.match(argument)]
    if any(name.count(".") >= _MOST_KEYS for name, _ in found):
        raise UnsupportedType(kind.text)
    return found


def _typed_path(kind: Type, x: str, path: tuple[str, Type], suffix: str, key: Key) -> TypedPath:
    (name, inner), text, value, misfit = path, f"t{suffix}", f"s{suffix}", f"b{suffix}"
    made = _cast_at(x, path, text, 0, key)
    by_name = Cast(value, made.misfit if made.container else misfit_of(text, value))
    parts = (
        (_text_at(x, name), text),
        (made.value, value),
        (_path_misfit(kind, x, name, text, by_name), misfit),
    )
    return TypedPath(name, inner.text, text, misfit, parts)


def _written_out(kind: Type, x: str, path: tuple[str, Type], depth: int, key: Key) -> str:
    """The misfit of a path without names."""
    text = _text_at(x, path[0])
    return _path_misfit(kind, x, path[0], text, _cast_at(x, path, text, depth, key))


def _text_at(x: str, name: str) -> str:
    return f"JSONExtract({_place(x, name.split('.'))}, 'Nullable(String)')"


def _cast_at(x: str, path: tuple[str, Type], text: str, depth: int, key: Key) -> Cast:
    keys = path[0].split(".")
    quoted = f"JSONType({_place(x, keys)}) = 'String'"
    return cast(path[1], text, depth, None if key is None else keys[-1], quoted)


def _path_misfit(kind: Type, x: str, name: str, text: str, made: Cast) -> str:
    keys = name.split(".")
    stored = f"getSubcolumn(accurateCastOrNull({x}, {literal(kind.text)}), {literal(name)})"
    other = f"ifNull({stored} != {made.value}, isNotNull({stored}))"
    odd = [f"JSONHas({_place(x, way)})" for way in _spellings(keys)]
    odd += [f"JSONType({_place(x, keys[:end])}) NOT IN ('Object', 'Null')" for end in range(1, len(keys))]
    return both(f"isNotNull({x})", either(both(f"isNotNull({text})", either(made.misfit, other)), *odd))


def _place(x: str, keys: Sequence[str]) -> str:
    return f"assumeNotNull({x}), {listed(map(literal, keys))}"


def _spellings(keys: list[str]) -> list[list[str]]:
    """The other ways to write a path of several keys: `a.b` as one key."""
    return [
        [".".join(keys[start:end]) for start, end in zip((0, *ends), (*ends, len(keys)), strict=True)]
        for count in range(len(keys) - 1)
        for ends in combinations(range(1, len(keys)), count)
    ]


def document(kind: Type, x: str, misfits: Sequence[str], quoted: str) -> str:
    """The value of a JSON with these misfits of its typed paths."""
    value = f"accurateCastOrNull({x}, {literal(kind.text)})"
    wrong = [f"({summed(misfits)}) > 0"] if misfits else []
    wrong += _if_quoted(quoted)
    return f"if({either(*wrong)}, NULL, {value})" if wrong else value


def _inner(kind: Type, item: str, depth: int, field: Key) -> tuple[str, str]:
    """Value and misfit of an element; a null fits only where the element is Nullable."""
    inner = cast(kind, item, depth + 1, None if field is None else "")
    if kind.nullable:
        return inner.value, inner.misfit
    if inner.container:
        return inner.value, either(f"isNull({item})", inner.misfit)
    filled = f"ifNull({inner.value}, defaultValueOfTypeName({literal(kind.plain.text)}))"
    return filled, either(f"isNull({item})", f"isNull({inner.value})")
