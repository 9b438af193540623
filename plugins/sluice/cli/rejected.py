"""`sluice rejected`: what was rejected, why, and bringing it in after a fix."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pendulum
import typer

from sluice.cli.options import (
    Config,
    DayOption,
    Json,
    KnownFrom,
    OptionalTo,
    PipelineArgument,
    Wide,
    day_or,
    known_range,
    load_pipeline,
)
from sluice.cli.output import TableColumn, print_facts, print_json, print_line, progress, show, table_of
from sluice.cli.run import run_units
from sluice.config.files import find, sound_pipelines
from sluice.config.pipeline import Pipeline, Tables, chosen_tables, tables_for
from sluice.errors import Conservation, NotLoaded, SluiceError, TargetRefused, Unavailable, WrongUse
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
from sluice.safe_text import line, visible
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.row_balance import said_of_tombstones

if TYPE_CHECKING:
    from sluice.clients.clickhouse.client import Client
    from sluice.clients.clickhouse.shards import Servers
    from sluice.clients.lake.base import Lake
    from sluice.config.pipeline import Payloads
    from sluice.flow.rejected.rejections import RejectedGroup, RejectionCause, RejectionFilter
    from sluice.page.rejected_samples import RejectedSample
    from sluice.state.status import UnitStatus


# `sluice rejected --retry`: tries what a fix cures, says what it will do, asks, and does it.

_RETRY_COLUMNS = tuple(TableColumn(name, 0) for name in ("rejected for", "before", "left"))


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
    note_file(spec, path, spec.clusters)
    steps.check_targets(spec)
    progress(f"reading what was rejected in {slices}")
    with connect_shards(spec) as servers:
        planned = _planned(spec, lake, servers, slices, criteria)
        for text in planned.lines:
            (progress if json else print_line)(text)
        before = _rejections(spec, lake, servers, planned.plan)
    if not planned.plan:
        if json:
            print_json(_retry_as_json(planned.plan, RetryResult({}, {})))
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
        print_json(_retry_as_json(planned.plan, result))
    else:
        _print_retry(spec.name, result)
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
    from sluice.flow.rejected.rejections import TOMBSTONES, RejectionReader, revoked
    from sluice.flow.rejected.retry import RetryTrial
    from sluice.flow.steps import rules_now
    from sluice.state.row_balance import unknown_words, unlanded
    from sluice.state.survey import survey

    reader = RejectionReader(spec, lake, criteria, progress)
    statuses = {status.unit: status for status in survey(spec, slices)}
    found = (*reader.rejected_records(slices), *reader.rejected_rows(servers, slices))
    rejections = [rejection for rejection in found if rejection.cause != TOMBSTONES]
    retry_candidates = candidates(spec, rejections, statuses, rules_now(spec))
    cures = RetryTrial(spec, lake, statuses, progress, criteria.type).cures(retry_candidates, servers, slices)
    stopped = revoked(servers, spec, lake.url, slices)
    sources = {name: derived.source for name, derived in spec.derived.items()}
    plan = retry_plan(retry_candidates, cures, statuses, stopped, sources)
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


def _print_retry(name: str, result: RetryResult) -> None:
    from sluice.flow.rejected.retry import cause_text

    rows = [
        (cause_text(cause), result.before.get(cause, 0), result.after.get(cause, 0))
        for cause in result.causes
    ]
    show(table_of(f"{name}: rejected records of these slices", _RETRY_COLUMNS, rows))
    newly = {"newly rejected": result.newly_rejected} if result.newly_rejected else {}
    print_facts({"came in": result.came_in, **newly, "left": result.left})


def _retry_as_json(plan: RetryPlan, result: RetryResult) -> dict[str, Any]:
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


ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="R", help="Only reasons that contain R, such as `time`.")
]
ColumnOption = Annotated[
    str,
    typer.Option("--column", metavar="C", help="Only rejected rows of this column, or of what it contains."),
]
TypeOption = Annotated[
    str, typer.Option("--type", metavar="T", help="Only rejected rows of this event type.")
]
TableOption = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="T", help="Only rejected rows of this table, as in `run`. Repeatable."),
]
SampleOption = Annotated[
    int, typer.Option("--sample", metavar="N", min=0, max=20, help="Records shown of each reason.")
]
ShowValuesOption = Annotated[
    bool,
    typer.Option(
        "--show-values",
        help="Show the values in samples, whatever `payloads` says: for the owner of the pipeline file, and "
        "of those that share a topic or a table with it.",
    ),
]
RetryOption = Annotated[
    bool,
    typer.Option(
        "--retry",
        help="After a fix of the pipeline file or of a table: bring in what it cures, out of the lake. All "
        "rows that are there stay as they are.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="With --retry: do not ask before it begins.")]


def rejected(
    pipeline: PipelineArgument,
    start: KnownFrom = None,
    to: OptionalTo = "now",
    day: DayOption = None,
    reason: ReasonOption = "",
    column: ColumnOption = "",
    type_: TypeOption = "",
    table: TableOption = None,
    sample: SampleOption = 0,
    show_values: ShowValuesOption = False,
    retry: RetryOption = False,
    yes: YesOption = False,
    wide: Wide = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Shows what was rejected, by reason and column, each with its remedy: records that the landing could not
    parse, and rows of which a value did not fit its column.

    After the fix --retry brings in what it cures, without Kafka, and nothing else: rows that have landed are
    not read again, and none leaves a table. It tries some records first, prints what it will do and asks.
    Where nothing would come in, it does nothing. Whatever stops it, the same command goes on. With --column,
    --type or --table only rejected rows are meant.
    Exits with 1 where a retry would bring in nothing, and with 3 where a server does not answer.
    Example: sluice rejected adx --reason time --retry
    """
    from sluice.flow.rejected.rejections import RejectionFilter

    if yes and not retry:
        raise WrongUse("--yes is for --retry: without it nothing is changed")
    spec = load_pipeline(pipeline, config)
    start, to = day_or(spec, start, to, day)
    slices = known_range(spec, start, to)
    criteria = RejectionFilter(reason, column, type_, _tables(spec, table))
    if retry:
        return retry_rejected(spec, find(pipeline, config), slices, criteria, yes=yes, json=json)
    if show_values:
        refuse_stranger(spec, sound_pipelines())
    report = _read(spec, slices, criteria, sample or (3 if show_values else 0), show_values)
    show_report(report, retry_command(spec, slices), wide=wide, json=json)


