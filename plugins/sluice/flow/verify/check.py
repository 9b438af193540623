"""Every equation over what was seen. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check_files import (
    check_boundaries,
    check_conservation,
    check_files,
    check_lacking,
    check_neighbours,
)
from sluice.flow.verify.check_rejected import check_rejected
from sluice.flow.verify.check_tables import (
    after_creation,
    check_counts,
    check_lost_views,
    check_missing_tables,
    check_readers_views,
    check_shards,
    check_tables,
    cover,
    explained_by,
    explained_tables,
    slice_text,
)
from sluice.flow.verify.facts import TableFacts, VerifyFacts, lacking, targets_of, units_of
from sluice.flow.verify.repairs import Repairs, as_printed
from sluice.manifest import Loss
from sluice.slices import SliceRange, Unit
from sluice.state.held import release_command
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.state.units import known_topics


def check(facts: VerifyFacts, repairs: Repairs) -> list[Anomaly]:
    """Returns every anomaly, those of slices first; none when all holds."""
    anomalies = [_repairable(facts, repairs, anomaly) for anomaly in _anomalies(facts, repairs)]
    return [
        after_creation(facts, anomaly) for anomaly in as_printed(facts.pipeline, facts.statuses, anomalies)
    ]


def _without_files(facts: VerifyFacts, repairs: Repairs, anomaly: Anomaly, status: UnitStatus) -> Anomaly:
    """Rollups are made from their source's rows; all else would be loaded from files."""
    reads = "--mode repair" in anomaly.command and anomaly.table not in facts.pipeline.derived
    if not reads and anomaly.kind is not AnomalyKind.ROWS_UNCOVERED:
        return anomaly
    advice = (
        f"the lake forgot the unit's files on {status.forgotten_on}: it can be read again only as long as "
        "Kafka has it"
    )
    return replace(anomaly, command=repairs.reland(status.unit.slice), advice=advice)


def _repairable(facts: VerifyFacts, repairs: Repairs, anomaly: Anomaly) -> Anomaly:
    """Kafka is not asked about what the pipeline file no longer asks its cluster for, or about a topic that
    is another one by now. Nothing is loaded again from files that the lake has forgotten."""
    forgotten = facts.forgotten.get((anomaly.slice, anomaly.cluster))
    if forgotten is not None:
        anomaly = _without_files(facts, repairs, anomaly, forgotten)
    place = anomaly.slice, anomaly.cluster
    if "reland" not in anomaly.command:
        return anomaly
    if place in facts.no_longer_awaited:
        return replace(anomaly, command="", advice=_advice(facts))
    if why := facts.beyond_kafka(place):
        advice = f"{why}, so no `reland` reads what the hour had of it: put back a copy"
        return replace(anomaly, command="", advice=advice)
    return anomaly


def _anomalies(facts: VerifyFacts, repairs: Repairs) -> list[Anomaly]:
    table_anomalies = list(check_tables(facts, repairs))
    broken = {(anomaly.slice, anomaly.cluster, anomaly.table) for anomaly in table_anomalies}
    return [
        *check_states(facts, repairs),
        *check_missing_tables(facts, repairs),
        *check_readers_views(facts, repairs),
        *check_lost_views(facts),
        *check_stalled(facts),
        *check_boundaries(facts, repairs),
        *check_neighbours(facts, repairs),
        *check_lacking(facts, repairs),
        *check_conservation(facts, repairs),
        *check_counts(facts, repairs),
        *check_rejected(facts),
        *check_files(facts, repairs),
        *check_erased(facts, repairs),
        *table_anomalies,
        *check_shards(facts, repairs),
        *check_views(facts, repairs, broken),
    ]


def _advice(facts: VerifyFacts) -> str:
    verify = facts.pipeline.command("verify")
    return (
        "the pipeline file does not ask its cluster for the hour: name the cluster there, without a later "
        f"`start`, and run `{verify}` again"
    )


# What landed by an older erasure list than the one that stands, and was not searched since. Pure.
def check_erased(facts: VerifyFacts, repairs: Repairs) -> Iterator[Anomaly]:
    for status, manifest in facts.landed:
        number = facts.unerased.get(status.unit)
        if number is not None:
            anomaly = Anomaly(
                AnomalyKind.NOT_ERASED,
                f"nothing that entry {number} of the erasure list names",
                f"manifest {manifest.id}, which landed without it and was not searched",
                command=repairs.erase_pending(),
                advice="or an erasure is at work, or was stopped: the same erasure, asked for again, goes on",
                slice=status.unit.slice.id,
                cluster=status.unit.cluster,
            )
            if not manifest.forgotten_on or manifest.half_forgotten:
                yield anomaly
            elif _has_rows(facts, status):
                yield _unsearchable(facts, repairs, anomaly, status)


def _has_rows(facts: VerifyFacts, status: UnitStatus) -> bool:
    """Returns whether a table may still have rows of the unit: else nothing is left of whom it had."""
    return not facts.tables or any(
        table.missing
        or sum(table.rows.get(status.unit, {}).values())
        or sum(table.rejected_rows.get(status.unit, {}).values())
        or any(view.rows.get(status.unit) for view in table.view_tables)
        for table in facts.tables
    )


def _unsearchable(facts: VerifyFacts, repairs: Repairs, anomaly: Anomaly, status: UnitStatus) -> Anomaly:
    """Of forgotten files nobody is taken out. A landing reads the list, as long as Kafka has the records."""
    place = anomaly.slice, anomaly.cluster
    gone = place in facts.no_longer_awaited or facts.beyond_kafka(place)
    command = "" if gone else repairs.reland(status.unit.slice)
    advice = "the lake forgot its files: search the tables that still hold the slice"
    return replace(anomaly, command=command, advice=advice)


