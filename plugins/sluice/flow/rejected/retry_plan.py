"""Of which units a retry brings rejected records in, and which it loads again into which table. Pure.

| rejections of a unit | a retry |
| --- | --- |
| rejected, read by the rules of the file as it is now | leaves it: they would be rejected again |
| rejected, and the lake has forgotten the bytes of all of them | leaves it |
| rejected, of a reason of which the trial brings some in | brings in what it can, and all tables load it |
| rejected rows of a cause that the trial cures, and nothing to bring in | loads it again into that table |
| a load or a retry that was stopped has left it half done | completes it first |

What else is not complete before a retry is not its business: it neither completes it nor fails by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.config.pipeline import Pipeline
from sluice.flow.rejected.rejections import Rejection, RejectionCause
from sluice.flow.rejected.remedies import retryable
from sluice.slices import Unit
from sluice.state.ledger import is_of_another
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
) -> RetryPlan:
    """Returns what a retry does. `stopped` are units out of which a load that was stopped has taken rows."""

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
    unfinished = {s.unit for s in statuses.values() if _half_done(s, stopped)} - bring_in
    return RetryPlan(
        _statuses(unfinished, statuses),
        _statuses(bring_in, statuses),
        {table: _statuses(units, statuses) for table, units in sorted(reload.items())},
    )


def _half_done(status: UnitStatus, stopped: Collection[Unit]) -> bool:
    """A unit that was made anew, and of which a table has rows of the manifest before, or none any more. What
    the pipeline file routes, or makes of it, otherwise by now is not half done: that is a fill's."""
    manifest = status.manifest
    if manifest is None or not is_behind(status):
        return False
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