def _tables(spec: Pipeline, names: list[str] | None) -> frozenset[str] | None:
    """Returns the tables that are named, with what goes with them; None without a name."""
    chosen = spec.chosen(tables_for(spec, names, "reload")) if names else None
    return None if chosen is None else frozenset(target.table for target in chosen)


def refuse_stranger(spec: Pipeline, others: Iterable[Pipeline]) -> None:
    """Raises WrongUse for who does not own the pipeline file, or one that says who sees the same payloads."""
    from sluice.page.rejected_samples import sharing

    for one in (spec, *sharing(spec, others)):
        if one.file is None or os.stat(one.file).st_uid != os.geteuid():
            raise WrongUse(
                f"--show-values is for the owner of the pipeline file of {one.name}: ask that user, or let "
                "`page: {payloads: shown}` show them to all who may read the DAG"
            )


def _read(
    spec: Pipeline, slices: SliceRange, criteria: RejectionFilter, sample: int, show_values: bool = False
) -> RejectedReport:
    from sluice.clients.clickhouse.shards import connect_shards
    from sluice.clients.lake.open import open_lake
    from sluice.flow.rejected.alter import read_alters
    from sluice.flow.rejected.rejections import RejectionReader, RejectionTally
    from sluice.page.rejected_samples import shared_payloads
    from sluice.state.row_balance import unknown_words

    lake, tally, rejected_rows = open_lake(spec), RejectionTally(), RejectionTally()
    reader = RejectionReader(spec, lake, criteria, progress)
    tally.add(reader.rejected_records(slices))
    unknown = unknown_words(spec, *reader.unlanded(slices))
    payloads: Payloads = (
        "shown" if show_values else shared_payloads(spec, sound_pipelines() if sample else ())
    )
    samples = _rejected_records_samples(lake, tally.sorted[:MOST_GROUPS], sample, payloads)
    try:
        with connect_shards(spec) if spec.targets else nullcontext(()) as servers:
            rejected_rows.add(reader.rejected_rows(servers, slices))
            shown = rejected_rows.sorted[:MOST_GROUPS] if sample else []
            for server in servers if shown else ():
                samples += _rejected_row_samples(spec, server.reached, shown, sample, payloads)
            causes = [group.cause for group in rejected_rows.sorted[:MOST_GROUPS]]
            alters = read_alters(servers, spec, causes, slices)
    except Unavailable as error:
        return RejectedReport(spec.name, slices, tally.sorted, samples, unknown, error, tally.tombstones)
    groups = sorted((*tally.sorted, *rejected_rows.sorted), key=lambda group: (-group.records, group.cause))
    tombstones = tally.tombstones
    return RejectedReport(spec.name, slices, groups, samples, unknown, tombstones=tombstones, alters=alters)


