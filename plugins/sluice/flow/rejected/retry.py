"""Of which units a retry brings rejected records in, and which it loads again into which table. Pure.

| rejections of a unit | a retry |
| --- | --- |
| rejected, read by the rules of the file as it is now | leaves it: they would be rejected again |
| rejected, and the lake has forgotten the bytes of all of them | leaves it |
| rejected, of a reason of which the trial brings some in | brings in what it can, and all tables load it |
| rejected rows of a cause that the trial cures, and nothing to bring in | loads it again into that table |
| a load or a retry that was stopped has left it half done | completes it first |
| a table was loaded again, and one that is derived of it was not | completes it first |

What else is not complete before a retry is not its business: it neither completes it nor fails by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from types import MappingProxyType

from sluice.clients.clickhouse.shards import ALONE, Servers
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.errors import TargetRefused
from sluice.flow.contents.staged_load import Stage, stage_of
from sluice.flow.land.amend.retry_unit import Tried, UnitRetry
from sluice.flow.land.task import read_lake as lake_read
from sluice.flow.load.casts.columns import LAKE
from sluice.flow.load.own_placement import own_placements
from sluice.flow.load.source.pull_or_push import FileRows, Reading, definitions
from sluice.flow.load.target_checks import inspect_target
from sluice.flow.load.work import LoadWork, rules_for, work_for
from sluice.flow.load.writer import Writer
from sluice.flow.rejected.rejections import Rejection, RejectionCause, fix_of, retryable
from sluice.safe_text import Say, visible
from sluice.slices import SliceRange, Unit
from sluice.state.ledger import LedgerQuestion, ask_ledger, follows, is_of_another
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState

Statuses = Mapping[Unit, UnitStatus]


@dataclass(frozen=True)
class Cure:
    """Whether a fix brings records of a cause in, and what a trial of it has said. `refused`: the units that
    a table would not load, each with the reason."""

    cured: bool
    said: str = ""
    refused: Mapping[Unit, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RetryCandidates:
    """`rejected_records` and `rejected_rows` may come in; `left` counts units that cannot, by why."""

    rejected_records: tuple[Rejection, ...] = ()
    rejected_rows: tuple[Rejection, ...] = ()
    left: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RetryPlan:
    """`unfinished` are completed by a fill first; records of `bring_in` are brought in, `reload` are loaded
    again by table."""

    unfinished: tuple[UnitStatus, ...] = ()
    bring_in: tuple[UnitStatus, ...] = ()
    reload: Mapping[str, tuple[UnitStatus, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.unfinished or self.bring_in or self.reload)

    @property
    def units(self) -> frozenset[Unit]:
        passes = (self.unfinished, self.bring_in, *self.reload.values())
        return frozenset(status.unit for statuses in passes for status in statuses)

    @property
    def lines(self) -> Iterator[str]:
        if self.unfinished:
            yield f"complete {_named(self.unfinished)}, which a run that was stopped has left half done"
        if self.bring_in:
            yield f"bring in rejected records of {_named(self.bring_in)}, and load them into all tables"
        for table, statuses in self.reload.items():
            yield f"load {_named(statuses)} again into {table}"


def refused_units(cures: Iterable[Cure]) -> dict[str, list[Unit]]:
    """Returns the units that stay because a table would not load them, by its reason."""
    reasons: dict[Unit, str] = {}
    for cure in cures:
        reasons = {**cure.refused, **reasons}  # of several the first: they name the same column
    units: dict[str, list[Unit]] = {}
    for unit, why in sorted(reasons.items()):
        units.setdefault(why, []).append(unit)
    return units


def candidates(
    pipeline: Pipeline, rejections: Iterable[Rejection], statuses: Statuses, rules: str
) -> RetryCandidates:
    """Returns what of the rejections a fix can bring in, as far as manifests and reasons say."""
    curable: dict[str, list[Rejection]] = {"record": [], "row": []}
    left: dict[str, set[Unit]] = {}
    for rejection in rejections:
        why = _stays(pipeline, rejection, statuses.get(rejection.unit), rules)
        if why is None:
            curable[rejection.cause.kind].append(rejection)
        else:
            left.setdefault(why, set()).add(rejection.unit)
    counts = {why: len(units) for why, units in left.items()}
    return RetryCandidates(tuple(curable["record"]), tuple(curable["row"]), counts)


def _stays(pipeline: Pipeline, rejection: Rejection, status: UnitStatus | None, rules: str) -> str | None:
    reason, unfit = rejection.cause.reason, rejection.cause.kind == "row"
    if not retryable(reason, unfit):
        return f"{reason}: no change of the file or of a table brings these records in out of the lake"
    if status is None or status.manifest is None:
        return f"its manifest is gone: `{pipeline.command('verify')}` names the repair"
    if unfit:
        on = status.forgotten_on
        return f"the lake forgot its files on {on}, as `keep` in the pipeline file says" if on else None
    if not rejection.held:
        return "the lake forgot the bytes of these records, as `keep` in the pipeline file says"
    if status.gone:
        return "its cluster is no longer in the pipeline file"
    if status.forgotten_on:
        return f"the lake forgot its files on {status.forgotten_on}, as `keep` in the pipeline file says"
    if pipeline.event.registry is None and status.manifest.rules == rules:
        return "landed by the rules that the file has now: they would be rejected again"
    return None


def retry_plan(
    candidates: RetryCandidates,
    cures: Mapping[RejectionCause, Cure],
    statuses: Statuses,
    stopped: Collection[Unit],
    sources: Mapping[str, str] = MappingProxyType({}),
) -> RetryPlan:
    """Returns what a retry does. `stopped` are units out of which a load that was stopped has taken rows;
    `sources` has by derived table what that is made of."""

    def cured(rejections: Sequence[Rejection]) -> Iterator[Rejection]:
        for rejection in rejections:
            cure = cures[rejection.cause]
            if cure.cured and rejection.unit not in cure.refused:
                yield rejection

    bring_in = {rejection.unit for rejection in cured(candidates.rejected_records)}
    reload: dict[str, set[Unit]] = {}
    for rejection in cured(candidates.rejected_rows):
        if rejection.unit not in bring_in:
            reload.setdefault(rejection.cause.table, set()).add(rejection.unit)
    unfinished = {s.unit for s in statuses.values() if _half_done(s, stopped, sources)} - bring_in
    return RetryPlan(
        _statuses(unfinished, statuses),
        _statuses(bring_in, statuses),
        {table: _statuses(units, statuses) for table, units in sorted(reload.items())},
    )


def _half_done(status: UnitStatus, stopped: Collection[Unit], sources: Mapping[str, str]) -> bool:
    """A unit that was made anew, and of which a table has rows of the manifest before, or none any more, or
    that was loaded again, and of which a derived table has rows of the load before. What the pipeline file
    routes, or makes of it, otherwise by now is not half done: that is a fill's."""
    manifest, tables = status.manifest, status.tables
    if manifest is None or not is_behind(status):
        return False
    pairs = ((tables.get(name), tables.get(source)) for name, source in sources.items())
    if any(row and source and not follows(row, source) for row, source in pairs):
        return True
    older = any(is_of_another(row, manifest.id) for row in status.tables.values())
    return status.unit in stopped or (manifest.remade is not None and older)


