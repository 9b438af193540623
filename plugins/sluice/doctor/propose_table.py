"""Proposes a table for a type of event, from samples of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.clients.clickhouse.sql import identifier, table
from sluice.config.pipeline import CATCH_ALL, Pipeline
from sluice.config.yaml_text import scalar
from sluice.doctor.columns import column_name
from sluice.doctor.events import fields
from sluice.doctor.infer_types import column_type
from sluice.flow.load.casts.columns import HOLDERS
from sluice.flow.load.casts.event_paths import RESERVED

MOST_COLUMNS = 1_000
"""As wide as tables are that a load is tried with."""
_NAME_CHARACTERS = 60  # a table's name is a file's, with each character that is no letter as three
# What Sluice needs, and what tells a row's place in Kafka.
_OWN = {
    "_slice": "DateTime('UTC')",
    "_cluster": "LowCardinality(String)",
    "_type": "LowCardinality(String)",
    "_topic": "LowCardinality(String)",
    "_partition": "Int32",
    "_offset": "Int64",
    "_timestamp": "DateTime64(3, 'UTC')",
}


@dataclass(frozen=True)
class Proposal:
    """`columns` by name; `paths` are the fields of columns that are not named like theirs. `left_out` counts
    the fields beyond `MOST_COLUMNS`."""

    type: str
    table: str
    columns: Mapping[str, str]
    paths: Mapping[str, str]
    left_out: int = 0

    @property
    def statement(self) -> str:
        lines = [f"    {identifier(name)} {kind}" for name, kind in {**self.columns, **_OWN}.items()]
        body = ",\n".join(lines)
        return (
            f"CREATE TABLE {table(self.table)}\n(\n{body}\n)\nENGINE = MergeTree\n"
            "PARTITION BY toDate(_slice)\nORDER BY (_slice, _cluster)"
        )

    @property
    def entry(self) -> str:
        """The line below `tables:` in the pipeline file."""
        if not self.paths:
            return f"  {scalar(self.type)}: {scalar(self.table)}"
        paths = ", ".join(f"{scalar(name)}: {scalar(path)}" for name, path in self.paths.items())
        return f"  {scalar(self.type)}: {{table: {scalar(self.table)}, columns: {{{paths}}}}}"


def propose(pipeline: Pipeline, kind: str, events: Sequence[Mapping[str, Any]]) -> Proposal:
    """Every field of the events gets a column that can have one; inner ones are named by their path.

    Of more than `MOST_COLUMNS` those that most events have, and of these the outer ones.
    """
    columns: dict[str, str] = {}
    paths: dict[str, str] = {}
    known = {path: values for path, values in fields(events).items() if RESERVED not in path}
    found = sorted(known.items(), key=lambda item: (-len(item[1]), len(item[0])))[:MOST_COLUMNS]
    for path, values in sorted(found, key=lambda item: len(item[0])):
        name = column_name(path, set(columns) | set(HOLDERS))
        columns[name] = column_type(values, len(values) == len(events))
        if path != (name,):
            paths[name] = ".".join(path)
    return Proposal(kind, _table(pipeline, kind), columns, paths, len(known) - len(found))


def _table(pipeline: Pipeline, kind: str) -> str:
    """The type's own table, else one of its name beside the catch-all."""
    if kind in pipeline.tables:
        return pipeline.tables[kind].table
    beside = pipeline.tables.get(CATCH_ALL) or next(iter(pipeline.tables.values()), None)
    database = beside.database if beside else pipeline.name
    name = re.sub(r"\W+", "_", kind.lower())[:_NAME_CHARACTERS].strip("_")
    return f"{database}.{name or 'events'}"
