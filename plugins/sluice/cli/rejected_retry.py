"""`sluice rejected --retry`: tries what a fix cures, says what it will do, asks, and does it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pendulum
import typer

from sluice.cli.output import TableColumn, print_facts, print_json, print_line, progress, show, table_of
from sluice.cli.run import run_units
from sluice.config.pipeline import Pipeline, Tables, chosen_tables
from sluice.errors import Conservation, NotLoaded, SluiceError, TargetRefused, WrongUse
from sluice.flow.rejected.rejections import Rejection, RejectionFilter
from sluice.flow.rejected.retry import (
    Cure,
    RetryCandidates,
    RetryPlan,
    RetryResult,
    candidates,
    is_behind,
    refused_units,
    retry_plan,
)
from sluice.slices import Slice, SliceRange, Unit

if TYPE_CHECKING:
    from sluice.clients.clickhouse.shards import Servers
    from sluice.clients.lake.base import Lake
    from sluice.flow.rejected.rejections import RejectionCause
    from sluice.state.status import UnitStatus

_COLUMNS = tuple(TableColumn(name, 0) for name in ("rejected for", "before", "left"))


def retry_rejected(
    spec: Pipeline, path: Path, slices: SliceRange, criteria: RejectionFilter, *, yes: bool, json: bool
) -> None:
    """Raises what the steps raise, and Exit with 1 where nothing would come in or the answer is no."""
    from sluice.clients.clickhouse.shards import connect_shards
    from sluice.clients.lake.open import open_lake
    from sluice.flow import steps
    from sluice.flow.steps import note_file

    if not yes and not sys.stdin.isatty():
        raise WrongUse("--retry asks before it begins, and there is no terminal to ask on: add --yes")
    lake = open_lake(spec)
    note_file(spec, path)
    steps.check_targets(spec)
    progress(f"reading what was rejected in {slices}")
    with connect_shards(spec) as servers:
        planned = _planned(spec, lake, servers, slices, criteria)
        for text in planned.lines:
            (progress if json else print_line)(text)
        before = _rejections(spec, lake, servers, planned.plan)
    if not planned.plan:
        if json:
            print_json(_as_json(planned.plan, RetryResult({}, {})))
        raise typer.Exit(1 if planned.matching else 0)
    if not yes and not typer.confirm("Begin?", err=True):
        raise typer.Exit(1)
    parsed, errors = _do(spec, lake, planned.plan, criteria)
    follows, wrong = _judged(spec, errors, planned.behind)
    if follows:
        (progress if json else print_line)(follows)
    with connect_shards(spec) as servers:
        result = RetryResult.of(before, _rejections(spec, lake, servers, planned.plan), parsed)
    if json:
        print_json(_as_json(planned.plan, result))
    else:
        _print(spec.name, result)
    if wrong:
        raise min(wrong, key=lambda error: error.retryable)


@dataclass(frozen=True)
class _Planned:
    """Holds the plan of a retry, the number of records that match, and the outcome of each trial. `behind`:
    the units that are not complete before it."""

    plan: RetryPlan
    matching: int
    candidates: RetryCandidates
    cures: Mapping[RejectionCause, Cure]
    unknown: str
    behind: tuple[Unit, ...]

    @property
    def lines(self) -> Iterator[str]:
        from sluice.flow.rejected.retry import cause_text

        if self.unknown:
            yield self.unknown
        if not self.matching and not self.plan:
            yield "no rejected record matches"
        for why, units in self.candidates.left.items():
            yield _staying(units, why)
        for cause, cure in self.cures.items():
            yield f"{cause_text(cause)}: {cure.said}"
        for why, refused in refused_units(self.cures.values()).items():
            yield _staying(len(refused), why)
        yield from self.plan.lines
        if self.matching and not self.plan:
            yield "nothing would come in: nothing is done"


def _staying(units: int, why: str) -> str:
    return f"{units:,} {'slice stays as it is' if units == 1 else 'slices stay as they are'}: {why}"


def _planned(
    spec: Pipeline, lake: Lake, servers: Servers, slices: SliceRange, criteria: RejectionFilter
) -> _Planned:
    from sluice.flow.rejected.rejections import RejectionReader, revoked
    from sluice.flow.rejected.retry import RetryTrial
    from sluice.flow.steps import rules_now
    from sluice.state.row_balance import unknown_words, unlanded
    from sluice.state.survey import survey

    reader = RejectionReader(spec, lake, criteria, progress)
    statuses = {status.unit: status for status in survey(spec, slices)}
    rejections = [*reader.rejected_records(slices), *reader.rejected_rows(servers, slices)]
    retry_candidates = candidates(spec, rejections, statuses, rules_now(spec))
    cures = RetryTrial(spec, lake, statuses, progress, criteria.type).cures(retry_candidates, servers, slices)
    stopped = revoked(servers, spec, lake.url, slices)
    plan = retry_plan(retry_candidates, cures, statuses, stopped)
    unknown = unknown_words(spec, statuses, unlanded(statuses.values()))
    matching = sum(rejection.records for rejection in rejections)
    behind = tuple(unit for unit, status in statuses.items() if is_behind(status))
    return _Planned(plan, matching, retry_candidates, cures, unknown, behind)


def _rejections(spec: Pipeline, lake: Lake, servers: Servers, plan: RetryPlan) -> list[Rejection]:
    """Returns all that is rejected of the plan's units, for whatever reason."""
    from sluice.flow.rejected.rejections import RejectionReader

    if not plan:
        return []
    slices = sorted({unit.slice for unit in plan.units})
    span = SliceRange(slices[0].start, slices[-1].end, slices[0].length)
    reader = RejectionReader(spec, lake, RejectionFilter(), progress)
    rejections = (*reader.rejected_records(span), *reader.rejected_rows(servers, span))
    return [rejection for rejection in rejections if rejection.unit in plan.units]


