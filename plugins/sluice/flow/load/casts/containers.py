"""Arrays and maps from JSON arrays and objects (flow/load/casts/casts.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sluice.clients.clickhouse.sql import both, either, identifier, listed, literal, summed
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.exact_numbers import FieldText
from sluice.flow.load.casts.judged import (
    MISSING,
    TWICE,
    Cast,
    Caster,
    Field,
    UnsupportedType,
    here,
    if_quoted,
    inside,
    let,
    of_pair,
    repeats,
)
from sluice.flow.load.casts.scalars import ENUMS

_QUOTE = literal('"')
_SLASH = literal(r"\/")
_MOST_OF_KEY = 60
"""Characters of a map's key in the path of a rejected row."""
_LONG_CAST = 200
"""Characters of SQL from which on a cast is written once."""


def array(caster: Caster, kind: Type, field: Field) -> Cast:
    of, depth = kind.shape.argument(0), field.depth
    items, raws = (
        f"JSONExtract({field.text}, 'Array(Nullable(String))')",
        f"JSONExtractArrayRaw({field.text})",
    )
    lists = {f"x{depth}": items}
    bad = [f"NOT startsWith({field.text}, '[')", both(f"empty({items})", f"{field.text} != '[]'")]
    bad += if_quoted(field.quoted)
    if of.shape.name in CONTAINERS:
        bad += if_quoted(f"arrayExists(raw -> startsWith(raw, {_QUOTE}), {raws})")
    judged = f"j{depth}"
    unfit = field.unfit(*bad, f"has(tupleElement({judged}, 2), 1)")
    items_judged = judged_items(
        lists | _tokens(of, field, raws), item_of(caster, of, field, by_token(of, field)), depth
    )
    pair = let([(judged, items_judged)], f"tuple(tupleElement({judged}, 1), {unfit})")
    item = item_of(caster, of, field, _asked(of, field))
    lists |= {f"q{depth}": raws} if _asked(of, field) else {}
    name = f"toString(n{depth} - 1)"
    return of_pair(pair, _where(kind, field, lists, (item.unfit, item.where), name))


def mapping(caster: Caster, kind: Type, field: Field) -> Cast:
    depth, of = field.depth, kind.shape.argument(1)
    pairs = f"JSONExtract({field.text}, 'Map(String, Nullable(String))')"
    entries = f"JSONExtractKeysAndValuesRaw({field.text})"
    raws, keys = f"tupleElement({entries}, 2)", f"arrayMap(k -> toNullable(k), mapKeys({pairs}))"
    lists = {f"k{depth}": keys, f"x{depth}": f"mapValues({pairs})"}
    # A text says exactly what it is.
    key = element(caster, kind.shape.argument(0), Field(f"k{depth}", depth + 1, None, required=True))
    bad = [f"NOT startsWith({field.text}, '{{')", both(f"empty({pairs})", f"{field.text} != '{{}}'")]
    bad += if_quoted(field.quoted)
    if of.shape.name in CONTAINERS:
        bad += if_quoted(f"arrayExists(raw -> startsWith(raw, {_QUOTE}), {raws})")
    judged = f"j{depth}"
    keys_given = f"tupleElement({judged}, 1)"
    unfit = field.unfit(*bad, f"has(tupleElement({judged}, 3), 1)", repeats(keys_given))
    built = f"mapFromArrays(tupleElement({judged}, 1), tupleElement({judged}, 2))"
    value = item_of(caster, of, field, by_token(of, field))
    entries_judged = judged_entries(lists | _tokens(of, field, raws), key, value, depth)
    pair = let([(judged, entries_judged)], f"tuple({built}, {unfit})")
    item = item_of(caster, of, field, _asked(of, field))
    lists |= {f"q{depth}": raws} if _asked(of, field) else {}
    where = (either(key.unfit, item.unfit), f"if({key.unfit}, {key.where}, {item.where})")
    name = (
        f"replaceAll(toJSONString(substringUTF8(assumeNotNull(k{depth}), 1, {_MOST_OF_KEY})), {_SLASH}, '/')"
    )
    place = _where(kind, field, lists, where, name)
    # What a key becomes, so that two spellings of it are one.
    given = f"CAST(if({key.unfit}, k{depth}, toString({key.value})), 'Nullable(String)')"
    twice = let(
        [(f"k{depth}", f"arrayElement({keys}, again)")], key_twice(f"concat('[', {name}, ']')", field.x)
    )
    again = first_again(mapped({f"k{depth}": keys}, given))
    return of_pair(pair, let([("again", again)], f"if(again = 0, {place}, {twice})"))


