"""What fills each column of a target: a field of the event, a column of the lake, or the column's DEFAULT."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Literal

from sluice.clients.clickhouse.sql import Sql, both, either, identifier, listed, summed
from sluice.clients.clickhouse.tables import Column
from sluice.clients.clickhouse.types import parse
from sluice.config.target import Missing
from sluice.field_path import Field, FieldPath, FieldPaths, all_spellings, header_of, paths_of
from sluice.flow.load.casts.casts import UnsupportedType, cast, unfit_of
from sluice.flow.load.casts.column_sql import (
    FitCheck,
    Lack,
    Nested,
    Stages,
    column_sql,
    group_sql,
    nested_of,
    objects_of,
)
from sluice.flow.load.casts.containers import texts_of
from sluice.flow.load.casts.event_paths import (
    NESTED,
    NULLS,
    QUOTED,
    ObjectNode,
    extract,
    nodes,
    odd_texts,
    tree_of,
)
from sluice.flow.load.casts.exact_numbers import EVENT, LARGE, LONG, ODD
from sluice.flow.load.casts.times import of_stamp
from sluice.infer.types import Rules
from sluice.time_grammar import AS_WRITTEN, Spelled

# The lake's columns as the server reads them, and the types of target columns that hold them unchanged.
# Files have `_row` only where messages are arrays: elsewhere it is 0.
LAKE = {
    "_type": "LowCardinality(String)",
    "_cluster": "LowCardinality(String)",
    "_topic": "LowCardinality(String)",
    "_partition": "Int32",
    "_offset": "Int64",
    "_row": "Int32",
    "_timestamp": "DateTime64(3, 'UTC')",
    "_key": "Nullable(String)",
    "_headers": "Array(Tuple(key String, value Nullable(String)))",
    "_payload": "String",
}
_TEXT = {"String"}
HOLDERS = {
    "_slice": {"DateTime"},
    "_type": _TEXT,
    "_cluster": _TEXT,
    "_topic": _TEXT,
    "_partition": {"Int32", "Int64", "UInt32", "UInt64"},
    "_offset": {"Int64", "UInt64"},
    "_row": {"Int32", "Int64", "UInt32", "UInt64"},
    "_timestamp": {"DateTime", "DateTime64"},
    "_key": _TEXT,
    "_payload": _TEXT,
}
_MOST_PLACES = 500_000  # characters of SQL
_MOST_CONTAINERS = 20
_ROWS, _FEWEST_ROWS, _FEW = 8192, 256, 64  # rows of a block, and how many columns are few
ALWAYS = ("_slice", "_cluster")
Columns = Sequence[Column]
Required = Mapping[str, Missing]
Times = Mapping[str, Spelled]
_NO_TIMES: Times = MappingProxyType({})


@dataclass(frozen=True)
class Filling:
    """How rows of the lake become rows of one target.

    `stages` are expressions (`expression AS name`), each computed by a SELECT of its own, over what those
    before it name: in one SELECT the server would write out a name's expression wherever it is used.
    `columns` and `values` are the INSERT's, and `checks` the unfit_values, the first of them of the event as
    a whole. `short` is the same for events that hold no long numbers. `parsed`: the parse gives some as
    containers (parsed.py). `headers`: some values are headers'. `lacks`: which rows have no value of their
    event in a column."""

    columns: tuple[str, ...]
    values: tuple[Sql, ...]
    stages: tuple[tuple[Sql, ...], ...]
    checks: tuple[FitCheck, ...]
    short: Filling | None = None
    parsed: bool = False
    headers: bool = False
    inserted: tuple[str, ...] = ()
    lacks: tuple[Lack, ...] = ()

    @property
    def named(self) -> tuple[Sql, ...]:
        return tuple(expression for stage in self.stages for expression in stage)

    @property
    def unfit(self) -> Sql:
        return Sql(f"({summed([check.unfit for check in self.checks])}) > 0" if self.checks else "0")

    @property
    def places(self) -> tuple[Sql, ...]:
        """Expressions of the places of rejected rows inside containers. They use names of `stages`; `first`
        uses theirs."""
        return tuple(check.placed for check in self.checks if check.where)

    def first(self, attribute: Literal["column", "type", "reason", "text"]) -> Sql:
        """Returns what a row's first rejected row has: the column's name, its type, the reason, or the
        value's text."""
        parts = []
        for check in self.checks:
            parts += [check.unfit, check.parts[attribute]]
        return Sql(f"multiIf({listed(parts)}, '')" if parts else "''")

    def of_short_numbers(self) -> Filling:
        """Returns the same for events that hold no long numbers: none has to be checked."""
        return self.short or self

    @property
    def into(self) -> tuple[str, ...]:
        """The columns of `values`: for some of `columns` two others (Column.computed)."""
        return self.inserted or self.columns

    @property
    def lengthy(self) -> bool:
        """Whether a condition on the values is long: one of 20 containers, written out, takes seconds."""
        return self.parsed or len(self.columns) > _FEW

    @property
    def block(self) -> Sql:
        """Rows that the expressions take at once: fewer of many columns, which would not fit into memory."""
        return Sql(str(max(_FEWEST_ROWS, min(_ROWS, _ROWS * _FEW // max(1, len(self.columns))))))

    @property
    def lake_columns(self) -> tuple[str, ...]:
        """Those the rows need; the checks name a row by all of them."""
        return tuple(name for name in LAKE if name != "_headers" or self.headers)


def fill(
    columns: Columns,
    paths: Mapping[str, Field],
    required: Required = MappingProxyType({}),
    times: Times = _NO_TIMES,
) -> Filling:
    """Returns the filling of a table with `columns`; `paths` gives the field of those not named like theirs,
    `times` how times are written that do not say it themselves. A row that has no value for a `required`
    column is a rejected row, or is one where null stands in place of an object on its path (`missing` in
    config/target.py).

    Raises UnsupportedType with the name and type of each column that no value fills.
    """
    _check_types(column for column in columns if column.taken and column.name not in HOLDERS)
    short = _fill(columns, paths, required, times, False)
    return replace(_fill(columns, paths, required, times, True), short=short)


def _fill(
    columns: Columns, paths: Mapping[str, Field], required: Required, times: Times, long: bool
) -> Filling:
    """`long`: the events may hold long numbers, which have to be checked."""
    taken = [column for column in columns if column.taken]
    fields, nested = filled_fields(columns, paths)
    groups = {name: group for group in nested for name, _ in group.columns}
    containers = _containers([one for one in fields if one[0].name not in groups])
    asked = [keys for _, places in fields for keys in all_spellings(places)]
    source = "event_text" if long else "_payload"
    tree = tree_of([*asked, *((group.name,) for group in nested)], containers, source)
    marked = [
        keys
        for column, places in fields
        if column.may_be_null and column.default
        for keys in all_spellings(places)
    ]
    marked += [
        outer
        for column, places in fields
        if required.get(column.name) == "object"
        for outer in objects_of(places)
    ]
    sql_of = partial(column_sql, tree=tree, long=long, groups=groups)
    field_sqls = [
        sql_of(
            *of,
            n,
            demand=required.get(of[0].name, "default"),
            spelled=times.get(of[0].name, AS_WRITTEN),
        )
        for n, of in enumerate(fields)
    ]
    numbers = {column.name: number for number, (column, _) in enumerate(fields)}
    field_sqls += [group_sql(group, numbers, tree, long, _of_group(group, times)) for group in nested]
    held = {column.name: _held(column) for column in taken if column.name in HOLDERS}
    values = {name: Sql(f"v{number}") for name, number in numbers.items()}
    values |= {name: value for name, (value, _) in held.items()}
    odd = odd_texts(tree, {places[-1]: f"u{number}" for number, (_, places) in enumerate(fields)})
    parts = Stages.of_all([one.stages for one in field_sqls])
    stages = [*extract(tree, marked), parts.items, parts.fine, odd, parts.texts]
    by_column = [(column.name, places) for column, places in fields]
    stages += [parts.judged, parts.casts, [*parts.unfit_values, *stray_names(tree, by_column)]]
    checks = [
        *([whole(tree)] if fields else []),
        *strays(tree, by_column),
        *(check for _, check in held.values() if check is not None),
        *(check for one in field_sqls for check in one.checks),
    ]
    names = tuple(column.name for column in taken)
    missing = {name: f"isNull({value})" for name, (value, _) in held.items()}
    missing |= {name: f"l{number}" for name, number in numbers.items()}
    inserted = [part for column in taken for part in _inserted(column, values, missing)]
    return Filling(
        names,
        tuple(value for _, value in inserted),
        _with_shared(stages),
        tuple(_placed(checks)),
        parsed=bool(parts.items),
        headers=bool(tree.headers.fields),
        inserted=tuple(name for name, _ in inserted),
        lacks=tuple(lack for one in field_sqls for lack in one.lacks),
    )


def filled_fields(
    columns: Columns, paths: Mapping[str, Field]
) -> tuple[list[tuple[Column, FieldPaths]], list[Nested]]:
    """Returns the columns that events fill, each with its field's paths, and the Nested among them."""
    filled = [column for column in columns if column.taken and column.name not in HOLDERS]
    nested = nested_of([(column.name, column.type) for column in filled], paths)
    parts = {name for group in nested for name, _ in group.columns}
    return [(column, _paths(column, paths, parts)) for column in filled], nested


def _of_group(group: Nested, times: Times) -> Spelled:
    """Objects in one array are cast together: by what is said of the first of their columns."""
    return next((times[name] for name, _ in group.columns if name in times), AS_WRITTEN)


def _inserted(
    column: Column, values: Mapping[str, Sql], missing: Mapping[str, str]
) -> Iterator[tuple[str, Sql]]:
    """Yields (name, value) of what is inserted for a column."""
    value = column.inserted(values[column.name])
    yield (column.given if column.computed else column.name), value
    if column.computed:
        yield column.missing, Sql(missing[column.name])


def _containers(fields: Sequence[tuple[Column, FieldPaths]]) -> dict[FieldPath, str]:
    """Returns what the parse gives of the fields that are containers. Of many, nothing: both ways make the
    statement twice as long, and the server takes a second for each 100,000 characters."""
    types_by_path = {
        places[-1]: texts_of(parse(column.type).stored)
        for column, places in fields
        if header_of(places[-1]) is None
    }
    return types_by_path if sum(map(bool, types_by_path.values())) <= _MOST_CONTAINERS else {}


def _placed(checks: Iterable[FitCheck]) -> Iterator[FitCheck]:
    """The server takes a second for each 100,000 characters: in a wide table only the first columns' rejected
    rows have places, the others are named by the column."""
    left = _MOST_PLACES
    for check in checks:
        left -= len(check.where)
        yield check if left >= 0 else replace(check, where="")


def _with_shared(stages: Sequence[Sequence[Sql]]) -> tuple[tuple[Sql, ...], ...]:
    """Puts the expressions that several stages use before the others."""
    uses = {"quoted_brackets": [QUOTED], "nested_arrays": [NESTED]}
    uses |= {"long_numbers": [LONG, *ODD], "odd_doubles": [LONG, *ODD]}
    uses |= {"any_null": [NULLS], "event_text": [EVENT], "large_numbers": [LARGE]}
    parts = [part for stage in stages for part in stage]
    found = (all_ for name, all_ in uses.items() if any(name in part for part in parts))
    used = dict.fromkeys(expression for all_ in found for expression in all_)
    return tuple(tuple(stage) for stage in (used, *stages) if stage)


def _check_types(columns: Iterable[Column]) -> None:
    """Raises UnsupportedType with all such columns at once, not with one after the other."""
    unsupported = []
    for column in columns:
        try:
            cast(parse(column.type), "x")
        except UnsupportedType:
            unsupported.append(f"column {column.name} has type {column.type}")
    if unsupported:
        raise UnsupportedType(", ".join(unsupported))


def _held(column: Column) -> tuple[Sql, FitCheck | None]:
    """Returns a column of the lake, as its holder takes it."""
    name, kind = identifier(column.name), parse(column.type)
    if column.name != "_timestamp" or kind.plain.text.startswith("DateTime64(3"):
        return name, None
    value = of_stamp(kind.plain, name)
    return Sql(value), FitCheck(column.name, column.type, f"toString({name})", unfit_of(name, value))


def _paths(column: Column, paths: Mapping[str, Field], nested: Collection[str]) -> FieldPaths:
    """Returns the paths of the column's field. The dot in a column's name of a Nested divides no path."""
    own = column.name in nested and column.name not in paths
    return ((column.name,),) if own else paths_of(column.name, paths)


# Checks that an event has the shape that a table's paths need. Pure.
Paths = Sequence[tuple[str, FieldPaths]]
"""Columns and their fields' paths."""
_Through = list[tuple[str, FieldPath, FieldPaths]]
"""Columns, the path of each through an object, and all its paths."""


def strays(tree: ObjectNode, paths: Paths) -> list[FitCheck]:
    """Returns a check for each object that a path needs, by the names of `stray_names`. What stands at a key
    with a dot, and is no object, is another field."""
    checks = []
    for node, through in _needed(tree, paths):
        name, path, _ = through[0]
        kind = f"an object at {'.'.join(node.path)} (its path is {'.'.join(path)})"
        checks.append(FitCheck(name, kind, node.text, node.unfit))
    return checks


def stray_names(tree: ObjectNode, paths: Paths) -> list[Sql]:
    """Returns whether something is there that is no object, and some column's field is nowhere else."""
    names = []
    for node, through in _needed(tree, paths):
        needed = either(*(_nowhere_else(tree, path, places) for _, path, places in through))
        unfit = either(both(node.stray, needed), both(unreadable(node), needed))
        names.append(Sql(f"{unfit} AS {node.unfit}"))
    return names


def _needed(tree: ObjectNode, paths: Paths) -> Iterator[tuple[ObjectNode, _Through]]:
    for node in nodes(tree):
        size = len(node.path)
        through = [
            (name, path, places)
            for name, places in paths
            for path in places
            if path[:size] == node.path and len(path) > size
        ]
        if through:
            yield node, through


def _nowhere_else(tree: ObjectNode, path: FieldPath, places: FieldPaths) -> str:
    others = [keys for keys in all_spellings(places) if keys != path]
    return both(*(f"isNull({tree.node_of(keys).element(keys[-1])})" for keys in others))


def unreadable(node: ObjectNode) -> str:
    """Returns the condition that the server cannot parse an inner object: it writes a double such as 1e20 as
    a whole number, which it cannot read. The full check is rare."""
    nothing = summed([f"isNull({node.element(name)})" for name in node.fields])
    none = both(f"isNotNull({node.text})", f"({nothing}) = {len(node.fields)}")
    return both(none, f"JSONType(assumeNotNull({node.text})) != 'Object'")


def whole(tree: ObjectNode) -> FitCheck:
    """Returns the check that the event is an object. Anything else would fill columns by position, or none.
    The full check is rare."""
    if not tree.fields:
        return FitCheck(
            "", "a JSON object that ClickHouse can parse", "_payload", "(JSONType(_payload) != 'Object')"
        )
    fields_present = summed([f"isNotNull({tree.element(name)})" for name in tree.fields])
    text = tree.text
    unfit = f"if(startsWith({text}, '{{') * ({fields_present}) > 0, 0, JSONType({text}) != 'Object')"
    return FitCheck("", "a JSON object that ClickHouse can parse", "_payload", unfit)


# Which types a load fills: nothing else is proposed.
@cache
def fillable(kind: str) -> bool:
    try:
        fill((Column("x", kind),), {})
    except UnsupportedType:
        return False
    return True


RULES = Rules(fills=fillable)
