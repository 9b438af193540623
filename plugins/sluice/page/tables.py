"""How far each table of a pipeline is: complete until when, what it lacks, rows and rejected rows. Pure.

An hour counts for a table when every cluster's unit of it is committed there as the file says now; a table
lacks it once it is overdue. Units are taken one by one, so that no manifest is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import render
from sluice.clients.clickhouse.sql import table as quoted
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import Newest
from sluice.flow.verify.facts import is_current
from sluice.page.models import Model, due_by
from sluice.safe_text import visible
from sluice.slices import Slice, SliceRange, from_seconds
from sluice.state.ledger import LedgerRow
from sluice.state.row_balance import said
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState

MOST_TYPES = 20


class TableFacts(Model):
    """`complete_until` is the end of the last hour up to which the range has no gap in this table, empty
    where its first hour is one; `behind` counts overdue hours of the range that it lacks, `first_behind` is
    the oldest.

    `rows`, `rejected_rows` and `defaults` are of the range's hours; `defaults` names columns that got some,
    with shares. `last_load`, `parts`, `bytes` and `rows_in_all` are what ClickHouse says now, None where it
    does not; `shards` names those that do not answer."""

    table: str
    kind: str
    state: str
    types: list[str]
    complete_until: str
    behind: int
    first_behind: str
    rows: int
    rejected_rows: int
    defaults: str
    last_load: str
    parts: int | None
    bytes: int | None
    rows_in_all: int | None


class Tables(Model):
    """Of `[start, end)`; `errors` has a line for each shard that does not answer, `departed` one for each
    table with rows of the pipeline that its file no longer names."""

    start: str
    end: str
    tables: list[TableFacts]
    errors: list[str]
    departed: list[str]


@dataclass(frozen=True)
class TableNow:
    """What ClickHouse says of a table, of all shards together: `rows` without deleted ones. `last_load` is an
    ISO 8601 instant."""

    parts: int
    bytes: int
    rows: int
    last_load: str = ""


@dataclass
class TableProgress:
    """What the hours of a range say of a table; they come in their order."""

    target: Target
    lacking: dict[Slice, None] = field(default_factory=dict)
    ends: dict[Slice, None] = field(default_factory=dict)
    waiting: set[Slice] = field(default_factory=set)
    rows: int = 0
    rejected_rows: int = 0
    commits: list[LedgerRow] = field(default_factory=list)

    def add(self, pipeline: Pipeline, status: UnitStatus, due: datetime) -> None:
        """`due`: what ended before it is overdue."""
        current = is_current(pipeline, self.target, status)
        if status.state is UnitState.NOT_OVER or not (current or status.unit.slice.end < due):
            self.waiting.add(status.unit.slice)
            return
        self.ends[status.unit.slice] = None
        if not current:
            self.lacking[status.unit.slice] = None
        if row := status.tables.get(self.target.table):
            self.rows += row.rows
            self.rejected_rows += row.rejected_rows
            self.commits.append(row)

    @property
    def complete_until(self) -> str:
        first = min((*self.lacking, *self.waiting), default=None)
        done = [slice_ for slice_ in self.ends if first is None or slice_ < first]
        return max(done).end.isoformat() if done else ""


def progress_of_tables(
    pipeline: Pipeline, statuses: Iterable[UnitStatus], first: datetime | None, now: datetime
) -> list[TableProgress]:
    """Returns the progress of each table. Reads `statuses` once, in the order of their slices; hours before
    `first`, the pipeline's first instant, are expected of no table."""
    due = due_by(pipeline.settle, pipeline.slice, now)
    tables = [TableProgress(target) for target in pipeline.targets]
    for status in (one for one in statuses if first is not None and one.unit.slice.end > first):
        for table in tables:
            table.add(pipeline, status, due)
    return tables


