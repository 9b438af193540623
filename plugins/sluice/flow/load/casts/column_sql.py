"""The SQL that fills one column from a field of the event, stage by stage (columns.py). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from sluice.clients.clickhouse.sql import Sql, both, either, identifier, listed, literal, summed
from sluice.clients.clickhouse.tables import Column
from sluice.clients.clickhouse.types import Type, parse
from sluice.field_path import FieldPath, spellings
from sluice.flow.load.casts.casts import ParsedContainer, cast, cast_at, parsed_cast
from sluice.flow.load.casts.containers import document, may_lack, path_unfit, paths_of, text_at
from sluice.flow.load.casts.event_paths import RESERVED, ObjectNode
from sluice.flow.load.casts.exact_numbers import FieldText, KeyUnless
from sluice.flow.load.casts.judged import MISSING, Cast, Field, unfit_of

# Columns of a Nested: arrays `n.a`, `n.b` of one length.


@dataclass(frozen=True)
class FitCheck:
    """The condition that a row's value does not fit one column, and what the rejection says of it."""

    column: str
    type: str
    text: str
    unfit: str
    where: str = ""
    """Of a container the expression of the place inside it, see Cast."""
    place: str = ""
    """The name that `placed` gives to `where`."""

    @property
    def placed(self) -> Sql:
        """`where`, asked of rejected rows alone."""
        nowhere = "tuple('', '', CAST(NULL, 'Nullable(String)'))"
        return Sql(f"if({self.unfit}, {self.where}, {nowhere}) AS {self.place}")

    @property
    def parts(self) -> dict[str, str]:
        """Expressions of the path, the type, the reason and the text that a rejected row is named by."""
        if not self.where:
            reason = literal(MISSING if self.type == MISSING else f"does not fit {self.type}")
            named = {"column": literal(self.column), "type": literal(self.type)}
            return {**named, "reason": reason, "text": self.text}
        path, kind, text = (f"tupleElement({self.place}, {n})" for n in (1, 2, 3))
        column = f"concat({literal(self.column)}, {path})"
        said = f"if({kind} = {literal(MISSING)}, {kind}, concat('does not fit ', {kind}))"
        return {"column": column, "type": kind, "reason": said, "text": text}


@dataclass(frozen=True)
class Nested:
    """`columns` are (name, type); `direct` those that the field of their own name fills. `number` tells it
    from the others of its table. `objects`: a field `name` may hold them as an array of objects."""

    name: str
    columns: tuple[tuple[str, str], ...]
    direct: frozenset[str]
    number: int
    objects: bool

    @property
    def text(self) -> str:
        return f"o{self.number}"

    @property
    def judged(self) -> str:
        return f"g{self.number}"

    @property
    def type(self) -> Type:
        """Of the array of objects."""
        parts = [f"{identifier(inner(name))} {parse(kind).arguments[0]}" for name, kind in self._filled]
        return parse(f"Array(Tuple({listed(parts)}))")

    @property
    def _filled(self) -> list[tuple[str, str]]:
        return [(name, kind) for name, kind in self.columns if name in self.direct]

    def value(self, column: str, other: str) -> str:
        """Returns the column's value from the array of objects, `other` where there is none."""
        names = [name for name, _ in self._filled]
        if not self.objects or column not in names:
            return other
        from_objects = f"tupleElement(tupleElement({self.judged}, 1), {names.index(column) + 1})"
        return f"if(isNotNull({self.text}), {from_objects}, {other})"

    def checks(self, numbers: Mapping[str, int], field: str, where: str) -> Iterator[FitCheck]:
        """`numbers` are those of the columns, `field` is the text of the event's field `name`, which would
        be left out without a word, and `where` the place of a rejected row in it."""
        if self.objects:
            unfit = f"tupleElement({self.judged}, 2)"
            yield FitCheck(self.name, self.type.text, self.text, unfit, where, f"w{self.judged}")
            arrays = summed([f"isNotNull(r{numbers[name]})" for name, _ in self._filled])
            twice = f"(isNotNull({self.text}) * ({arrays}) > 0)"
            kind = f"one shape: an array of objects, or fields like `{self._filled[0][0]}`"
            yield FitCheck(self.name, kind, self.text, twice)
        else:
            yield from self._not_filled(numbers, field)
        lengths = [f"length(v{numbers[column]})" for column, _ in self.columns]
        if len(lengths) > 1:
            unfit = f"(({summed([f'({lengths[0]} != {other})' for other in lengths[1:]])}) > 0)"
            yield FitCheck(self.name, "arrays of one length", f"toString([{listed(lengths)}])", unfit)

    def _not_filled(self, numbers: Mapping[str, int], field: str) -> Iterator[FitCheck]:
        for column, kind in self._filled:
            unfit = f"(isNull(r{numbers[column]}) > isNull({field}))"
            yield FitCheck(column, f"{kind}, which is filled by a field `{column}`", field, unfit)


