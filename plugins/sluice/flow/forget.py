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

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial

from pydantic import ValidationError

from sluice import crash_points
from sluice.clients.clickhouse.client import READ_QUORUM
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import delete_own
from sluice.concurrency import each_if_slow
from sluice.config.pipeline import Keep, Pipeline
from sluice.config.yaml_text import NotYaml, parse
from sluice.crash_points import Forget
from sluice.errors import Busy, Fenced
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.audit import audit
from sluice.flow.verify.read_lake import leases_of
from sluice.manifest import Forgotten, LandedFile, Manifest, decode, encode
from sluice.metrics import meter
from sluice.plan.batches import SliceWeight, cut
from sluice.plan.due import (
    NOTICE,
    FirstForgotten,
    KeepEdges,
    begins,
    due_slices,
    first_forgotten,
    known_until,
)
from sluice.safe_text import Say
from sluice.slices import SliceRange, Unit, utc
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.file_moves import move
from sluice.state.lease import Lease, hold_all
from sluice.state.months import note, read_summaries, seal_of
from sluice.state.notes import FileVersion, read_versions
from sluice.state.status import UnitStatus
from sluice.state.survey import survey


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


# Forgets files of hours that are old enough: window by window verified, noted in manifests, then deleted.
#
# A manifest says that its files are forgotten before the first of them is deleted, so that nobody who reads a
# manifest expects a file that may be gone. A run that is killed between leaves files, and the next one goes
# on: it finds the units by their summaries, which say before the manifests that forgetting has begun.

_STAMP = "%Y-%m-%dT%H:%M:%SZ"
_CHANGES = (ForgetAction.FORGET, ForgetAction.FINISH, ForgetAction.RESTORE)


@dataclass
class Forgetting:
    """What was forgotten of some windows: `units`, files and bytes, and of units that wait why."""

    units: list[Unit] = field(default_factory=list)
    files: int = 0
    bytes: int = 0
    waiting: dict[Unit, str] = field(default_factory=dict)

    def take(self, lake: Lake, decisions: Iterable[ForgetDecision]) -> None:
        """Counts what is about to be deleted. Raises what the lake raises."""
        for decision in decisions:
            going = files_there(lake, decision)
            self.units.append(decision.unit)
            self.files += len(going)
            self.bytes += sum(file.bytes for file in going)

    def add(self, other: Forgetting) -> None:
        self.units += other.units
        self.files, self.bytes = self.files + other.files, self.bytes + other.bytes
        self.waiting |= other.waiting


def files_there(lake: Lake, decision: ForgetDecision) -> Sequence[LandedFile]:
    """Returns the files that a decision deletes: of what a killed run has begun those that are left."""
    if decision.action is not ForgetAction.FINISH:
        return decision.going
    files = decision.forgetting.forgotten_files
    sizes = each_if_slow(lake.size, [file.key for file in files])
    return [file for file, size in zip(files, sizes, strict=True) if size is not None]


def decided(
    pipeline: Pipeline, lake: Lake, window: SliceRange, now: datetime, say: Say
) -> tuple[list[ForgetDecision], list[Anomaly]]:
    """Verifies the window; returns what is to be done to each of its units, and what verify has found.

    Raises what `audit` and the lake raise.
    """
    statuses, anomalies, *_ = audit(pipeline, window, say=say)
    edges, at = KeepEdges.of(pipeline.keep, now), utc(now).strftime(_STAMP)
    return forgettable(statuses, anomalies, edges, at, _deleted(lake, statuses)), anomalies


def _deleted(lake: Lake, statuses: Iterable[UnitStatus]) -> set[Unit]:
    """Returns the units of which a killed run has deleted a file: these stay forgotten."""
    files = [(status.unit, file.key) for status in statuses for file in files_begun(status)]
    sizes = each_if_slow(lake.size, [key for _, key in files])
    return {unit for (unit, _), size in zip(files, sizes, strict=True) if size is None}


def forget_window(
    pipeline: Pipeline, lake: Lake, window: SliceRange, now: datetime, say: Say = lambda _: None
) -> Forgetting:
    """Forgets what is due in the window. Repeatable at any time, and beside whoever lands and loads.

    Raises what `audit`, the lake and ClickHouse raise; Fenced when a load takes a table over meanwhile:
    nothing is deleted then.
    """
    forgetting = Forgetting()
    decisions, anomalies = decided(pipeline, lake, window, now, say)
    forgetting.waiting |= {d.unit: d.why for d in decisions if d.action is ForgetAction.WAIT}
    todo = [decision for decision in decisions if decision.action in _CHANGES]
    crash_points.reached(Forget.DECIDED)
    if todo:
        try:
            with _leases(pipeline, lake) as leases:
                forgetting.add(_forget(pipeline, lake, window, now, anomalies, todo, leases))
        except Busy as error:
            forgetting.waiting |= {decision.unit: str(error) for decision in todo}
    note(lake, survey(pipeline, window))
    return forgetting


