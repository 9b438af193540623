"""The lake's own files as the source of a landing's records: a unit is remade, and Kafka is not asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pendulum

from sluice.clients.lake.base import Lake
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError, WouldReject
from sluice.flow.land.commit import Refusal, commit_remade
from sluice.flow.land.manifest_draft import Landed, draft
from sluice.flow.land.newly_rejected import or_refusal
from sluice.flow.land.read_plan import ReadGroup, UnitRead
from sluice.flow.land.record_source import Accounted, Gaps
from sluice.flow.land.remake import account, landed_meanwhile, remade_of
from sluice.flow.land.task.lake_file import LakeFile
from sluice.flow.land.task.reports import SeenOffsets
from sluice.flow.land.task.task import Task
from sluice.manifest import Manifest
from sluice.mask.mask_rules import joined
from sluice.slices import Unit
from sluice.state.manifests import read_manifests


@dataclass(frozen=True)
class LakeSource:
    """`old`: the manifests that the units are made out of; each is replaced only as long as it stands,
    and unless there is a `refusal`."""

    pipeline: Pipeline
    lake: Lake
    old: Mapping[Unit, Manifest]
    token: str
    refusal: Refusal | None = None

    def reading(self, task: Task, run: ReadGroup) -> Task:
        units = [(read.unit, self.old[read.unit]) for read in run.units]
        files = (
            LakeFile.of(self.lake, u, file, old.masked, bool(old.rows_erased))
            for u, old in units
            for file in (*old.held_events, *old.held_rejected)
        )
        return replace(task, files=tuple(files), masked=tuple(old.masked for _, old in units))

    def account(
        self, reads: Sequence[UnitRead], gaps: Gaps, seen: Mapping[Unit, Sequence[SeenOffsets]]
    ) -> Mapping[Unit, Accounted]:
        """Raises Conservation where the files do not hold the records that the manifest counts."""
        arrays = self.pipeline.event.arrays
        return {r.unit: account(r.unit, self.old[r.unit], seen.get(r.unit, ()), arrays) for r in reads}

    def check(self, landed: Sequence[Landed]) -> None:
        """Forbids nothing. The commit itself checks that the old manifest still stands."""

    def answers(self, cluster: str) -> bool:
        return True

    def replaced(self, reads: Sequence[UnitRead]) -> SluiceError | None:
        """Returns the error where a manifest has been replaced: a `reland` removes the old one's files."""
        stand = read_manifests(self.lake, [read.unit for read in reads])
        return landed_meanwhile([str(r.unit) for r in reads if stand.get(r.unit) != self.old[r.unit]])

    def commit(self, landed: Sequence[Landed]) -> list[Manifest | WouldReject]:
        now = pendulum.now("UTC")
        return each_if_slow(partial(self._commit, now), landed)

    def _commit(self, now: pendulum.DateTime, landed: Landed) -> Manifest | WouldReject:
        old, grace = self.old[landed.read.unit], self.pipeline.success_grace

        def drafted(generation: int) -> Manifest:
            new = draft(self.pipeline.name, landed, grace, self.token, now, generation)
            # The records are the same; of an empty array the lake has no time.
            masked = joined(new.masked, old.masked)
            gone = old.forgotten_records
            times = old.times or new.times
            return replace(new, remade=remade_of(old), times=times, masked=masked, without_bytes=gone)

        return or_refusal(lambda: commit_remade(self.lake, old, drafted, self.refusal))