def first_again(values: str) -> str:
    """Returns the position of the first value that repeats an earlier one, or 0."""
    return f"arrayFirstIndex(n -> n > 1, arrayEnumerateUniq({values}))"


def key_twice(path: str, x: str) -> str:
    """Returns the place of a rejected row where a key is there twice, or a path."""
    return f"tuple({path}, {literal(TWICE)}, CAST({x}, 'Nullable(String)'))"


def twice_in_document(x: str, otherwise: str) -> str:
    """Returns the place of a key that is there twice in the object `x`, or of a path that is there in two
    spellings of its first dot; `otherwise` where there is none."""
    text, parts = f"ifNull({x}, '')", "splitByChar('.', k, 2)"
    keys = f"JSONExtractKeys({text})"
    spelled = f"arrayFirst(k -> position(k, '.') > 0 AND JSONHas({text}, {parts}[1], {parts}[2]), keys)"
    again = f"arrayElement(keys, {first_again('keys')})"
    path = f"if({repeats('keys')}, {again}, {spelled})"
    at = "concat('.', path)"
    named = f"if(empty(path), {otherwise}, {key_twice(at, x)})"
    return let([("keys", keys)], let([("path", path)], named))


def _tokens(of: Type, field: Field, raws: str) -> dict[str, str]:
    """Returns what the items are in JSON, where that says more than their texts."""
    return {f"q{field.depth}": raws} if by_token(of, field) else {}


def _asked(of: Type, field: Field) -> bool:
    """Returns whether the place of a rejected row depends on which items are strings in JSON."""
    return by_token(of, field) or of.shape.name in CONTAINERS


def item_of(caster: Caster, of: Type, field: Field, asked: bool) -> Cast:
    depth = field.depth
    quoted = f"startsWith(q{depth}, {_QUOTE})" if asked else ""
    item = Field(f"x{depth}", depth + 1, field.inner_key, quoted, required=not of.nullable)
    return element(caster, of, item)


def judged_items(lists: dict[str, str], item: Cast, depth: int) -> str:
    """Returns of each item its value, and whether it does not fit."""
    y = f"y{depth}"
    over = _over(item, lists, depth, f"tupleElement({y}, 1)", f"tupleElement({y}, 2)")
    if over is None:
        return mapped(lists, item.pair)
    value, unfit = over
    scalars = mapped(lists, f"tuple({item.scalar}, isNull(x{depth}))")
    return mapped({y: scalars}, f"tuple({value}, {unfit})")


def judged_entries(lists: dict[str, str], key: Cast, item: Cast, depth: int) -> str:
    """Returns of each entry its key, its value, and whether they are a rejected row."""
    y = f"y{depth}"
    if item.judged:
        unfit = either(key.unfit, f"tupleElement({y}, 2)")
        entry = let([(y, item.judged)], f"tuple({key.value}, tupleElement({y}, 1), {unfit})")
        return mapped(lists, entry)
    over = _over(item, lists, depth, f"tupleElement({y}, 3)", f"tupleElement({y}, 4)")
    if over is None:
        return mapped(lists, f"tuple({key.value}, {item.value}, {either(key.unfit, item.unfit)})")
    value, unfit = over
    scalars = mapped(lists, f"tuple({key.value}, {key.unfit}, {item.scalar}, isNull(x{depth}))")
    unfit = either(f"tupleElement({y}, 2)", unfit)
    return mapped({y: scalars}, f"tuple(tupleElement({y}, 1), {value}, {unfit})")


def _over(item: Cast, lists: dict[str, str], depth: int, scalar: str, null: str) -> tuple[str, str] | None:
    """Returns the item's value, and whether it does not fit, with `scalar` in place of its cast and `null` in
    place of whether its text is NULL. Returns None where the cast is short, or they need more than these two.

    Both contain the cast. A thousand columns with a long one would make a statement that no server parses.
    """
    if len(item.scalar) < _LONG_CAST:
        return None
    value, unfit = (
        text.replace(item.scalar, scalar).replace(f"isNull(x{depth})", null)
        for text in (item.value, item.unfit)
    )
    names = re.compile(rf"\b({'|'.join(lists)})\b")
    return None if names.search(f"{value} {unfit}") else (value, unfit)


def mapped(lists: dict[str, str], body: str) -> str:
    return f"arrayMap(({', '.join(lists)}) -> {body}, {', '.join(lists.values())})"