def _forget(
    pipeline: Pipeline,
    lake: Lake,
    window: SliceRange,
    now: datetime,
    anomalies: Sequence[Anomaly],
    todo: Sequence[ForgetDecision],
    leases: Sequence[Lease],
) -> Forgetting:
    """Returns what was forgotten. Under the leases no table is loaded: there each unit is decided once more,
    by its current state."""
    edges, at = KeepEdges.of(pipeline.keep, now), utc(now).strftime(_STAMP)
    seals = {decision.unit: seal_of(decision.status) for decision in todo}
    statuses = survey(pipeline, window)
    decisions = forgettable(statuses, anomalies, edges, at, deleted=_deleted(lake, statuses))
    unchanged = [d for d in decisions if d.action in _CHANGES and seal_of(d.status) == seals.get(d.unit)]
    each_if_slow(partial(restore, lake), [d for d in unchanged if d.action is ForgetAction.RESTORE])
    new = [decision for decision in unchanged if decision.action is ForgetAction.FORGET]
    move(lake, [decision.manifest for decision in new])
    note(lake, [replace(decision.status, manifest=decision.forgetting) for decision in new])
    noted = each_if_slow(partial(note_forgotten, lake), new)
    crash_points.reached(Forget.NOTED)
    begun = [decision for decision, done in zip(new, noted, strict=True) if done]
    _hold(lake, leases, begun)
    going = [*begun, *(decision for decision in unchanged if decision.action is ForgetAction.FINISH)]
    forgetting = Forgetting()
    forgetting.take(lake, going)
    _delete(lake, going)
    each_if_slow(partial(confirm, lake), going)
    crash_points.reached(Forget.CONFIRMED)
    return forgetting


def _hold(lake: Lake, leases: Sequence[Lease], begun: Sequence[ForgetDecision]) -> None:
    """Proves that no load has begun before the manifests said it: one that begins later reads them.

    Raises Fenced, after the manifests say what they said before.
    """
    try:
        for lease in leases:
            lease.renew()
    except Fenced:
        each_if_slow(partial(restore, lake), begun)
        note(lake, [decision.status for decision in begun])
        raise
    crash_points.reached(Forget.HELD)


def _delete(lake: Lake, going: Sequence[ForgetDecision]) -> None:
    """Event hours are complete no more: their marks go before their files."""
    files = [file for decision in going for file in decision.forgetting.forgotten_files]
    marks = {layout.hour_success(file.type, file.hour) for file in files if file.type and file.hour}
    delete_own(lake, sorted(marks))
    crash_points.reached(Forget.UNMARKED)
    delete_own(lake, [file.key for file in files])
    crash_points.reached(Forget.DELETED)


@contextmanager
def _leases(pipeline: Pipeline, lake: Lake) -> Iterator[list[Lease]]:
    """Holds the leases of all tables. Raises Busy where one is being loaded."""
    with connect_shards(pipeline, READ_QUORUM) as servers:
        names = sorted(
            {name for lease_names in leases_of(servers, pipeline).values() for name in lease_names}
        )
    term = pipeline.clickhouse.lease
    with hold_all(lake, names, term, 1.5 * term) as leases:
        yield leases


# Writes into a unit's manifest that its files are forgotten, by compare-and-set.
def note_forgotten(lake: Lake, decision: ForgetDecision) -> bool:
    """Returns whether it was written; False where another manifest stands there by now."""
    return _replace(lake, decision.manifest, decision.forgetting)


def confirm(lake: Lake, decision: ForgetDecision) -> None:
    """Notes that no file is left, unless another manifest, with files of its own, has replaced it."""
    old = decision.forgetting
    if old.forgotten is not None:
        _replace(lake, old, replace(old, forgotten=replace(old.forgotten, removed=True)))


def restore(lake: Lake, decision: ForgetDecision) -> None:
    """Restores the manifest, as long as no file is deleted: to `new` where a killed run had begun the unit,
    else to what it said before."""
    stored, _ = _read(lake, decision.manifest)
    if stored is None:
        return
    begun = decision.manifest.forgotten is not None and not decision.manifest.forgotten.removed
    before = replace(decision.manifest, forgotten=decision.new) if begun else decision.manifest
    _replace(lake, decision.manifest if begun else decision.forgetting, before)


def _replace(lake: Lake, old: Manifest, new: Manifest) -> bool:
    stored, version = _read(lake, old)
    key = layout.manifest(old.slice, old.cluster)
    return stored == old and lake.replace(key, encode(new), version)


