"""Files by which dbt reads a pipeline's tables: sources with columns, event time and freshness, and a test
that hours are whole. A batch of a microbatch model is an hour of `_slice`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from sluice.clients.clickhouse.sql import SYSTEM, Sql, render
from sluice.config.pipeline import Pipeline
from sluice.mart_sources import MartSource

MARK = "Written by Sluice for dbt: write it again when a table or a cluster comes."
TEST = "sluice_hour_complete"
SOURCES, TESTS = "models", "tests/generic"
_TEST = Path(__file__).with_name(f"{TEST}.sql")


def dbt_files(pipeline: Pipeline, tables: Sequence[MartSource]) -> dict[str, str]:
    """Returns the files by their paths in a dbt project."""
    return {
        f"{SOURCES}/sluice_{pipeline.name}.yml": sources(pipeline, tables),
        f"{TESTS}/{TEST}.sql": _TEST.read_text(encoding="utf-8"),
    }


def sources(pipeline: Pipeline, tables: Sequence[MartSource]) -> str:
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
        lines += _table(pipeline, table)
    return "\n".join(lines) + "\n"


def _table(pipeline: Pipeline, table: MartSource) -> list[str]:
    late = pipeline.slice + pipeline.settle + pipeline.alarms.overdue
    return [
        f"      - name: {_text(table.table.partition('.')[2])}",
        f"        identifier: {_text(table.table)}",
        "        quoting: {identifier: true}",
        f"        description: {_text(table.what)}",
        "        config:",
        "          event_time: _slice",
        "          loaded_at_query: |",
        *(f"            {line}" for line in loaded_at(pipeline, table).splitlines()),
        f"          freshness: {{error_after: {{count: {_minutes(late)}, period: minute}}}}",
        "        data_tests:",
        f"          - {TEST}:",
        f"              arguments: {{hours: {_text(table.hours)}, seconds: {_seconds(pipeline.slice)}}}",
        "        columns:",
        *(f"          - {{name: {_text(n)}, data_type: {_text(kind)}}}" for n, kind in table.columns),
    ]


def loaded_at(pipeline: Pipeline, table: MartSource) -> str:
    """Returns the query of the instant up to which the table has every hour."""
    return render(
        "marts/loaded_at",
        hours=table.hours,
        back=Sql(_seconds(pipeline.lookback)),
        length=Sql(_seconds(pipeline.slice)),
    )


def _text(value: str) -> str:
    """Returns a text in YAML; dbt would take braces for a template."""
    return json.dumps(value.replace("{{", "{ {").replace("{%", "{ %"))


def _minutes(length: timedelta) -> int:
    return -(-int(length.total_seconds()) // 60)


def _seconds(length: timedelta) -> str:
    return str(int(length.total_seconds()))
