"""Which tables there will be, and the text of the pipeline file and of the statements. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.clients.clickhouse.sql import Sql, identifier, render
from sluice.config.pipeline import CATCH_ALL
from sluice.config.yaml_text import scalar
from sluice.doctor.columns import ProposedColumns, columns_of, create_table, entry, table_name
from sluice.infer.types import Rules
from sluice.init.questions import InitChoices, InitRequest
from sluice.init.sample import form_keys
from sluice.safe_text import line, visible
from sluice.state.last_ddl import lacking

LEAST_SHARE = 0.01
"""Of the events of a type that gets a table of its own; the others go to the catch-all."""
MOST_TABLES = 50
_CATCH_ALL_NAME = "other"

Existing = Mapping[str, Sequence[str]]
"""The columns of the tables that are there, by `database.table`."""


@dataclass(frozen=True)
class PlannedTable:
    """`type` is `*` for the catch-all; `existing`: the table is there and stays as it is; `lacking`: what it
    needs before it can be loaded; `arrays`: messages are arrays of events."""

    type: str
    table: str
    events: int
    columns: ProposedColumns = field(default_factory=lambda: ProposedColumns({}, {}))
    existing: bool = False
    arrays: bool = False
    lacking: str = ""

    @property
    def entry(self) -> str:
        return entry(self.type, self.table, self.columns.paths)

    @property
    def statement(self) -> Sql:
        """Creates the table unless it exists: so statements that were cut short can be run again."""
        return create_table(
            self.table, self.columns.columns, self.arrays, self.type == CATCH_ALL, unless_there=True
        )


def named_tables(types: Mapping[str, int], database: str) -> dict[str, str]:
    """Returns the table of each type that has its own, then of the catch-all; `types` counts the sampled
    events."""
    total = sum(types.values())
    ranked = sorted(types.items(), key=lambda item: (-item[1], item[0]))
    frequent = [kind for kind, count in ranked if count >= LEAST_SHARE * total and kind != CATCH_ALL]
    tables: dict[str, str] = {}
    for kind in frequent[:MOST_TABLES]:
        tables[kind] = _unique(f"{database}.{table_name(kind)}", tables)
    tables[CATCH_ALL] = _unique(f"{database}.{_CATCH_ALL_NAME}", tables)
    return tables


def _unique(name: str, tables: Mapping[str, str]) -> str:
    numbered = (name if number == 1 else f"{name}_{number}" for number in range(1, len(tables) + 2))
    return next(candidate for candidate in numbered if candidate not in tables.values())


def plan_tables(
    events: Mapping[str, Sequence[Mapping[str, Any]]],
    names: Mapping[str, str],
    existing: Existing,
    rules: Rules,
    arrays: bool = False,
    always: Collection[str] = (),
) -> Iterator[PlannedTable]:
    """Plans tables for `events` by type; the catch-all keeps the payloads of all types without a table.
    `always`: fields that no event lacks, as somebody says."""
    for kind, name in names.items():
        if kind == CATCH_ALL:
            count = sum(len(type_events) for other, type_events in events.items() if other not in names)
            exists, lacks = name in existing, _lacking(name, existing)
            yield PlannedTable(kind, name, count, existing=exists, arrays=arrays, lacking=lacks)
        elif name in existing:
            paths = paths_into(existing[name], events[kind])
            columns = ProposedColumns({}, paths)
            lacks = _lacking(name, existing)
            yield PlannedTable(kind, name, len(events[kind]), columns, existing=True, lacking=lacks)
        else:
            columns = columns_of(events[kind], rules, always)
            yield PlannedTable(kind, name, len(events[kind]), columns, arrays=arrays)


def _lacking(name: str, existing: Existing) -> str:
    needs = lacking(name, existing[name]) if name in existing else None
    return "; ".join(needs) if needs else ""


def paths_into(columns: Sequence[str], events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the path of each column of an existing table that is named like one, `user_name` for
    `user.name`, and for which there is no field of its own name."""
    outer = {name for event in events for name in event}
    inner = {
        f"{name}_{key}": f"{name}.{key}"
        for event in events
        for name, value in event.items()
        if isinstance(value, Mapping) and "." not in name
        for key in value
        if "." not in key
    }
    return {column: inner[column] for column in columns if column not in outer and column in inner}


_NOTES = 20
_EMBEDDED = "kafka_default"
_CLICKHOUSE = "clickhouse_default"


def pipeline_text(
    request: InitRequest,
    answers: InitChoices,
    topic: str,
    arrays: bool,
    tables: Sequence[PlannedTable],
    source: str,
) -> str:
    """Returns the pipeline file; its keys are those of the reference."""
    time = answers.time
    written = "{record: true}" if time is None else f"{{field: {scalar(time.field)}, format: {time.format}}}"
    kind = "{topic: true}" if answers.type is None else f"{{field: {scalar(answers.type)}}}"
    lines = [
        *([f"# yaml-language-server: $schema={request.editor_schema}"] if request.editor_schema else []),
        f"# Made by `sluice init` from {line(source)}.",
        "kafka:",
        f"  - {{cluster: {cluster_name(request)}, {_address(request)}, topics: [{scalar(topic)}]}}",
        "event:",
        f"  type: {kind}",
        f"  time: {written}",
        *(["  rows: array"] if arrays else []),
        *(f"  {key}: {_flow(value)}" for key, value in form_keys(request.form, request.folder).items()),
        f"lake: {_quoted(answers.lake)}",
        *(
            []
            if request.clickhouse == _CLICKHOUSE
            else [f"clickhouse: {{connection: {scalar(request.clickhouse)}}}"]
        ),
        "tables:",
        *(table.entry for table in tables),
    ]
    return "\n".join(lines) + "\n"


def cluster_name(request: InitRequest) -> str:
    """Returns a part of every record's identity: the embedded broker is `local`, as in the documents."""
    return "local" if request.bootstrap is None and request.connection == _EMBEDDED else "kafka"


def _address(request: InitRequest) -> str:
    if request.bootstrap is None:
        return f"connection: {scalar(request.connection)}"
    return f"bootstrap: {_quoted(request.bootstrap)}"


def _flow(value: Any) -> str:
    if isinstance(value, str):
        return scalar(value)
    return "{" + ", ".join(f"{key}: {_flow(inner)}" for key, inner in value.items()) + "}"


def _quoted(text: str) -> str:
    """Quotes a text with colons and braces, which a reader expects in quotes."""
    plain = text.isprintable() and '"' not in text and "\\" not in text
    return f'"{text}"' if plain else scalar(text)


def statements_text(database: str, tables: Iterable[PlannedTable], source: str) -> str:
    """Returns the statements, each with what a reader has to know of it."""
    parts = [f"-- Made by `sluice init` from {line(source)}.", f"{create_database(database)};"]
    for table in tables:
        types = "every other type" if table.type == "*" else f"type {visible(table.type)}"
        parts.append(f"\n-- {table.table}: {table.events:,} events of the sample, {types}")
        if table.existing:
            parts.append("-- The table is there, and stays as it is.")
            continue
        parts += [f"-- {line(note)}" for note in table.columns.notes()[:_NOTES]]
        parts.append(f"{table.statement};")
    return "\n".join(parts) + "\n"


def create_database(database: str) -> str:
    return render("init/create_database", database=identifier(database))
