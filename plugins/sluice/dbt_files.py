"""Files by which dbt reads a pipeline's tables: sources with columns, event time and freshness, and a test
that hours are whole.

Readers see committed hours only, through the view `sluice`.`database.table`. A batch of a microbatch model is
an hour of `_slice`, so that one run of it reads what one load has committed, late events included.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sluice.clients.clickhouse.sql import SYSTEM, Sql, listed, literal, render
from sluice.config.pipeline import Pipeline

MARK = "Written by Sluice for dbt: write it again when a table or a cluster comes."
TEST = "sluice_hour_complete"
SOURCES, TESTS = "models", "tests/generic"
_TEST = Path(__file__).with_name(f"{TEST}.sql")


@dataclass(frozen=True)
class SourceTable:
    """`columns` are (name, type), as ClickHouse has them."""

    table: str
    what: str
    columns: Sequence[tuple[str, str]]


Begins = Mapping[str, datetime | None]
"""By cluster the first hour that waits for it; None: every hour does."""


def dbt_files(pipeline: Pipeline, tables: Sequence[SourceTable], begins: Begins) -> dict[str, str]:
    """Returns the files by their paths in a dbt project."""
    return {
        f"{SOURCES}/sluice_{pipeline.name}.yml": sources(pipeline, tables, begins),
        f"{TESTS}/{TEST}.sql": _TEST.read_text(encoding="utf-8"),
    }


def sources(pipeline: Pipeline, tables: Sequence[SourceTable], begins: Begins) -> str:
    """Returns the sources in YAML, of which JSON's texts are a part."""
    lines = [
        f"# {MARK}",
        "version: 2",
        "sources:",
        f"  - name: {_text(pipeline.name)}",
        f"    schema: {SYSTEM}",
        "    tables:",
    ]
    for table in tables:
        lines += _table(pipeline, table, begins)
    return "\n".join(lines) + "\n"


def _table(pipeline: Pipeline, table: SourceTable, begins: Begins) -> list[str]:
    late = pipeline.slice + pipeline.settle + pipeline.alarms.overdue
    return [
        f"      - name: {_text(table.table.partition('.')[2])}",
        f"        identifier: {_text(table.table)}",
        "        quoting: {identifier: true}",
        f"        description: {_text(table.what)}",
        "        config:",
        "          event_time: _slice",
        "          loaded_at_query: |",
        *(f"            {line}" for line in loaded_at(pipeline, table.table, begins).splitlines()),
        f"          freshness: {{error_after: {{count: {_minutes(late)}, period: minute}}}}",
        "        data_tests:",
        f"          - {TEST}:",
        f"              arguments: {json.dumps(_arguments(pipeline, table.table, begins))}",
        "        columns:",
        *(f"          - {{name: {_text(n)}, data_type: {_text(kind)}}}" for n, kind in table.columns),
    ]


def _arguments(pipeline: Pipeline, table: str, begins: Begins) -> Mapping[str, object]:
    names, instants = zip(*_seconds(begins), strict=True)
    seconds = int(pipeline.slice.total_seconds())
    return {"table": table, "clusters": list(names), "begins": list(instants), "seconds": seconds}


def _seconds(begins: Begins) -> list[tuple[str, int]]:
    return [(name, int(at.timestamp()) if at else 0) for name, at in begins.items()]


def loaded_at(pipeline: Pipeline, table: str, begins: Begins) -> str:
    """Returns the query of the instant up to which the table has every hour."""
    return render(
        "dbt/loaded_at",
        target=literal(table),
        clusters=listed(literal(name) for name, _ in _seconds(begins)),
        begins=listed(str(at) for _, at in _seconds(begins)),
        back=Sql(str(int(pipeline.lookback.total_seconds()))),
        length=Sql(str(int(pipeline.slice.total_seconds()))),
    )


def _text(value: str) -> str:
    """Returns a text in YAML; dbt would take braces for a template."""
    return json.dumps(value.replace("{{", "{ {").replace("{%", "{ %"))


def _minutes(length: timedelta) -> int:
    return -(-int(length.total_seconds()) // 60)
