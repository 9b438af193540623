"""What is known of each unit: from boundaries, manifests and the ledger to its state. Pure; the facts
come from `sluice.survey`, and `status`, `plan`, `verify` and the DAGs all start from the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from sluice.boundaries.model import Boundaries
from sluice.kafka.reads import read_count
from sluice.load.ledger import LedgerRow
from sluice.manifest import Loss, Manifest, OffsetRange
from sluice.pipeline import Pipeline
from sluice.slices import SliceRange, Unit
from sluice.state import Commit, Facts, State, state_of

Ledgers = Mapping[str, Mapping[Unit, LedgerRow]]


@dataclass(frozen=True)
class UnitStatus:
    """One unit: `ranges` is None when it is not resolved; `tables` holds the ledger's row by table.

    `lacking` are topics that the pipeline reads now and the manifest does not have: `reland` brings them.
    """

    unit: Unit
    state: State
    ranges: tuple[OffsetRange, ...] | None
    losses: tuple[Loss, ...]
    manifest: Manifest | None
    tables: Mapping[str, LedgerRow]
    lacking: tuple[str, ...]
    reads: int

    @property
    def offsets(self) -> int:
        """Offsets between the two boundaries; compacted or transactional topics have fewer records."""
        return sum(r.offsets for r in self.ranges or ())


def units_of(pipeline: Pipeline, slices: SliceRange) -> list[Unit]:
    """Every unit of the range, slice by slice."""
    return [Unit(piece, cluster) for piece in slices for cluster in pipeline.clusters]


def statuses(
    pipeline: Pipeline,
    units: Iterable[Unit],
    boundaries: Boundaries,
    manifests: Mapping[Unit, Manifest],
    ledgers: Ledgers,
    now: datetime,
    expired: Mapping[Unit, tuple[Loss, ...]] | None = None,
) -> list[UnitStatus]:
    """The status of each unit. `expired` adds what Kafka has been seen to lack since the boundaries."""
    return [
        _status(pipeline, unit, boundaries, manifests.get(unit), ledgers, now, (expired or {}).get(unit, ()))
        for unit in units
    ]


def wanted(pipeline: Pipeline, manifest: Manifest) -> dict[str, Commit]:
    """What the ledger has to hold for a manifest, by table, with today's routing."""
    types = manifest.rows_by_type()
    return {t.table: Commit(manifest.id, pipeline.routed(t, types)) for t in pipeline.targets}


def _status(
    pipeline: Pipeline,
    unit: Unit,
    boundaries: Boundaries,
    manifest: Manifest | None,
    ledgers: Ledgers,
    now: datetime,
    expired: tuple[Loss, ...],
) -> UnitStatus:
    topics = pipeline.cluster(unit.cluster).topics
    ranges = boundaries.ranges(unit.slice, unit.cluster, topics)
    known = boundaries.expired(unit.slice, unit.cluster, topics) if ranges is not None else ()
    rows = {table: ledger[unit] for table, ledger in ledgers.items() if unit in ledger}
    facts = Facts(
        over=unit.slice.end <= now,
        losses=(*known, *expired),
        manifest=manifest,
        committed={table: Commit(row.manifest, row.types) for table, row in rows.items()},
        wanted=wanted(pipeline, manifest) if manifest else {},
    )
    return UnitStatus(
        unit=unit,
        state=state_of(facts),
        ranges=ranges,
        losses=facts.losses,
        manifest=manifest,
        tables=rows,
        lacking=tuple(sorted(set(topics) - manifest.topics)) if manifest else (),
        reads=read_count(ranges or (), pipeline.rows_per_read),
    )