def _where(kind: Type, field: Field, lists: dict[str, str], item_unfit: tuple[str, str], name: str) -> str:
    """Returns the place of the first item that is a rejected row. `name` is the item's in the path, where
    `n<depth>` is its number, from 1 on."""
    unfit, where = item_unfit
    number = f"n{field.depth}"
    first = f"arrayFirstIndex(({', '.join(lists)}) -> {unfit}, {', '.join(lists.values())})"
    item = [(one, f"arrayElement({items}, {number})") for one, items in lists.items()]
    path = f"concat('[', {name}, ']')"
    inner = let(item, inside(path, where, field.depth))
    # Behind the last item there is none: what is bound there has to be of the item's type all the same.
    chosen = f"if({number} = 0, {here(kind.text, field.x)}, {inner})"
    return field.where(kind.text, let([(number, first)], chosen))


# The cast of a value inside a container: what a null there becomes, and whether it fits.
CONTAINERS = ("Array", "Map", "Tuple", "JSON")
_BY_TOKEN = (*ENUMS, "Variant", "Dynamic")
_TEXTS = ("String", "FixedString")


def element(caster: Caster, kind: Type, field: Field) -> Cast:
    """A null fits where the type has one, or where `field` has or gets a default."""
    if kind.shape.name == "Tuple":
        return caster(kind, field)
    element_cast = caster(kind, field)
    if field.default:
        return _with_default(kind, field, element_cast)
    if element_cast.container:
        return element_cast
    scalar = element_cast.value
    if kind.nullable:
        return replace(element_cast, scalar=scalar)
    filled = f"ifNull({scalar}, defaultValueOfTypeName({literal(kind.plain.text)}))"
    if field.filled:
        return Cast(filled, element_cast.unfit, where=element_cast.where, scalar=scalar)
    where = f"if(isNull({field.x}), {here(MISSING, field.x)}, {element_cast.where})"
    return Cast(filled, f"isNull({scalar})", where=where, scalar=scalar)


def _with_default(kind: Type, field: Field, element_cast: Cast) -> Cast:
    if kind.nullable:
        null = f"if({field.there}, NULL, {field.default})"
        value = f"if(isNull({field.x}), {null}, {element_cast.value})"
    elif element_cast.container:
        value = f"if(isNull({field.x}), {field.default}, {element_cast.value})"
    else:
        value = f"ifNull({element_cast.value}, {field.default})"
    return Cast(value, element_cast.unfit, where=element_cast.where)


def by_token(kind: Type, field: Field) -> bool:
    """Returns whether a string and a number of the same text are two values of the type, inside `field`."""
    return kind.plain.name in _BY_TOKEN or (field.key is not None and kind.plain.name in _TEXTS)


def may_lack(kind: Type) -> bool:
    """Returns whether a missing field fits: of an object, where all its fields may be missing."""
    if kind.nullable:
        return True
    parts = kind.shape.named_arguments() if kind.shape.name == "Tuple" else []
    return bool(parts) and all(name and may_lack(part) for name, part in parts)


# Tuples: named ones from JSON objects, others from JSON arrays of as many elements.


def tuple_(caster: Caster, kind: Type, field: Field) -> Cast:
    """Raises UnsupportedType."""
    parts = kind.shape.named_arguments()
    if not parts[0][1].name:
        raise UnsupportedType(kind.text)
    return _named(caster, kind, field, parts) if parts[0][0] else _unnamed(caster, kind, field, parts)


def _named(caster: Caster, kind: Type, field: Field, parts: Sequence[tuple[str, Type]]) -> Cast:
    texts = f"t{field.depth}"
    fields = listed(f"{identifier(name)} Nullable(String)" for name, _ in parts)
    named = [(texts, f"JSONExtract({field.text}, {literal(f'Tuple({fields})')})")]
    casts = [
        element(caster, part, _of_object(field, f"tupleElement({texts}, {n})", name, part, n))
        for n, (name, part) in enumerate(parts, start=1)
    ]
    # What the parser refuses has no fields.
    nothing = summed([f"isNotNull(tupleElement({texts}, {n}))" for n in range(1, len(parts) + 1)])
    bad = [
        f"NOT startsWith({field.text}, '{{')",
        both(f"(({nothing}) = 0)", f"JSONType({field.text}) != 'Object'"),
        *if_quoted(field.quoted),
    ]
    paths = [literal(f".{name}") for name, _ in parts]
    return _built(kind, field, named, casts, bad, paths)