def _read(lake: Lake, manifest: Manifest) -> tuple[Manifest | None, str]:
    key = layout.manifest(manifest.slice, manifest.cluster)
    stored = lake.read(key)
    if stored is None:
        return None, ""
    return decode(stored.data, f"{lake.url}/{key}"), stored.version


# Finds what is due by the months' summaries, and forgets it window by window.
MOST_SLICES = 240
"""Slices that are verified at once."""
_YEAR = timedelta(days=366)
MOST_WINDOWS = 4
"""Such windows in one run of the DAG; the others follow in the next ones."""


def due_windows(
    pipeline: Pipeline, lake: Lake, now: datetime, only: SliceRange | None = None, done: bool = False
) -> list[SliceRange]:
    """Returns ranges that hold every slice with files to forget, oldest first: of those in the range `only`.

    With `done` hours that a table lacks are left out. All months are read: a run that was killed may have
    begun with hours that today's `keep` finds too young. Raises what the lake raises.
    """
    edges = KeepEdges.of(pipeline.keep, now)
    span = BoundaryLog(lake).read().span()
    if span is None:
        return []
    hours = SliceRange.widen(*span, pipeline.slice)
    slices = [
        slice_
        for slice_ in due_slices(pipeline, read_summaries(lake, hours), edges, done)
        if only is None or only.start <= slice_.start < only.end
    ]
    return cut([SliceWeight(slice_, 0) for slice_ in slices], max_slices=MOST_SLICES)


def forget_due(
    pipeline: Pipeline, lake: Lake, windows: Sequence[SliceRange], now: datetime, say: Say
) -> Forgetting:
    """Forgets window after window, and counts it. Raises what `forget_window` raises."""
    forgetting = Forgetting()
    for window in windows:
        forgotten = forget_window(pipeline, lake, window, now, say)
        forgetting.add(forgotten)
        say(f"{window}: {len(forgotten.units):,} units, {forgotten.files:,} files, {forgotten.bytes:,} bytes")
        meter.count("units_forgotten", len(forgotten.units), pipeline=pipeline.name)
        meter.count("bytes_forgotten", forgotten.bytes, pipeline=pipeline.name)
    return forgetting


def forget_hourly(pipeline: Pipeline, lake: Lake, turn: int, now: datetime, say: Say) -> Forgetting | None:
    """Forgets what run number `turn` of the DAG may; None where it is too early, or nothing is due.

    A run forgets only after `keep` has stood in the file for NOTICE: until then a mistake costs nothing.
    """
    since = keep_since(pipeline.keep, read_versions(lake))
    if now < begins(since, now):
        say(f"`keep` is read since {since or 'this run'}: hours are forgotten from {begins(since, now)} on")
        return None
    windows = due_windows(pipeline, lake, now, done=True)
    if not windows:
        return None
    # Every second run begins elsewhere, so that hours which wait each time hold up nothing for good.
    first = turn // 2 % len(windows) if turn % 2 else 0
    return forget_due(pipeline, lake, [*windows[first:], *windows[:first]][:MOST_WINDOWS], now, say)


def forgotten_first(
    pipeline: Pipeline, lake: Lake, boundaries: Boundaries, now: datetime
) -> FirstForgotten | None:
    """Returns what runs of the DAG forget first, within NOTICE; None where they have begun to forget.

    Of the hours that are old enough the first year is read. Raises what the lake raises.
    """
    span = boundaries.span()
    if span is None or not pipeline.keep.forgets:
        return None
    hours = known_until(span[0], KeepEdges.of(pipeline.keep, now + NOTICE), pipeline.slice)
    if hours is None:
        return None
    year = SliceRange.widen(hours.start, min(hours.end, hours.start + _YEAR), pipeline.slice)
    since = keep_since(pipeline.keep, read_versions(lake))
    return first_forgotten(pipeline, read_summaries(lake, year), since, now)


def keep_since(keep: Keep, versions: Sequence[FileVersion]) -> datetime | None:
    """Returns since when runs have read a pipeline file that forgets as `keep` does; None where the newest
    version does not. Pure."""
    since = None
    for version in reversed(versions):
        version_keep = _keep_of(version.text)
        if version_keep is None or (version_keep.lake, version_keep.rejected) != (keep.lake, keep.rejected):
            break
        since = version.at
    return None if since is None else datetime.fromisoformat(since)


def _keep_of(text: str) -> Keep | None:
    """Returns what a kept text says; None for one that cannot be read, as where a variable stands."""
    try:
        content = parse(text)
        return Keep.model_validate(content.get("keep") or {}) if isinstance(content, dict) else None
    except (NotYaml, ValidationError):
        return None
