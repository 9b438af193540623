"""The SQL that fills one column from a field of the event, stage by stage (columns.py). Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from sluice.clients.clickhouse.sql import Sql, both, either, identifier, listed, literal, summed
from sluice.clients.clickhouse.tables import Column
from sluice.clients.clickhouse.types import Type, parse
from sluice.config.target import Missing
from sluice.field_path import FieldPath, FieldPaths, all_spellings, header_of
from sluice.flow.load.casts.casts import ParsedContainer, cast, document_cast, parsed_cast
from sluice.flow.load.casts.containers import may_lack
from sluice.flow.load.casts.documents import TypedPath
from sluice.flow.load.casts.event_paths import RESERVED, HeaderNode, ObjectNode
from sluice.flow.load.casts.exact_numbers import FieldText, KeyUnless
from sluice.flow.load.casts.judged import MISSING, TWICE, Cast, unfit_of
from sluice.time_grammar import Spelled, unsaid_patterns

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
    unsaid: bool = False
    """Whether the pipeline file does not say the unit of numbers that are times."""

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
            said = self._with_unit(reason, literal(self.type), self.text)
            return {**named, "reason": said, "text": self.text}
        path, kind, text = (f"tupleElement({self.place}, {n})" for n in (1, 2, 3))
        column = f"concat({literal(self.column)}, {path})"
        said = (
            f"if({kind} IN ({literal(MISSING)}, {literal(TWICE)}), {kind}, concat('does not fit ', {kind}))"
        )
        return {"column": column, "type": kind, "reason": self._with_unit(said, kind, text), "text": text}

    def _with_unit(self, reason: str, kind: str, text: str) -> str:
        """Returns `reason` with the format that would read a number whose size says no unit. `kind` is the
        expression of the type that is wanted there."""
        if not self.unsaid:
            return reason
        patterns = unsaid_patterns(signed="64" in self.type or "32" in self.type)
        formats = [
            f"match({text}, {literal(pattern)}), {literal(f' without `format: {form}`')}"
            for form, pattern in patterns.items()
        ]
        return f"concat({reason}, if(match({kind}, {_TIME}), multiIf({listed(formats)}, ''), ''))"


_TIME = literal(r"^(?:Nullable\(|LowCardinality\()*Date")


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
    """Finds the field of a column in the event: the first spelling of its paths that has a value."""

    tree: ObjectNode
    paths: FieldPaths

    @property
    def key(self) -> FieldText:
        """The key before the value."""
        elsewhere = [f"isNotNull({text})" for text in self.earlier]
        key = self.paths[-1][-1]
        if all(header_of(path) is not None for path in self.paths):
            return None
        return KeyUnless(key, either(*elsewhere)) if elsewhere else key

    @property
    def earlier(self) -> list[str]:
        """The texts of all places but the last."""
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
    def null_object(self) -> str:
        """The condition that the value is missing because an object on its path is null."""
        outer = [(self.tree.node_of(keys), keys[-1]) for keys in objects_of(self.paths)]
        nulls = (
            both(f"isNull({node.element(key)})", f"has({node.keys}, {literal(key)})")
            for node, key in outer
            if isinstance(node, ObjectNode)
        )
        return both(self.null, either(*nulls))

    @property
    def there(self) -> str:
        """The condition that it is null, and not missing, where one of both is so."""
        return either(*(node.there(key) for node, key in self._nodes))

    @property
    def quoted(self) -> str:
        """The condition that the value is a string."""
        *earlier, last = (node.quoted(key) for node, key in self._nodes)
        pairs = (
            part
            for text, quoted in zip(self.earlier, earlier, strict=True)
            for part in (f"isNotNull({text})", quoted)
        )
        return f"multiIf({listed([*pairs, last])})" if earlier else last

    @property
    def _nodes(self) -> list[tuple[ObjectNode | HeaderNode, str]]:
        return [(self.tree.node_of(keys), keys[-1]) for keys in all_spellings(self.paths)]


def objects_of(places: FieldPaths) -> list[FieldPath]:
    """Returns the keys of each object that a spelling of one of the paths runs through."""
    found = all_spellings([path for path in places if header_of(path) is None])
    return list(dict.fromkeys(keys[:size] for keys in found for size in range(1, len(keys))))


@dataclass(frozen=True)
class FieldSql:
    """What fills a column, the checks of it, and which of its values are not the event's."""

    stages: Stages
    checks: tuple[FitCheck, ...]
    lacks: tuple[Lack, ...] = ()