def inner(column: str) -> str:
    return column.partition(".")[2]


def nested_of(columns: Iterable[tuple[str, str]], mapped: Collection[str]) -> list[Nested]:
    """Returns the Nested among the (name, type); `mapped` are names that the pipeline file gives another
    path."""
    groups: dict[str, list[tuple[str, str]]] = {}
    pairs = list(columns)
    for name, kind in pairs:
        table, dot, inner_name = name.partition(".")
        if table and dot and inner_name and parse(kind).name == "Array":
            groups.setdefault(table, []).append((name, kind))
    taken = {name for name, _ in pairs}
    nested = []
    for number, (table, parts) in enumerate(groups.items()):
        direct = frozenset(name for name, _ in parts if name not in mapped)
        plain = all(inner(name) != RESERVED for name in direct)
        nested.append(
            Nested(table, tuple(parts), direct, number, bool(direct) and table not in taken and plain)
        )
    return nested


@dataclass(frozen=True)
class Stages:
    """Expressions of one column, or of all: of a container that the parse gives its items `j<n>`, and whether
    they are all fine, `u<n>`; the text `r<n>`, of a container its judgement `c<n>`, the value `v<n>`, and
    whether that is a rejected row, `m<n>`."""

    items: tuple[Sql, ...] = ()
    fine: tuple[Sql, ...] = ()
    texts: tuple[Sql, ...] = ()
    judged: tuple[Sql, ...] = ()
    casts: tuple[Sql, ...] = ()
    unfit_values: tuple[Sql, ...] = ()

    @classmethod
    def of_all(cls, all_: Sequence[Stages]) -> Stages:
        """Returns those of all columns together."""
        together = {
            stage.name: [part for stages in all_ for part in getattr(stages, stage.name)]
            for stage in fields(cls)
        }
        return cls(**{name: tuple(parts) for name, parts in together.items()})


@dataclass(frozen=True)
class FieldPlace:
    """Where the field of a column is in the event: of the spellings of its path the first with a value."""

    tree: ObjectNode
    path: FieldPath

    @property
    def key(self) -> FieldText:
        """The key before the value."""
        elsewhere = [f"isNotNull({text})" for text in self.earlier]
        return KeyUnless(self.path[-1], either(*elsewhere)) if elsewhere else self.path[-1]

    @property
    def earlier(self) -> list[str]:
        """The texts of the spellings with dots in their keys."""
        return [node.element(key) for node, key in self._nodes[:-1]]

    @property
    def text(self) -> str:
        node, key = self._nodes[-1]
        text = node.text_of(key)
        return f"coalesce({listed([*self.earlier, text])})" if self.earlier else text

    @property
    def container(self) -> str | None:
        """What the parse gives of a container."""
        node, key = self._nodes[-1]
        return node.element(key) if key in node.parsed else None

    @property
    def null(self) -> str:
        """The condition that the field is missing or null."""
        nulls = [f"isNull({node.element(key)})" for node, key in self._nodes]
        return nulls[0] if len(nulls) == 1 else f"(({summed(nulls)}) = {len(nulls)})"

    @property
    def there(self) -> str:
        """The condition that it is null, and not missing, where one of both is so."""
        return either(*(f"has({node.keys}, {literal(key)})" for node, key in self._nodes))

    @property
    def quoted(self) -> str:
        """The condition that the value is a string."""
        *earlier, last = (
            f"JSONType(ifNull({node.text}, ''), {literal(key)}) = 'String'" for node, key in self._nodes
        )
        pairs = (
            part
            for text, quoted in zip(self.earlier, earlier, strict=True)
            for part in (f"isNotNull({text})", quoted)
        )
        return f"multiIf({listed([*pairs, last])})" if earlier else last

    @property
    def _nodes(self) -> list[tuple[ObjectNode, str]]:
        return [(self.tree.node_of(keys), keys[-1]) for keys in spellings(self.path)]


@dataclass(frozen=True)
class FieldSql:
    """What fills a column, the checks of it, and which of its values are not the event's."""

    stages: Stages
    checks: tuple[FitCheck, ...]
    lacks: tuple[Lack, ...] = ()


def column_sql(
    column: Column,
    path: FieldPath,
    number: int,
    tree: ObjectNode,
    long: bool,
    groups: Mapping[str, Nested],
    required: bool,
) -> FieldSql:
    """`required`: a row without a value for the column is a rejected row."""
    kind, place = parse(column.type).stored, FieldPlace(tree, path)
    default = f"d{number}" if _has_elements(column) else ""
    key = place.key if long else None
    # What an element would be in a DEFAULT that the server computes row by row is not known here.
    filled_in = not required and not column.computed
    column_cast = cast(kind, f"r{number}", key=key, quoted=place.quoted, default=default, filled=filled_in)
    container = parsed_of(kind, place, number, long) if column_cast.judged else None
    filled = _filled(column, place, number, groups, column_cast, container, key)
    return _with_lacks(filled, column, place, number, groups, column_cast.lacks, required)