def table_facts(
    tables: Sequence[TableProgress],
    now: Mapping[str, TableNow],
    gone: Collection[str],
    wrong: Collection[str] = (),
) -> list[TableFacts]:
    """Returns the facts of each table. `now` is by table; `gone` are tables that a server does not have, and
    `wrong` those in which something is known to be wrong."""
    return [_facts(table, now.get(table.target.table), gone, wrong) for table in tables]


def _facts(
    progress: TableProgress, now: TableNow | None, gone: Collection[str], wrong: Collection[str]
) -> TableFacts:
    target, first = progress.target, min(progress.lacking, default=None)
    state = "behind" if first else "complete" if progress.ends else "nothing yet"
    if target.table in wrong:
        state = "wrong rows"
    if target.table in gone:
        state = "no such table"
    return TableFacts(
        table=target.table,
        kind="newest rows"
        if isinstance(target.rollup, Newest)
        else "rollup"
        if target.rollup
        else "traffic counts"
        if target.counted
        else "events",
        state=state,
        types=[visible(name) for name in (*target.types, *(["*"] if target.catch_all else []))[:MOST_TYPES]],
        complete_until=progress.complete_until,
        behind=len(progress.lacking),
        first_behind=first.id if first else "",
        rows=progress.rows,
        rejected_rows=progress.rejected_rows,
        defaults="" if target.counted else said(progress.commits),
        last_load=now.last_load if now else "",
        parts=now.parts if now else None,
        bytes=now.bytes if now else None,
        rows_in_all=now.rows if now else None,
    )


def rows_of_slice(
    asked: Iterable[tuple[Client, Collection[str]]], pipeline: Pipeline, slice_: Slice
) -> dict[str, int]:
    """Returns how many rows of the slice each table of events has now, over the servers; each is asked for
    those of its tables that are the pipeline's own. Raises what the clients raise."""
    events = [t.table for t in pipeline.targets if not t.counted and t.rollup is None]
    rows: Counter[str] = Counter()
    for client, own in asked:
        for name in [name for name in events if name in own]:
            at = {"slice": int(slice_.start.timestamp())}
            rows[name] += client.rows(render("page/rows_of_slice", table=quoted(name)), at)[0][0]
    return dict(rows)


# Asks ClickHouse for the sizes and last loads of a pipeline's tables: two statements a server, and one for
# each table with deleted rows.
def tables_now(
    asked: Iterable[tuple[Client, Collection[str]]], pipeline: Pipeline, lake: str, slices: SliceRange
) -> dict[str, TableNow]:
    """Returns the sums over the servers, by table; each is asked for those of its tables that are the
    pipeline's own. The last load is that of an hour of `slices`. Raises what the clients raise."""
    sums: dict[str, TableNow] = {}
    for client, own in ((client, sorted(own)) for client, own in asked if own):
        loads = _last_loads(client, pipeline, lake, own, slices)
        databases = sorted({name.partition(".")[0] for name in own})
        sizes = client.rows(render("page/table_sizes"), {"tables": own, "databases": databases})
        for name, parts, size, rows, with_deleted in sizes:
            if with_deleted:
                rows += client.rows(render("page/live_rows", table=quoted(name)), {"name": name})[0][0]
            before = sums.get(name, TableNow(0, 0, 0))
            loaded = max(before.last_load, loads.pop(name, ""))
            sums[name] = TableNow(before.parts + parts, before.bytes + size, before.rows + rows, loaded)
        for name, at in loads.items():  # a view, or a Distributed table: it has no parts of its own
            before = sums.get(name, TableNow(0, 0, 0))
            sums[name] = TableNow(before.parts, before.bytes, before.rows, max(before.last_load, at))
    return sums


def _last_loads(
    client: Client, pipeline: Pipeline, lake: str, own: list[str], slices: SliceRange
) -> dict[str, str]:
    edges = {"start": int(slices.start.timestamp()), "end": int(slices.end.timestamp())}
    parameters = {"tables": own, "pipeline": pipeline.name, "lake": lake, **edges}
    rows = client.rows(render("page/last_loads"), parameters)
    return {table: from_seconds(at).isoformat() for table, at in rows}
