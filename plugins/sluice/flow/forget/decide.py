"""Which units the lake may forget now, and why it keeps others. Pure.

| files of the unit | age | state | verify | decision |
| --- | --- | --- | --- | --- |
| forgotten, all may be there | any | its tables still hold its commit | any | they are deleted |
| forgotten, all are there | any | a table has lost its commit | any | it is forgotten no more |
| forgotten, some are deleted | any | any | any | the rest is deleted |
| forgotten and deleted | any | any | any | nothing |
| held | too young | any | any | nothing |
| held | old enough | a table lacks it, or has the old rows | any | waits |
| held | old enough | complete | something is wrong | waits |
| held | old enough | complete | all holds | forgotten |
| `_rejected/` forgotten before | `keep.lake` | complete | all holds | the others are forgotten |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.manifest import Forgotten, LandedFile, Manifest
from sluice.plan.due import KeepEdges
from sluice.slices import Unit
from sluice.state.status import UnitStatus


class ForgetAction(StrEnum):
    NOTHING = "nothing"
    FORGET = "forget"
    FINISH = "finish"  # files may be left of a run that was killed
    RESTORE = "restore"  # a table lost the unit before any file was deleted
    WAIT = "wait"


@dataclass(frozen=True)
class ForgetDecision:
    """What is done to a unit. `new`: what its manifest says of it then; `why` it waits."""

    status: UnitStatus
    action: ForgetAction
    new: Forgotten | None = None
    why: str = ""

    @property
    def unit(self) -> Unit:
        return self.status.unit

    @property
    def manifest(self) -> Manifest:
        """Of a decision that changes something."""
        if self.status.manifest is None:
            raise ValueError(f"{self.unit} has no manifest")
        return self.status.manifest

    @property
    def forgetting(self) -> Manifest:
        """Returns the manifest as it is while files are being deleted."""
        return replace(self.manifest, forgotten=self.new)

    @property
    def going(self) -> tuple[LandedFile, ...]:
        """The files that the lake holds until then."""
        left = {file.key for file in self.forgetting.held_files}
        return tuple(file for file in self.manifest.held_files if file.key not in left)


def forgettable(
    statuses: Iterable[UnitStatus],
    anomalies: Sequence[Anomaly],
    edges: KeepEdges,
    at: str,
    deleted: Collection[Unit] = (),
) -> list[ForgetDecision]:
    """Returns a decision for each unit. `at`: the stamp that manifests get; `deleted`: units that lack one of
    their `files_begun`.

    `anomalies` are those that verify has just found. For a recorded loss nothing waits: nothing repairs it.
    What a unit landed without is in Kafka, if anywhere.
    """
    why: dict[tuple[str, str], str] = {}
    for anomaly in anomalies:
        if anomaly.kind not in (AnomalyKind.LOSS, AnomalyKind.LACKING):
            why[anomaly.slice, anomaly.cluster] = f"verify: {anomaly.kind}: {anomaly.message}"
    return [
        _resumed(s, unfinished, s.unit in deleted)
        if (unfinished := _unfinished(s))
        else _decided(s, why.get((s.unit.slice.id, s.unit.cluster), ""), edges, at)
        for s in statuses
    ]


def files_begun(status: UnitStatus) -> tuple[LandedFile, ...]:
    """Returns the files that a killed run has begun to forget, and may have deleted."""
    manifest, unfinished = status.manifest, _unfinished(status)
    if manifest is None or unfinished is None:
        return ()
    held = {file.key for file in manifest.held_files}
    before = replace(manifest, forgotten=_before(unfinished))
    return tuple(file for file in before.held_files if file.key not in held)


def _unfinished(status: UnitStatus) -> Forgotten | None:
    """Returns what the manifest says of a forgetting that may have left files; None where there is none."""
    forgotten = status.manifest.forgotten if status.manifest else None
    return forgotten if forgotten is not None and not forgotten.removed else None


def _decided(status: UnitStatus, why: str, edges: KeepEdges, at: str) -> ForgetDecision:
    """`why` it has to wait, even where every table has it."""
    manifest = status.manifest
    if manifest is None:
        return ForgetDecision(status, ForgetAction.NOTHING)
    new = _due(status, manifest, edges, at)
    if new is None:
        return ForgetDecision(status, ForgetAction.NOTHING)
    if not status.state.done:
        return ForgetDecision(status, ForgetAction.WAIT, why=f"it is {status.seen}: a table lacks it")
    if why:
        return ForgetDecision(status, ForgetAction.WAIT, why=why)
    return ForgetDecision(status, ForgetAction.FORGET, new)


def _resumed(status: UnitStatus, unfinished: Forgotten, deleted: bool) -> ForgetDecision:
    """Returns the decision for a unit that a killed run has begun.

    It is restored only where all files are there: a table may lose its commit, or leave the pipeline file,
    after files were deleted.
    """
    if deleted or set(unfinished.tables) <= set(committed(status)):
        return ForgetDecision(status, ForgetAction.FINISH, unfinished)
    return ForgetDecision(status, ForgetAction.RESTORE, _before(unfinished))


def _before(unfinished: Forgotten) -> Forgotten | None:
    """Returns what the manifest said before this forgetting; None where nothing was forgotten yet."""
    earlier = unfinished.lake and unfinished.rejected not in ("", unfinished.lake)
    return replace(unfinished, lake="", removed=True) if earlier else None


def _due(status: UnitStatus, manifest: Manifest, edges: KeepEdges, at: str) -> Forgotten | None:
    """Returns what the manifest will say; None where nothing is old enough, or all of it is forgotten."""
    before, tables = manifest.rejected_forgotten_on, tuple(committed(status))
    if edges.lake_due(status.unit.slice) and not manifest.forgotten_on:
        return Forgotten(lake=at, rejected=before or (at if manifest.rejected else ""), tables=tables)
    if edges.rejected_due(status.unit.slice) and manifest.held_rejected:
        return Forgotten(rejected=at, tables=tables)
    return None


def committed(status: UnitStatus) -> list[str]:
    """Returns the tables that hold the unit's manifest, apart from rollups, which follow their source."""
    manifest = status.manifest.id if status.manifest else ""
    return sorted(t for t, row in status.tables.items() if row.manifest == manifest and not row.lacking)
