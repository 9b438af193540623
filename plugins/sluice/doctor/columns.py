"""Holds the fields of sample events against the columns of a target. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sluice.clients.clickhouse.sql import identifier, table
from sluice.clients.clickhouse.tables import Column
from sluice.config.pipeline import CATCH_ALL, Pipeline, Target
from sluice.config.yaml_text import scalar
from sluice.doctor.check import Area, Check, ok, warn
from sluice.doctor.events import EventSample, fields
from sluice.field_path import FieldPath, holds, names_of, path_of
from sluice.flow.load.casts.columns import HOLDERS, RULES
from sluice.flow.load.casts.event_paths import RESERVED
from sluice.infer.column import column
from sluice.infer.far_times import far_times
from sluice.safe_text import visible
from sluice.slices import to_ms

_HALVES = re.compile("[\ud800-\udfff]")

MOST_FIELDS = 100  # without a column, that are reported one by one


@dataclass(frozen=True)
class Fit:
    """`filled` columns found their field, `empty` ones did not; `unfilled` fields have no column."""

    filled: tuple[str, ...]
    empty: tuple[str, ...]
    unfilled: Mapping[FieldPath, str]


def fit(
    columns: Sequence[Column],
    paths: Mapping[str, str],
    events: Sequence[Mapping[str, Any]],
    type_path: FieldPath = (),
) -> Fit:
    """`paths` gives the field of those columns that are not named like theirs; the types of fields
    without a column are proposals. The field at `type_path`, the event's type, needs none."""
    values_by_path = fields(events)
    path_by_column = {
        one.name: path_of(one.name, paths) for one in columns if one.taken and one.name not in HOLDERS
    }
    filled = tuple(
        name for name, path in path_by_column.items() if any(holds(path, field) for field in values_by_path)
    )
    unfilled = {
        path: column(path[-1], values, len(events), RULES).type
        for path, values in values_by_path.items()
        if not any(holds(taken, path) for taken in path_by_column.values())
        and path[0] not in HOLDERS
        and not (type_path and holds(type_path, path))
    }
    return Fit(filled, tuple(name for name in path_by_column if name not in filled), unfilled)


def fit_checks(
    pipeline: Pipeline, target: Target, columns: Sequence[Column], events: Sequence[Mapping[str, Any]]
) -> Iterator[Check]:
    """Yields checks of one target's columns; `events` are the sample's of the types routed to it."""
    place = f"table {target.table}"
    type_field = names_of(pipeline.event.type.field) if pipeline.event.type.field else ()
    matched = fit(columns, target.columns, events, type_field)
    text = f"{len(events):,} events; columns with a field: {', '.join(matched.filled) or 'none'}"
    yield ok(Area.SCHEMA, place, text)
    for name in matched.empty:
        remedy = f"if it has another name in the event: `columns: {{{name}: path.to.field}}`"
        text = f"column {name} has no field in any of them: it takes its DEFAULT"
        yield warn(Area.SCHEMA, place, text, remedy)
    if target.catch_all and any(column.name == "_payload" for column in columns):
        return
    unfilled = [(path, kind) for path, kind in matched.unfilled.items() if RESERVED not in path]
    for path, kind in unfilled[:MOST_FIELDS]:
        text = f"field {visible('.'.join(path))} has no column: it stays in the lake"
        yield warn(Area.SCHEMA, place, text, add_column(target, columns, path, kind))
    if len(unfilled) > MOST_FIELDS:
        propose = pipeline.command("doctor", "--ddl", next(iter(target.types), CATCH_ALL))
        text = f"{len(unfilled) - MOST_FIELDS:,} more fields have no column: they stay in the lake"
        yield warn(Area.SCHEMA, place, text, f"`{propose}` proposes a table for them")


def add_column(target: Target, columns: Sequence[Column], path: FieldPath, kind: str) -> str:
    """Returns the statement that gives a field a column, and for an inner field the line of the pipeline
    file."""
    name = column_name(path, {column.name for column in columns})
    statement = f"ALTER TABLE {table(target.table)} ADD COLUMN {identifier(name)} {kind}"
    if path == (name,):
        return statement
    return f"{statement}, and `columns: {{{scalar(name)}: {scalar('.'.join(path))}}}`"


def column_name(path: FieldPath, taken: set[str]) -> str:
    """`a_b` for the field `b` of `a`, with a number where that name is taken. Half surrogates, which JSON can
    escape and UTF-8 cannot hold, become `_`."""
    plain = _HALVES.sub("_", "_".join(path))
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}_{number}"
    return name


def sample_checks(pipeline: Pipeline, sample: EventSample, now: datetime) -> Iterator[Check]:
    """Yields what of the sample would not be landed as rows, and which types go to no table, and
    whether its times are those of `now`."""
    total = len(sample.events) + sum(sample.refused.values())
    yield ok(Area.SCHEMA, "sample", f"{total:,} records, types: {_counted(sample.types())}")
    for reason, count in sorted(sample.refused.items()):
        remedy = "correct `event` in the pipeline file, or the producer; they go to the lake's _rejected/"
        yield warn(Area.SCHEMA, "sample", f"{count:,} of {total:,} records are unparsed: {reason}", remedy)
    if far := far_times(pipeline.event.time, sample.times, to_ms(now)):
        finding, _, remedy = far.partition("; ")
        yield warn(Area.SCHEMA, "event.time", finding, remedy)
    routed = {t for target in pipeline.targets for t in pipeline.routed(target, sample.types())}
    for name, count in sample.types().items():
        if name not in routed:
            remedy = 'give it a table under `tables`, or a catch-all: "*": database.table'
            yield warn(Area.SCHEMA, f"type {name}", f"{count:,} events go to no table", remedy)


def _counted(types: Mapping[str, int], shown: int = 20) -> str:
    counts = [f"{name} {count:,}" for name, count in list(types.items())[:shown]]
    more = [f"and {len(types) - shown:,} more"] if len(types) > shown else []
    return ", ".join(counts + more) or "none"
