"""Which fields of landed events need a column of their own. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.clients.clickhouse.tables import Column
from sluice.config.pipeline import Pipeline, Target
from sluice.field_path import first_keys, names_of, paths_of
from sluice.flow.load.casts import event_paths
from sluice.manifest import TypeFields

MOST_NEW = 100
"""Columns that one load adds."""
MOST_COLUMNS = 1_000
"""Columns of a table beyond which none is added: as wide as tables are that a load is tried with."""


@dataclass(frozen=True)
class SliceFields:
    """Of the rows of one slice: in how many each field has a value other than null. `others`: how often
    fields were there that are not counted one by one."""

    slice: str
    rows: int
    filled: Mapping[str, int]
    others: int = 0


@dataclass(frozen=True)
class NewField:
    """A field that gets a column: `filled` of the `rows` of the slice with most of them have a value."""

    name: str
    slice: str
    filled: int
    rows: int

    @property
    def evidence(self) -> str:
        return f"in {self.filled:,} of {self.rows:,} rows of slice {self.slice}"


@dataclass(frozen=True)
class Chosen:
    """`left_out` says of other fields why they get no column."""

    fields: tuple[NewField, ...]
    left_out: Mapping[str, str]


@dataclass(frozen=True)
class TakenNames:
    """What a table has: its `columns`, and `covered`, the fields that some column takes."""

    columns: frozenset[str]
    covered: frozenset[str]

    def refusal(self, name: str) -> str:
        """Returns why no column can have the name; empty where one can."""
        return event_paths.refusal(name, self.columns)

    def with_column(self, name: str) -> TakenNames:
        return TakenNames(self.columns | {name}, self.covered | {name})


def taken_names(pipeline: Pipeline, target: Target, columns: Sequence[Column]) -> TakenNames:
    """Returns what the table has. A field is also covered by a column that reads a part of it, by one that is
    computed, and where it is the event's type."""
    paths = [path for column in columns for path in paths_of(column.name, target.columns)]
    paths += [names_of(pipeline.event.type.field)] if pipeline.event.type.field else []
    # A column named `a.b` may also be of a Nested, which the field `a` fills.
    covered = frozenset[str]().union(*map(first_keys, paths))
    return TakenNames(frozenset(column.name for column in columns), covered)


def choose_fields(taken: TakenNames, slices: Iterable[SliceFields], at_least: int) -> Chosen:
    """Returns those with a value in `at_least` rows of one slice, the most frequent ones first."""
    fields: list[NewField] = []
    left_out: dict[str, str] = {}
    for field in _frequent(taken, slices, at_least):
        refusal = taken.refusal(field.name) or _no_room(len(fields), len(taken.columns))
        if refusal:
            left_out[field.name] = refusal
        else:
            fields.append(field)
            taken = taken.with_column(field.name)
    return Chosen(tuple(fields), left_out)


def _no_room(new: int, columns: int) -> str:
    if columns >= MOST_COLUMNS:
        return f"the table has {MOST_COLUMNS:,} columns"
    return f"a load adds at most {MOST_NEW:,} columns" if new >= MOST_NEW else ""


def _frequent(taken: TakenNames, slices: Iterable[SliceFields], at_least: int) -> list[NewField]:
    best: dict[str, NewField] = {}
    for counted in joined(slices):
        for name, filled in counted.filled.items():
            best_so_far = best.get(name)
            if (
                filled >= at_least
                and name not in taken.covered
                and (not best_so_far or filled > best_so_far.filled)
            ):
                best[name] = NewField(name, counted.slice, filled, counted.rows)
    return sorted(best.values(), key=lambda field: (-field.filled, field.name))


def slice_fields(slice_id: str, types: Iterable[TypeFields]) -> SliceFields:
    """Returns what a manifest has counted of some types."""
    parts = [
        SliceFields(slice_id, of.rows, {name: seen.filled for name, seen in of.fields.items()}, of.others)
        for of in types
    ]
    return joined([SliceFields(slice_id, 0, {}), *parts])[0]


def joined(slices: Iterable[SliceFields]) -> list[SliceFields]:
    """Returns one for each slice, of whatever clusters and types it was landed."""
    rows: Counter[str] = Counter()
    others: Counter[str] = Counter()
    filled: dict[str, Counter[str]] = {}
    for counted in slices:
        rows[counted.slice] += counted.rows
        others[counted.slice] += counted.others
        filled.setdefault(counted.slice, Counter()).update(counted.filled)
    return [SliceFields(name, rows[name], filled[name], others[name]) for name in sorted(filled)]
