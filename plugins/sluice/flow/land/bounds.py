"""Which units one task has to read: those in which a bound of a task may reject records. Pure.

Such a bound takes what comes first. Several tasks would each let as much pass, and how an hour is cut would
decide which rows land. So one task reads the unit, in the order of topics, partitions and offsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

from sluice.config.pipeline import Pipeline
from sluice.flow.land import reject_reasons as why
from sluice.flow.land.read_plan import UnitRead
from sluice.flow.land.task import times, type_folders
from sluice.flow.land.task.reports import SchemasAsked, TaskReport

BY_ORDER = frozenset(
    (why.TOO_MANY_HOURS, why.TOO_MANY_TYPES, why.TOO_MANY_SCHEMAS, why.TOO_MANY_UNKNOWN_SCHEMAS)
)
"""Reasons that depend on what a task has read before."""

UnitName = tuple[str, str]
"""A slice's id and a cluster."""


def at_bounds(reads: Iterable[UnitRead], report: TaskReport, pipeline: Pipeline) -> list[UnitRead]:
    """Returns the units of which a task has rejected records by a bound, or one task that read all of the
    unit might have."""
    hours, types = _hours_and_types(report)
    schemas = _schemas(report)
    rejecting = {
        (part.slice_id, part.cluster)
        for part in report.seen
        if not BY_ORDER.isdisjoint((*part.rejected_records, *part.rejected_elements))
    }

    def is_at_one(read: UnitRead) -> bool:
        name = read.unit.slice.id, read.unit.cluster
        far = times.TimeBounds([read.unit.slice], pipeline.max_early, pipeline.max_late)
        return (
            name in rejecting
            or sum(far.may_have(hour) for hour in hours[name]) > times.MOST
            or len(types[name] - {*pipeline.types}) > type_folders.MOST_TYPES
            or _are_many(schemas[name])
        )

    return [read for read in reads if is_at_one(read)]


def _hours_and_types(report: TaskReport) -> tuple[dict[UnitName, set[int]], dict[UnitName, set[str]]]:
    """Returns by unit the event hours since the epoch and the types of its rows."""
    names: dict[UnitName, set[str]] = defaultdict(set)
    types: dict[UnitName, set[str]] = defaultdict(set)
    for file in report.files:
        if file.hour:
            names[file.slice_id, file.cluster].add(file.hour)
            types[file.slice_id, file.cluster].update([file.type] if file.type else file.rows_by_type)
    hours = defaultdict(set, {unit: {_hour(name) for name in some} for unit, some in names.items()})
    return hours, types


def _hour(name: str) -> int:
    return int(datetime.fromisoformat(f"{name}:00Z").timestamp()) * 1000 // times.HOUR_MS


def _schemas(report: TaskReport) -> dict[UnitName, SchemasAsked]:
    schemas: dict[UnitName, SchemasAsked] = defaultdict(SchemasAsked)
    for part in report.schemas:
        asked = schemas[part.slice_id, part.cluster]
        asked.sizes.update(part.sizes)
        asked.without.update(part.without)
    return schemas


def _are_many(asked: SchemasAsked) -> bool:
    if not asked.sizes and not asked.without:
        return False
    from sluice.flow.land.formats.decoders import MOST_KEPT, MOST_WITHOUT_SCHEMA

    return sum(asked.sizes.values()) > MOST_KEPT or len(asked.without) > MOST_WITHOUT_SCHEMA
