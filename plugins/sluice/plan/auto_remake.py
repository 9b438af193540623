"""Which units a `fill` remakes by itself, where the pipeline file says `remake: auto`. Pure.

| the manifest | a remake |
| --- | --- |
| has no counts for a table of `counts:`, or by other fields or types | counts |
| has other rules than the file has now | reads by the rules of now |
| has no rules (of an older version) | nothing that it shows |
| has records that were too large, or empty arrays that are none any more | cannot, or cannot for certain |
| has files of rows that the lake has forgotten, or rejected elements of arrays | cannot |
| has unparsed records whose bytes the lake has forgotten | counts them as they are |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.plan.batches import MAX_ROWS, OLDER_SLICES
from sluice.slices import SliceRange, Unit
from sluice.state.status import UnitStatus, uncounted
from sluice.state.unit_state import UnitState

MOST_UNITS = 24
"""Units that one run remakes by itself, of at most MAX_ROWS records together; one of more is taken alone."""
TOO_LARGE = "too large"
"""The reason of reject_reasons.py: of such a record the lake has no bytes."""

_RELAND = "`--mode reland` brings the slice, as long as Kafka has it"


@dataclass(frozen=True)
class Remakes:
    """What a run remakes by itself, in order, and how many units are `left` for later runs."""

    units: tuple[UnitStatus, ...] = ()
    left: int = 0

    def __bool__(self) -> bool:
        return bool(self.units)

    def __str__(self) -> str:
        first, last = self.units[0].unit.slice.id, self.units[-1].unit.slice.id
        span = first if first == last else f"{first} … {last}"
        later = f"; {self.left:,} more are left to later runs" if self.left else ""
        return f"`remake: auto`: {len(self.units):,} units of {span} are remade{later}"


def refusal(pipeline: Pipeline, manifest: Manifest) -> str | None:
    """Returns why the manifest alone says that the records cannot come back."""
    if manifest.forgotten_on:
        return f"it forgot its files on {manifest.forgotten_on}, as `keep` in the pipeline file says"
    if manifest.rejected_forgotten_on and manifest.rows_unparsed:
        rows = sum(manifest.rows_unparsed.values())
        return (
            f"it forgot the bytes of {rows:,} rejected elements of arrays on "
            f"{manifest.rejected_forgotten_on}, as `keep` in the pipeline file says, and without them an "
            f"array cannot be joined again: {_RELAND}"
        )
    if manifest.forgotten_records and not manifest.counts:
        return (
            f"it forgot the bytes of {manifest.kept:,} unparsed ones on {manifest.rejected_forgotten_on}, "
            f"and its manifest, of an older version, does not say of which partitions: {_RELAND}"
        )
    if manifest.empty and not pipeline.event.arrays:
        return (
            f"{manifest.empty:,} of its messages were empty arrays, of which the lake has no row, and "
            "`rows: array` is no longer there"
        )
    return None


def same_rules(manifest: Manifest, now: str) -> bool:
    """Returns whether its records were read as the file says now; False if the manifest doesn't say."""
    return bool(manifest.rules) and not other_rules(manifest, now)


def other_rules(manifest: Manifest, now: str) -> bool:
    """Returns whether its records were read by other rules than the file has now."""
    return bool(manifest.rules) and manifest.rules != now


def outdated(pipeline: Pipeline, manifest: Manifest, now: str) -> tuple[str, ...]:
    """Returns the parts of a unit that a remake would bring up to date, as far as its manifest shows."""
    counts = tuple(f"counts for {table}" for table in uncounted(pipeline, manifest))
    return (*counts, *(["rules"] if other_rules(manifest, now) else []))


def still_to_come(
    pipeline: Pipeline, statuses: Iterable[UnitStatus], now: str
) -> dict[Unit, tuple[str, ...]]:
    """Returns the parts of each unit that later runs bring up to date by a remake. Its files stay until
    then."""
    remakable = [(s.unit, s.manifest) for s in statuses if s.manifest and _may(pipeline, s)]
    parts_of_units = ((unit, outdated(pipeline, manifest, now)) for unit, manifest in remakable)
    return {unit: parts for unit, parts in parts_of_units if parts}


def chosen(
    pipeline: Pipeline,
    statuses: Iterable[UnitStatus],
    now: str,
    apart: Sequence[SliceRange] = (),
    turn: int = 0,
) -> Remakes:
    """Returns what a run remakes of the units in `statuses`: those of the newest slices.

    Every second `turn` begins at another place, so that units which fail each time hold up nothing for good.
    Units in the ranges `apart`, which the run lands or loads, are left to a later one.
    """
    to_remake = [
        s for s in statuses if _may(pipeline, s) and s.manifest and outdated(pipeline, s.manifest, now)
    ]
    free = [s for s in to_remake if not any(a.start <= s.unit.slice.start < a.end for a in apart)]
    free.sort(key=lambda status: (-status.unit.slice.start.timestamp(), status.unit.cluster))
    first = turn // 2 % len(free) if turn % 2 and free else 0
    taken: list[UnitStatus] = []
    records = 0
    for status in (*free[first:], *free[:first])[:MOST_UNITS]:
        records += status.manifest.read if status.manifest else 0
        if taken and records > MAX_ROWS:
            break
        taken.append(status)
    return Remakes(tuple(sorted(taken, key=lambda s: s.unit)), len(to_remake) - len(taken))


def older_window(hours: SliceRange | None, turn: int, most: int = OLDER_SLICES) -> SliceRange | None:
    """Returns the part of older hours that run number `turn` inspects: each run another one, newest first."""
    if hours is None:
        return None
    count = -(-len(hours) // most)
    end = hours.end - turn % count * most * hours.length
    return SliceRange(max(hours.start, end - most * hours.length), end, hours.length)


def _may(pipeline: Pipeline, status: UnitStatus) -> bool:
    """Returns whether a remake succeeds, as far as the manifest says."""
    manifest = status.manifest
    if manifest is None or status.gone or status.state is UnitState.NOT_OVER:
        return False
    return refusal(pipeline, manifest) is None and TOO_LARGE not in manifest.held_by_reason()
