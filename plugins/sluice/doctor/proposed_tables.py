"""Proposes a table for events: a column for each field, and where the pipeline file has to say something of
it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render, table
from sluice.config.pipeline import CATCH_ALL, Pipeline
from sluice.config.yaml_text import scalar
from sluice.field_path import (
    HEADER,
    MOST_NAMES,
    Field,
    FieldPath,
    FieldPaths,
    first_field,
    first_there,
    header_of,
    names_of,
    path_of,
    paths_of,
)
from sluice.flow.load.casts.columns import HOLDERS
from sluice.flow.load.casts.event_paths import RESERVED
from sluice.infer.infer import InferredColumn, column, relied_on
from sluice.infer.types import STRING, ArrayOf, Inferred, Rules, is_container, nullable
from sluice.safe_text import visible
from sluice.time_grammar import AS_WRITTEN, Spelled

_HALVES = re.compile("[\ud800-\udfff]")

MOST_COLUMNS = 1_000
"""As wide as tables are that a load is tried with."""
_NAME_CHARACTERS = 60  # a table's name is a file's, with each character that is no letter as three
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# What Sluice needs, and what tells a row's place in Kafka.
_SLUICE_COLUMNS = {
    "_slice": "DateTime('UTC')",
    "_cluster": "LowCardinality(String)",
    "_type": "LowCardinality(String)",
    "_topic": "LowCardinality(String)",
    "_partition": "Int32",
    "_offset": "Int64",
    "_timestamp": "DateTime64(3, 'UTC')",
}
_ARRAY = {"_row": "Int32"}  # without it rows of one record cannot be told apart
_CATCH_ALL = {"_payload": "String"}


@dataclass(frozen=True)
class ProposedColumns:
    """`columns` by name; `paths` are the fields of those that are not named like theirs. `left_out` counts
    the fields beyond `MOST_COLUMNS`, `unusable` are those that no column can have; `renamed` gives the column
    of each field whose name is one of an element of another column, too, and `former` the name that a field
    had before."""

    columns: Mapping[str, InferredColumn]
    paths: Mapping[str, Field]
    left_out: int = 0
    unusable: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    former: Mapping[str, str] = field(default_factory=dict)

    @property
    def times(self) -> dict[str, Spelled]:
        return {name: one.spelled for name, one in self.columns.items() if one.spelled != AS_WRITTEN}

    def notes(self) -> list[str]:
        """Returns what of the sample no column will hold."""
        lines = [
            f"{visible(name)}: {inferred.warning}"
            for name, inferred in self.columns.items()
            if inferred.refused
        ]
        lines += [
            f"field {visible(name)!r} can have no column: it stays in the lake" for name in self.unusable
        ]
        lines += [
            f"field {visible(name)!r} has the column {visible(as_column)}: its own name is that of an "
            "element of another column"
            for name, as_column in self.renamed.items()
        ]
        lines += [
            f"field {visible(old)!r} is in column {visible(new)}, too: until some event it has that name, "
            "and no event has both"
            for new, old in self.former.items()
        ]
        lines += [
            f"column {visible(name)}: its times have no offset: set `zone` where they are not {spelled.zone}"
            for name, spelled in self.times.items()
            if spelled.zone
        ]
        if self.left_out:
            lines.append(f"{self.left_out:,} more fields have no column: they stay in the lake")
        return lines


@dataclass(frozen=True)
class TableProposal:
    """A table for the events of one type; `arrays`: messages are arrays of events."""

    type: str
    table: str
    columns: ProposedColumns
    arrays: bool

    @property
    def statement(self) -> Sql:
        return create_table(self.table, self.columns.columns, self.arrays)

    @property
    def entry(self) -> str:
        """The line below `tables:` in the pipeline file."""
        return entry(self.type, self.table, self.columns)


def entry(kind: str, name: str, proposed: ProposedColumns) -> str:
    mapped = {column: _written(field) for column, field in proposed.paths.items()}
    times = {
        column: f"{{format: {spelled.format}}}" if spelled.format else f"{{zone: {spelled.zone}}}"
        for column, spelled in proposed.times.items()
    }
    keys = [
        f", {key}: {{{', '.join(f'{scalar(column)}: {text}' for column, text in texts.items())}}}"
        for key, texts in (("columns", mapped), ("times", times))
        if texts
    ]
    return f"  {scalar(kind)}: " + (f"{{table: {scalar(name)}{''.join(keys)}}}" if keys else scalar(name))


def _written(field: Field) -> str:
    return scalar(field) if isinstance(field, str) else f"[{', '.join(map(scalar, field))}]"


def create_table(
    name: str,
    columns: Mapping[str, InferredColumn],
    arrays: bool = False,
    catch_all: bool = False,
    unless_there: bool = False,
) -> Sql:
    lines = [
        f"{identifier(key)} {inferred.type} COMMENT {literal(inferred.comment)}"
        for key, inferred in columns.items()
    ]
    sluice_columns = {**(_CATCH_ALL if catch_all else {}), **_SLUICE_COLUMNS, **(_ARRAY if arrays else {})}
    lines += [f"{identifier(key)} {kind}" for key, kind in sluice_columns.items()]
    return render(
        "doctor/create_table",
        unless=Sql("IF NOT EXISTS " if unless_there else ""),
        table=table(name),
        columns=listed([f"    {line}" for line in lines], ",\n"),
    )


def propose(
    pipeline: Pipeline, kind: str, events: Sequence[Mapping[str, Any]], rules: Rules
) -> TableProposal:
    given = landed_fields(pipeline.event.type.field, pipeline.event.time.field)
    proposed, target = columns_of(events, rules, given), pipeline.tables.get(kind)
    columns = _mapped(proposed, target.columns, events, rules, given) if target else proposed
    return TableProposal(kind, _table(pipeline, kind), columns, pipeline.event.arrays)


def landed_fields(*paths: str | None) -> frozenset[str]:
    """Returns the fields without which no event lands, of the paths of its type and its time."""
    return frozenset(path for path in paths if path)


def _mapped(
    proposed: ProposedColumns,
    paths: Mapping[str, Field],
    events: Sequence[Mapping[str, Any]],
    rules: Rules,
    given: frozenset[str],
) -> ProposedColumns:
    """With the columns that the pipeline file fills from paths of its own."""
    named = {
        name: column(
            name, _at(events, paths_of(name, paths)), len(events), rules, not given.isdisjoint(_texts(field))
        )
        for name, field in paths.items()
    }
    return replace(proposed, columns={**proposed.columns, **named}, paths={**proposed.paths, **paths})


def _texts(field: Field) -> tuple[str, ...]:
    return (field,) if isinstance(field, str) else field


def _at(events: Sequence[Mapping[str, Any]], paths: FieldPaths) -> list[Any]:
    """Returns the values of a field, of those events that have one."""
    return [value for event in events if (value := first_there(event, paths)) is not None]


def columns_of(
    events: Sequence[Mapping[str, Any]], rules: Rules, always: Collection[str] = ()
) -> ProposedColumns:
    """Returns a column for every field and header of the events, which are in the order of their times; of
    more than `MOST_COLUMNS` for those that most events have. `always`: fields that no event lacks, as
    somebody says."""
    values_by_field: dict[str, list[Any]] = defaultdict(list)
    for event in events:
        for name, value in event.items():
            if not _MACHINERY.fullmatch(name):
                values_by_field[name].append(value)
    for name in values_by_field:
        if "." in name and not name.startswith(HEADER):  # a load takes the field of an object for it, too
            values_by_field[name] = _at(events, (path_of(name),))
    unusable = tuple(
        name
        for name, values in values_by_field.items()
        if not _usable(name, values) or _crossed(name, events)
    )
    usable = {name: values for name, values in values_by_field.items() if name not in unusable}
    chosen = set(sorted(usable, key=lambda name: -len(usable[name]))[:MOST_COLUMNS])
    found = {
        name: column(name, values, len(events), rules, name in always)
        for name, values in usable.items()
        if name in chosen
    }
    former = _former_names(events, found)
    for name, old in former.items():
        del found[old]
        found[name] = column(name, [*usable[old], *usable[name]], len(events), rules)
    elements = {name for name in found if _names_element(name, found)}
    columns: dict[str, InferredColumn] = {}
    paths: dict[str, Field] = {}
    renamed: dict[str, str] = {}
    # Those that are renamed come last: another field may have the plain name.
    for name, inferred in sorted(
        found.items(), key=lambda pair: (pair[0] in elements, pair[0].startswith(HEADER))
    ):
        path = names_of(name) if name in elements else (header_of((name,)) or name,)
        as_column = column_name(path, set(columns) | set(HOLDERS))
        relied = relied_on(name, inferred.present, inferred.total, rules, name in always)
        if is_container(inferred.kind) and _in_null(name, events):
            inferred = _as_text(inferred, nullable(STRING))
        columns[as_column] = _unnested(as_column, inferred, STRING if relied else nullable(STRING))
        if name in elements:
            renamed[name] = as_column
        if as_column != name or name in former:
            paths[as_column] = (name, former[name]) if name in former else name
    return ProposedColumns(columns, paths, len(usable) - len(chosen), unusable, renamed, former)


_MACHINERY = re.compile(
    rf"{HEADER}(__.*|kafka_.*|content[-_](type|encoding)|trace(parent|state)|baggage|sluice_batch)?",
    re.IGNORECASE | re.DOTALL,
)
"""Headers that say something of the message, and not of what happened."""
_BEFORE_AND_AFTER = 10  # events: of fewer a change of names is chance


def _former_names(events: Sequence[Mapping[str, Any]], found: Mapping[str, InferredColumn]) -> dict[str, str]:
    """Returns the name that a field had before: up to some event all have the one, behind it all have the
    other, and no two fields of their type share that."""
    ends: dict[str, int] = {}
    starts: dict[str, int] = {}
    for number, event in enumerate(events):
        for name in event:
            if event[name] is not None:
                starts.setdefault(name, number)
                ends[name] = number + 1
    changes: dict[tuple[int, str], list[str]] = defaultdict(list)
    for name, one in found.items():
        start, end = starts.get(name, 0), ends.get(name, 0)
        if one.present == end - start >= _BEFORE_AND_AFTER and (start == 0) != (end == len(events)):
            changes[end if start == 0 else start, nullable(one.kind).text].append(name)
    pairs = (sorted(names, key=lambda name: starts[name]) for names in changes.values() if len(names) == 2)
    return {new: old for old, new in pairs if starts[new] == ends[old] and not new.startswith(HEADER)}


def _names_element(name: str, found: Mapping[str, InferredColumn]) -> bool:
    """Returns whether ClickHouse may take `a.b` for a part of a column `a`, which has parts."""
    names = names_of(name)
    outer = (".".join(names[:size]) for size in range(1, len(names)))
    return any(other in found and is_container(found[other].kind) for other in outer)


def _usable(name: str, values: Sequence[Any]) -> bool:
    """A column of another name has the field's as a path in the pipeline file. A header may be no text."""
    names = names_of(name)
    if name.startswith(HEADER):
        return not any("\ufffd" in value for value in values)
    return name != "" and RESERVED not in names and len(names) <= MOST_NAMES


