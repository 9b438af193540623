"""What is known of each unit: from boundaries, manifests and the ledger to its state. Pure; the facts
come from `sluice.state.survey`, and `status`, `plan`, `verify` and the DAGs all start from the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sluice.config.pipeline import Pipeline, Target
from sluice.manifest import Loss, Manifest, OffsetRange, read_count
from sluice.slices import Slice, Unit
from sluice.state.additions import Addition, Since, later_by_table, since
from sluice.state.boundaries.model import Boundaries
from sluice.state.ledger import LedgerRow, is_frozen, rollups_wanted
from sluice.state.unit_state import Commit, UnitFacts, UnitState, state_of
from sluice.state.units import awaits, topics_of, unit_ranges

Ledgers = Mapping[str, Mapping[Unit, LedgerRow]]
_DAY = 10  # letters of a stamp


@dataclass(frozen=True)
class LackingTopic:
    """A topic that a unit landed without. `offsets`: what it has between the unit's boundaries; None where
    they are not resolved. `barred`: a topic that was recreated, and of which the unit has landed what Kafka
    no longer has: no `reland` brings the other one."""

    topic: str
    offsets: int | None
    barred: str = ""

    def __str__(self) -> str:
        if self.offsets is None:
            return self.topic
        return f"{self.topic} ({self.offsets:,} {'offset' if self.offsets == 1 else 'offsets'})"


@dataclass(frozen=True)
class UnitStatus:
    """One unit: `ranges` is None when it is not resolved; `tables` holds the ledger's row by table.

    `lacking` are topics that the pipeline reads now and the manifest does not have: `reland` brings them.
    `gone`: the pipeline file no longer asks its cluster for it; it is loaded from the lake, and never landed
    again.
    `uncounted`: tables of traffic counts for which the slice was counted otherwise than the file says now.
    `later`: by table the columns that were added after it was loaded, and whose fields its rows may have,
    with the number of rows where the manifest has counted them. Of a unit whose files the lake has forgotten
    `uncounted` and `later` are empty: nothing brings that.
    `derived`: tables of counts and rollups, whose rows are no events. `lost_in`: tables that had it when the
    lake forgot its files, and have it no more. `mostly_rejected`, and what is `broken`, by the title of its
    cause: verify has found that, where it was asked.
    """

    unit: Unit
    state: UnitState
    ranges: tuple[OffsetRange, ...] | None
    losses: tuple[Loss, ...]
    manifest: Manifest | None
    tables: Mapping[str, LedgerRow]
    lacking: tuple[LackingTopic, ...]
    reads: int
    gone: bool = False
    uncounted: tuple[str, ...] = ()
    derived: frozenset[str] = frozenset()
    later: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    lost_in: tuple[str, ...] = ()
    mostly_rejected: bool = False
    broken: tuple[str, ...] = ()

    @property
    def frozen(self) -> tuple[str, ...]:
        """The rollups whose rows of the unit stay as they are: nothing has all that they are made from."""
        return tuple(table for table, row in self.tables.items() if table in self.derived and is_frozen(row))

    @property
    def lacking_shards(self) -> tuple[str, ...]:
        """Shards that hold no commit of it for some table, or did not answer."""
        return tuple(dict.fromkeys(shard for row in self.tables.values() for shard in row.lacking))

    @property
    def left_shards(self) -> tuple[str, ...]:
        """Shards that the pipeline file does not list, and that hold a part of it: nothing can move the rows
        of a unit whose files the lake has forgotten."""
        rows = self.tables.values() if self.forgotten_on else ()
        return tuple(dict.fromkeys(shard for row in rows for shard in row.left))

    @property
    def lacks(self) -> str:
        """What it landed without: `lacks topic b (1,200 offsets)`; empty where it lacks nothing."""
        several = "s" if len(self.lacking) > 1 else ""
        return f"lacks topic{several} {', '.join(map(str, self.lacking))}" if self.lacking else ""

    @property
    def seen(self) -> str:
        """The state, which shards it is for, and which rollups are frozen."""
        shards, left = self.lacking_shards, self.left_shards
        lacking = f", not on shard {', '.join(shards)}" if shards else ""
        elsewhere = f", in part on shard {', '.join(left)}, which left" if left else ""
        rejected = ", mostly rejected" if self.mostly_rejected else ""
        return f"{self._said}{rejected}{lacking}{elsewhere}{self._frozen_too}"

    @property
    def planned(self) -> str:
        """The state, and which rollups are frozen."""
        return f"{self.state}{self._frozen_too}"

    @property
    def _frozen_too(self) -> str:
        return f"; frozen: {', '.join(self.frozen)}" if self.frozen else ""

    @property
    def _said(self) -> str:
        """The state. What is known to be broken is not called complete."""
        broken = f"broken: {'; '.join(self.broken)}" if self.broken else ""
        if self.state is not UnitState.FORGOTTEN or self.manifest is None:
            if broken and self.state.done:
                return broken + ("; with loss" if self.state is UnitState.COMPLETE_WITH_LOSS else "")
            return ", ".join(filter(None, (str(self.state), broken)))
        on = f"files forgotten on {self.forgotten_on[:_DAY]}"
        said = f"{on}; not in {', '.join(self.lost_in)} any more" if self.lost_in else on
        return "; ".join(filter(None, (broken or ("" if self.lost_in else "complete"), said)))

    @property
    def forgotten_on(self) -> str:
        """When the lake forgot its files; empty where it holds them, or the unit has not landed."""
        return self.manifest.forgotten_on if self.manifest else ""

    @property
    def loaded(self) -> tuple[int, int]:
        """Events in the tables, and rejected rows."""
        rows = [row for table, row in self.tables.items() if table not in self.derived]
        return sum(row.rows for row in rows), sum(row.rejected_rows for row in rows)

    @property
    def offsets(self) -> int:
        """Offsets between the two boundaries; compacted or transactional topics have fewer records. None are
        between two that go back, which verify names."""
        return sum(max(r.offsets, 0) for r in self.ranges or ())


def statuses(
    pipeline: Pipeline,
    units: Iterable[Unit],
    boundaries: Boundaries,
    manifests: Mapping[Unit, Manifest],
    ledgers: Ledgers,
    now: datetime,
    expired: Mapping[Unit, tuple[Loss, ...]] | None = None,
    additions: Sequence[Addition] = (),
) -> list[UnitStatus]:
    """Returns the status of each unit. `expired` adds what Kafka has been seen to lack since the boundaries;
    `additions` are the columns that loads have added.

    Of what the file no longer asks its cluster for, only what has landed is a unit.
    """
    # Once for all units: to merge them takes longer than a status.
    targets = pipeline.targets
    derived = frozenset(t.table for t in targets if t.counted or t.rollup is not None)
    seen = _Seen(pipeline, targets, boundaries, ledgers, now, derived, since(additions))
    return [
        _status(seen, unit, manifests.get(unit), (expired or {}).get(unit, ()))
        for unit in units
        if unit in manifests or awaits(pipeline, unit)
    ]


@dataclass(frozen=True)
class _Seen:
    """What the statuses of all units start from."""

    pipeline: Pipeline
    targets: Sequence[Target]
    boundaries: Boundaries
    ledgers: Ledgers
    now: datetime
    derived: frozenset[str]
    since: Since

    def wanted(self, manifest: Manifest) -> dict[str, Commit]:
        """Returns what the ledger has to hold for a manifest, by table, with today's routing."""
        types = manifest.rows_by_type()
        sharding_of = self.pipeline.clickhouse.sharding
        return {
            t.table: Commit(manifest.id, self.pipeline.routed(t, types), sharding_of(t.table))
            for t in self.targets
            if t.rollup is None
        }


