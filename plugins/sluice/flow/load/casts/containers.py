"""Arrays and maps from JSON arrays and objects (flow/load/casts/casts.py)."""

from __future__ import annotations

from sluice.clients.clickhouse.sql import both, either, literal
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.judged import MISSING, Cast, Caster, Field, here, if_quoted, inside, let, of_pair
from sluice.flow.load.casts.scalars import ENUMS

_QUOTE = literal('"')
_SLASH = literal(r"\/")
_MOST_OF_KEY = 60
"""Characters of a map's key in the path of a rejected row."""


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
    items_judged = mapped(lists | _tokens(of, raws, depth), item_of(caster, of, field, by_token(of)).pair)
    pair = let([(judged, items_judged)], f"tuple(tupleElement({judged}, 1), {unfit})")
    item = item_of(caster, of, field, _asked(of))
    lists |= {f"q{depth}": raws} if _asked(of) else {}
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
    unfit = field.unfit(*bad, f"has(tupleElement({judged}, 3), 1)")
    built = f"mapFromArrays(tupleElement({judged}, 1), tupleElement({judged}, 2))"
    entry = entry_of(key, item_of(caster, of, field, by_token(of)), depth)
    pair = let([(judged, mapped(lists | _tokens(of, raws, depth), entry))], f"tuple({built}, {unfit})")
    item = item_of(caster, of, field, _asked(of))
    lists |= {f"q{depth}": raws} if _asked(of) else {}
    where = (either(key.unfit, item.unfit), f"if({key.unfit}, {key.where}, {item.where})")
    name = (
        f"replaceAll(toJSONString(substringUTF8(assumeNotNull(k{depth}), 1, {_MOST_OF_KEY})), {_SLASH}, '/')"
    )
    return of_pair(pair, _where(kind, field, lists, where, name))


def _tokens(of: Type, raws: str, depth: int) -> dict[str, str]:
    """Returns what the items are in JSON, where that says more than their texts."""
    return {f"q{depth}": raws} if by_token(of) else {}


def _asked(of: Type) -> bool:
    """Returns whether the place of a rejected row depends on which items are strings in JSON."""
    return by_token(of) or of.shape.name in CONTAINERS


def item_of(caster: Caster, of: Type, field: Field, asked: bool) -> Cast:
    depth = field.depth
    quoted = f"startsWith(q{depth}, {_QUOTE})" if asked else ""
    item = Field(f"x{depth}", depth + 1, field.inner_key, quoted, required=not of.nullable)
    return element(caster, of, item)


def entry_of(key: Cast, item: Cast, depth: int) -> str:
    """Returns a key, its value, and whether they are a rejected row."""
    if not item.judged:
        return f"tuple({key.value}, {item.value}, {either(key.unfit, item.unfit)})"
    name = f"e{depth}"
    unfit = either(key.unfit, f"tupleElement({name}, 2)")
    return let([(name, item.judged)], f"tuple({key.value}, tupleElement({name}, 1), {unfit})")


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


def element(caster: Caster, kind: Type, field: Field) -> Cast:
    """A null fits where the type has one, or where `field` has or gets a default."""
    if kind.shape.name == "Tuple":
        return caster(kind, field)
    element_cast = caster(kind, field)
    if field.default:
        return _with_default(kind, field, element_cast)
    if kind.nullable or element_cast.container:
        return element_cast
    filled = f"ifNull({element_cast.value}, defaultValueOfTypeName({literal(kind.plain.text)}))"
    if field.filled:
        return Cast(filled, element_cast.unfit, where=element_cast.where)
    where = f"if(isNull({field.x}), {here(MISSING, field.x)}, {element_cast.where})"
    return Cast(filled, f"isNull({element_cast.value})", where=where)


def _with_default(kind: Type, field: Field, element_cast: Cast) -> Cast:
    if kind.nullable:
        null = f"if({field.there}, NULL, {field.default})"
        value = f"if(isNull({field.x}), {null}, {element_cast.value})"
    elif element_cast.container:
        value = f"if(isNull({field.x}), {field.default}, {element_cast.value})"
    else:
        value = f"ifNull({element_cast.value}, {field.default})"
    return Cast(value, element_cast.unfit, where=element_cast.where)


def by_token(kind: Type) -> bool:
    """Returns whether a string and a number of the same text are two values of the type."""
    return kind.plain.name in _BY_TOKEN


def may_lack(kind: Type) -> bool:
    """Returns whether a missing field fits: of an object, where all its fields may be missing."""
    if kind.nullable:
        return True
    parts = kind.shape.named_arguments() if kind.shape.name == "Tuple" else []
    return bool(parts) and all(name and may_lack(part) for name, part in parts)
