"""`sluice status`: a table of hours, once or live."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import pendulum
import typer
from rich.console import Group, RenderableType
from rich.live import Live

from sluice.cli import is_unread, status_lines
from sluice.cli.options import (
    NEWEST,
    Config,
    DayOption,
    Json,
    NewestFrom,
    OptionalTo,
    PipelineArgument,
    Wide,
    day_or,
    known_range,
    load_pipeline,
)
from sluice.cli.output import TableColumn, console, print_json, print_line, progress, show, table_of, text_of
from sluice.cli.status_lines import A_SCREEN, MOST_HOURS
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import WrongUse
from sluice.flow.verify.facts import targets_of
from sluice.flow.verify.notes import landed_without
from sluice.manifest import TOMBSTONE, Manifest
from sluice.plan.backlog import Backlog
from sluice.plan.plan import missing_lines
from sluice.plan.plan import waiting as waiting_of
from sluice.slices import floor
from sluice.state.departed_tables import GoneTable, without_tables
from sluice.state.field_changes import UnitChange
from sluice.state.ledger import LedgerRow
from sluice.state.row_balance import (
    balance_of,
    rejected_by_reason,
    rejected_words,
    said,
    tombstone_words,
    unknown_words,
    unlanded,
    without_table,
)
from sluice.state.status import UnitStatus, complete_slices

if TYPE_CHECKING:
    from sluice.plan.lag import Lag, PartitionLag, TopicsNow
    from sluice.state.boundaries.model import Boundaries
    from sluice.state.departed_tables import DepartedTable


# How far a pipeline is behind, as `sluice status` and `sluice run` say it: always of its newest hours.

_COLUMNS = (
    TableColumn("partition", 0),
    TableColumn("landed until", 3),
    TableColumn("log end", 4),
    TableColumn("records waiting", 0),
    TableColumn("behind open transaction", 2),
    TableColumn("hours lack the topic", 2),
    TableColumn("outside", 2),
    TableColumn("seconds", 1),
    TableColumn("records/s", 5),
)


@dataclass(frozen=True)
class Behind:
    """How far a pipeline is behind: its newest hours, what is not complete of older ones, with `--lag` what
    Kafka holds that has not landed, of tables that are gone what to do, what lies outside of every slice, and
    a line for each topic that was recreated."""

    newest: list[UnitStatus]
    older: Backlog
    waiting: Lag | None = None
    gone: tuple[GoneTable, ...] = ()
    outside: str = ""
    recreated: tuple[str, ...] = ()

    @property
    def seconds(self) -> int | None:
        """Seconds since the end of the last complete slice; None when none is complete."""
        done = complete_slices(self.newest)
        return int((pendulum.now("UTC") - done[-1].end).total_seconds()) if done else None


def read_behind(spec: Pipeline, statuses: list[UnitStatus], with_lag: bool = False) -> Behind:
    """Reads how far the pipeline is behind. `statuses` are those of some of its hours."""
    from sluice.clients.lake.open import open_lake
    from sluice.plan.lag import recreated
    from sluice.state.boundaries.log import BoundaryLog
    from sluice.state.boundaries.outside import outside_at_most
    from sluice.state.departed_tables import gone_tables

    newest, older = _newest(spec, statuses), _older(spec)
    boundaries = BoundaryLog(open_lake(spec)).read()
    waiting, topics = _waiting(spec, newest, older, boundaries) if with_lag else (None, {})
    anew = tuple(map(str, recreated(spec, boundaries, topics, pendulum.now("UTC"))))
    words = _outside(spec, boundaries, topics) if with_lag else outside_at_most(spec, boundaries)
    gone = gone_tables(spec) if any(s.manifest for s in (*statuses, *newest)) else ()
    return Behind(without_tables(newest, gone), older, waiting, gone, words, anew)


def lag_lines(behind: Behind) -> Iterator[RenderableType]:
    if behind.waiting is not None:
        yield from _partitions(behind.waiting, behind.newest)
    for line in behind.recreated:
        yield text_of(line, style="bold red")
    for table in behind.gone:
        yield text_of(str(table), style="bold red")
    if behind.outside:
        yield text_of(behind.outside, style="yellow")
    seconds = behind.seconds
    yield text_of("lag: none of the newest slices is complete" if seconds is None else f"lag: {seconds:,} s")
    if behind.older:
        yield text_of(f"older: {behind.older}; the hourly runs go back to them", style="bold red")


def lag_as_json(behind: Behind) -> dict[str, Any]:
    """`older` are the units that are not complete, by state."""
    older: dict[str, list[str]] = {}
    for unit, state in behind.older.states.items():
        older.setdefault(str(state), []).append(str(unit))
    waiting = {} if behind.waiting is None else {"waiting": asdict(behind.waiting)}
    gone = {"missing_tables": {one.table: one.remedy for one in behind.gone}} if behind.gone else {}
    outside = {"outside": behind.outside} if behind.outside else {}
    anew = {"recreated": list(behind.recreated)} if behind.recreated else {}
    return {"lag_seconds": behind.seconds, "older": older, **waiting, **gone, **outside, **anew}


def _newest(spec: Pipeline, statuses: list[UnitStatus]) -> list[UnitStatus]:
    """Returns `statuses`, or where they end before the newest hours a survey of these: a range of old hours
    says nothing of how far the pipeline is behind."""
    from sluice.state.survey import survey

    slices = known_range(spec, None, "now", newest=NEWEST)
    last = min(slices.end, floor(pendulum.now("UTC"), spec.slice))
    return statuses if statuses and statuses[-1].unit.slice.end >= last else survey(spec, slices)


def _waiting(
    spec: Pipeline, newest: list[UnitStatus], older: Backlog, boundaries: Boundaries
) -> tuple[Lag, TopicsNow]:
    from sluice.clients.lake.open import open_lake
    from sluice.flow.choose_backlog import seen_backlog
    from sluice.plan.lag import ask_topics, lag_of, older_unread

    topics, errors = ask_topics(spec, boundaries)
    now, lake = pendulum.now("UTC"), open_lake(spec)
    until = newest[0].unit.slice.start if newest else floor(now, spec.slice)
    open_units = older if until <= now - spec.lookback else seen_backlog(spec, lake, until)
    unread = older_unread(spec, lake, until, boundaries, open_units)
    return lag_of(newest, topics, errors, now, boundaries, unread), topics


def _outside(spec: Pipeline, boundaries: Boundaries, topics: TopicsNow) -> str:
    """Returns what Kafka holds now before the first boundaries, of the clusters that answer."""
    from sluice.state.boundaries.outside import outside, outside_words

    return outside_words(
        part
        for (cluster, topic), now in topics.items()
        if boundaries.uuid(cluster, topic) == now.state.uuid
        for part in outside(boundaries, cluster, topic, now.state.log_starts)
    )


def _older(spec: Pipeline) -> Backlog:
    """Returns what is not complete of the hours before the range of the hourly runs."""
    from sluice.clients.lake.open import open_lake
    from sluice.flow.choose_backlog import seen_backlog

    until = floor(pendulum.now("UTC"), spec.slice) - spec.lookback
    return seen_backlog(spec, open_lake(spec), until)


def _partitions(waiting: Lag, newest: Iterable[UnitStatus]) -> Iterator[RenderableType]:
    """Yields what has not landed, by partition."""
    yield table_of("not landed yet", _COLUMNS, [_partition(p) for p in waiting.partitions])
    yield from (text_of(error, style="bold red") for error in waiting.errors)
    held, lacking = (sum(getattr(p, kind) for p in waiting.partitions) for kind in ("held", "lacking"))
    behind = f", {held:,} of them behind open transactions" if held else ""
    passed = (
        f", {lacking:,} of them in hours that landed without the topic: reland brings them" if lacking else ""
    )
    yield text_of(f"{sum(p.records for p in waiting.partitions):,} records wait in Kafka{behind}{passed}")
    waits = {f"{p.cluster}/{p.topic}" for p in waiting.partitions if p.records}
    for topic in landed_without(newest):
        if topic.offsets is None and topic.name in waits:
            yield text_of(f"{topic.name}: unknown how many of them are in hours that landed without it")


def _partition(p: PartitionLag) -> tuple[object, ...]:
    name = f"{p.cluster}/{p.topic}/{p.partition}"
    counts = p.records, p.held, p.lacking, p.outside
    return name, _known(p.landed_until), p.log_end, *counts, _known(p.seconds), p.rate


def _known(value: int | None) -> object:
    return "-" if value is None else value


_MOST_TYPES = 8
_MOST_LEFT = 10
_OTHER_LINES, _FEWEST = 14, 6  # of a terminal: all but the hours, and the hours that are shown anyway
WatchOption = Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")]
Every = Annotated[
    float, typer.Option("--every", min=1, max=86_400, help="Seconds between two refreshes with --watch.")
]
Changes = Annotated[
    bool,
    typer.Option(
        "--changes", help="Instead: fields of events that are new, have vanished, or have another kind."
    ),
]
WithLag = Annotated[bool, typer.Option("--lag", help="Ask Kafka, too: records that have not landed.")]


def status(
    pipeline: PipelineArgument,
    start: NewestFrom = None,
    to: OptionalTo = "now",
    day: DayOption = None,
    watch: WatchOption = False,
    every: Every = 5,
    with_lag: WithLag = False,
    changes: Changes = False,
    wide: Wide = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """A table of hours: landed, loaded, rows, rejected, lag. Without a range: the newest hours known. Of more
    than 500 hours a table of days, of more than 500 days one of months.

    Example: sluice status adx --from 2026-11-20T00:00Z --to now
    """
    spec = load_pipeline(pipeline, config)
    start, to = day_or(spec, start, to, day)
    if json and watch:
        raise WrongUse("--json answers once: leave --watch out, and ask again")
    if changes and (watch or with_lag):
        raise WrongUse("--changes answers once, and from the lake alone: leave --watch and --lag out")
    if changes:
        return show_changes(spec, start, to, json)
    if watch:
        return _watch(spec, start, to, every, with_lag, wide)
    statuses, title = _survey(spec, start, to)
    behind, departed = read_behind(spec, statuses, with_lag), _departed(spec)
    if json:
        print_json(_answer(spec, statuses, behind, departed))
    else:
        show(*shown(spec, statuses, title, behind, departed), wide=wide)


def _watch(
    spec: Pipeline, start: str | None, to: str, every: float, with_lag: bool, wide: bool = False
) -> None:
    """Redraws the newest hours that fit the terminal; without a terminal, prints one after the other."""
    screen = console(wide)
    with Live(console=screen, auto_refresh=False) if screen.is_terminal else nullcontext() as live:
        while True:
            statuses, title = _survey(spec, start, to, max(screen.height - _OTHER_LINES, _FEWEST))
            behind = read_behind(spec, statuses, with_lag)
            footer = f"seen at {pendulum.now('UTC'):%H:%M:%SZ}, again in {every:g} s; Ctrl-C ends it"
            view = Group(*shown(spec, statuses, title, behind), text_of(footer, style="dim"))
            screen.print(view, crop=False) if live is None else live.update(view, refresh=True)
            if is_unread():
                return
            time.sleep(every)


def _survey(spec: Pipeline, start: str | None, to: str, newest: int = NEWEST) -> tuple[list[UnitStatus], str]:
    from sluice.state.survey import survey

    slices = known_range(spec, start, to, newest=newest)
    return marked(spec, survey(spec, slices)), f"{spec.name} {slices}"


def marked(spec: Pipeline, statuses: Iterable[UnitStatus]) -> list[UnitStatus]:
    """Returns the units with what verify has found wrong with them, and with their rejected records."""
    from sluice.clients.lake.open import open_lake
    from sluice.flow.verify.causes import broken_units
    from sluice.flow.verify.check_rejected import mostly_rejected
    from sluice.flow.verify.verdict import read_verdict

    verdict = read_verdict(open_lake(spec))
    rejected, broken = mostly_rejected(verdict), broken_units(verdict.anomalies)
    named = ((status, (status.unit.slice.id, status.unit.cluster)) for status in statuses)
    return [replace(s, mostly_rejected=unit in rejected, broken=broken(*unit)) for s, unit in named]


def show_run(spec: Pipeline, statuses: list[UnitStatus], title: str, wide: bool, verbose: bool) -> None:
    """Prints what a run has done on a screen: its hours if they are few or `verbose`, else days or months and
    the hours that are not done; then rows per table and how far the pipeline is behind."""
    most = MOST_HOURS if verbose else A_SCREEN
    show(*shown(spec, statuses, title, read_behind(spec, statuses), most=most), wide=wide)
    left = [status for status in statuses if not status.state.done] if len(statuses) > most else []
    for status in left[:_MOST_LEFT]:
        print_line(f"{status.unit} is {status.seen}")
    if len(left) > _MOST_LEFT:
        print_line(f"and {len(left) - _MOST_LEFT:,} more: {_of_hours(statuses)} has all")


def _of_hours(statuses: list[UnitStatus]) -> str:
    """Returns the option of `sluice run` that shows each hour."""
    return "--verbose" if len(statuses) <= MOST_HOURS else "--json"


def _departed(spec: Pipeline) -> tuple[DepartedTable, ...]:
    from sluice.clients.lake.open import open_lake
    from sluice.state.departed_tables import read_departed

    return read_departed(spec, open_lake(spec).url)


def shown(
    spec: Pipeline,
    statuses: list[UnitStatus],
    title: str,
    behind: Behind,
    departed: Iterable[DepartedTable] = (),
    most: int = MOST_HOURS,
) -> Iterator[RenderableType]:
    """Yields the hours, or days or months if there are more than `most`, rows by type if the types are few,
    rows by table, and the lag."""
    statuses = without_tables(statuses, behind.gone)
    lines = status_lines.grouped(statuses, most)
    yield table_of(
        status_lines.title(title, statuses, lines, _of_hours(statuses) if most < MOST_HOURS else "--json"),
        status_lines.COLUMNS,
        [status_lines.line(units, spec) for units in lines],
    )
    types = sorted({t for s in statuses if s.manifest for t in s.manifest.rows_by_type()})
    if types and len(types) <= _MOST_TYPES:
        landed = status_lines.grouped([s for s in statuses if s.manifest], most)
        rows = [status_lines.line_by_type(units, types) for units in landed]
        yield table_of("rows landed by type", ("slice", *types), rows)
    for target in spec.targets:
        held = [s.tables[target.table] for s in statuses if target.table in s.tables]
        rows_held, rejected_rows = sum(r.rows for r in held), sum(r.rejected_rows for r in held)
        yield text_of(
            f"{target.table}: {rows_held:,} rows, {rejected_rows:,} rejected rows{_defaults(target, held)}"
        )
    if rejected := rejected_words(spec, statuses):
        yield text_of(rejected, style="yellow")
    if tombstones := tombstone_words(statuses):
        yield text_of(tombstones)
    if unknown := unknown_words(spec, (s.unit for s in statuses), unlanded(statuses)):
        yield text_of(unknown)
    for table in departed:
        yield text_of(f"{table}: {table.remedy}")
    if (balance := balance_of(spec, statuses)).landed:
        yield text_of(str(balance))
    from sluice.clients.lake.open import open_lake
    from sluice.flow.steps import rule_lines

    lacking = (topic.line(spec) for topic in landed_without(statuses))
    differences = rule_lines(spec, open_lake(spec), statuses)
    for line in (*missing_lines(spec, statuses), *lacking, *differences):
        yield text_of(line)
    yield from lag_lines(behind)
    yield summary_line(spec, statuses, behind)


def summary_line(spec: Pipeline, statuses: Sequence[UnitStatus], behind: Behind) -> RenderableType:
    """Returns what needs attention, in the words of the page."""
    from sluice.clients.lake.open import open_lake
    from sluice.page.findings import needing, verdict_line
    from sluice.page.rows import findings_of_units

    found = findings_of_units(spec, open_lake(spec), statuses, [one.table for one in behind.gone])
    return text_of(verdict_line(found), style="bold red" if needing(found) else "green")


def _answer(
    spec: Pipeline, statuses: list[UnitStatus], behind: Behind, departed: Iterable[DepartedTable]
) -> dict[str, Any]:
    statuses = without_tables(statuses, behind.gone)
    rejected = rejected_by_reason(statuses)
    units = [as_json(spec, s) for s in statuses]
    answer = {"pipeline": spec.name, **lag_as_json(behind), "rejected": rejected, "units": units}
    answer["rejected_unknown"] = len({unit.slice for unit in unlanded(statuses)})
    answer["departed_tables"] = [asdict(table) for table in departed]
    if len(spec.clusters) > 1:
        left = waiting_of(spec, statuses)
        answer["missing"] = {part.cluster: [unit.slice.id for unit in part.units] for part in left}
    return answer


def _rejected_records(manifest: Manifest) -> dict[str, int]:
    return {reason: n for reason, n in manifest.rejected_records.items() if reason != TOMBSTONE}


def _arrays(manifest: Manifest) -> dict[str, Any]:
    """Of records that are arrays: the rows they held, those that did not land, and records without any."""
    return {
        "rows": manifest.rows,
        "rejected_elements": dict(manifest.rejected_elements),
        "empty": manifest.empty,
    }


def _erased(manifest: Manifest) -> dict[str, Any]:
    """Of a unit that was landed by an erasure list: records and rows that were left out."""
    return {"erased": manifest.erased, "rows_erased": manifest.rows_erased}


def as_json(spec: Pipeline, s: UnitStatus) -> dict[str, Any]:
    return {
        "slice": s.unit.slice.id,
        "cluster": s.unit.cluster,
        "state": "broken" if s.broken and s.state.done else str(s.state),
        "broken": list(s.broken),
        "mostly_rejected": s.mostly_rejected,
        "records": s.manifest.read if s.manifest else None,
        "parsed": s.manifest.parsed if s.manifest else None,
        "rejected_records": _rejected_records(s.manifest) if s.manifest else None,
        "tombstones": s.manifest.tombstones if s.manifest else None,
        "rejected_forgotten": s.manifest.forgotten_by_reason() if s.manifest else None,
        **(_arrays(s.manifest) if s.manifest and s.manifest.rows is not None else {}),
        **(_erased(s.manifest) if s.manifest and s.manifest.erasures else {}),
        "late": s.manifest.late if s.manifest else None,
        "rows_by_type": s.manifest.rows_by_type() if s.manifest else {},
        "rows_by_hour_and_type": _by_hour(s),
        "rows_without_a_table": without_table(spec, s.manifest) if s.manifest else {},
        "tables": {
            t: {"rows": r.rows, "rejected_rows": r.rejected_rows, **_missing(r), **_shards(r)}
            for t, r in s.tables.items()
        },
        "lacked_by": status_lines.lacking_tables(spec, targets_of(spec), s),
        "frozen": list(s.frozen),
        "manifest": s.manifest.id if s.manifest else None,
        "lacking_topics": {lacking.topic: lacking.offsets for lacking in s.lacking},
        "lost": [f"{x.topic}/{x.partition} [{x.start}, {x.until})" for x in s.losses],
    }


def _defaults(target: Target, held: Sequence[LedgerRow]) -> str:
    """Returns which columns got defaults, and in which share of the rows that were counted."""
    text = "" if target.counted else said(held)
    return f"; values that are defaults: {text}" if text else ""


def _missing(row: LedgerRow) -> dict[str, Any]:
    """Returns by column the rows that got a default, or NULL, where that was counted, and by check those that
    fail it."""
    counted = {"defaulted": dict(row.defaulted), "nulls": dict(row.nulls)} if row.counted else {}
    return counted | ({"failed": dict(row.failed)} if row.failed else {})


def _shards(row: LedgerRow) -> dict[str, Any]:
    """Returns the rows that each shard has committed, None for one that lacks the unit; nothing without
    shards."""
    return {"shards": {name: r and r.rows for name, r in row.shares}} if row.shares else {}


def _by_hour(s: UnitStatus) -> dict[str, dict[str, int]]:
    """Rows by the event's own hour and type, which are the lake's folders."""
    counts: dict[str, dict[str, int]] = {}
    for file in s.manifest.files if s.manifest else ():
        hour = counts.setdefault(file.hour, {})
        for name, rows in file.types().items():
            hour[name] = hour.get(name, 0) + rows
    return dict(sorted(counts.items()))


# `sluice status --changes`: what has changed in the fields of events, and which columns were added.
def show_changes(spec: Pipeline, start: str | None, to: str, json: bool) -> None:
    """Reads the lake only. Raises LakeUnavailable."""
    from sluice.clients.lake.open import open_lake
    from sluice.state.additions import additions_in
    from sluice.state.boundaries.log import BoundaryLog
    from sluice.state.field_changes import changes_of
    from sluice.state.units import units_of

    slices, lake = known_range(spec, start, to, newest=NEWEST), open_lake(spec)
    units = units_of(spec, slices, BoundaryLog(lake).read())
    unit_changes = changes_of(lake, units, {}, progress)
    added = additions_in(lake, slices)
    if json:
        changes, columns = [_as_json(change) for change in unit_changes], [asdict(column) for column in added]
        print_json({"pipeline": spec.name, "changes": changes, "added": columns})
        return
    # A change comes before the column that it has brought about.
    lines = [(change.unit.slice.id, 0, str(change)) for change in unit_changes]
    lines += [(column.slice, 1, str(column)) for column in added]
    for _, _, line in sorted(lines, key=lambda line: line[:2]):
        print_line(line)
    columns_added = f", {len(added)} {'column' if len(added) == 1 else 'columns'} added" if added else ""
    print_line(f"{spec.name} {slices}: {len(unit_changes)} changes of fields{columns_added}")


def _as_json(unit_change: UnitChange) -> dict[str, Any]:
    unit = {"slice": unit_change.unit.slice.id, "cluster": unit_change.unit.cluster}
    return {**unit, **asdict(unit_change.change), "message": str(unit_change.change)}