def _status(seen: _Seen, unit: Unit, manifest: Manifest | None, expired: tuple[Loss, ...]) -> UnitStatus:
    pipeline, boundaries = seen.pipeline, seen.boundaries
    gone, topics = not awaits(pipeline, unit), topics_of(pipeline, unit, manifest, boundaries)
    ranges = unit_ranges(pipeline, unit, topics, boundaries)
    expired_before = boundaries.expired(unit.slice, unit.cluster, topics) if ranges is not None else ()
    rows = {table: ledger[unit] for table, ledger in seen.ledgers.items() if unit in ledger}
    held = None if manifest is None or manifest.forgotten_on else manifest
    facts = UnitFacts(
        over=unit.slice.end <= seen.now,
        losses=(*expired_before, *expired),
        manifest=manifest,
        committed={
            table: Commit(row.manifest, row.types, row.sharding)
            for table, row in rows.items()
            if not row.lacking
        },
        wanted=(seen.wanted(held) if held else {}) | rollups_wanted(pipeline, rows),
    )
    return UnitStatus(
        unit=unit,
        state=state_of(facts),
        ranges=ranges,
        losses=facts.losses,
        manifest=manifest,
        tables=rows,
        lacking=lacking_topics(boundaries, unit, topics, manifest) if manifest else (),
        reads=read_count(ranges or (), pipeline.rows_per_task),
        gone=gone,
        uncounted=uncounted(pipeline, held) if held and not gone else (),
        derived=seen.derived,
        later=later_by_table(seen.since, seen.targets, held, rows) if held else {},
        lost_in=_lost_in(seen.targets, manifest, rows) if manifest else (),
    )


