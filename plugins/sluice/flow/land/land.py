"""The land step: reads what is missing of a range from Kafka, and commits it to the lake unit by unit. A
`remake` reads what has landed from the lake itself.

Clusters are read one after another, each in jobs of its own: what one of them cannot bring is no reason to
throw away, or not to commit, what another has brought.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pendulum

from sluice import crash_points
from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Land
from sluice.errors import SluiceError, WouldReject
from sluice.flow.land.cleanup import discard, sweep
from sluice.flow.land.engine import Engine
from sluice.flow.land.erased_meanwhile import erase_owed, owed, unit_of_each
from sluice.flow.land.expiry import Reads, unit_reads
from sluice.flow.land.kafka_source import KafkaSource
from sluice.flow.land.lake_source import LakeSource
from sluice.flow.land.newly_rejected import refusal
from sluice.flow.land.parts import Parts, in_parts
from sluice.flow.land.read import LandingAttempt
from sluice.flow.land.read_plan import UnitRead, described
from sluice.flow.land.remake import landed_meanwhile, remade_reads
from sluice.flow.land.tell_changes import tell_changes
from sluice.manifest import Manifest
from sluice.mask.mask_rules import mask_rules
from sluice.plan.modes import needs_landing
from sluice.plan.waiting import waits
from sluice.safe_text import Say
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.erasures.erasure_store import read_erasures
from sluice.state.file_moves import finish_moves, move
from sluice.state.manifests import read_manifests
from sluice.state.units import units_of


@dataclass(frozen=True)
class Landing:
    """`units` is how many the range has, `landed` are the manifests of those that landed now. `failed`: by
    cluster, why units of it did not land although units of another cluster did."""

    units: int
    landed: tuple[Manifest, ...]
    failed: Mapping[str, SluiceError] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        return {
            "units": self.units,
            "landed": len(self.landed),
            "records": sum(m.read for m in self.landed),
            "unparsed": sum(sum(m.unparsed.values()) for m in self.landed),
            "files": sum(len(m.files) + len(m.rejected) for m in self.landed),
            "bytes": sum(f.bytes for m in self.landed for f in (*m.files, *m.rejected)),
            "lost": sum(loss.until - loss.start for m in self.landed for loss in m.lost),
            "late": sum(m.late for m in self.landed),
        }


def land(
    pipeline: Pipeline,
    lake: Lake,
    slices: SliceRange,
    mode: str,
    token: str,
    engine: Engine,
    say: Say,
    topics_of: TopicsOf = open_topics,
    accept_loss: bool = False,
) -> Landing:
    """Lands what `mode` asks for; repeatable, also beside others who do the same.

    Raises WrongUse (a key of the mask), NotResolved, RecordsExpired, CannotRemake, CompactedAway,
    WouldReject (it would reject rows that are there, and the caller does not accept the loss),
    Conservation, SparkFailed, and what Kafka and the lake raise; of several clusters only when none landed.
    A unit that cannot land, or has expired, holds up no other: its error comes last. `reland` (not where a
    unit has expired) and `remake` replace what is there. Before a first manifest a failure leaves nothing.
    What the erasure list names is left out, also where an entry came while the units were read.
    """
    landing, error = _land(pipeline, lake, slices, mode, token, engine, say, topics_of, accept_loss)
    if owing := owed(lake, landing.landed, pipeline.slice):
        say(f"{len(owing):,} units were landed while an erasure was asked for: it is applied to them")
        erase_owed(lake, owing)
        stand = read_manifests(lake, unit_of_each(landing.landed, pipeline.slice))
        landing = replace(landing, landed=tuple(stand.values()))
    if error is not None:
        raise error
    return landing


def _land(
    pipeline: Pipeline,
    lake: Lake,
    slices: SliceRange,
    mode: str,
    token: str,
    engine: Engine,
    say: Say,
    topics_of: TopicsOf,
    accept_loss: bool,
) -> tuple[Landing, SluiceError | None]:
    """Returns also the error of what could not land; `land` reads the erasure list before it raises it."""
    mask, erasures, boundaries = mask_rules(pipeline), read_erasures(lake), BoundaryLog(lake).read()
    units = units_of(pipeline, slices, boundaries)
    old = finish_moves(lake, units, replaced=mode == "reland")
    crash_points.reached(Land.CAUGHT_UP)
    in_scope = [unit for unit in units if unit.cluster in pipeline.clusters]
    todo = [unit for unit in in_scope if needs_landing(old.get(unit), mode, token)]
    again = {unit: old[unit] for unit in todo if mode == "remake" and unit in old}
    reads = unit_reads(pipeline, boundaries, [unit for unit in todo if unit not in again], old, topics_of)
    remade, refused = remade_reads(pipeline, again)
    _refuse(pipeline, reads, mode, bool(again))
    crash_points.reached(Land.PLANNED)
    _tell_planned(in_scope, todo, reads.all, [read for some in remade.values() for read in some], say)
    ask = None if accept_loss else partial(refusal, lake)
    from_kafka = KafkaSource(pipeline, lake, old, mode, token, say, topics_of, ask)
    rules = (pipeline.evolving_types, erasures, mask)
    attempt = LandingAttempt(pipeline, lake, {}, engine, say, from_kafka, *rules)
    from_lake = LakeSource(pipeline, lake, again, token, ask)
    remade_clusters = _clusters(replace(attempt, source=from_lake), remade)
    read_clusters = _clusters(attempt, reads.by_cluster)
    sweep(pipeline, lake, (*remade_clusters.ids, *read_clusters.ids), pendulum.now("UTC"))
    landed = (*remade_clusters.landed, *read_clusters.landed)
    failed = {**reads.failed, **read_clusters.failed}
    tell_changes(lake, units, landed, old, say)
    kept = (*refused, *remade_clusters.unmade(token), *read_clusters.refused, *reads.expired)
    error = _error_of(pipeline, failed, kept, say)
    return Landing(len(in_scope), landed, failed), error


def _tell_planned(
    in_scope: Sequence[Unit],
    todo: Sequence[Unit],
    reads: Sequence[UnitRead],
    remade: Sequence[UnitRead],
    say: Say,
) -> None:
    sums = [sum(read.offsets for read in some) for some in (reads, remade)]
    again = f", {len(remade):,} of them out of the lake ({sums[1]:,} offsets)" if remade else ""
    say(f"{len(in_scope)} units, {len(todo)} to land{again}, {sums[0]:,} offsets to read")
    for line in described([*remade, *reads]):
        say(line)


def _refuse(pipeline: Pipeline, reads: Reads, mode: str, remakes: bool) -> None:
    """Raises what forbids the landing before anything is read. Units to be remade do not wait for Kafka."""
    if not remakes and reads.failed and len(pipeline.clusters) == 1:
        raise next(iter(reads.failed.values()))
    if reads.expired and mode == "reland":
        raise reads.expired[0]


def _error_of(
    pipeline: Pipeline, failed: Mapping[str, SluiceError], refused: Sequence[SluiceError], say: Say
) -> SluiceError | None:
    """Says why clusters and units have not landed. Returns the error of a unit that has expired or cannot be
    remade, or of clusters of which none could be landed."""
    for cluster, error in failed.items() if len(pipeline.clusters) > 1 or refused else ():
        say(waits(cluster, error))
    for error in refused[1:]:
        say(str(error))
    if refused:
        return refused[0]
    return next(iter(failed.values())) if failed.keys() == set(pipeline.clusters) else None


@dataclass(frozen=True)
class _Clusters:
    """The ids of the attempts, the manifests that stand afterwards, and by cluster why units did not land.
    `refused`: why units were read, and then not replaced."""

    ids: tuple[str, ...]
    manifests: tuple[Manifest, ...]
    failed: Mapping[str, SluiceError]
    refused: tuple[SluiceError, ...]

    @property
    def landed(self) -> tuple[Manifest, ...]:
        return tuple(m for m in self.manifests if m.attempt in self.ids)

    def unmade(self, token: str) -> tuple[SluiceError, ...]:
        """Returns why units were not remade, also those that another run has landed meanwhile."""
        others = landed_meanwhile([f"{m.slice}/{m.cluster}" for m in self.manifests if m.token != token])
        return (*self.refused, *self.failed.values(), *([others] if others else []))


def _clusters(attempt: LandingAttempt, by_cluster: Mapping[str, Sequence[UnitRead]]) -> _Clusters:
    """Lands cluster after cluster. What the lake raises is raised: it is the same for all of them."""
    ids = {cluster: uuid.uuid4().hex[:16] for cluster in by_cluster}
    manifests: list[Manifest] = []
    failed: dict[str, SluiceError] = {}
    refused: list[SluiceError] = []
    for cluster, reads in by_cluster.items():
        cluster_attempt = replace(attempt, ids={cluster: ids[cluster]})
        parts = in_parts(reads, partial(_part, cluster_attempt), partial(attempt.source.answers, cluster))
        manifests += parts.manifests
        if parts.error is not None and parts.refused:
            refused.append(parts.error)
        elif parts.error is not None:
            failed[cluster] = parts.error
    return _Clusters(tuple(ids.values()), tuple(manifests), failed, tuple(refused))


def _part(attempt: LandingAttempt, reads: Sequence[UnitRead]) -> Parts:
    """Lands some units of one cluster. What fails leaves nothing of the attempt behind."""
    try:
        landed = attempt.read(reads)
        attempt.source.check(landed)
    except SluiceError as error:
        discard(attempt.lake, attempt.ids.values())
        replaced = attempt.source.replaced(reads)
        if replaced is None:
            raise
        raise replaced from error
    committed = attempt.source.commit(landed)
    manifests = tuple(one for one in committed if not isinstance(one, WouldReject))
    move(attempt.lake, manifests)
    kept = [(u.read, e) for u, e in zip(landed, committed, strict=True) if isinstance(e, WouldReject)]
    return Parts(manifests, tuple(((read,), error) for read, error in kept))
