"""The SQL that fills one column from a field of the event, stage by stage (columns.py). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from sluice.clients.clickhouse.sql import Sql, literal
from sluice.clients.clickhouse.tables import Column
from sluice.clients.clickhouse.types import Type, parse
from sluice.flow.load.casts.casts import Cast, ParsedContainer, cast, misfit_of, parsed_cast
from sluice.flow.load.casts.documents import document
from sluice.flow.load.casts.event_paths import ObjectNode
from sluice.flow.load.casts.nested import MisfitCheck, Nested
from sluice.flow.load.casts.typed_paths import typed_paths
from sluice.type_fields import FieldPath


@dataclass(frozen=True)
class Stages:
    """Expressions of one column, or of all: of a container that the parse gives its items `j<n>`, and whether
    they are all fine, `u<n>`; the text `r<n>`, of a container its judgement `c<n>`, the value `v<n>`, and
    whether that is a misfit, `m<n>`."""

    items: tuple[Sql, ...] = ()
    fine: tuple[Sql, ...] = ()
    texts: tuple[Sql, ...] = ()
    judged: tuple[Sql, ...] = ()
    casts: tuple[Sql, ...] = ()
    misfits: tuple[Sql, ...] = ()

    @classmethod
    def of_all(cls, all_: Sequence[Stages]) -> Stages:
        """Returns those of all columns together."""
        together = {
            one.name: [part for each in all_ for part in getattr(each, one.name)] for one in fields(cls)
        }
        return cls(**{name: tuple(parts) for name, parts in together.items()})


@dataclass(frozen=True)
class FieldSql:
    """What fills a column, and the checks of it."""

    stages: Stages
    checks: tuple[MisfitCheck, ...]


def column_sql(
    column: Column, path: FieldPath, number: int, tree: ObjectNode, long: bool, groups: Mapping[str, Nested]
) -> FieldSql:
    text, kind, node = f"r{number}", parse(column.type).stored, tree.node_of(path)
    key = path[-1] if long else None
    quoted = f"JSONType(ifNull({node.text}, ''), {literal(path[-1])}) = 'String'"
    inner = typed_paths(kind.plain, text, str(number), key) if kind.plain.name == "JSON" else []
    texts = [Sql(f"{node.text_of(path[-1])} AS {text}")]
    default = ""
    if column.default and kind.shape.name == "Tuple" and not column.computed:
        default = f"d{number}"
        texts.append(Sql(f"CAST({column.default}, {literal(column.type)}) AS {default}"))
    made = cast(kind, text, key=key, quoted=quoted, default=default)
    stages = Stages(texts=tuple(texts))
    if made.judged:
        stages = _judged(stages, made, number, parsed_of(kind, path, number, node, long))
        made = replace(made, value=f"tupleElement(c{number}, 1)", misfit=f"tupleElement(c{number}, 2)")
    if inner:
        made = replace(made, value=document(kind.plain, text, [one.misfit for one in inner], quoted))
    lacking = _lacking(column, made, node, path[-1])
    value = _or_default(column, made, lacking)
    if column.name in groups:
        value = groups[column.name].value(column.name, value)
    casts = [Sql(f"{expression} AS {name}") for one in inner for expression, name in one.named]
    casts += [Sql(f"{lacking} AS l{number}")] if column.computed else []
    stages = replace(stages, casts=(*casts, Sql(f"{value} AS v{number}")))
    checks = [
        MisfitCheck(
            f"{column.name}.{one.name}", one.type, one.text, one.misfit, one.where, f"w{number}_{place}"
        )
        for place, one in enumerate(inner)
    ]
    if made.misfit == "0":
        return FieldSql(stages, tuple(checks))
    misfit = made.misfit if made.container else misfit_of(text, f"v{number}")
    where = made.where if made.container else ""
    checks.append(MisfitCheck(column.name, column.type, text, f"m{number}", where, f"w{number}"))
    return FieldSql(replace(stages, misfits=(Sql(f"{misfit} AS m{number}"),)), tuple(checks))


def parsed_of(
    kind: Type, path: FieldPath, number: int, node: ObjectNode, long: bool
) -> ParsedContainer | None:
    if path[-1] not in node.parsed:
        return None
    return parsed_cast(kind, node.element(path[-1]), f"j{number}", long)


def _judged(stages: Stages, made: Cast, number: int, given: ParsedContainer | None) -> Stages:
    if given is None:
        return replace(stages, judged=(Sql(f"{made.judged} AS c{number}"),))
    judged = f"if(u{number}, tuple({given.value}, 0), {made.judged})"
    return replace(
        stages,
        items=(Sql(f"{given.items} AS j{number}"),),
        fine=(Sql(f"{given.fine} AS u{number}"),),
        judged=(Sql(f"{judged} AS c{number}"),),
    )


def group_sql(group: Nested, numbers: Mapping[str, int], tree: ObjectNode, long: bool) -> FieldSql:
    """Returns the array of objects that may fill the columns of a Nested, and what tells that it does not."""
    field = tree.element(group.name)
    if not group.objects:
        return FieldSql(Stages(), tuple(group.checks(numbers, field, "")))
    quoted = f"JSONType({tree.text}, {literal(group.name)}) = 'String'"
    made = cast(group.type, group.text, key=group.name if long else None, quoted=quoted)
    texts, judged = Sql(f"{field} AS {group.text}"), Sql(f"{made.judged} AS {group.judged}")
    return FieldSql(Stages(texts=(texts,), judged=(judged,)), tuple(group.checks(numbers, field, made.where)))


def _lacking(column: Column, made: Cast, node: ObjectNode, name: str) -> str:
    """Returns the condition that the column takes its DEFAULT. A null in a column that may be NULL is one,
    and only a field that is missing takes the DEFAULT."""
    null = f"isNull({node.element(name)})"
    there = f"has({node.keys}, {literal(name)})"
    return f"if({null}, NOT {there}, 0)" if column.may_be_null and not made.container else null


def _or_default(column: Column, made: Cast, lacking: str) -> str:
    """NULL cannot stand for "take the DEFAULT" in a container, nor where the column may be NULL."""
    if column.computed or not column.default or not (made.container or column.may_be_null):
        return made.value
    return f"if({lacking}, CAST({column.default}, {literal(column.type)}), {made.value})"