def column_sql(
    column: Column,
    paths: FieldPaths,
    number: int,
    tree: ObjectNode,
    long: bool,
    groups: Mapping[str, Nested],
    demand: Missing,
    spelled: Spelled,
) -> FieldSql:
    """`demand`: which rows without a value for the column are rejected rows; `spelled`: how its times are."""
    kind, place = parse(column.type).stored, FieldPlace(tree, paths)
    default = f"d{number}" if _has_elements(column) else ""
    key = place.key if long else None
    # What an element would be in a DEFAULT that the server computes row by row is not known here.
    filled_in = demand != "reject" and not column.computed
    column_cast = cast(
        kind,
        f"r{number}",
        key=key,
        quoted=place.quoted,
        default=default,
        filled=filled_in,
        spelled=spelled,
    )
    container = parsed_of(kind, place, number, long, spelled) if column_cast.judged else None
    filled = _filled(column, place, number, groups, column_cast, container, key, spelled)
    return _with_lacks(filled, column, place, number, groups, column_cast.lacks, demand)


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
    spelled: Spelled,
) -> FieldSql:
    text, kind = f"r{number}", parse(column.type).stored
    document = None
    if kind.plain.name == "JSON":
        document = document_cast(kind.plain, text, key, place.quoted, str(number), spelled)
    texts = [Sql(f"{place.text} AS {text}")]
    if _has_elements(column):
        texts.append(Sql(f"CAST({column.default}, {literal(column.type)}) AS d{number}"))
    stages = Stages(texts=tuple(texts))
    if column_cast.judged:
        stages = _judged(stages, column_cast, number, container)
        column_cast = replace(
            column_cast, value=f"tupleElement(c{number}, 1)", unfit=f"tupleElement(c{number}, 2)"
        )
    if document is not None:
        column_cast = replace(column_cast, value=document.value)
    lacking = _lacking(column, column_cast, place)
    value = _or_default(column, column_cast, lacking)
    if column.name in groups:
        value = groups[column.name].value(column.name, value)
    casts = [Sql(f"{expression} AS {name}") for name, expression in (document.named if document else ())]
    casts += [Sql(f"{lacking} AS l{number}")] if column.computed else []
    stages = replace(stages, casts=(*casts, Sql(f"{value} AS v{number}")))
    checks = [
        *_utf8_checks(column, place, text),
        *_path_checks(column, document.paths if document else (), number, spelled),
    ]
    if column_cast.unfit == "0":
        return FieldSql(stages, tuple(checks))
    unfit = column_cast.unfit if column_cast.container else unfit_of(text, f"v{number}")
    where = column_cast.where if column_cast.container or kind.plain.name in ("JSON", "Dynamic") else ""
    unsaid = _unsaid(column.type, spelled)
    checks.append(FitCheck(column.name, column.type, text, f"m{number}", where, f"w{number}", unsaid))
    return FieldSql(replace(stages, unfit_values=(Sql(f"{unfit} AS m{number}"),)), tuple(checks))


