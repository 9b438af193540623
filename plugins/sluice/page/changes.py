"""What has changed about a pipeline: its file, Sluice, columns, fields of events, topics, erasures. Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import unified_diff
from itertools import pairwise

import pendulum
from pydantic import Field

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.page.models import Model
from sluice.page.status_cache import StatusCache
from sluice.safe_text import visible
from sluice.slices import SliceRange, from_seconds, iso, utc
from sluice.state.additions import Addition, read_additions
from sluice.state.boundaries.boundary import PartitionColumn, TopicBoundaries
from sluice.state.boundaries.model import Boundaries
from sluice.state.erasures import Erasure, read_erasures
from sluice.state.field_changes import COMPARED, UnitChange, changes_of
from sluice.state.notes import FileVersion, read_versions

MOST, MOST_LINES, LINE_CHARACTERS = 200, 120, 200
_COMPARED_LINES = 2_000
"""Lines of a text that are compared: of two longer ones their beginnings."""


class Change(Model):
    """`kind` is file, Sluice, column, field, topic, partition or erasure; `at` when it was seen (ISO 8601,
    UTC), or the hour in which it shows; `lines` are those of a diff of the file, at most so many."""

    at: str
    kind: str
    place: str
    what: str
    slice: str = ""
    lines: list[str] = Field(default_factory=list)


class Changes(Model):
    """The newest first; `more` are left out. `known_since`: nothing was noted of the file before.
    `fields_at` is when the hours' fields were compared (answers are kept for five minutes)."""

    start: str
    end: str
    changes: list[Change]
    more: int
    known_since: str
    fields_at: str


@dataclass(frozen=True)
class ChangeFacts:
    """What is known of a range: `versions`, `additions` and `erasures` all that are kept, `fields` those of
    its hours, compared at `fields_at` (ISO 8601, UTC)."""

    slices: SliceRange
    versions: Sequence[FileVersion]
    additions: Sequence[Addition]
    fields: Sequence[UnitChange]
    fields_at: str
    boundaries: Boundaries
    erasures: Sequence[Erasure]


def changes_of_pipeline(facts: ChangeFacts) -> Changes:
    """Returns the changes of the range, the newest first, at most `MOST`."""
    changes = [
        *_of_file(facts.versions),
        *(_column(one) for one in facts.additions if one.done),
        *map(_field, facts.fields),
        *_of_topics(facts.boundaries),
        *(_erasure(number, one) for number, one in enumerate(facts.erasures)),
    ]
    edges = facts.slices.start, facts.slices.end
    within = [one for one in changes if edges[0] <= utc(datetime.fromisoformat(one.at)) < edges[1]]
    newest = sorted(within, key=lambda one: (one.at, one.kind, one.place), reverse=True)
    return Changes(
        start=edges[0].isoformat(),
        end=edges[1].isoformat(),
        changes=newest[:MOST],
        more=max(len(newest) - MOST, 0),
        known_since=facts.versions[0].at if facts.versions else "",
        fields_at=facts.fields_at,
    )


def _of_file(versions: Sequence[FileVersion]) -> Iterator[Change]:
    """The first version is no change: nothing is known of the file before."""
    for old, new in pairwise(versions):
        if old.hash != new.hash:
            lines = diff_of(old.text, new.text)
            what = f"version {new.hash[:8]}, before {old.hash[:8]}"
            yield Change(at=new.at, kind="file", place="pipeline file", what=what, lines=lines)
        if old.sluice != new.sluice:
            what = f"{visible(old.sluice)} → {visible(new.sluice)}"
            yield Change(at=new.at, kind="Sluice", place="Sluice", what=what)


def diff_of(old: str, new: str) -> list[str]:
    """Returns a diff with one line around each change, at most `MOST_LINES` of it."""
    before, now = (text.splitlines()[:_COMPARED_LINES] for text in (old, new))
    lines = list(unified_diff(before, now, n=1, lineterm=""))[2:]  # without the files' names
    shown_lines = [visible(line, LINE_CHARACTERS) for line in lines[:MOST_LINES]]
    left_out = len(lines) - len(shown_lines)
    return [*shown_lines, f"… {left_out:,} more lines"] if left_out > 0 else shown_lines


def _column(addition: Addition) -> Change:
    return Change(
        at=addition.at, kind="column", place=addition.table, what=addition.said, slice=addition.slice
    )


def _field(unit_change: UnitChange) -> Change:
    slice_, change = unit_change.unit.slice, unit_change.change
    return Change(
        at=slice_.start.isoformat(),
        kind="field",
        place=f"{unit_change.unit.cluster}, type {visible(change.type)}",
        what=change.said,
        slice=slice_.id,
    )


def _erasure(number: int, erasure: Erasure) -> Change:
    paths = sorted({".".join(value.path) for value in erasure.values})
    fields = ", ".join(f"`{visible(path)}`" for path in paths)
    hours = f"from {erasure.start} until {erasure.until}" if erasure.start else f"until {erasure.until}"
    what = f"erasure {number} of records by {fields}, {hours}: {visible(erasure.reason)}"
    return Change(
        at=erasure.at,
        kind="erasure",
        place=f"type {visible(erasure.type)}" if erasure.type else "all types",
        what=f"{what} (asked for by {visible(erasure.by)})",
    )


def _of_topics(boundaries: Boundaries) -> Iterator[Change]:
    """Yields topic ids that were accepted, and the first boundaries with a new partition."""
    for (cluster, topic), eras in sorted(boundaries.eras.items()):
        place = f"{cluster}/{topic}"
        for old, new in pairwise(eras):
            if new.since is not None:
                what = f"the topic is another one: id {visible(new.uuid)}, before {visible(old.uuid)}"
                yield _seen(new.since, "topic", place, what)
        block = boundaries.stored(cluster, topic)
        if block is not None:
            yield from _of_partitions(block, place)


def _of_partitions(block: TopicBoundaries, place: str) -> Iterator[Change]:
    added: dict[int, list[int]] = {}
    for number, column in block.columns.items():
        row = _first_known(column)
        if row:
            added.setdefault(row, []).append(number)
    for row, numbers in sorted(added.items()):
        total = sum((_first_known(column) or 0) <= row for column in block.columns.values())
        what = f"partitions {_spans(sorted(numbers))} are new: {total:,} now, {total - len(numbers):,} before"
        yield _seen(block.instants[row], "partition", place, what)


def _first_known(column: PartitionColumn) -> int | None:
    return next((row for row in range(len(column.offsets)) if column.knows(row)), None)


def _seen(seconds: int, kind: str, place: str, what: str) -> Change:
    return Change(at=from_seconds(seconds).isoformat(), kind=kind, place=place, what=what)


def _spans(numbers: Sequence[int]) -> str:
    """`4–7, 9`."""
    spans: list[tuple[int, int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in spans)


# Reads what has changed about a pipeline out of its lake. Fields are compared a day at a time, the newest day
# first, so that no more than two days of manifests' fields are in memory. That reads every manifest of the
# range, so whoever asks keeps that answer longer than the others.
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
    at = iso(pendulum.now("UTC"))
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
