"""Tuples: named ones from JSON objects, others from JSON arrays of as many elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sluice.clients.clickhouse.sql import both, identifier, listed, literal, summed
from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.containers import CONTAINERS, by_token, element, may_lack
from sluice.flow.load.casts.exact_numbers import FieldText
from sluice.flow.load.casts.judged import (
    Cast,
    Caster,
    Field,
    UnsupportedType,
    here,
    if_quoted,
    inside,
    let,
    of_pair,
)

_QUOTE = literal('"')


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
    named = [
        (texts, f"JSONExtract({field.text}, 'Array(Nullable(String))')"),
        *([(raws, f"JSONExtractArrayRaw({field.text})")] if any(map(_by_kind, parts)) else []),
    ]
    casts = []
    for n, (_, part) in enumerate(parts, start=1):
        quoted = f"startsWith(arrayElement({raws}, {n}), {_QUOTE})" if _by_kind(("", part)) else ""
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


def _by_kind(part: tuple[str, Type]) -> bool:
    return by_token(part[1]) or part[1].shape.name in CONTAINERS


def _of_object(field: Field, x: str, name: str, kind: Type, number: int) -> Field:
    key: FieldText = None if field.key is None else name if field.key else ""
    quoted = f"JSONType({field.text}, {literal(name)}) = 'String'" if _by_kind(("", kind)) else ""
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
