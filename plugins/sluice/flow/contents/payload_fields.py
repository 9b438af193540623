"""Fields that events had until now, and have no more: a producer has renamed them. Pure.

A column takes its DEFAULT then, every count holds, and only the events show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.event_values import first_field, first_members
from sluice.field_path import FieldPath

MOST_ROWS = 500  # of a type that are read in a unit
FEWEST_ROWS = 50  # fewer of them say nothing
HISTORY = 3  # earlier units that are compared with
_GONE, _THERE = 0.9, 0.1  # shares of events without the field
_COMMON = 0.5
_DEPTH = 3
_MOST_PATHS = 2000


@dataclass(frozen=True)
class FieldSample:
    """Some events of one type in one unit: how many, and how many of them have a value at each path."""

    rows: int
    paths: Mapping[FieldPath, int]

    def missing(self, path: FieldPath) -> float:
        """Returns the share of events without a value there."""
        return 1 - self.paths.get(path, 0) / self.rows


@dataclass(frozen=True)
class MissingField:
    """A field that is missing now; `came` are those that came at the same time."""

    path: FieldPath
    before: float
    now: float
    came: tuple[FieldPath, ...]


def sample_of(events: Iterable[Mapping[str, Any]], wanted: Iterable[FieldPath]) -> FieldSample:
    """`wanted` paths are counted at any depth, all others at a few levels. Of a name that stands twice in an
    object the first counts, as in a load."""
    counts: Counter[FieldPath] = Counter()
    wanted_paths, rows = set(wanted), 0
    for event in events:
        rows += 1
        paths = set(_paths(event, ())) if len(counts) < _MOST_PATHS else set()
        paths |= {path for path in wanted_paths if first_field(event, path) is not None}
        counts.update(paths)
    return FieldSample(rows, counts)


def _paths(value: Mapping[str, Any], prefix: FieldPath) -> Iterable[FieldPath]:
    for name, inner in first_members(value).items():
        if inner is None:
            continue
        yield (*prefix, name)
        if isinstance(inner, dict) and len(prefix) + 1 < _DEPTH:
            yield from _paths(inner, (*prefix, name))


def gone(now: FieldSample, earlier: Sequence[FieldSample], fields: Iterable[FieldPath]) -> list[MissingField]:
    """`earlier`: samples of the units before, the nearest first.

    Reported only where the share jumps: a unit whose predecessor lacks the field already is as that one was.
    """
    samples = [sample for sample in earlier if sample.rows >= FEWEST_ROWS]
    if now.rows < FEWEST_ROWS or not samples:
        return []
    missing_fields = []
    for path in fields:
        shares = [sample.missing(path) for sample in samples]
        if now.missing(path) >= _GONE > shares[0] and min(shares) <= _THERE:
            missing_fields.append(MissingField(path, min(shares), now.missing(path), _came(now, samples)))
    return missing_fields


def _came(now: FieldSample, samples: Sequence[FieldSample]) -> tuple[FieldPath, ...]:
    """Returns the paths that most events have now, and hardly one had before."""
    return tuple(
        path
        for path in sorted(now.paths)
        if now.missing(path) <= 1 - _COMMON and all(sample.missing(path) >= _GONE for sample in samples)
    )