def _do(
    spec: Pipeline, lake: Lake, plan: RetryPlan, criteria: RejectionFilter
) -> tuple[int, list[SluiceError]]:
    """Returns how many records came in by being parsed, and what verify found wrong of slices that were done,
    or not complete, or which rows a load would have taken out of a table: the others do not wait for it."""
    wrong: list[SluiceError] = []

    def load(statuses: Sequence[UnitStatus], mode: str, tables: Tables | None = None) -> None:
        try:
            if statuses:
                wrong.extend(run_units(spec, statuses, mode, tables))
        except (Conservation, TargetRefused) as error:
            wrong.append(error)

    load(plan.unfinished, "amend")
    parsed = _bring_in(spec, lake, plan.bring_in, criteria)
    load(plan.bring_in, "retry")
    for table, statuses in plan.reload.items():
        load(statuses, "retry", chosen_tables(spec, [table]))
    return parsed, wrong


def _judged(
    spec: Pipeline, errors: Sequence[SluiceError], behind: Collection[Unit]
) -> tuple[str, list[SluiceError]]:
    """Returns what a fill still has to do, in a line, and the errors that are the retry's: units that were
    `behind` before it, and are so still, are not."""
    before = {(unit.slice.id, unit.cluster): unit.slice for unit in behind}
    wrong: list[SluiceError] = []
    left: set[Slice] = set()
    for error in errors:
        if isinstance(error, NotLoaded) and error.units <= before.keys():
            left |= {before[unit] for unit in error.units}
        else:
            wrong.append(error)
    if not left:
        return "", wrong
    span = SliceRange(min(left).start, max(left).end, spec.slice)
    fill = spec.command("run", *span.words, "--mode", "fill")
    slices = f"{len(left):,} {'slice was' if len(left) == 1 else 'slices were'}"
    return f"{slices} not complete before, and a fill still has to follow the pipeline file: `{fill}`", wrong


def _bring_in(spec: Pipeline, lake: Lake, statuses: Sequence[UnitStatus], criteria: RejectionFilter) -> int:
    from sluice.flow.land.amend.retry_unit import UnitRetry
    from sluice.state.file_moves import finish_moves

    came_in, now = 0, pendulum.now("UTC")
    for number, status in enumerate(statuses, start=1):
        progress(f"bringing in rejected records of {status.unit}, {number:,} of {len(statuses):,}")
        for unit, manifest in finish_moves(lake, [status.unit]).items():
            came_in += UnitRetry(spec, lake, criteria.takes).retry(unit, manifest, now).came_in
    return came_in


def _print(name: str, result: RetryResult) -> None:
    from sluice.flow.rejected.retry import cause_text

    rows = [
        (cause_text(cause), result.before.get(cause, 0), result.after.get(cause, 0))
        for cause in result.causes
    ]
    show(table_of(f"{name}: rejected records of these slices", _COLUMNS, rows))
    newly = {"newly rejected": result.newly_rejected} if result.newly_rejected else {}
    print_facts({"came in": result.came_in, **newly, "left": result.left})


def _as_json(plan: RetryPlan, result: RetryResult) -> dict[str, Any]:
    return {
        "brought_in": [str(status.unit) for status in plan.bring_in],
        "reloaded": {table: [str(s.unit) for s in statuses] for table, statuses in plan.reload.items()},
        "completed": [str(status.unit) for status in plan.unfinished],
        "came_in": result.came_in,
        "newly_rejected": result.newly_rejected,
        "left": result.left,
        "causes": [
            {**asdict(cause), "before": result.before.get(cause, 0), "left": result.after.get(cause, 0)}
            for cause in result.causes
        ],
    }
