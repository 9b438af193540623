"""Slices that are not done, and what Kafka lost of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check_missing_tables import explained_tables
from sluice.flow.verify.current import lacking, targets_of
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Loss
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState

_ACCEPT = "Kafka cannot give it back: `on_expired: land_rest` in the pipeline file accepts the loss"


def check_states(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    """With `on_expired: land_rest` a recorded loss is accepted: `status` shows it, no equation breaks."""
    chosen, explained = {table.table for table in facts.tables}, explained_tables(facts)
    targets = {name: target for name, target in targets_of(facts.pipeline).items() if name in chosen}
    for status in facts.statuses:
        anomaly = partial(Anomaly, slice=status.unit.slice.id, cluster=status.unit.cluster)
        if status.unit in facts.unreadable:
            yield anomaly(
                AnomalyKind.MANIFEST,
                expected="a manifest",
                seen=facts.unreadable[status.unit],
                advice="put it back from a copy; without one, and if Kafka still has the hour, delete the "
                f"object and run `{repairs.fill(status.unit.slice)}`",
            )
        elif status.state is UnitState.EXPIRED:
            yield from _losses(status, status.losses)
        elif status.state is UnitState.COMPLETE_WITH_LOSS and facts.pipeline.on_expired == "fail":
            yield from _losses(status, status.manifest.lost if status.manifest else ())
        elif status.state is UnitState.FORGOTTEN:
            yield from _taken_away(status, set(targets) - set(explained), repairs)
        elif not status.state.done and status.state is not UnitState.NOT_OVER:
            without = lacking(facts.pipeline, targets, status) if status.manifest else frozenset()
            if explained and status.manifest and without <= explained:
                continue  # the missing table is an anomaly of its own
            command = repairs.fill(status.unit.slice)
            yield anomaly(AnomalyKind.INCOMPLETE, "complete", _seen(status, without - explained), command)


def _taken_away(status: UnitStatus, chosen: Collection[str], repairs: Repairs) -> Iterator[Anomaly]:
    """Yields tables that had committed a unit when the lake forgot its files, and hold no commit of it now. A
    table that was added later needs none."""
    forgotten = status.manifest.forgotten if status.manifest else None
    for table in sorted(set(forgotten.tables if forgotten else ()) & set(chosen)):
        row = status.tables.get(table)
        if row is not None and row.left:
            yield Anomaly(
                AnomalyKind.INCOMPLETE,
                expected="complete",
                seen=f"a part of it is on shard {', '.join(row.left)}, which left the file",
                advice="its files are forgotten: list the shard under `clickhouse.shards` again",
                slice=status.unit.slice.id,
                cluster=status.unit.cluster,
                table=table,
            )
        elif row is None or row.lacking or status.manifest is None or row.manifest != status.manifest.id:
            yield Anomaly(
                AnomalyKind.INCOMPLETE,
                expected="complete",
                seen=f"not in {table} any more, and its files are forgotten",
                command=repairs.repair(status.unit.slice, table),
                slice=status.unit.slice.id,
                cluster=status.unit.cluster,
                table=table,
            )


def _seen(status: UnitStatus, without: Collection[str]) -> str:
    """Returns the state, and which tables do not hold it."""
    return f"{status.seen}, and not in {', '.join(sorted(without))}" if without else status.seen


def _losses(status: UnitStatus, losses: tuple[Loss, ...]) -> Iterator[Anomaly]:
    for loss in losses:
        amount = loss.until - loss.start
        yield Anomaly(
            AnomalyKind.LOSS,
            expected="all offsets in Kafka",
            seen=f"{'' if loss.exact else 'up to '}{amount:,} expired",
            advice=_ACCEPT,
            slice=status.unit.slice.id,
            cluster=status.unit.cluster,
            topic=loss.topic,
            partition=loss.partition,
            offsets=(loss.start, loss.until),
        )