def _has_elements(column: Column) -> bool:
    """Returns whether the DEFAULT gives a Tuple's elements what they lack."""
    is_tuple = parse(column.type).stored.shape.name == "Tuple"
    return bool(column.default) and is_tuple and not column.computed


def _filled(
    column: Column,
    place: FieldPlace,
    number: int,
    groups: Mapping[str, Nested],
    column_cast: Cast,
    container: ParsedContainer | None,
    key: FieldText,
) -> FieldSql:
    text, kind = f"r{number}", parse(column.type).stored
    inner = typed_paths(kind.plain, text, str(number), key) if kind.plain.name == "JSON" else []
    texts = [Sql(f"{place.text} AS {text}")]
    if _has_elements(column):
        texts.append(Sql(f"CAST({column.default}, {literal(column.type)}) AS d{number}"))
    stages = Stages(texts=tuple(texts))
    if column_cast.judged:
        stages = _judged(stages, column_cast, number, container)
        column_cast = replace(
            column_cast, value=f"tupleElement(c{number}, 1)", unfit=f"tupleElement(c{number}, 2)"
        )
    if inner:
        column_cast = replace(
            column_cast, value=document(kind.plain, text, [typed.unfit for typed in inner], place.quoted)
        )
    lacking = _lacking(column, column_cast, place)
    value = _or_default(column, column_cast, lacking)
    if column.name in groups:
        value = groups[column.name].value(column.name, value)
    casts = [Sql(f"{expression} AS {name}") for typed in inner for expression, name in typed.named]
    casts += [Sql(f"{lacking} AS l{number}")] if column.computed else []
    stages = replace(stages, casts=(*casts, Sql(f"{value} AS v{number}")))
    checks = _path_checks(column, inner, number)
    if column_cast.unfit == "0":
        return FieldSql(stages, tuple(checks))
    unfit = column_cast.unfit if column_cast.container else unfit_of(text, f"v{number}")
    where = column_cast.where if column_cast.container else ""
    checks.append(FitCheck(column.name, column.type, text, f"m{number}", where, f"w{number}"))
    return FieldSql(replace(stages, unfit_values=(Sql(f"{unfit} AS m{number}"),)), tuple(checks))


def _with_lacks(
    filled: FieldSql,
    column: Column,
    place: FieldPlace,
    number: int,
    groups: Mapping[str, Nested],
    partly: bool,
    required: bool,
) -> FieldSql:
    """Adds which rows have no value, as flags, and as a rejected row where there has to be one; `partly`:
    elements may lack one, too."""
    nothing, path = _nothing(column, place, groups), place.path
    found = tuple(lacks(column, path, nothing, place.there))
    if partly:
        flag = f"tupleElement(c{number}, 3)"
        found = (Lack(column.name, path, Sql(f"if({nothing}, 1, {flag})" if column.default else flag)),)
    casts = [Sql(f"{lack.flag} AS {_flag(number, lack)}") for lack in found]
    casts += [Sql(f"{nothing} AS n{number}")] if required else []
    missing = [FitCheck(column.name, MISSING, f"r{number}", f"n{number}")] if required else []
    return FieldSql(
        replace(filled.stages, casts=(*filled.stages.casts, *casts)),
        (*missing, *filled.checks),
        tuple(replace(lack, flag=_flag(number, lack)) for lack in found),
    )


def _path_checks(column: Column, paths: Sequence[TypedPath], number: int) -> list[FitCheck]:
    """Returns a check for each typed path of a JSON column."""
    return [
        FitCheck(
            f"{column.name}.{path.name}",
            path.type,
            path.text,
            path.unfit,
            path.where,
            f"w{number}_{position}",
        )
        for position, path in enumerate(paths)
    ]


def parsed_of(kind: Type, place: FieldPlace, number: int, long: bool) -> ParsedContainer | None:
    """Returns None where the parse gives no container. One that it gives is another field's where an earlier
    spelling has a value."""
    if place.container is None:
        return None
    container = parsed_cast(kind, place.container, f"j{number}", long)
    return replace(container, fine=both(*(f"isNull({one})" for one in place.earlier), container.fine))


def _judged(stages: Stages, column_cast: Cast, number: int, container: ParsedContainer | None) -> Stages:
    if container is None:
        return replace(stages, judged=(Sql(f"{column_cast.judged} AS c{number}"),))
    judged = f"if(u{number}, tuple({container.value}, 0), {column_cast.judged})"
    return replace(
        stages,
        items=(Sql(f"{container.items} AS j{number}"),),
        fine=(Sql(f"{container.fine} AS u{number}"),),
        judged=(Sql(f"{judged} AS c{number}"),),
    )


