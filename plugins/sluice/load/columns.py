"""What fills each column of a target: a field of the event, a column of the lake, or the column's DEFAULT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sluice.load.casts import UnsupportedType, cast, misfit_of
from sluice.load.exact import LONG, NONE_LONG
from sluice.load.sql import Sql, identifier, listed, literal, summed
from sluice.load.types import parse

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
ALWAYS = ("_slice", "_cluster")


@dataclass(frozen=True)
class Column:
    """A row of system.columns; `default` is the DEFAULT's (or MATERIALIZED's …) expression."""

    name: str
    type: str
    kind: str = ""
    default: str = ""

    @property
    def filled(self) -> bool:
        """Whether an INSERT may name it and stores it."""
        return self.kind in ("", "DEFAULT")

    @property
    def definition(self) -> Sql:
        default = f" {self.kind} {self.default}" if self.kind else ""
        return Sql(f"{identifier(self.name)} {self.type}{default}")


@dataclass(frozen=True)
class Check:
    """What tells, and says, that a row's value does not fit one column."""

    column: str
    type: str
    text: str
    misfit: str


@dataclass(frozen=True)
class Filling:
    """How rows of the lake become rows of one target.

    `named` are expressions that the inner SELECT computes (`expression AS name`), `columns` and `values` the
    INSERT's, and `checks` the misfits, the first of them of the event as a whole.
    """

    columns: tuple[str, ...]
    values: tuple[Sql, ...]
    named: tuple[Sql, ...]
    checks: tuple[Check, ...]

    @property
    def misfit(self) -> Sql:
        return Sql(f"({summed([check.misfit for check in self.checks])}) > 0" if self.checks else "0")

    def first(self, attribute: Literal["column", "type", "text"]) -> Sql:
        """What a row's first misfit has: the column's name, its type, or the value's text."""
        parts = []
        for check in self.checks:
            value = getattr(check, attribute)
            parts += [check.misfit, value if attribute == "text" else literal(value)]
        return Sql(f"multiIf({listed(parts)}, '')" if parts else "''")

    def of_short_numbers(self) -> Filling:
        """The same for events that hold no long numbers: it spares the look at each."""
        return replace(self, named=tuple(NONE_LONG if part == LONG else part for part in self.named))

    @property
    def lake_columns(self) -> tuple[str, ...]:
        """Those the rows need; the checks name a row by all of them."""
        return tuple(LAKE)


def fill(columns: Sequence[Column], paths: Mapping[str, str]) -> Filling:
    """The filling of a table with `columns`; `paths` gives the field of those not named like theirs.

    Raises UnsupportedType with the column's name and type.
    """
    filled = [column for column in columns if column.filled]
    fields = [column for column in filled if column.name not in HOLDERS]
    tree = _tree([_path(column, paths) for column in fields])
    named = [*_extract("_payload", tree, ())]
    values: dict[str, Sql] = {c.name: identifier(c.name) for c in filled if c.name in HOLDERS}
    checks = [_whole(tree)] if tree else []
    for number, column in enumerate(fields):
        path = _path(column, paths)
        expressions, check = _field(column, number, _element(tree, path), path[-1])
        named += expressions
        values[column.name] = Sql(f"v{number}")
        checks += [check] if check.misfit != "0" else []
    if any("long_numbers" in expression for expression in named):
        named.insert(0, LONG)
    names = tuple(column.name for column in filled)
    return Filling(names, tuple(values[name] for name in names), tuple(named), tuple(checks))


def _field(column: Column, number: int, element: str, key: str) -> tuple[list[Sql], Check]:
    """The column's text `r<n>`, its value `v<n>` and whether it is a misfit, `m<n>`."""
    try:
        made = cast(parse(column.type), f"r{number}", key=key)
    except UnsupportedType as error:
        raise UnsupportedType(f"column {column.name} has type {column.type}") from error
    value = made.value
    if made.container and column.default:
        # NULL cannot stand for "take the DEFAULT" here: no container is Nullable.
        value = f"if(r{number} IS NULL, CAST({column.default}, {literal(column.type)}), {value})"
    named = [Sql(f"{element} AS r{number}"), Sql(f"{value} AS v{number}")]
    if made.misfit == "0":
        return named, Check(column.name, column.type, f"r{number}", "0")
    misfit = made.misfit if made.container else misfit_of(f"r{number}", f"v{number}")
    named.append(Sql(f"{misfit} AS m{number}"))
    return named, Check(column.name, column.type, f"r{number}", f"m{number}")


Tree = dict[str, "Tree"]


def _path(column: Column, paths: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(paths[column.name].split(".")) if column.name in paths else (column.name,)


def _tree(paths: Sequence[tuple[str, ...]]) -> Tree:
    root: Tree = {}
    for path in paths:
        place = root
        for name in path:
            place = place.setdefault(name, {})
    return root


def _extract(text: str, tree: Tree, place: tuple[int, ...]) -> list[Sql]:
    """One JSONExtract for the event, and one for each object inside it that columns look into."""
    if not tree:
        return []
    names = ", ".join(f"{identifier(name)} Nullable(String)" for name in tree)
    guarded = f"if(startsWith({text}, '{{'), {text}, '')" if place else text
    found = [Sql(f"JSONExtract({guarded}, {literal(f'Tuple({names})')}) AS {_tuple(place)}")]
    for index, inner in enumerate(tree.values(), start=1):
        element = f"ifNull(tupleElement({_tuple(place)}, {index}), '')"
        found += _extract(element, inner, (*place, index))
    return found


def _tuple(place: tuple[int, ...]) -> str:
    return "_".join(["fields", *map(str, place)])


def _element(tree: Tree, path: tuple[str, ...]) -> str:
    place: tuple[int, ...] = ()
    for name in path[:-1]:
        place = (*place, list(tree).index(name) + 1)
        tree = tree[name]
    return f"tupleElement({_tuple(place)}, {list(tree).index(path[-1]) + 1})"


def _whole(tree: Tree) -> Check:
    """An event that is no object would fill by position or not at all; the full look is taken rarely."""
    there = summed([f"isNotNull(tupleElement(fields, {index}))" for index in range(1, len(tree) + 1)])
    misfit = f"if(startsWith(_payload, '{{') * ({there}) > 0, 0, JSONType(_payload) != 'Object')"
    return Check("", "a JSON object that ClickHouse can parse", "_payload", misfit)
