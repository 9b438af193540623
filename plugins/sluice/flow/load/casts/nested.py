"""Columns of a Nested: arrays `n.a`, `n.b` of one length. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, summed
from sluice.clients.clickhouse.types import Type, parse
from sluice.flow.load.casts.event_paths import RESERVED
from sluice.flow.load.casts.judged import MISSING


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