def is_behind(status: UnitStatus) -> bool:
    """Returns whether some table does not have of the unit what the pipeline file says."""
    return status.state in (UnitState.LANDED, UnitState.STALE)


def _statuses(units: Iterable[Unit], statuses: Statuses) -> tuple[UnitStatus, ...]:
    return tuple(statuses[unit] for unit in sorted(units))


def _named(statuses: Sequence[UnitStatus]) -> str:
    slices = sorted({status.unit.slice.id for status in statuses})
    span = slices[0] if len(slices) == 1 else f"{len(slices):,} slices, {slices[0]} … {slices[-1]}"
    rows = sum(status.manifest.read for status in statuses if status.manifest)
    return f"{span} ({rows:,} records)"


@dataclass(frozen=True)
class RetryResult:
    """Records of the retried units by cause, before and after.

    `came_in`: those that are rejected no more, counted one by one: records that the landing parses now, and
    rejected rows that the table takes. `newly_rejected`: rows that came in, and do not fit their table.
    """

    before: Mapping[RejectionCause, int]
    after: Mapping[RejectionCause, int]
    came_in: int = 0
    newly_rejected: int = 0

    @classmethod
    def of(cls, before: Iterable[Rejection], after: Iterable[Rejection], parsed: int = 0) -> RetryResult:
        """`parsed`: the records that came in by being parsed. Of rejected rows no row of a table can have
        become one, so that in each unit and table some only come, or only go."""
        rejected_before, rejected_after = list(before), list(after)
        fewer: Counter[tuple[Unit, str]] = Counter()
        for sign, rejections in ((1, rejected_before), (-1, rejected_after)):
            for rejection in rejections:
                if rejection.cause.kind == "row":
                    fewer[rejection.unit, rejection.cause.table] += sign * rejection.records
        fitting = sum(count for count in fewer.values() if count > 0)
        more = sum(-count for count in fewer.values() if count < 0)
        return cls(_summed(rejected_before), _summed(rejected_after), parsed + fitting, more)

    @property
    def causes(self) -> list[RejectionCause]:
        return sorted({*self.before, *self.after}, key=lambda cause: (-self.before.get(cause, 0), cause))

    @property
    def left(self) -> int:
        return sum(self.after.values())


