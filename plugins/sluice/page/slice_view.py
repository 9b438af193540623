"""Everything about one slice, as the page shows it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import Field

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.concurrency import each
from sluice.config.pipeline import Pipeline, Target
from sluice.flow.verify.facts import lacking, targets_of
from sluice.manifest import LandedFile, Loss
from sluice.page.models import Cell, Finding, Model
from sluice.page.run_history import StepRun
from sluice.page.slice_findings import RunRow, SliceFacts, findings, said, tone_of
from sluice.safe_text import visible
from sluice.slices import HOUR, Slice, ceil
from sluice.state.additions import Addition
from sluice.state.field_changes import UnitChange
from sluice.state.months import Summaries, seal_of
from sluice.state.row_balance import RowBalance, balance_of
from sluice.state.row_balance import said as defaults_said
from sluice.state.status import UnitStatus

# What an hour brought, beside the same hour of yesterday and of a week ago.

MOST_TYPES_COUNTED = 50


class CountRow(Model):
    """A number of the hour, and of the same hour of the day and of the week before, where that has landed.
    `unit` is empty or `bytes`."""

    name: str
    unit: str
    now: int
    day: int | None
    week: int | None


class TableCounts(Model):
    """What landed for a table and is committed and rejected there; `day` and `week`: committed then.
    `defaults` names columns that got defaults, with shares."""

    table: str
    landed: int
    committed: int
    rejected_rows: int
    defaults: str
    day: int | None
    week: int | None


class Balance(Model):
    """landed = loaded + rejected rows + without_table + not_loaded, in rows; `types` are those without a
    table."""

    landed: int
    loaded: int
    rejected_rows: int
    without_table: int
    not_loaded: int
    types: dict[str, int]


@dataclass(frozen=True)
class HourTotals:
    """Of all clusters of one hour: its `counts` by what they are called, and what each table got."""

    counts: dict[str, int]
    tables: dict[str, TableCounts]
    rows: RowBalance


_BYTES = "In the lake"


def totals_of(pipeline: Pipeline, statuses: Sequence[UnitStatus]) -> HourTotals | None:
    """Returns None for an hour of which nothing has landed."""
    landed = [status for status in statuses if status.manifest is not None]
    if not landed:
        return None
    manifests = [status.manifest for status in landed if status.manifest]
    rows = balance_of(pipeline, landed)
    tombstones = sum(m.tombstones for m in manifests)
    counts = {
        "Records read": sum(m.read for m in manifests),
        "Rows landed": sum(m.landed for m in manifests),
        "Rejected records": sum(m.refused for m in manifests),
        "Rejected rows": rows.rejected_rows,
        **({"Tombstones": tombstones} if tombstones else {}),
        "Later than grace": sum(m.late for m in manifests),
        _BYTES: sum(file.bytes for m in manifests for file in m.held_files),
    }
    return HourTotals(counts, {t.table: _table_counts(pipeline, t, landed) for t in pipeline.targets}, rows)


def _table_counts(pipeline: Pipeline, target: Target, landed: Sequence[UnitStatus]) -> TableCounts:
    rows = [status.tables[target.table] for status in landed if target.table in status.tables]
    return TableCounts(
        table=target.table,
        landed=sum(landed_for(pipeline, target, status) for status in landed),
        committed=sum(row.rows for row in rows),
        rejected_rows=sum(row.rejected_rows for row in rows),
        defaults="" if target.counted else defaults_said(rows),
        day=None,
        week=None,
    )


def landed_for(pipeline: Pipeline, target: Target, status: UnitStatus) -> int:
    """Returns the rows that a unit has for a table. Those of traffic counts and of rollups are known when it
    is loaded."""
    if target.counted or target.rollup is not None:
        row = status.tables.get(target.table)
        return row.landed if row else 0
    rows = status.manifest.rows_by_type() if status.manifest else {}
    return sum(rows[name] for name in pipeline.routed(target, rows))


def count_rows(now: HourTotals | None, day: HourTotals | None, week: HourTotals | None) -> list[CountRow]:
    """Returns nothing for an hour that has not landed."""
    return [
        CountRow(
            name=name,
            unit="bytes" if name == _BYTES else "",
            now=count,
            day=day.counts.get(name, 0) if day else None,
            week=week.counts.get(name, 0) if week else None,
        )
        for name, count in (now.counts if now else {}).items()
    ]


def table_counts(
    now: HourTotals | None, day: HourTotals | None, week: HourTotals | None
) -> list[TableCounts]:
    """Returns what each table got and rejected, in the order of the pipeline file."""

    def then(totals: HourTotals | None, table: str) -> int | None:
        return totals.tables[table].committed if totals else None

    return [
        table.model_copy(update={"day": then(day, name), "week": then(week, name)})
        for name, table in (now.tables if now else {}).items()
    ]


def balance(now: HourTotals | None) -> Balance | None:
    """rows landed = loaded + rejected rows + without a table + not loaded yet."""
    if now is None:
        return None
    rows = now.rows
    return Balance(
        landed=rows.landed,
        loaded=rows.loaded,
        rejected_rows=rows.rejected_rows,
        without_table=rows.without.total(),
        not_loaded=rows.not_loaded,
        types={visible(name): count for name, count in rows.without.most_common(MOST_TYPES_COUNTED)},
    )


MOST_FILES = 200
MOST_TYPES = 200
MOST_CHANGES = 200


class OffsetsRow(Model):
    topic: str
    partition: int
    start: int
    until: int
    records: int


class TableRow(Model):
    """`state` is committed, frozen, stale, missing, before (an hour before the pipeline's first one), open
    (one that is not over), or no such table; `run` the Airflow run (or command) that loaded it."""

    table: str
    state: str
    types: list[str]
    rows: int
    rejected_rows: int
    landed: int
    generation: int
    run: str


class FileRow(Model):
    key: str
    type: str
    hour: str
    rows: int
    bytes: int


class UnitView(Model):
    """One cluster's part of a slice. `files` are the largest ones, of `file_count`."""

    cluster: str
    state: str
    manifest: str
    attempt: str
    generation: int
    landed_at: str
    verified: bool
    offsets: list[OffsetsRow]
    read: int
    parsed: int
    gaps: int
    erased: int  # rows, or records, that the erasure list left out
    late: int
    tombstones: int
    rows_by_type: dict[str, int]
    rejected_by_reason: dict[str, int]
    rows_held: int | None  # by its records, where these are arrays
    losses: list[Loss]
    lacking_topics: list[str]
    tables: list[TableRow]
    files: list[FileRow]
    file_count: int
    bytes: int


class EventHour(Model):
    """An event hour that begins in the slice: for how many of the `types` the lake says it is complete.
    `forgotten`: it has forgotten files of the hour, and with them its marks."""

    hour: str
    complete: int
    types: int
    forgotten: bool = False


class ChangeRow(Model):
    """A field of the events of `type` that has changed in the slice, or a column that the table `type` has
    got for one; `message` has the numbers."""

    cluster: str
    kind: str
    type: str
    field: str
    message: str


class SliceView(Model):
    """`said` is what holds of the hour, in one sentence; `findings` say what is wrong, and its remedy.
    `forgets_at`: when the lake forgets its files, empty where it keeps them, or has forgotten them."""

    pipeline: str
    can_start: bool
    slice: str
    start: str
    end: str
    cell: str
    tone: str
    said: str
    findings: list[Finding]
    counts: list[CountRow] = Field(default_factory=list)
    tables: list[TableCounts] = Field(default_factory=list)
    balance: Balance | None = None
    forgets_at: str = ""
    running: str
    before: str
    after: str
    units: list[UnitView]
    event_hours: list[EventHour] = Field(default_factory=list)
    changes: list[ChangeRow] = Field(default_factory=list)
    step_runs: list[StepRun] = Field(default_factory=list)
    runs: list[RunRow]


def slice_view(facts: SliceFacts, slice_: Slice, running: str, noted: Summaries, now: datetime) -> SliceView:
    """Returns the view by state, runs and verdict; `running` is what a run does to it. What has to be read,
    such as counts, changes and timings, is empty."""
    hour_findings = findings(facts)
    return SliceView(
        pipeline=facts.pipeline.name,
        can_start=False,
        slice=slice_.id,
        start=str(slice_.start),
        end=str(slice_.end),
        cell=facts.state,
        tone=tone_of(facts.state),
        said=said(facts, hour_findings),
        findings=hour_findings,
        running=running,
        before=Slice(slice_.start - slice_.length, slice_.length).id,
        after=Slice(slice_.end, slice_.length).id if slice_.end <= now else "",
        units=[_unit_view(facts, status, noted) for status in facts.statuses],
        runs=list(facts.runs),
    )


def _unit_view(facts: SliceFacts, status: UnitStatus, noted: Summaries) -> UnitView:
    """Returns a unit's view. Before the pipeline's first hour, and before the hour is over, no table lacks
    it."""
    view = unit_view(facts.pipeline, status, noted, facts.gone or ())
    if facts.state not in (Cell.BEFORE, Cell.OPEN) or status.manifest is not None:
        return view
    tables = [table.model_copy(update={"state": str(facts.state)}) for table in view.tables]
    return view.model_copy(update={"state": str(facts.state), "tables": tables})


def unit_view(
    pipeline: Pipeline, status: UnitStatus, noted: Summaries, gone: Collection[str] = ()
) -> UnitView:
    """`gone` are target tables that are not there."""
    manifest, unit = status.manifest, status.unit
    ranges = manifest.ranges if manifest else status.ranges or ()
    files = manifest.held_files if manifest else ()
    targets = targets_of(pipeline)
    behind = lacking(pipeline, targets, status)
    return UnitView(
        cluster=unit.cluster,
        state=str(status.state),
        manifest=manifest.id if manifest else "",
        attempt=manifest.attempt if manifest else "",
        generation=manifest.generation if manifest else 0,
        landed_at=manifest.landed_at if manifest else "",
        verified=_verified(status, noted),
        offsets=[
            OffsetsRow(topic=r.topic, partition=r.partition, start=r.start, until=r.until, records=r.offsets)
            for r in sorted(ranges)
        ],
        read=manifest.read if manifest else 0,
        parsed=manifest.parsed if manifest else 0,
        gaps=manifest.gaps if manifest else 0,
        erased=manifest.erased_rows if manifest else 0,
        late=manifest.late if manifest else 0,
        tombstones=manifest.tombstones if manifest else 0,
        rows_by_type=_most(manifest.rows_by_type()) if manifest else {},
        rejected_by_reason=manifest.refused_by_reason() if manifest else {},
        rows_held=manifest.rows if manifest else None,
        losses=[*status.losses, *(manifest.lost if manifest else ())],
        lacking_topics=list(map(str, status.lacking)),
        tables=[_table(pipeline, target, status, behind, gone) for target in targets.values()],
        files=[_file(file) for file in sorted(files, key=lambda f: -f.bytes)[:MOST_FILES]],
        file_count=len(files),
        bytes=sum(file.bytes for file in files),
    )


def _verified(status: UnitStatus, noted: Summaries) -> bool:
    summary = noted.of(status.unit.slice.id).get(status.unit.cluster)
    return status.state.done and summary is not None and summary.verified == seal_of(status)


def _most(rows: Mapping[str, int]) -> dict[str, int]:
    """Returns the types with the most rows, and what the others have together."""
    ordered = sorted(rows.items(), key=lambda item: -item[1])
    largest = dict(ordered[:MOST_TYPES])
    others = ordered[MOST_TYPES:]
    return {**largest, f"({len(others)} more types)": sum(n for _, n in others)} if others else largest


def _table(
    pipeline: Pipeline,
    target: Target,
    status: UnitStatus,
    behind: Collection[str],
    gone: Collection[str],
) -> TableRow:
    row = status.tables.get(target.table)
    routed = pipeline.routed(target, status.manifest.rows_by_type() if status.manifest else {})
    state = "missing"
    if row is not None:
        kept = "frozen" if target.table in status.frozen else "committed"
        state = "stale" if target.table in behind else kept
    return TableRow(
        table=target.table,
        state="no such table" if target.table in gone else state,
        types=list(routed[:MOST_TYPES]),
        landed=landed_for(pipeline, target, status),
        rows=row.rows if row else 0,
        rejected_rows=row.rejected_rows if row else 0,
        generation=row.generation if row else 0,
        run=row.token if row else "",
    )


def _file(file: LandedFile) -> FileRow:
    kind = file.type or ("(overflow)" if file.hour else "(rejected)")
    return FileRow(key=file.key, type=kind, hour=file.hour, rows=file.rows, bytes=file.bytes)


def event_hours_of(lake: Lake, pipeline: Pipeline, slice_: Slice, forgotten: bool = False) -> list[EventHour]:
    """Returns whether the hours that begin in the slice have their `_SUCCESS`: a read for each configured
    type. `forgotten`: the lake has forgotten files of the slice, and with them the marks."""
    hours = [hour.strftime("%Y-%m-%dT%H") for hour in _hours(slice_)] if pipeline.types else []
    keys = [layout.hour_success(name, hour) for hour in hours for name in pipeline.types]
    marked = dict(zip(keys, each(lambda key: lake.size(key) is not None, keys), strict=True))
    return [
        EventHour(
            hour=hour,
            complete=sum(marked[layout.hour_success(name, hour)] for name in pipeline.types),
            types=len(pipeline.types),
            forgotten=forgotten,
        )
        for hour in hours
    ]


def _hours(slice_: Slice) -> Iterator[datetime]:
    hour = ceil(slice_.start, HOUR)
    while hour < slice_.end:
        yield hour
        hour += HOUR


def change_rows(changes: Sequence[UnitChange], added: Sequence[Addition] = ()) -> list[ChangeRow]:
    """Returns the first MOST_CHANGES of each, with names as a person can read them; `added` are columns."""
    columns = [
        ChangeRow(
            cluster="", kind="column added", type=one.table, field=visible(one.column), message=one.said
        )
        for one in added[:MOST_CHANGES]
    ]
    return columns + [
        ChangeRow(
            cluster=one.unit.cluster,
            kind=str(one.change.kind),
            type=visible(one.change.type),
            field=visible(one.change.field),
            message=one.change.said,
        )
        for one in changes[:MOST_CHANGES]
    ]