def _unnamed(caster: Caster, kind: Type, field: Field, parts: Sequence[tuple[str, Type]]) -> Cast:
    texts, raws = f"t{field.depth}", f"q{field.depth}"
    asked = any(_by_kind(part, field) for _, part in parts)
    named = [
        (texts, f"JSONExtract({field.text}, 'Array(Nullable(String))')"),
        *([(raws, f"JSONExtractArrayRaw({field.text})")] if asked else []),
    ]
    casts = []
    for n, (_, part) in enumerate(parts, start=1):
        quoted = f"startsWith(arrayElement({raws}, {n}), {_QUOTE})" if _by_kind(part, field) else ""
        of = Field(
            f"arrayElement({texts}, {n})",
            field.depth + 1,
            field.inner_key,
            quoted,
            _default(field, n),
            "0",
            not (field.default or part.nullable),
        )
        casts.append(element(caster, part, of))
    bad = [
        f"NOT startsWith({field.text}, '[')",
        f"(length({texts}) != {len(parts)})",
        *if_quoted(field.quoted),
    ]
    paths = [literal(f"[{n}]") for n in range(len(parts))]
    return _built(kind, field, named, casts, bad, paths)


def _by_kind(part: Type, field: Field) -> bool:
    return by_token(part, field) or part.shape.name in CONTAINERS


def _of_object(field: Field, x: str, name: str, kind: Type, number: int) -> Field:
    key: FieldText = None if field.key is None else name if field.key else ""
    quoted = f"JSONType({field.text}, {literal(name)}) = 'String'" if _by_kind(kind, field) else ""
    present = _is_there(field, name)
    required = not (field.default or field.filled or may_lack(kind))
    default = _default(field, number)
    return Field(x, field.depth + 1, key, quoted, default, present, required, field.filled)


def _is_there(field: Field, name: str) -> str:
    return f"has(JSONExtractKeys({field.text}), {literal(name)})"


def _default(field: Field, number: int) -> str:
    return f"tupleElement({field.default}, {number})" if field.default else ""


def _built(
    kind: Type,
    field: Field,
    named: list[tuple[str, str]],
    casts: Sequence[Cast],
    bad: Sequence[str],
    paths: Sequence[str],
) -> Cast:
    lacking = _lacking(kind, casts, field) if field.filled or field.default else []
    parts = of_parts(kind, casts, field.depth, lambda wrong: field.unfit(*bad, wrong), lacking)
    pair = let(named, parts)
    places = [
        text
        for path, part in zip(paths, casts, strict=True)
        for text in (part.unfit, inside(path, part.where, field.depth))
    ]
    first = here(kind.text, field.x)
    wrong = [part for condition in bad for part in (condition, first)]
    chosen = f"multiIf({listed([*wrong, *places])}, {first})"
    return of_pair(pair, field.where(kind.text, let(named, chosen)), bool(lacking))


def _lacking(kind: Type, casts: Sequence[Cast], field: Field) -> list[str]:
    """Returns the conditions that an element of a named Tuple gets a default."""
    conditions = []
    for n, ((name, part), part_cast) in enumerate(
        zip(kind.shape.named_arguments(), casts, strict=True), start=1
    ):
        if not name:
            return []
        null = f"isNull(tupleElement(t{field.depth}, {n}))"
        if part_cast.lacks:
            conditions.append(f"tupleElement(p{field.depth}_{n - 1}, 3)")
        elif field.default and part.nullable:
            conditions.append(f"if({null}, NOT {_is_there(field, name)}, 0)")
        elif field.default or not may_lack(part):
            conditions.append(null)
    return conditions


def of_parts(
    kind: Type,
    casts: Sequence[Cast],
    depth: int,
    unfit: Callable[[str], str],
    lacking: Sequence[str] = (),
) -> str:
    """Returns the tuple of the parts, `unfit` of "one of them does not fit", and whether one is `lacking`, if
    there are such. Each part that is a container is computed once."""
    once = [(f"p{depth}_{n}", part.judged) for n, part in enumerate(casts) if part.judged]
    computed = dict(once)
    values, unfit_values = [], []
    for n, part in enumerate(casts):
        name = f"p{depth}_{n}"
        values.append(f"tupleElement({name}, 1)" if name in computed else part.value)
        unfit_values.append(f"tupleElement({name}, 2)" if name in computed else part.unfit)
    wrong = unfit(f"(({summed(unfit_values)}) > 0)")
    lacks = f", (({summed(lacking)}) > 0)" if lacking else ""
    pair = f"tuple(CAST(tuple({listed(values)}), {literal(kind.shape.text)}), {wrong}{lacks})"
    return let(once, pair) if once else pair


