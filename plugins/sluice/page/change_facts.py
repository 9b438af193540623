"""Reads what has changed about a pipeline out of its lake. Fields are compared a day at a time, the newest
day first, so that no more than two days of manifests' fields are in memory. That reads every manifest of the
range, so whoever asks keeps that answer longer than the others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pendulum

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.page.changes import MOST, ChangeFacts
from sluice.page.status_cache import StatusCache
from sluice.slices import SliceRange
from sluice.state.additions import read_additions
from sluice.state.erasures.erasure_store import read_erasures
from sluice.state.file_versions import read_versions
from sluice.state.schema.history import COMPARED, UnitChange, changes_of

log = logging.getLogger(__name__)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class ComparedFields:
    """`at` is when they were compared (ISO 8601, UTC)."""

    at: str
    changes: list[UnitChange]


def read_changes(
    pipeline: Pipeline, lake: Lake, memory: StatusCache, slices: SliceRange, compared: ComparedFields
) -> ChangeFacts:
    """Raises what the lake raises."""
    return ChangeFacts(
        slices=slices,
        versions=read_versions(lake),
        additions=read_additions(lake),
        fields=compared.changes,
        fields_at=compared.at,
        boundaries=memory.of(pipeline).boundaries(lake),
        erasures=read_erasures(lake).entries,
    )


def compare_fields(pipeline: Pipeline, lake: Lake, memory: StatusCache, slices: SliceRange) -> ComparedFields:
    """Raises what the lake and ClickHouse raise."""
    at = pendulum.now("UTC").isoformat(timespec="seconds")
    changes: list[UnitChange] = []
    for day in _days(slices):
        if len(changes) < MOST:
            around = SliceRange.widen(day.start - COMPARED, day.end, pipeline.slice)
            manifests = {
                s.unit: _only_fields(s.manifest) for s in memory.walk(pipeline, around) if s.manifest
            }
            units = [unit for unit in sorted(manifests) if day.start <= unit.slice.start < day.end]
            changes += changes_of(lake, units, manifests, log.info)
    return ComparedFields(at, changes[:MOST])


def _days(slices: SliceRange) -> Iterator[SliceRange]:
    end = slices.end
    while end > slices.start:
        start = max(slices.start, end - _DAY)
        yield SliceRange(start, end, slices.length)
        end = start


def _only_fields(manifest: Manifest) -> Manifest:
    return replace(manifest, files=(), rejected=(), counts=(), traffic=(), ranges=())
