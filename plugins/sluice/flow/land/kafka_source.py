"""Kafka as the source of a landing's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pendulum

from sluice.clients.kafka.reader import TopicsOf
from sluice.clients.kafka.topics import probe_cluster
from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.land.commit import Draft, Refusal, commit_again, commit_each
from sluice.flow.land.expiry import refuse_compacted, starts_now
from sluice.flow.land.gaps import explain
from sluice.flow.land.manifest_draft import Landed, draft
from sluice.flow.land.newly_rejected import NotReplaced, or_refusal
from sluice.flow.land.read import Accounted, Gaps
from sluice.flow.land.read_plan import ReadGroup, UnitRead
from sluice.flow.land.task.reports import SeenOffsets
from sluice.flow.land.task.task import Task
from sluice.manifest import Manifest
from sluice.safe_text import Say
from sluice.slices import Unit


@dataclass(frozen=True)
class KafkaSource:
    """`old`: the manifests of units that have landed. A `reland` of this `token` replaces them,
    unless there is a `refusal`."""

    pipeline: Pipeline
    lake: Lake
    old: Mapping[Unit, Manifest]
    mode: str
    token: str
    say: Say
    topics_of: TopicsOf
    refusal: Refusal | None = None

    def reading(self, task: Task, run: ReadGroup) -> Task:
        return task

    def account(
        self, reads: Sequence[UnitRead], gaps: Gaps, seen: Mapping[Unit, Sequence[SeenOffsets]]
    ) -> Mapping[Unit, Accounted]:
        """Raises ExpiredMeanwhile, TopicRecreated, KafkaUnavailable."""
        self._explain(reads, gaps)
        return {r.unit: self._accounted(r, gaps, seen.get(r.unit, ())) for r in reads}

    def _accounted(self, read: UnitRead, gaps: Gaps, seen: Sequence[SeenOffsets]) -> Accounted:
        missing = sum(gap.missing for partition_gaps in gaps[read.unit].values() for gap in partition_gaps)
        return Accounted(tuple(seen), missing + sum(part.hidden for part in seen))

    def _explain(self, reads: Sequence[UnitRead], gaps: Gaps) -> None:
        for cluster in dict.fromkeys(read.unit.cluster for read in reads):
            ranges = {r for read in reads if read.unit.cluster == cluster for r in read.left if r.offsets}
            # Asked also without gaps: a topic that was recreated meanwhile has another id, and is refused.
            starts = starts_now(self.pipeline, cluster, ranges, self.topics_of)
            own = {unit: places for unit, places in gaps.items() if places and unit.cluster == cluster}
            if own:
                self.say(f"{cluster}: a second read of {_count(own):,} offsets that hold no record")
                with self.topics_of(self.pipeline.cluster(cluster)) as topics:
                    explain(topics, own, starts)

    def check(self, landed: Sequence[Landed]) -> None:
        """Raises CompactedAway."""
        refuse_compacted(self.pipeline, landed, self.old, self.topics_of)

    def answers(self, cluster: str) -> bool:
        return probe_cluster(self.pipeline.cluster(cluster), self.topics_of) is None

    def replaced(self, reads: Sequence[UnitRead]) -> SluiceError | None:
        return None

    def commit(self, landed: Sequence[Landed]) -> list[Manifest | NotReplaced]:
        now, grace = pendulum.now("UTC"), self.pipeline.success_grace
        drafts = [partial(draft, self.pipeline.name, unit, grace, self.token, now) for unit in landed]
        if self.mode == "reland":
            return each_if_slow(self._replace, drafts)
        return [*commit_each(self.lake, drafts)]

    def _replace(self, draft: Draft) -> Manifest | NotReplaced:
        return or_refusal(lambda: commit_again(self.lake, draft, self.refusal))


def _count(gaps: Gaps) -> int:
    return sum(gap.missing for places in gaps.values() for found in places.values() for gap in found)
