"""The text of the pipeline file and of the statements. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sluice.clients.clickhouse.sql import identifier, render
from sluice.config.yaml_text import scalar
from sluice.init.messages import form_keys
from sluice.init.questions import InitChoices
from sluice.init.request import InitRequest
from sluice.init.tables import PlannedTable
from sluice.safe_text import line, visible

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