def _rejected_records_samples(
    lake: Lake, groups: Sequence[RejectedGroup], sample: int, payloads: Payloads
) -> list[RejectedSample]:
    """Returns samples of each reason out of the last slice that holds some, as the page shows them."""
    from sluice.page import rejected_samples
    from sluice.state.manifests import read_manifests, units_in

    reasons_by_slice: dict[Slice, set[str]] = {}
    for group in groups if sample else ():
        if group.last_held is not None:
            reasons_by_slice.setdefault(group.last_held, set()).add(group.cause.reason)
    samples: list[RejectedSample] = []
    for slice_, reasons in reasons_by_slice.items():
        manifests = read_manifests(lake, units_in(lake, [slice_])).values()
        most = sample * len(reasons)
        samples += rejected_samples.rejected_records(lake, manifests, payloads, sample, reasons, most)
    return samples


def _rejected_row_samples(
    spec: Pipeline, client: Client, groups: Sequence[RejectedGroup], sample: int, payloads: Payloads
) -> list[RejectedSample]:
    from sluice.page.rejected_samples import rejected_rows_of

    tables, slices = {group.cause.table for group in groups}, {group.last for group in groups}
    most = sample * len(groups)
    return rejected_rows_of(client, spec, tables, slices, sample, payloads, most)


# What `sluice rejected` prints: a table of reasons, and for each its remedy, a command and samples.
MOST_GROUPS = 100
_COLUMNS = (
    TableColumn("where", 0),
    TableColumn("column", 3),
    TableColumn("reason", 0),
    TableColumn("records", 0),
    TableColumn("slices", 2),
    TableColumn("since", 1),
    TableColumn("last", 4),
)


@dataclass(frozen=True)
class RejectedReport:
    """What was rejected of a pipeline. `unknown` says of which slices it is; `error`: ClickHouse did not
    answer, and rejected rows are unknown. `alters` has the statement of each cause that one cures."""

    name: str
    slices: SliceRange
    groups: Sequence[RejectedGroup]
    samples: Sequence[RejectedSample]
    unknown: str = ""
    error: Unavailable | None = None
    tombstones: int = 0
    alters: Mapping[RejectionCause, str] = field(default_factory=dict)

    def samples_of(self, group: RejectedGroup) -> list[RejectedSample]:
        from sluice.page.rejected_samples import plain

        cause = group.cause
        key = (cause.kind, cause.place, cause.reason)
        return [sample for sample in self.samples if (sample.kind, plain(sample.place), sample.reason) == key]


