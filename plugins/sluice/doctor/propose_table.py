"""Proposes a table for a type of event, from samples of it. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render, table
from sluice.config.pipeline import CATCH_ALL, Pipeline
from sluice.config.yaml_text import scalar
from sluice.doctor.columns import column_name
from sluice.event_values import first_field
from sluice.field_path import MOST_NAMES, FieldPath, names_of
from sluice.flow.load.casts.columns import HOLDERS
from sluice.flow.load.casts.event_paths import RESERVED
from sluice.infer.column import InferredColumn, column, relied_on
from sluice.infer.types import STRING, ArrayOf, Inferred, Rules, is_container, nullable
from sluice.safe_text import visible

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
    the fields beyond `MOST_COLUMNS`, `unusable` are those whose name no column can have; `renamed` gives the
    column of each field whose name is one of an element of another column, too."""

    columns: Mapping[str, InferredColumn]
    paths: Mapping[str, str]
    left_out: int = 0
    unusable: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)

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
        return entry(self.type, self.table, self.columns.paths)


def entry(kind: str, name: str, paths: Mapping[str, str]) -> str:
    if not paths:
        return f"  {scalar(kind)}: {scalar(name)}"
    mapped = ", ".join(f"{scalar(column)}: {scalar(path)}" for column, path in paths.items())
    return f"  {scalar(kind)}: {{table: {scalar(name)}, columns: {{{mapped}}}}}"


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
    paths: Mapping[str, str],
    events: Sequence[Mapping[str, Any]],
    rules: Rules,
    given: Collection[str],
) -> ProposedColumns:
    """With the columns that the pipeline file fills from paths of its own."""
    named = {
        name: column(name, _at(events, names_of(path)), len(events), rules, path in given)
        for name, path in paths.items()
    }
    return replace(proposed, columns={**proposed.columns, **named}, paths={**proposed.paths, **paths})


def _at(events: Sequence[Mapping[str, Any]], path: FieldPath) -> list[Any]:
    """Returns the values of a field, of those events that have one."""
    return [value for event in events if (value := first_field(event, path)) is not None]


def columns_of(
    events: Sequence[Mapping[str, Any]], rules: Rules, always: Collection[str] = ()
) -> ProposedColumns:
    """Returns a column for every field of the events, of more than `MOST_COLUMNS` for those that most events
    have. `always`: fields that no event lacks, as somebody says."""
    values_by_field: dict[str, list[Any]] = defaultdict(list)
    for event in events:
        for name, value in event.items():
            values_by_field[name].append(value)
    unusable = tuple(name for name in values_by_field if not _usable(name))
    usable = {name: values for name, values in values_by_field.items() if name not in unusable}
    chosen = set(sorted(usable, key=lambda name: -len(usable[name]))[:MOST_COLUMNS])
    found = {
        name: column(name, values, len(events), rules, name in always)
        for name, values in usable.items()
        if name in chosen
    }
    elements = {name for name in found if _names_element(name, found)}
    columns: dict[str, InferredColumn] = {}
    paths: dict[str, str] = {}
    # Those that are renamed come last: another field may have the plain name.
    for name, inferred in sorted(found.items(), key=lambda pair: pair[0] in elements):
        path = names_of(name) if name in elements else (name,)
        as_column = column_name(path, set(columns) | set(HOLDERS))
        relied = relied_on(name, inferred.present, inferred.total, rules, name in always)
        columns[as_column] = _unnested(as_column, inferred, STRING if relied else nullable(STRING))
        if as_column != name:
            paths[as_column] = name
    renamed = {paths[as_column]: as_column for as_column in paths if paths[as_column] in elements}
    return ProposedColumns(columns, paths, len(usable) - len(chosen), unusable, renamed)


def _names_element(name: str, found: Mapping[str, InferredColumn]) -> bool:
    """Returns whether ClickHouse may take `a.b` for a part of a column `a`, which has parts."""
    names = names_of(name)
    outer = (".".join(names[:size]) for size in range(1, len(names)))
    return any(other in found and is_container(found[other].kind) for other in outer)


def _usable(name: str) -> bool:
    """A column of another name has the field's as a path in the pipeline file."""
    names = names_of(name)
    return name != "" and RESERVED not in names and len(names) <= MOST_NAMES


def _unnested(name: str, inferred: InferredColumn, text: Inferred) -> InferredColumn:
    """ClickHouse takes arrays with a dot in their names for parts of a Nested, of one length: a text."""
    if "." not in name or not isinstance(inferred.kind, ArrayOf):
        return inferred
    return replace(inferred, kind=text, refused=0, misfits=())


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
