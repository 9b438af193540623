"""Which units a landing reads from Kafka, what of them is left, and in which runs Spark reads them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sluice.clients.kafka.topic_facts import LogStarts
from sluice.config.pipeline import Pipeline
from sluice.errors import RecordsExpired
from sluice.manifest import Loss, Manifest, OffsetRange
from sluice.slices import Unit
from sluice.state.boundaries.retention import rest, retained


@dataclass(frozen=True)
class UnitRead:
    """A unit to land: its ranges between the boundaries, what of them Kafka still has, and what is lost."""

    unit: Unit
    ranges: tuple[OffsetRange, ...]
    left: tuple[OffsetRange, ...]
    lost: tuple[Loss, ...]
    generation: int = 0
    """Of files that are there from a landing whose manifest is lost; `amends`: that manifest's id."""
    amends: tuple[str, ...] = ()

    @property
    def offsets(self) -> int:
        return sum(r.offsets for r in self.left)


def unit_read(
    pipeline: Pipeline,
    unit: Unit,
    ranges: tuple[OffsetRange, ...],
    expired: tuple[Loss, ...],
    log_starts: LogStarts,
    old: Manifest | None,
    gone: Collection[str] = (),
) -> UnitRead:
    """Raises RecordsExpired where Kafka lacks offsets, unless `on_expired` is land_rest.

    What the manifest `old` holds must be readable again, whatever `on_expired` says. `gone` are topics that
    Kafka no longer has as they were.
    """
    lost = (*retained(ranges, log_starts), *expired)
    held = () if old is None else _no_longer_readable(old, ranges, log_starts)
    new = lost if old is None else _newly_lost(lost, old)
    for loss in (*held, *(new if pipeline.on_expired == "fail" else ())):
        why = "the topic is gone" if loss.topic in gone else "retention"
        place = (unit.cluster, loss.topic, loss.partition, unit.slice.id, loss.start, loss.until, loss.exact)
        if old is not None and loss in held:
            raise RecordsExpired(*place, why, _kept(pipeline, unit, old))
        raise RecordsExpired(*place, why)
    return UnitRead(unit, ranges, rest(ranges, log_starts), lost)


def _kept(pipeline: Pipeline, unit: Unit, old: Manifest) -> str:
    """Returns what is left of a unit that can't be landed again."""
    if old.forgotten_on:
        return (
            f"the lake forgot its files on {old.forgotten_on}, so nothing brings them back, and it is not "
            "landed again: the tables keep what they have"
        )
    command = partial(pipeline.command, "run", *unit.slice.words, "--mode")
    return (
        f"it is not landed again, so that nothing of it goes; `{command('reload')}` loads it from the lake's "
        f"files, and `{command('remake')}` parses them again"
    )


def _newly_lost(lost: Iterable[Loss], old: Manifest) -> list[Loss]:
    lost_until = _lost_until(old)
    return [loss for loss in lost if loss.until > lost_until.get((loss.topic, loss.partition), 0)]


def _no_longer_readable(
    old: Manifest, ranges: Iterable[OffsetRange], log_starts: LogStarts
) -> tuple[Loss, ...]:
    """Returns the offsets that `old` landed and Kafka lacks now; all of a topic that was recreated since."""
    today = {(r.topic, r.uuid, r.partition) for r in ranges}
    lost_until = _lost_until(old)
    losses = []
    for r in old.ranges:
        same = (r.topic, r.uuid, r.partition) in today
        start = max(r.start, lost_until.get((r.topic, r.partition), 0))
        until = min(log_starts[r.topic, r.partition], r.until) if same else r.until
        if start < until:
            losses.append(Loss(r.topic, r.partition, start, until, exact=True))
    return tuple(losses)


def _lost_until(old: Manifest) -> dict[tuple[str, int], int]:
    """Returns by (topic, partition) the end of the furthest loss that `old` names."""
    ascending = sorted(old.lost, key=lambda loss: loss.until)
    return {(loss.topic, loss.partition): loss.until for loss in ascending}