def _lost_in(targets: Iterable[Target], manifest: Manifest, rows: Mapping[str, LedgerRow]) -> tuple[str, ...]:
    """Returns the tables that had committed a unit when the lake forgot its files, and have no commit of it
    now on any shard. One that was added later needs none."""
    had = frozenset(manifest.forgotten.tables if manifest.forgotten_on and manifest.forgotten else ())
    here = {t for t, row in rows.items() if row.manifest == manifest.id or row.lacking or row.left}
    return tuple(target.table for target in targets if target.table in had - here)


def lacking_topics(
    boundaries: Boundaries, unit: Unit, topics: Iterable[str], manifest: Manifest
) -> tuple[LackingTopic, ...]:
    """Returns those of the unit's topics that it landed without. A topic without offsets there is not
    lacking."""
    lacking: list[LackingTopic] = []
    standing = {topic: boundaries.uuid(unit.cluster, topic) for topic in manifest.topics}
    gone = [r.topic for r in manifest.ranges if r.offsets and standing[r.topic] not in (None, r.uuid)]
    for topic in sorted(set(topics) - manifest.topics):
        ranges = boundaries.ranges(unit.slice, unit.cluster, [topic])
        offsets = None if ranges is None else sum(r.offsets for r in ranges)
        if offsets != 0:
            lacking.append(LackingTopic(topic, offsets, min(gone, default="")))
    return tuple(lacking)


def complete_slices(unit_statuses: Iterable[UnitStatus]) -> list[Slice]:
    """Returns the slices of which every unit is done: an hour is complete when all its clusters are."""
    done_by_slice: dict[Slice, bool] = {}
    for status in unit_statuses:
        done_by_slice[status.unit.slice] = done_by_slice.get(status.unit.slice, True) and status.state.done
    return sorted(slice_ for slice_, done in done_by_slice.items() if done)


def uncounted(pipeline: Pipeline, manifest: Manifest) -> tuple[str, ...]:
    """Returns the tables for which the slice was not counted, or by other fields or types. As with a topic
    that the pipeline has since gained, this does not change the slice's state; a `remake` counts it anew."""
    tables = []
    for spec in pipeline.counts:
        counted = manifest.traffic_for(spec.table)
        if counted is None or (dict(counted.by), tuple(counted.types)) != (dict(spec.by), spec.types):
            tables.append(spec.table)
    return tuple(tables)