def _crossed(name: str, events: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether some event has, in place of a path's field, a value that is no object on the way to it:
    its row would be rejected."""
    path = path_of(name)
    outer = [path[:size] for size in range(1, len(path))]
    lacking = (event for event in events if outer and first_field(event, path) is None)
    found = (first_field(event, names) for event in lacking for names in outer)
    return any(value is not None and not isinstance(value, Mapping) for value in found)


def _unnested(name: str, inferred: InferredColumn, text: Inferred) -> InferredColumn:
    """ClickHouse takes arrays with a dot in their names for parts of a Nested, of one length: a text."""
    if "." not in name or not isinstance(inferred.kind, ArrayOf):
        return inferred
    return _as_text(inferred, text)


def _in_null(name: str, events: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether some event has null in place of an object on a path: a load rejects its row, unless the
    column can be NULL."""
    path = path_of(name)
    sizes = range(1, len(path))
    return any(_member(event, path[:size]) is None for event in events for size in sizes)


def _member(event: Mapping[str, Any], path: FieldPath) -> Any:
    """Returns what is at the path; an empty object where nothing is."""
    value: Any = event
    for name in path:
        value = value.get(name, {}) if isinstance(value, Mapping) else {}
    return value


def _as_text(inferred: InferredColumn, text: Inferred) -> InferredColumn:
    return replace(inferred, kind=text, refused=0, unfit_values=())


def _table(pipeline: Pipeline, kind: str) -> str:
    """Returns the type's own table, else one of its name beside the catch-all."""
    if kind in pipeline.tables:
        return pipeline.tables[kind].table
    beside = pipeline.tables.get(CATCH_ALL) or next(iter(pipeline.tables.values()), None)
    return f"{beside.database if beside else pipeline.name}.{table_name(kind)}"


def table_name(kind: str) -> str:
    """Returns a table's name for a type of event: `push_event` for PushEvent."""
    words = _CAMEL.sub("_", kind).lower()
    return re.sub(r"\W+", "_", words)[:_NAME_CHARACTERS].strip("_") or "events"


def column_name(path: FieldPath, taken: set[str]) -> str:
    """`a_b` for the field `b` of `a`, with a number where that name is taken. Half surrogates, which JSON can
    escape and UTF-8 cannot hold, become `_`."""
    plain = _HALVES.sub("_", "_".join(path))
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    return name