@dataclass(frozen=True)
class ReadGroup:
    """Consecutive slices of one cluster without a gap between their offsets: one read for Spark.

    `together`: one task reads all partitions, because their records are few.
    """

    cluster: str
    units: tuple[UnitRead, ...]
    together: bool = False

    @property
    def offsets(self) -> int:
        return sum(unit.offsets for unit in self.units)

    def edges(self) -> dict[tuple[str, int], np.ndarray]:
        """Returns by (topic, partition) the offset at which each slice begins, then the last one's end.

        A partition that comes into being within the run begins everywhere at its first offset.
        """
        edges: dict[tuple[str, int], list[int]] = {}
        for number, unit in enumerate(self.units):
            for r in unit.left:
                edges.setdefault((r.topic, r.partition), [r.start] * (number + 1)).append(r.until)
        return {topic_partition: np.array(offsets, np.int64) for topic_partition, offsets in edges.items()}


def runs(reads: Sequence[UnitRead]) -> list[ReadGroup]:
    """Returns the units that have offsets to read, cluster by cluster, in maximal runs."""
    groups: list[list[UnitRead]] = []
    for read in sorted(reads, key=lambda r: (r.unit.cluster, r.unit.slice)):
        if groups and _continues(groups[-1][-1], read):
            groups[-1].append(read)
        else:
            groups.append([read])
    return [
        ReadGroup(units[0].unit.cluster, tuple(units)) for units in groups if any(u.offsets for u in units)
    ]


def described(reads: Sequence[UnitRead], most: int = 64) -> list[str]:
    """Returns a line for each partition of each run: what is about to be read. Of more than `most` only their
    number is said beyond."""
    lines = [
        f"{run.cluster}/{topic}/{partition}: offsets [{edges[0]}, {edges[-1]}) of {_slices(run)}"
        for run in runs(reads)
        for (topic, partition), edges in sorted(run.edges().items())
        if edges[0] < edges[-1]
    ]
    beyond = len(lines) - most
    return lines if beyond <= 0 else [*lines[:most], f"and {beyond:,} more partitions"]


def _slices(run: ReadGroup) -> str:
    first, last = run.units[0].unit.slice, run.units[-1].unit.slice
    return first.id if first == last else f"{first.id} … {last.id}"


def _continues(before: UnitRead, after: UnitRead) -> bool:
    if before.unit.cluster != after.unit.cluster or before.unit.slice.end != after.unit.slice.start:
        return False
    starts = {(r.topic, r.uuid, r.partition): r.start for r in after.left}
    return all(starts.get((r.topic, r.uuid, r.partition)) == r.until for r in before.left)


# What one task holds in memory at once (gathering.ROWS_GATHERED), with room to spare.
MAX_ROWS = 200_000
# Enough parts to keep some cores busy with writing a year of nearly empty hours.
MAX_SLICES = 500
# Every part asks each partition once: that has to be worth it.
MIN_ROWS_PER_PARTITION = 200


def together(
    run: ReadGroup,
    max_rows: int = MAX_ROWS,
    max_slices: int = MAX_SLICES,
    min_rows: int = MIN_ROWS_PER_PARTITION,
    large_apart: bool = False,
) -> list[ReadGroup]:
    """Returns the same units in the same order. Slices that are alone in their part are read as before.

    `large_apart`: a task reads all of a partition, so that each large slice has tasks of its own.
    """
    worth = min_rows * len({(r.topic, r.partition) for unit in run.units for r in unit.left if r.offsets})
    parts: list[list[UnitRead]] = []
    rows = 0
    for unit in run.units:
        small = unit.offsets <= max_rows
        full = not parts or rows + unit.offsets > max_rows or (len(parts[-1]) >= max_slices and rows >= worth)
        # Large ones in a row stay one read: Spark divides it by rows.
        both_large = bool(parts) and not small and rows > max_rows and not large_apart
        if full and not both_large:
            parts.append([])
            rows = 0
        parts[-1].append(unit)
        rows += unit.offsets
    return [_run(run, part, max_rows) for part in parts if any(unit.offsets for unit in part)]


def _run(run: ReadGroup, part: Sequence[UnitRead], max_rows: int) -> ReadGroup:
    small = sum(unit.offsets for unit in part) <= max_rows
    return ReadGroup(run.cluster, tuple(part), together=small and len(part) > 1)
