"""Arrays and maps that the parse of the event gives as such: their texts need not be parsed again.

JSONExtract into `Variant(<container of texts>, String)` gives the container, the text of what is none, or
NULL where the field is missing or null. Of a field that is there twice it takes the first. It fills a Tuple
from an array, too, which the cast of the text refuses (tuples.py). So that one has the last word wherever
something is unusual.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.clients.clickhouse.sql import either, listed, literal, summed
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.containers import CONTAINERS, element, entry_of, item_of, mapped, may_lack
from sluice.flow.load.casts.judged import Cast, Caster, Field
from sluice.flow.load.casts.tuples import of_parts

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
        bad = f"has(tupleElement({name}, 3), 1)"
    else:
        items = mapped({"x0": container}, _item(caster, shape, field))
    unusual = [bad, f"isNotNull(variantElement({parsed_value}, 'String'))", *_doubts(shape)]
    unusual += ["long_numbers"] if long else []
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
    return mapped(lists, entry_of(key, item_of(caster, shape.argument(1), field, asked=False), 0))


def _item(caster: Caster, shape: Type, field: Field) -> str:
    """Returns what an item becomes, and whether it may be a rejected row: what is no object has no fields."""
    if not _names(shape):
        return item_of(caster, shape.argument(0), field, asked=False).pair
    of = shape.argument(0).shape
    texts = [f"tupleElement(x0, {n})" for n in range(1, len(of.arguments) + 1)]
    casts = [
        _part(caster, part, text, field) for (_, part), text in zip(of.named_arguments(), texts, strict=True)
    ]
    nothing = f"(({summed([f'isNotNull({text})' for text in texts])}) = 0)"
    return of_parts(of, casts, 0, lambda wrong: either(nothing, wrong))


def _part(caster: Caster, kind: Type, text: str, field: Field) -> Cast:
    return element(caster, kind, Field(text, 2, field.inner_key, required=not may_lack(kind)))