def _with_lacks(
    filled: FieldSql,
    column: Column,
    place: FieldPlace,
    number: int,
    groups: Mapping[str, Nested],
    partly: bool,
    demand: Missing,
) -> FieldSql:
    """Adds which rows have no value, as flags, and as a rejected row where there has to be one; `partly`:
    elements may lack one, too."""
    nothing, paths = _nothing(column, place, groups), place.paths
    found = tuple(lacks(column, paths, nothing, place.there))
    if partly:
        flag = f"tupleElement(c{number}, 3)"
        found = (Lack(column.name, paths, Sql(f"if({nothing}, 1, {flag})" if column.default else flag)),)
    casts = [Sql(f"{lack.flag} AS {_flag(number, lack)}") for lack in found]
    unmet = {"default": "", "object": place.null_object if demand == "object" else "", "reject": nothing}[
        demand
    ]
    casts += [Sql(f"{unmet} AS n{number}")] if unmet else []
    missing = [FitCheck(column.name, MISSING, f"r{number}", f"n{number}")] if unmet else []
    return FieldSql(
        replace(filled.stages, casts=(*filled.stages.casts, *casts)),
        (*missing, *filled.checks),
        tuple(replace(lack, flag=_flag(number, lack)) for lack in found),
    )


def _utf8_checks(column: Column, place: FieldPlace, text: str) -> list[FitCheck]:
    """An event is UTF-8 as it has landed, and a header may be any bytes."""
    if all(header_of(path) is None for path in place.paths):
        return []
    unfit = f"ifNull(NOT isValidUTF8({text}), 0)"
    return [FitCheck(column.name, "text in UTF-8", f"toValidUTF8(ifNull({text}, ''))", unfit)]


def _unsaid(kind: str, spelled: Spelled) -> bool:
    return spelled.format is None and "Date" in kind


def _path_checks(column: Column, paths: Sequence[TypedPath], number: int, spelled: Spelled) -> list[FitCheck]:
    """Returns a check for each typed path of a JSON column."""
    return [
        FitCheck(
            f"{column.name}.{path.name}",
            path.kind.text,
            path.text,
            path.unfit,
            path.where,
            f"w{number}_{position}",
            _unsaid(path.kind.text, spelled),
        )
        for position, path in enumerate(paths)
    ]


def parsed_of(
    kind: Type, place: FieldPlace, number: int, long: bool, spelled: Spelled
) -> ParsedContainer | None:
    """Returns None where the parse gives no container. One that it gives is another field's where an earlier
    spelling has a value."""
    if place.container is None:
        return None
    container = parsed_cast(kind, place.container, f"j{number}", long, spelled)
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


def group_sql(
    group: Nested, numbers: Mapping[str, int], tree: ObjectNode, long: bool, spelled: Spelled
) -> FieldSql:
    """Returns the array of objects that may fill the columns of a Nested, and the checks of it."""
    field = tree.element(group.name)
    if not group.objects:
        return FieldSql(Stages(), tuple(group.checks(numbers, field, "")))
    quoted = f"JSONType({tree.text}, {literal(group.name)}) = 'String'"
    key = group.name if long else None
    group_cast = cast(group.type, group.text, key=key, quoted=quoted, spelled=spelled)
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


# Which rows get no value of their event in a column: the field is missing, or null there. Pure.
@dataclass(frozen=True)
class Lack:
    """`flag` is an expression, 1 in a row whose `column`, of the field at `paths`, has no value of the event.
    `null`: it is NULL there; else a default, in the column or in an element of its Tuple."""

    column: str
    paths: FieldPaths
    flag: Sql
    null: bool = False


def holds_null(column: Column) -> bool:
    """Returns whether the type says that there is no value, and does not make one up."""
    return column.may_be_null or may_lack(parse(column.type).stored)


def lacks(column: Column, paths: FieldPaths, nothing: str, present: str) -> Iterator[Lack]:
    """`nothing` is the condition that the field is missing or null, `present` that it is there, maybe as
    null."""
    if not holds_null(column):
        yield Lack(column.name, paths, Sql(nothing))
    elif not column.default:
        yield Lack(column.name, paths, Sql(nothing), null=True)
    elif not column.may_be_null:
        yield Lack(column.name, paths, Sql(nothing))
    else:
        yield Lack(column.name, paths, Sql(f"if({nothing}, NOT {present}, 0)"))
        yield Lack(column.name, paths, Sql(f"if({nothing}, {present}, 0)"), null=True)
