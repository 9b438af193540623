"""Columns of a Nested: arrays `n.a`, `n.b` of one length. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sluice.clients.clickhouse.sql import listed, summed
from sluice.clients.clickhouse.types import parse


@dataclass(frozen=True)
class MisfitCheck:
    """What tells, and says, that a row's value does not fit one column."""

    column: str
    type: str
    text: str
    misfit: str


@dataclass(frozen=True)
class Nested:
    """`columns` are (name, type); `direct` those that the field of their own name fills."""

    name: str
    columns: tuple[tuple[str, str], ...]
    direct: frozenset[str]

    def checks(self, numbers: Mapping[str, int], field: str) -> Iterator[MisfitCheck]:
        """`numbers` are those of the columns, `field` is the text of the event's field `name`.

        An array of objects there would leave the columns empty without a word.
        """
        for column, kind in self.columns:
            if column in self.direct:
                misfit = f"(isNull(r{numbers[column]}) > isNull({field}))"
                yield MisfitCheck(column, f"{kind}, which is filled by a field `{column}`", field, misfit)
        lengths = [f"length(v{numbers[column]})" for column, _ in self.columns]
        if len(lengths) > 1:
            misfit = f"(({summed([f'({lengths[0]} != {other})' for other in lengths[1:]])}) > 0)"
            yield MisfitCheck(self.name, "arrays of one length", f"toString([{listed(lengths)}])", misfit)


def nested_of(columns: Iterable[tuple[str, str]], mapped: Collection[str]) -> list[Nested]:
    """The Nested among the (name, type); `mapped` are names that the pipeline file gives another path."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, kind in columns:
        table, dot, inner = name.partition(".")
        if table and dot and inner and parse(kind).name == "Array":
            groups.setdefault(table, []).append((name, kind))
    return [
        Nested(table, tuple(parts), frozenset(name for name, _ in parts if name not in mapped))
        for table, parts in groups.items()
    ]