def show_report(report: RejectedReport, command: str, *, wide: bool, json: bool) -> None:
    """Prints it. `command` is the reading one without filters. Raises what kept rejected rows from being
    read."""
    if json:
        print_json([_as_json(group, report) for group in report.groups])
        for text in filter(None, (report.unknown, _tombstones(report))):
            progress(text)
    else:
        _print(report, command, wide=wide)
    if report.error is not None:
        raise report.error


def _print(report: RejectedReport, command: str, *, wide: bool) -> None:
    shown = report.groups[:MOST_GROUPS]
    for text in filter(None, (report.unknown, _tombstones(report))):
        print_line(text)
    if not report.groups:
        if report.error is not None:
            return
        landed = " of what has landed" if report.unknown else ""
        print_line(f"{report.name} {report.slices}: nothing was rejected{landed}")
        return
    show(table_of(f"{report.name} {report.slices}", _COLUMNS, map(_row, shown)), wide=wide)
    if len(report.groups) > len(shown):
        print_line(f"{len(report.groups) - len(shown):,} kinds more, with fewer records: --json has them")
    for group in shown:
        for text in _lines(group, report.samples_of(group), command, report.alters.get(group.cause, "")):
            print_line(text)
    records = sum(group.records for group in report.groups)
    kinds = "1 kind" if len(report.groups) == 1 else f"{len(report.groups):,} kinds"
    cured = f"; an ALTER TABLE above cures {len(report.alters):,} of them" if report.alters else ""
    print_line(f"{records:,} rejected records and rows of {kinds}{cured}")


def _tombstones(report: RejectedReport) -> str:
    return said_of_tombstones(report.tombstones) if report.tombstones else ""


def _row(group: RejectedGroup) -> tuple[object, ...]:
    cause = group.cause
    where = "parse" if cause.kind == "record" else cause.table
    return where, cause.column, cause.reason, group.records, group.slices, group.first.id, group.last.id


def _lines(
    group: RejectedGroup, samples: Sequence[RejectedSample], command: str, alter: str = ""
) -> Iterator[str]:
    """Yields the remedy of a group, the statement that is it where there is one, the command that brings its
    records in then, and its samples."""
    from sluice.flow.rejected.rejections import fix_of, retryable
    from sluice.flow.rejected.retry import cause_text

    cause, unfit = group.cause, group.cause.kind == "row"
    yield f"{cause_text(cause)}: {fix_of(cause.reason, unfit, cause.column)}"
    if alter:
        yield f"ready: {alter}"
    if group.forgotten:
        yield (
            f"the lake has forgotten the bytes of {group.forgotten:,} of these records: `reland` brings "
            "their slices, as long as Kafka has them"
        )
    if retryable(cause.reason, unfit) and group.forgotten < group.records:
        named = {"table": cause.table, "column": cause.column, "reason": cause.reason}
        asked = " ".join(f"--{option} {shlex.quote(text)}" for option, text in named.items() if text)
        yield f"then: {command} {asked} --retry"
    for sample in samples:
        place = f"{sample.cluster}/{sample.topic}/{sample.partition}/{sample.offset}"
        shown = f"{visible(sample.value, 200)} in {sample.payload}" if sample.value else sample.payload
        yield f"sample {visible(place)}{f': {line(shown, 400)}' if shown else ''}"


def retry_command(pipeline: Pipeline, slices: SliceRange) -> str:
    return pipeline.command("rejected", *slices.words)


def _as_json(group: RejectedGroup, report: RejectedReport) -> dict[str, Any]:
    from sluice.flow.rejected.rejections import fix_of

    cause = group.cause
    return {
        "where": "parse" if cause.kind == "record" else "table",
        "table": cause.table,
        "column": cause.column,
        "reason": cause.reason,
        "records": group.records,
        "forgotten": group.forgotten,
        "slices": group.slices,
        "since": group.first.id,
        "last": group.last.id,
        "remedy": fix_of(cause.reason, cause.kind == "row", cause.column),
        "alter": report.alters.get(cause, ""),
        "samples": [sample.model_dump() for sample in report.samples_of(group)],
    }