# Arrays and maps that the parse of the event gives as such: their texts need not be parsed again.
#
# JSONExtract into `Variant(<container of texts>, String)` gives the container, the text of what is none, or
# NULL where the field is missing or null. Of a field that is there twice it takes the first. It fills a Tuple
# from an array, too, which the cast of the text refuses (tuples.py). So that one has the last word wherever
# something is unusual.

_NEED_THE_KIND = ("Variant", "Dynamic")
_TEXT = "Nullable(String)"


@dataclass(frozen=True)
class ParsedContainer:
    """The items `items`, of each what it becomes and whether it may be a rejected row; over their name the
    `value` of the container, and whether it is `fine`."""

    items: str
    value: str
    fine: str


def texts_of(kind: Type) -> str:
    """Returns the type of what the parse gives of `kind`; empty where the items' texts do not say all."""
    shape = kind.shape
    if shape.name not in ("Array", "Map") or any(of.plain.name in _NEED_THE_KIND for of in _read(shape)):
        return ""
    if shape.name == "Map":
        return f"Map(String, {_TEXT})"
    names = _names(shape)
    return f"Array(Tuple({listed(f'{name} {_TEXT}' for name in names)}))" if names else f"Array({_TEXT})"


def parsed(caster: Caster, kind: Type, parsed_value: str, name: str, long: bool) -> ParsedContainer:
    """Returns the cast of `parsed_value`, which holds `texts_of(kind)` or the text of something else."""
    shape, field = kind.shape, Field("", 0, None)
    container = f"variantElement({parsed_value}, {literal(texts_of(kind))})"
    value, bad = f"tupleElement({name}, 1)", f"has(tupleElement({name}, 2), 1)"
    if shape.name == "Map":
        items = _entries(caster, shape, field, container)
        value = f"mapFromArrays({value}, tupleElement({name}, 2))"
        bad = f"has(tupleElement({name}, 3), 1) + {repeats(f'tupleElement({name}, 1)')}"
    else:
        items = _items(caster, shape, field, container)
    unusual = [bad, f"isNotNull(variantElement({parsed_value}, 'String'))", *_doubts(shape)]
    unusual += ["long_numbers", "notEmpty(large_numbers)"] if long else []
    return ParsedContainer(items, value, f"(({summed(unusual)}) = 0)")


def _doubts(shape: Type) -> list[str]:
    doubts = ["nested_arrays"] if _names(shape) else []
    inner = any(of.shape.name in CONTAINERS for of in _read(shape))
    return [*doubts, "quoted_brackets"] if inner else doubts


def _read(shape: Type) -> list[Type]:
    """Returns the types that texts are cast to."""
    of = shape.argument(1 if shape.name == "Map" else 0)
    return [part for _, part in of.shape.named_arguments()] if _names(shape) else [of]


def _names(shape: Type) -> list[str]:
    """Of the objects in an array."""
    if shape.name != "Array" or shape.argument(0).shape.name != "Tuple":
        return []
    return shape.argument(0).shape.spelled_names


def _entries(caster: Caster, shape: Type, field: Field, container: str) -> str:
    key = element(caster, shape.argument(0), Field("k0", 1, None, required=True))
    lists = {"k0": f"arrayMap(k -> toNullable(k), mapKeys({container}))", "x0": f"mapValues({container})"}
    return judged_entries(lists, key, item_of(caster, shape.argument(1), field, asked=False), 0)


def _items(caster: Caster, shape: Type, field: Field, container: str) -> str:
    """Returns what an item becomes, and whether it may be a rejected row: what is no object has no fields."""
    lists = {"x0": container}
    if not _names(shape):
        return judged_items(lists, item_of(caster, shape.argument(0), field, asked=False), 0)
    of = shape.argument(0).shape
    texts = [f"tupleElement(x0, {n})" for n in range(1, len(of.arguments) + 1)]
    casts = [
        _part(caster, part, text, field) for (_, part), text in zip(of.named_arguments(), texts, strict=True)
    ]
    nothing = f"(({summed([f'isNotNull({text})' for text in texts])}) = 0)"
    return mapped(lists, of_parts(of, casts, 0, lambda wrong: either(nothing, wrong)))


def _part(caster: Caster, kind: Type, text: str, field: Field) -> Cast:
    return element(caster, kind, Field(text, 2, field.inner_key, required=not may_lack(kind)))