def group_sql(group: Nested, numbers: Mapping[str, int], tree: ObjectNode, long: bool) -> FieldSql:
    """Returns the array of objects that may fill the columns of a Nested, and the checks of it."""
    field = tree.element(group.name)
    if not group.objects:
        return FieldSql(Stages(), tuple(group.checks(numbers, field, "")))
    quoted = f"JSONType({tree.text}, {literal(group.name)}) = 'String'"
    group_cast = cast(group.type, group.text, key=group.name if long else None, quoted=quoted)
    texts, judged = Sql(f"{field} AS {group.text}"), Sql(f"{group_cast.judged} AS {group.judged}")
    return FieldSql(
        Stages(texts=(texts,), judged=(judged,)), tuple(group.checks(numbers, field, group_cast.where))
    )


def _lacking(column: Column, column_cast: Cast, place: FieldPlace) -> str:
    """Returns the condition that the column takes its DEFAULT. A null in a column that may be NULL is one,
    and only a field that is missing takes the DEFAULT."""
    if column.may_be_null and not column_cast.container:
        return f"if({place.null}, NOT {place.there}, 0)"
    return place.null


def _nothing(column: Column, place: FieldPlace, groups: Mapping[str, Nested]) -> str:
    """Returns the condition that the field is missing or null. An array of objects may fill a column of a
    Nested instead."""
    null, group = place.null, groups.get(column.name)
    if group is not None and group.objects and column.name in group.direct:
        return both(null, f"isNull({group.text})")
    return null


def _flag(number: int, lack: Lack) -> Sql:
    return Sql(f"{'y' if lack.null else 'z'}{number}")


def _or_default(column: Column, column_cast: Cast, lacking: str) -> str:
    """NULL cannot stand for "take the DEFAULT" in a container, nor where the column may be NULL."""
    if column.computed or not column.default or not (column_cast.container or column.may_be_null):
        return column_cast.value
    return f"if({lacking}, CAST({column.default}, {literal(column.type)}), {column_cast.value})"


# Typed paths of a JSON column, with names for the parts of their casts.
@dataclass(frozen=True)
class TypedPath:
    """A path of a JSON that has a type of its own; `text` is what is there. `named` are (expression, name)
    that the others use."""

    name: str
    type: str
    text: str
    unfit: str
    named: tuple[tuple[str, str], ...]
    where: str = ""


def typed_paths(kind: Type, x: str, suffix: str, key: FieldText) -> list[TypedPath]:
    """Returns those of the JSON type `kind`, by names that end with the suffix. Raises UnsupportedType."""
    return [
        _typed_path(kind, x, path, f"{suffix}_{number}", key) for number, path in enumerate(paths_of(kind))
    ]


def _typed_path(kind: Type, x: str, path: tuple[str, Type], suffix: str, key: FieldText) -> TypedPath:
    (name, inner), text, value, unfit = path, f"t{suffix}", f"s{suffix}", f"b{suffix}"
    path_cast = cast_at(Field(x, 0, key), path, text)
    by_name = Cast(value, path_cast.unfit if path_cast.container else unfit_of(text, value))
    parts = (
        (text_at(x, name), text),
        (path_cast.value, value),
        (path_unfit(kind, x, name, text, by_name), unfit),
    )
    return TypedPath(name, inner.text, text, unfit, parts, path_cast.where if path_cast.container else "")


# Which rows get no value of their event in a column: the field is missing, or null there. Pure.
@dataclass(frozen=True)
class Lack:
    """`flag` is an expression, 1 in a row whose `column`, of the field `path`, has no value of the event.
    `null`: it is NULL there; else a default, in the column or in an element of its Tuple."""

    column: str
    path: FieldPath
    flag: Sql
    null: bool = False


def holds_null(column: Column) -> bool:
    """Returns whether the type says that there is no value, and does not make one up."""
    return column.may_be_null or may_lack(parse(column.type).stored)


def lacks(column: Column, path: FieldPath, nothing: str, present: str) -> Iterator[Lack]:
    """`nothing` is the condition that the field is missing or null, `present` that it is there, maybe as
    null."""
    if not holds_null(column):
        yield Lack(column.name, path, Sql(nothing))
    elif not column.default:
        yield Lack(column.name, path, Sql(nothing), null=True)
    elif not column.may_be_null:
        yield Lack(column.name, path, Sql(nothing))
    else:
        yield Lack(column.name, path, Sql(f"if({nothing}, NOT {present}, 0)"))
        yield Lack(column.name, path, Sql(f"if({nothing}, {present}, 0)"), null=True)
