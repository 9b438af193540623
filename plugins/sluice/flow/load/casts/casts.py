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
        value = document(plain, x, typed_paths(plain, x, depth, key=key), quoted)
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
    that the others use, where they are not written out."""

    name: str
    type: str
    text: str
    misfit: str
    named: tuple[tuple[str, str], ...] = ()


def typed_paths(kind: Type, x: str, depth: int = 0, suffix: str = "", key: Key = "") -> list[TypedPath]:
    """Those of the JSON type `kind`; with a suffix their expressions get names that end with it.

    ClickHouse casts what is there loosely: it has to be what the strict cast says. It takes a key `a.b` for
    the path of two keys, too, and hides what is no object on the way; such events are misfits.
    Raises UnsupportedType.
    """
    listed_paths = [named(argument) for argument in kind.arguments if not _NO_PATH.match(argument)]
    if any(name.count(".") >= _MOST_KEYS for name, _ in listed_paths):
        raise UnsupportedType(kind.text)
    return [
        _typed_path(kind, x, path, depth, f"{suffix}_{number}" if suffix else "", key)
        for number, path in enumerate(listed_paths)
    ]


def _typed_path(kind: Type, x: str, path: tuple[str, Type], depth: int, suffix: str, key: Key) -> TypedPath:
    (name, inner), keys = path, path[0].split(".")
    there = f"assumeNotNull({x})"
    extracted = f"JSONExtract({there}, {listed(map(literal, keys))}, 'Nullable(String)')"
    text = f"t{suffix}" if suffix else extracted
    quoted = f"JSONType({there}, {listed(map(literal, keys))}) = 'String'"
    made = cast(inner, text, depth + 1, None if key is None else keys[-1], quoted)
    value = f"s{suffix}" if suffix else made.value
    stored = f"getSubcolumn(accurateCastOrNull({x}, {literal(kind.text)}), {literal(name)})"
    other = f"ifNull({stored} != {value}, isNotNull({stored}))"
    strict = made.misfit if made.container or made.misfit == "0" else misfit_of(text, value)
    outer = [f"JSONType({there}, {listed(map(literal, keys[:end]))})" for end in range(1, len(keys))]
    odd = [f"JSONHas({there}, {listed(map(literal, way))})" for way in _spellings(keys)]
    odd += [f"{one} NOT IN ('Object', 'Null')" for one in outer]
    misfit = both(f"isNotNull({x})", either(both(f"isNotNull({text})", either(strict, other)), *odd))
    if not suffix:
        return TypedPath(name, inner.text, text, misfit)
    parts = ((extracted, text), (made.value, value), (misfit, f"b{suffix}"))
    return TypedPath(name, inner.text, text, f"b{suffix}", parts)


def _spellings(keys: list[str]) -> list[list[str]]:
    """The other ways to write a path of several keys: `a.b` as one key."""
    return [
        [".".join(keys[start:end]) for start, end in zip((0, *ends), (*ends, len(keys)), strict=True)]
        for count in range(len(keys) - 1)
        for ends in combinations(range(1, len(keys)), count)
    ]


def document(kind: Type, x: str, paths: Sequence[TypedPath], quoted: str = "") -> str:
    """The value of a JSON with these typed paths."""
    value = f"accurateCastOrNull({x}, {literal(kind.text)})"
    wrong = [f"({summed([path.misfit for path in paths])}) > 0"] if paths else []
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