# Slices that are not done, and what Kafka lost of them. Pure.
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
            held = held_out(facts, status.unit)
            releases = (release_command(facts.pipeline, table, [status.unit.slice]) for table in sorted(held))
            advice = "; ".join(f"a check holds it: `{release}` lets it in" for release in releases)
            derived = {name for name, of in facts.pipeline.derived.items() if of.source in held}
            command = "" if without and without <= held | derived else repairs.fill(status.unit.slice)
            yield anomaly(
                AnomalyKind.INCOMPLETE, "complete", _seen(status, without - explained), command, advice
            )


def held_out(facts: VerifyFacts, unit: Unit) -> set[str]:
    """Returns the tables out of which checks hold the unit."""
    return {
        one.rows.table for one in facts.held if (one.slice, one.rows.cluster) == (unit.slice, unit.cluster)
    }


def _taken_away(status: UnitStatus, chosen: Collection[str], repairs: Repairs) -> Iterator[Anomaly]:
    """Yields the tables that had a unit when the lake forgot its files, and hold no commit of it now."""
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
        elif table in status.lost_in or (row is not None and row.lacking):
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


# The tables of materialized views against the ledger. Pure.
def check_views(
    facts: VerifyFacts, repairs: Repairs, broken: Collection[tuple[str, str, str]]
) -> Iterator[Anomaly]:
    """`broken`: (slice, cluster, table) of sources that are wrong themselves: their `reload` repairs both."""
    for whole_table in facts.tables:
        for table in [part for part in facts.shards if part.table == whole_table.table] or [whole_table]:
            for anomaly in _of(facts, table, repairs, broken):
                yield replace(anomaly, shard=table.shard, cause=explained_by(whole_table))


def _of(
    facts: VerifyFacts, table: TableFacts, repairs: Repairs, broken: Collection[tuple[str, str, str]]
) -> Iterator[Anomaly]:
    """Yields the anomalies of one table, or of its part on a shard."""
    done = units_of(facts, table.table)
    for view_table in table.view_tables:
        for unit in sorted(done & view_table.committed.keys()):
            if table.aged is not None and table.may_lack(unit):
                continue  # what the view gave of rows that are deleted may still be there
            expected, seen = view_table.committed[unit], view_table.rows.get(unit, 0)
            expired = seen < expected and view_table.expiring
            if seen == expected or expired or (unit.slice.id, unit.cluster, table.table) in broken:
                continue
            yield Anomaly(
                AnomalyKind.VIEW,
                expected=f"{expected:,} rows that {view_table.view} gave, by the ledger",
                seen=f"{seen:,}",
                command=repairs.repair(unit.slice, table.table),
                slice=unit.slice.id,
                cluster=unit.cluster,
                table=view_table.called,
            )
        for unit in sorted(set(view_table.rows) - set(table.ledger) - set(table.rows)):
            if not unit.cluster:
                continue
            command, advice = cover(facts, unit, view_table.table, view_table.projections, repairs)
            yield Anomaly(
                AnomalyKind.ROWS_UNCOVERED,
                expected="none: no ledger row covers them",
                seen=f"{view_table.rows[unit]:,} rows",
                command=command,
                advice=advice,
                slice=slice_text(unit.slice),
                cluster=unit.cluster,
                table=view_table.called,
            )


# Partitions that stand still while their siblings move. Pure.
_ADVICE = "inspect its leader, and what the partitioner of the producers sends there"


def check_stalled(facts: VerifyFacts) -> Iterator[Anomaly]:
    """Finds partitions without a record over the last `stalled_after` slices of the range, each of which
    brought records to every other partition of the topic. A partition that never had a record stands for a
    key that is not used: it counts only once it has moved."""
    pipeline = facts.pipeline
    if not pipeline.stalled_after:
        return
    length = pipeline.slice
    last = SliceRange(facts.slices.end - length * pipeline.stalled_after, facts.slices.end, length)
    for cluster in pipeline.clusters:
        for topic in known_topics(pipeline.cluster(cluster), facts.boundaries):
            for partition, at in _stalled(facts, last, cluster, topic):
                yield Anomaly(
                    AnomalyKind.STALLED,
                    expected="records, as in the topic's other partitions",
                    seen=f"none since {last.start:%Y-%m-%dT%H:%MZ}, {len(last)} slices",
                    advice=_ADVICE,
                    cluster=cluster,
                    topic=topic,
                    partition=partition,
                    offsets=(at, at),
                )


def _stalled(facts: VerifyFacts, last: SliceRange, cluster: str, topic: str) -> Iterator[tuple[int, int]]:
    """Yields (partition, offset where it stands)."""
    slice_ranges = [facts.boundaries.ranges(slice_, cluster, (topic,)) for slice_ in last]
    if not all(slice_ranges):
        return
    moved = [{r.partition: r.offsets for r in ranges or ()} for ranges in slice_ranges]
    begins = {r.partition: r.start for r in slice_ranges[0] or ()}
    still = {p for p in begins if begins[p] and not any(slice_.get(p) for slice_ in moved)}
    others = set().union(*moved) - still
    if others and all(slice_.get(p) for slice_ in moved for p in others):
        yield from sorted((p, begins[p]) for p in still)
