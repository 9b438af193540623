"""The land step: reads what is missing of a range from Kafka, and commits it to the lake unit by unit.

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
from sluice.clients.kafka.probe import probe_cluster
from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Land
from sluice.errors import SluiceError
from sluice.flow.land.cleanup import discard, sweep
from sluice.flow.land.commit import commit_again, commit_each
from sluice.flow.land.engine import Engine
from sluice.flow.land.expiry import Reads, refuse_compacted, unit_reads
from sluice.flow.land.manifest_draft import Landed, draft
from sluice.flow.land.parts import in_parts
from sluice.flow.land.read import LandingAttempt
from sluice.flow.land.read_plan import UnitRead, described
from sluice.flow.land.tell_changes import tell_changes
from sluice.manifest import Manifest
from sluice.plan.modes import needs_landing
from sluice.plan.waiting import waits
from sluice.safe_text import Say
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.file_moves import finish_moves, move
from sluice.state.units import units_of


@dataclass(frozen=True)
class Landing:
    """Of `units` in the range, `landed` were landed now; the counts are theirs. `failed` says of clusters
    of which some units are not, while those of others are, why."""

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
) -> Landing:
    """Lands what `mode` asks for; repeatable at any time, and beside others who land the same.

    Raises NotResolved, RecordsExpired, ExpiredMeanwhile, CompactedAway, Conservation, SparkFailed, and what
    Kafka and the lake raise; of several clusters only when none could be landed, else it is in the answer.
    A unit that cannot land, or has expired, does not hold up the others: NotAllLanded, or its own error, is
    raised at the end. Only `reland` replaces what is there, and does nothing where a unit has expired.
    Before a cluster's first manifest a failure leaves nothing of it behind; after it the next call goes on.
    """
    boundaries = BoundaryLog(lake).read()
    units = units_of(pipeline, slices, boundaries)
    old = finish_moves(lake, units)
    crash_points.reached(Land.CAUGHT_UP)
    own = [unit for unit in units if unit.cluster in pipeline.clusters]
    todo = [unit for unit in own if needs_landing(old.get(unit), mode, token)]
    reads = unit_reads(pipeline, boundaries, todo, old, topics_of)
    _refuse(pipeline, reads, mode)
    crash_points.reached(Land.PLANNED)
    ids = {cluster: uuid.uuid4().hex[:16] for cluster in pipeline.clusters}
    say(f"{len(own)} units, {len(todo)} to land, {sum(r.offsets for r in reads.all):,} offsets to read")
    for line in described(reads.all):
        say(line)
    attempt = LandingAttempt(pipeline, lake, ids, engine, say, topics_of, pipeline.evolving_types)
    manifests, failed = _clusters(attempt, reads.by_cluster, old, mode, token)
    sweep(pipeline, lake, ids.values(), pendulum.now("UTC"))
    crash_points.reached(Land.SWEPT)
    landed = tuple(m for m in manifests if m.attempt == ids[m.cluster])
    tell_changes(lake, units, landed, old, say)
    failed = {**reads.failed, **failed}
    _raise_failed(pipeline, failed, reads.expired, say)
    return Landing(len(own), landed, failed)


def _refuse(pipeline: Pipeline, reads: Reads, mode: str) -> None:
    """Raises what stands before anything is read."""
    if reads.failed and len(pipeline.clusters) == 1:
        raise next(iter(reads.failed.values()))
    if reads.expired and mode == "reland":
        raise reads.expired[0]


def _raise_failed(
    pipeline: Pipeline, failed: Mapping[str, SluiceError], expired: Sequence[SluiceError], say: Say
) -> None:
    """Says why clusters and units have not landed; raises for an expired unit, and where no cluster could be
    landed."""
    for cluster, error in failed.items() if len(pipeline.clusters) > 1 or expired else ():
        say(waits(cluster, error))
    for error in expired[1:]:
        say(str(error))
    if expired:
        raise expired[0]
    if failed.keys() == set(pipeline.clusters):
        raise next(iter(failed.values()))


def _clusters(
    attempt: LandingAttempt,
    by_cluster: Mapping[str, Sequence[UnitRead]],
    old: Mapping[Unit, Manifest],
    mode: str,
    token: str,
) -> tuple[list[Manifest], dict[str, SluiceError]]:
    """Lands cluster after cluster: the manifests that stand afterwards, and why others did not bring all.

    What the lake raises is raised: it is the same for all of them.
    """
    manifests: list[Manifest] = []
    failed: dict[str, SluiceError] = {}
    for cluster, reads in by_cluster.items():
        mine = replace(attempt, ids={cluster: attempt.ids[cluster]})
        found = in_parts(reads, partial(_part, mine, old, mode, token), partial(_answers, mine, cluster))
        manifests += found.manifests
        if found.error is not None:
            failed[cluster] = found.error
    return manifests, failed


def _part(
    attempt: LandingAttempt, old: Mapping[Unit, Manifest], mode: str, token: str, reads: Sequence[UnitRead]
) -> list[Manifest]:
    """Lands some units of one cluster. What fails leaves nothing of the attempt behind."""
    try:
        landed = attempt.read(reads)
        refuse_compacted(attempt.pipeline, landed, old, attempt.topics_of)
    except SluiceError:
        discard(attempt.lake, attempt.ids.values())
        raise
    committed = _commit(attempt.pipeline, attempt.lake, landed, mode, token)
    move(attempt.lake, committed)
    return committed


def _answers(attempt: LandingAttempt, cluster: str) -> bool:
    return probe_cluster(attempt.pipeline.cluster(cluster), attempt.topics_of) is None


def _commit(
    pipeline: Pipeline, lake: Lake, landed: Sequence[Landed], mode: str, token: str
) -> list[Manifest]:
    """Returns the manifests that stand afterwards: these, or those of who was first."""
    now = pendulum.now("UTC")
    drafts = [partial(draft, pipeline.name, unit, pipeline.success_grace, token, now) for unit in landed]
    if mode == "reland":
        return each_if_slow(partial(commit_again, lake), drafts)
    return list(commit_each(lake, drafts))
