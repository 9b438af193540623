"""Stages what a load would put into a table. No other module here knows how a load stages.

The tables have the load's names, so that the next load's fence-off drops those of a verify that was killed.
One that begins meanwhile drops them, too, and then there is nothing to compare with (Busy).
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from sluice import crash_points
from sluice.clients.clickhouse.client import READ_QUORUM, STEADY
from sluice.clients.clickhouse.engine import Family
from sluice.clients.clickhouse.errors import UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.shards import Server, placement_of
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, listed, render
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline, Target
from sluice.crash_points import Verify
from sluice.errors import Busy, Fenced, TargetRefused
from sluice.flow.load.abilities import SHARED_WRITES
from sluice.flow.load.failing_defaults import Failing
from sluice.flow.load.fencing import LoadAttempt
from sluice.flow.load.load_place import LoadPlace
from sluice.flow.load.protocol import create_fence
from sluice.flow.load.row_checks import RowChecks
from sluice.flow.load.shard_filter import ShardFilter
from sluice.flow.load.source.pull_or_push import Reading
from sluice.flow.load.staging import Staging
from sluice.flow.load.work import LoadWork
from sluice.flow.load.writer import UnitCounts, Writer, staged_names
from sluice.state.additions import LaterValues, later_values
from sluice.state.ledger import unit_of

_CANCELLED = 394
_GENERATIONS = 1 << 62  # above those of loads: no two attempts share a name


@dataclass(frozen=True)
class Staged:
    """`rows` and `rejected_rows` are temporary tables; `fence` has a row (slice, cluster) for each unit.

    `view_tables`: by table of the target's views the temporary one that has what they give of `rows`.
    `target` has the columns of the units' rules; `later`: columns that the table has got since the units were
    loaded, and of which all rows here have the DEFAULT; `renamed`: what the table's rows have there instead,
    where one of these may be a column that the rules fill."""

    target_table: TargetTable
    rows: Sql
    rejected_rows: Sql
    fence: Sql
    view_tables: Mapping[str, Sql]
    target: Target
    later: frozenset[str] = frozenset()
    renamed: LaterValues | None = None


@dataclass(frozen=True)
class Again:
    """Another evaluation over staged `rows`: in an order that chance decides, in so many `blocks` at least.
    `row`: a tuple that tells the rows apart."""

    rows: Sql
    row: Sql
    blocks: int


class Stage(LoadPlace):
    """A place of loads whose rows are compared and thrown away."""

    @contextmanager
    def staged(
        self,
        works: Sequence[LoadWork],
        reading: Reading | None = None,
        again: Again | None = None,
        counted: bool = True,
    ) -> Iterator[Staged]:
        """Yields the rows and rejected rows that a load of `works` gives by their rules, which are the same;
        the tables go at the end. Without `counted` rejected rows are left out, and nobody knows how many rows
        there are before.

        Raises Busy when a load begins meanwhile, TargetRefused and Conservation as a load does, and what the
        client raises.
        """
        place = self.by_rules(works[0].rules, types=self.types)
        target_table, filling = place.inspect()
        family = target_table.storage.family
        client = self.client if family is Family.PLAIN else self.client.reading(READ_QUORUM)
        attempt = LoadAttempt(self.target.table, _GENERATIONS | uuid.uuid4().int >> 67, 1)
        units = frozenset(work.unit for work in works)
        settings = SHARED_WRITES if family is Family.SHARED else {}
        writer = Writer(client, attempt, lambda: None, partial(unit_of, self.pipeline), units, settings)
        checks = RowChecks.of(place.target, counts=False)
        shard_filter = ShardFilter(self.placement, target_table, writer, checks=checks)
        load_place = replace(place, client=client)
        shuffled = again is not None
        staging = load_place.staging(target_table, filling, works, writer, shard_filter, reading, shuffled)
        if again is not None and target_table.view_tables and self.target.rollup is None:
            fields = {field.name: getattr(staging, field.name) for field in dataclasses.fields(staging)}
            staging = Reordered(**fields, again=again)
        try:
            create_fence(writer, works)
            crash_points.reached(Verify.LISTED)
            _fill(staging, attempt, counted)
            views = _view_rows(target_table, attempt)
            later = place.later(target_table)
            renamed = None if again is not None else self._renamed(place, target_table, works)
            yield Staged(
                target_table,
                target_table.as_merged(attempt.staging),
                attempt.rejected_rows,
                attempt.fence,
                views,
                place.target,
                later,
                renamed,
            )
        except (Fenced, ServerError) as error:
            raise _explained(error, attempt) from error
        finally:
            for staged_table in (attempt.fence, *staging.tables):
                client.run(render("clickhouse/drop_table", table=staged_table))
            crash_points.reached(Verify.DROPPED)

    def _renamed(
        self, place: LoadPlace, target_table: TargetTable, works: Sequence[LoadWork]
    ) -> LaterValues | None:
        if place.rules is None or self.target.rollup is not None:
            return None
        slices = [work.unit.slice for work in works]
        values = later_values(self.client, self.pipeline, self.target, target_table, place.rules, slices)
        return values if values and values.lacking else None


def stage_of(server: Server, pipeline: Pipeline, target: Target, lake: Lake) -> Stage:
    """Raises ShardUnavailable."""
    placement = placement_of(pipeline.clickhouse, server.shard, target.table)
    return Stage(server.reached.reading(STEADY), pipeline, target, lake, placement)


@dataclass(frozen=True)
class Reordered(Staging):
    """Stages rows that are staged already once more, for the views to read them otherwise."""

    again: Again

    def _insert_own(self, failing: Sequence[Failing] = ()) -> None:
        again, salt = self.again, uuid.uuid4().int >> 96
        for number in range(again.blocks):
            block = Sql(f"sipHash64({again.row}, {salt}) % {again.blocks} = {number}")
            sql = render(
                "verify/reorder",
                staging=self.writer.attempt.staging,
                columns=listed(map(identifier, self.target_table.filled)),
                rows=again.rows,
                block=block,
            )
            self.writer.run("stage", sql)

    def review(self) -> tuple[UnitCounts, UnitCounts]:
        return self.writer.count_rows(self.writer.attempt.staging), {}


def _fill(staging: Staging, attempt: LoadAttempt, counted: bool) -> None:
    """Raises TargetRefused for what a load would fail with for good: no other table has to do with it."""
    try:
        staging.stage()
        crash_points.reached(Verify.STAGED)
        if counted:
            staging.review()
        crash_points.reached(Verify.REVIEWED)
    except ServerError as error:
        explained = _explained(error, attempt)
        if error.retryable or explained is not error:
            raise explained from error
        reason = f"no load of it can succeed: {error.name}: {error.reason}"
        raise TargetRefused(attempt.target, reason, "correct the view or the column that is named") from error


def _view_rows(target_table: TargetTable, attempt: LoadAttempt) -> dict[str, Sql]:
    names = staged_names(target_table, attempt)
    return {
        view_table.table: identifier(SYSTEM, names[view_table.table]) for view_table in target_table.stored
    }


def _explained(error: Fenced | ServerError, attempt: LoadAttempt) -> Exception:
    """Returns Busy where a load has begun: its fence-off drops the tables and kills the statements."""
    gone = isinstance(error, ServerError) and error.code == UNKNOWN_TABLE and "sluice." in error.reason
    killed = isinstance(error, ServerError) and error.code == _CANCELLED
    if isinstance(error, Fenced) or gone or killed:
        return Busy(f"table {attempt.target}: a load has begun: verify its contents when that is done")
    return error
