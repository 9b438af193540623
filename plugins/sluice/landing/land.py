"""The land step: reads what is missing of a range from Kafka, and commits it to the lake unit by unit."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pendulum

from sluice import points
from sluice.boundaries.log import BoundaryLog
from sluice.errors import SluiceError
from sluice.kafka.inquiry import TopicsOf
from sluice.kafka.topics import open_topics
from sluice.lake.base import Lake
from sluice.landing.commit import commit, commit_again
from sluice.landing.engine import Engine
from sluice.landing.mover import finish_moves, move
from sluice.landing.reading import Attempt
from sluice.landing.reads import described, needs_landing
from sluice.landing.retention import refuse_compacted, unit_reads
from sluice.landing.sweep import discard, sweep
from sluice.landing.unit_manifest import Landed, draft
from sluice.manifest import Manifest
from sluice.pipeline import Pipeline
from sluice.points import Land
from sluice.side_by_side import each
from sluice.slices import SliceRange, Unit

Say = Callable[[str], None]


@dataclass(frozen=True)
class Landing:
    """Of `units` in the range, `landed` were landed now; the counts are theirs."""

    units: int
    landed: tuple[Manifest, ...]

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
    Kafka and the lake raise. A unit that has expired does not hold up the others, it is raised at the end;
    only `reland`, which would replace what is there, then does nothing at all.
    Before the first manifest a failure leaves nothing behind; after it the next call goes on.
    """
    units = [Unit(piece, cluster) for piece in slices for cluster in pipeline.clusters]
    old = finish_moves(lake, units)
    points.reached(Land.CAUGHT_UP)
    todo = [unit for unit in units if needs_landing(old.get(unit), mode, token)]
    reads, expired = unit_reads(pipeline, BoundaryLog(lake).read(), todo, old, topics_of)
    if expired and mode == "reland":
        raise expired[0]
    points.reached(Land.PLANNED)
    ids = {cluster: uuid.uuid4().hex[:16] for cluster in pipeline.clusters}
    say(f"{len(units)} units, {len(todo)} to land, {sum(read.offsets for read in reads):,} offsets to read")
    for line in described(reads):
        say(line)
    try:
        landed = Attempt(pipeline, lake, ids, engine, say, topics_of).read(reads)
        refuse_compacted(pipeline, landed, old, topics_of)
    except SluiceError:
        discard(lake, ids.values())
        raise
    manifests = _commit(pipeline, lake, landed, mode, token)
    move(lake, manifests)
    sweep(pipeline, lake, ids.values(), pendulum.now("UTC"))
    points.reached(Land.SWEPT)
    for error in expired[1:]:
        say(str(error))
    if expired:
        raise expired[0]
    return Landing(len(units), tuple(m for m in manifests if m.attempt == ids[m.cluster]))


def _commit(
    pipeline: Pipeline, lake: Lake, landed: Sequence[Landed], mode: str, token: str
) -> list[Manifest]:
    """The manifests that stand afterwards: these, or those of who was first."""
    now = pendulum.now("UTC")
    act = commit_again if mode == "reland" else commit

    def one(unit: Landed) -> Manifest:
        return act(lake, partial(draft, pipeline.name, unit, pipeline.success_grace, token, now))

    return each(one, landed)