def _summed(rejections: Iterable[Rejection]) -> dict[RejectionCause, int]:
    counts: Counter[RejectionCause] = Counter()
    for rejection in rejections:
        counts[rejection.cause] += rejection.records
    return dict(counts)


# Tries on some of the rejected records whether a fix brings them in; changes nothing.
#
# Rejected rows go through the very statements of a load, into tables of the trial's own. What would refuse
# the load is known before it: also of each table into which records go that the landing brings in.

MOST, SPREAD = 3, 5
"""Units of a reason that are tried: those with most of its records, and others evenly over the range."""
_EACH, _REJECTED_ROWS = 20, 1000  # rejected rows of a slice, and of a cause
_EVERY = listed(map(identifier, (*LAKE, "_slice")))
_NO_ROWS = Sql("1 = 0")


@dataclass
class RetryTrial:
    """Tries each cause until one unit or row of it would come in. `kind`: the type of event that is asked
    for, empty for all."""

    pipeline: Pipeline
    lake: Lake
    statuses: Statuses
    say: Say
    kind: str = ""
    _forecasts: dict[tuple[Unit, str], Tried] = field(default_factory=dict)

    def cures(
        self, candidates: RetryCandidates, servers: Servers, slices: SliceRange
    ) -> dict[RejectionCause, Cure]:
        """Raises what lake and ClickHouse raise."""
        cures = {
            cause: self._brought_in(cause, rejections)
            for cause, rejections in _by_cause(candidates.rejected_records).items()
        }
        units = {rejection.unit for rejection in candidates.rejected_records if cures[rejection.cause].cured}
        refused = self._refused(units, servers, slices)
        for cause, cure in cures.items():
            cures[cause] = replace(cure, refused=refused)
        for cause, rejections in _by_cause(candidates.rejected_rows).items():
            cures[cause] = self._reloaded(cause, rejections, servers, slices)
        return cures

    def _brought_in(self, cause: RejectionCause, rejections: Sequence[Rejection]) -> Cure:
        tried = tried_units([r for r in rejections if self._is_small(r.unit)])
        if not tried:
            return Cure(True, "not tried: its units have too many rejected records to try some of them first")
        report = ""
        for unit in tried:
            forecast = self._forecast(unit, cause.reason)
            report = f"tried {forecast}"
            if forecast.came_in:
                return Cure(True, report)
        units = len({rejection.unit for rejection in rejections})
        return Cure(
            False, f"nothing would come in, by a trial of {len(tried):,} of {units:,} units; {report}"
        )

    def _is_small(self, unit: Unit) -> bool:
        manifest = self.statuses[unit].manifest
        return manifest is not None and manifest.kept <= lake_read.TOGETHER

    def _forecast(self, unit: Unit, reason: str) -> Tried:
        manifest = self.statuses[unit].manifest
        if (unit, reason) not in self._forecasts and manifest is not None:
            self.say(f"trying the rejected records of {unit}")
            retry = UnitRetry(self.pipeline, self.lake, reason.__eq__)
            self._forecasts[unit, reason] = retry.forecast(unit, manifest)
        return self._forecasts[unit, reason]

    def _refused(self, units: Collection[Unit], servers: Servers, slices: SliceRange) -> dict[Unit, str]:
        """Returns the units that a table does not load as it is, with its reason."""
        refused: dict[Unit, str] = {}
        for target in self.pipeline.targets if units else ():
            if target.counted:
                refused |= self._underived(target.table, units, servers)
            if target.rollup is not None or target.counted:
                continue
            refused |= self._unplaced(target.table, units, servers)
            refused |= self._underived(target.table, units, servers)
            for stage, works in self._stages(target.table, units, servers, slices):
                try:
                    _fitting(stage, works, _RejectedRows(self.lake, None, _NO_ROWS))
                except TargetRefused as error:
                    refused |= dict.fromkeys((work.unit for work in works), str(error))
        return refused

    def _underived(self, table: str, units: Collection[Unit], servers: Servers) -> dict[Unit, str]:
        """Returns all of the units, with the reason, where one that is made of the table would not be loaded
        after it."""
        derived = (t for t in self.pipeline.targets if t.rollup is not None and t.rollup.source == table)
        for target, server in product(derived, servers):
            try:
                inspect_target(server.reached, self.pipeline, target, checks=False)
            except TargetRefused as error:
                return dict.fromkeys(units, str(error))
        return {}

    def _reloaded(
        self, cause: RejectionCause, rejections: Sequence[Rejection], servers: Servers, slices: SliceRange
    ) -> Cure:
        units = {rejection.unit for rejection in rejections}
        refused = self._unplaced(cause.table, units, servers)
        refused |= self._underived(cause.table, units, servers)
        rows = fit = 0
        for stage, works in self._stages(cause.table, units, servers, slices):
            tried = works[:: -(-len(works) // _REJECTED_ROWS)]
            rejected_rows = _RejectedRows(self.lake, None, self._wanted(cause, tried))
            try:
                fit += _fitting(stage, tried, rejected_rows)
            except TargetRefused as error:
                refused |= dict.fromkeys((work.unit for work in works), str(error))
            rows += rejected_rows.count
        if fit:
            return Cure(True, f"{fit:,} of {rows:,} rows that were tried would fit", refused)
        if refused and not rows:
            return Cure(False, "no row could be tried", refused)
        fix = fix_of(cause.reason, True, cause.column)
        return Cure(False, f"none of {rows:,} rows that were tried would fit: {fix}", refused)

    def _unplaced(self, table: str, units: Collection[Unit], servers: Servers) -> dict[Unit, str]:
        """Returns the units whose rows cannot stay on their shards, with the reason."""
        target = next(target for target in self.pipeline.targets if target.table == table)
        placements = own_placements(servers, self.pipeline, target, self.lake, units, "retry")
        try:
            placements.check(self.pipeline, target)
        except TargetRefused as error:
            return dict.fromkeys(placements.refused, str(error))
        return {}

    def _stages(
        self, table: str, units: Collection[Unit], servers: Servers, slices: SliceRange
    ) -> Iterator[tuple[Stage, list[LoadWork]]]:
        """Yields the units by the rules that a retry loads them by on each server. The trial's rows are all
        of the server that rejected them: where they belong after it is the load's to find out."""
        target = next(target for target in self.pipeline.targets if target.table == table)
        question = LedgerQuestion(self.pipeline, self.lake.url, [target], slices)
        for server in servers:
            stage = replace(stage_of(server, self.pipeline, target, self.lake), placement=ALONE, types=False)
            commits = ask_ledger(server.reached, [question])[0][table]
            works: dict[str, list[LoadWork]] = {}
            for unit in sorted(units):
                manifest, newest = (
                    self.statuses[unit].manifest,
                    commits.get(unit) or commits.revoked.get(unit),
                )
                if manifest is not None:
                    rules = rules_for(manifest, newest, "retry")
                    work = work_for(self.pipeline, target, unit, manifest, False)
                    works.setdefault(rules, []).append(replace(work, rules=rules))
            for group in works.values():
                yield stage, group

    def _wanted(self, cause: RejectionCause, works: Sequence[LoadWork]) -> Sql:
        starts = [int(work.unit.slice.start.timestamp()) for work in works]
        clusters = (literal(work.unit.cluster) for work in works)
        return render(
            "rejected/wanted_rejected_rows",
            target=literal(cause.table),
            pipeline=literal(self.pipeline.name),
            reason=literal(cause.reason),
            place=literal(cause.column),
            type=literal(self.kind),
            first=Sql(str(min(starts))),
            last=Sql(str(max(starts))),
            units=listed(f"({start}, {cluster})" for start, cluster in zip(starts, clusters, strict=True)),
        )


@dataclass(frozen=True)
class _RejectedRows(Reading):
    """Some of the rejected rows that are `wanted`, in place of the lake's files. `copied`: the table that
    they were copied into, and how many."""

    wanted: Sql
    copied: list[tuple[Sql, int]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(count for _, count in self.copied)

    def sources(
        self, pipeline: Pipeline, files: Sequence[FileRows], columns: Sequence[str], writer: Writer
    ) -> Iterator[Sql]:
        """Copies them once: a load may read its rows several times, and a few are other ones each time."""
        table = writer.attempt.temporary("sent")
        if not self.copied:
            kinds = definitions(tuple(LAKE), with_slice=True)
            writer.run("send", render("load/create_sent", sent=table, definitions=kinds))
            parts = {"each": Sql(str(_EACH)), "most": Sql(str(_REJECTED_ROWS)), "wanted": self.wanted}
            writer.run("send", render("rejected/copy_rejected_rows", copy=table, columns=_EVERY, **parts))
            [(count,)] = writer.rows(render("clickhouse/count_table", table=table))
            self.copied.append((table, int(count)))
        yield render("load/source_sent", sent=table, columns=listed(map(identifier, columns)))


def _fitting(stage: Stage, works: Sequence[LoadWork], rejected_rows: _RejectedRows) -> int:
    """Returns how many of the rejected rows a load would put into the table. Raises TargetRefused where it
    would put none there."""
    try:
        with stage.staged(
            [replace(w, files=(), landed=0) for w in works], rejected_rows, counted=False
        ) as staged:
            [(count,)] = stage.client.rows(render("clickhouse/count_table", table=staged.rows))
    finally:
        for copy, _ in rejected_rows.copied:
            stage.client.run(render("clickhouse/drop_table", table=copy))
    return int(count)


def tried_units(rejections: Sequence[Rejection], most: int = MOST, spread: int = SPREAD) -> list[Unit]:
    """Returns the units with most records that the lake holds, then some evenly over the others. Pure."""
    ranked = sorted(rejections, key=lambda rejection: (-rejection.held, rejection.unit))
    first = [rejection.unit for rejection in ranked[:most]]
    rest = sorted({rejection.unit for rejection in rejections} - set(first))
    step = max(len(rest) // spread, 1)
    return [*first, *rest[step // 2 :: step][:spread]]


def _by_cause(rejections: Iterable[Rejection]) -> dict[RejectionCause, list[Rejection]]:
    rejections_by_cause: dict[RejectionCause, list[Rejection]] = {}
    for rejection in rejections:
        rejections_by_cause.setdefault(rejection.cause, []).append(rejection)
    return rejections_by_cause


def cause_text(cause: RejectionCause) -> str:
    """Returns a cause as a line of a plan says it."""
    if cause.kind == "record":
        return visible(cause.reason)
    return f"{visible(cause.place)} {visible(cause.reason)}"
