"""Loads landed slices into one target table: the lease, the choice, one protocol run after another."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from sluice import crash_points
from sluice.clients.clickhouse.client import STEADY, Client
from sluice.clients.clickhouse.shards import ALONE, Placement, placement_in
from sluice.clients.clickhouse.sql import render
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.lake.base import Lake
from sluice.config.mask import hides
from sluice.config.pipeline import CATCH_ALL, Pipeline, Target
from sluice.config.target import Derived, Newest
from sluice.crash_points import Load, TableLoad
from sluice.errors import Busy, DefaultFails, Relanded, SluiceError, TargetRefused
from sluice.flow.load.abilities import Abilities, ask_abilities
from sluice.flow.load.casts.column_sql import Lack
from sluice.flow.load.casts.columns import Filling
from sluice.flow.load.count_targets import create_expected
from sluice.flow.load.evolve.evolve import Evolution, check_may_add
from sluice.flow.load.fencing import LoadAttempt, fence_off
from sluice.flow.load.kept_rows import with_kept
from sluice.flow.load.load_place import LoadPlace
from sluice.flow.load.own_placement import NO_OTHERS, OtherShards
from sluice.flow.load.protocol import LoadRun
from sluice.flow.load.replicas import Replicas, own_tables
from sluice.flow.load.rollups.decide import RollupFacts, frozen_line
from sluice.flow.load.rollups.newest import MOST_KEYS, check_placed, check_whole
from sluice.flow.load.rollups.staging import RollupSource
from sluice.flow.load.row_checks import RowChecks, RowsHeld
from sluice.flow.load.shard_filter import ShardFilter
from sluice.flow.load.target_checks import inspect_target
from sluice.flow.load.work import (
    MAX_ROWS,
    LoadResult,
    LoadWork,
    UnitLoad,
    UnitsRefused,
    by_rules,
    choose,
    cut,
)
from sluice.flow.load.writer import Writer
from sluice.metrics import meter
from sluice.plan.modes import ADDS_COLUMNS, KEEPS_RULES, MISSING_COLUMNS, Mode
from sluice.safe_text import Remark, Say, visible
from sluice.slices import SliceRange, Unit
from sluice.state.additions import later_values, read_additions
from sluice.state.departed_tables import departed_tables
from sluice.state.held import HeldRows, hold, read_held
from sluice.state.lease import Lease
from sluice.state.ledger import Commits, LedgerQuestion, LedgerRow, ask_ledger, unit_of
from sluice.state.manifests import read_manifests
from sluice.state.rules import RulesReader, write_rules
from sluice.state.system_tables import check_owner, claim, create_system_tables, create_view, lease_of

Choice = tuple[list[LoadWork], list[LedgerRow]]
"""What is to be done, and the ledger's rows of what is skipped."""

_PATIENCE_TERMS = 3  # one to notice that a holder died, and one for the next in the queue


def load(
    pipeline: Pipeline,
    target: Target,
    units: Iterable[Unit],
    lake: Lake,
    client: Client,
    *,
    mode: Mode,
    token: str = "",
    on_progress: Say = lambda _: None,
    patience: timedelta | None = None,
    placement: Placement = ALONE,
    others: Sequence[Client] | None = None,
    shards: OtherShards = NO_OTHERS,
) -> LoadResult:
    """Brings those of `units` that have landed into the target, each exactly once, and says what it did.

    `fill` and `reland` load what the ledger does not hold with this manifest and these types; MISSING_COLUMNS
    also what was loaded before a column was added, and may have its field; `reload` and `repair` everything,
    except what a run of the same `token` has loaded before. `rules_for` says by which rules. `client` is of
    the shard that `placement` says; shards.py loads all of them. `others`: the shard lists replicas, and
    these answer beside `client`. `shards`: what is known of the other shards. Raises TargetRefused before
    anything is written, Busy when another attempt does not finish within `patience`, Fenced when one has
    taken over, Relanded when the slice was landed again meanwhile, Conservation when a count does not hold,
    ServerError and ClickHouseUnavailable.
    """
    loading = _Loading(pipeline, target, lake, client, mode, token, on_progress, placement, others, shards)
    return loading.load(list(units), patience or _PATIENCE_TERMS * pipeline.clickhouse.lease)


@dataclass
class _Loading:
    """One call of `load`."""

    pipeline: Pipeline
    target: Target
    lake: Lake
    client: Client
    mode: Mode
    token: str
    say: Say
    placement: Placement
    others: Sequence[Client] | None
    shards: OtherShards
    statements: int = 0
    blocks: int = 0

    def __post_init__(self) -> None:
        self.client = self.client.reading(STEADY)

    @property
    def _place(self) -> LoadPlace:
        return LoadPlace(self.client, self.pipeline, self.target, self.lake, self.placement)

    def load(self, units: list[Unit], patience: timedelta) -> LoadResult:
        target_table, _ = inspect_target(self.client, self.pipeline, self.target, checks=False)
        check_may_add(self.client, self.pipeline, self.target, target_table)
        abilities = self._ask_abilities(target_table)
        for client in (self.client, *(self.others or ())):
            create_system_tables(client, self.pipeline.command("verify"), replicated=self.others is not None)
        crash_points.reached(Load.PREPARED)
        check_owner(self.client, self.pipeline, self.lake.url, self.target)
        with self._lease(patience) as lease:
            with lease.keep():
                crash_points.reached(TableLoad.LEASED)
                result = self._under(lease, units, target_table, abilities)
        crash_points.reached(TableLoad.RELEASED)
        return result

    def _lease(self, patience: timedelta) -> Lease:
        """Takes the lease with a generation above all of the ledger's: a recreated lake would begin at 1."""
        name = lease_of(self.client, self.target, self.placement.shard)
        [(newest,)] = self.client.rows(render("load/newest_generation"), {"target": self.target.table})
        term = self.pipeline.clickhouse.lease
        with meter.timed("lease_wait", pipeline=self.pipeline.name, table=self.target.table):
            return Lease.acquire(self.lake, name, uuid.uuid4().hex, term, patience, above=newest)

    def _under(
        self, lease: Lease, units: list[Unit], target_table: TargetTable, abilities: Abilities
    ) -> LoadResult:
        claim(self.client, self.pipeline, self.lake.url, self.target, self.placement.shard)
        if lease_of(self.client, self.target, self.placement.shard) != lease.name:
            raise Busy(
                f"table {self.target.table} was claimed under another shard's name just now: try again"
            )
        crash_points.reached(TableLoad.CLAIMED)
        if self.others is None:
            patience = self.pipeline.clickhouse.lease
            fence_off(self.client, self.target.table, lease.renew, abilities.reach, patience)
        else:
            self._replicas(lease).take_over()
        if abilities.quorum:
            self._replicas(lease).await_settled(own_tables(target_table), self.pipeline.clickhouse.lease)
        crash_points.reached(TableLoad.FENCED_OFF)
        ledger = self._place.ledger()
        todo, skipped = self._choose(units, ledger)
        crash_points.reached(TableLoad.CHECKED)
        loaded = self._runs(lease, todo, ledger, abilities) if todo else []
        unit_loads = (*loaded, *map(UnitLoad.skipped, skipped))
        return LoadResult(self.target.table, unit_loads, self.statements, self.blocks)

    def _ask_abilities(self, target_table: TargetTable) -> Abilities:
        """From here on counts see all that other servers have written."""
        replicas = None if self.others is None else self.placement.shard
        abilities = ask_abilities(self.client, target_table, self.pipeline.clickhouse, replicas)
        self.client = self.client.reading({**STEADY, **abilities.reads})
        return abilities

    def _replicas(self, lease: Lease) -> Replicas:
        return Replicas(self.client, self.others or (), self.target, self.pipeline.clickhouse, lease)

    def _choose(self, units: list[Unit], ledger: Commits) -> Choice:
        todo, skipped = self._todo(units, ledger)
        # Rows that another pipeline or lake has committed go as well: its commit is void before they do.
        return [
            replace(work, replaces=True) if work.unit in ledger.others else work for work in todo
        ], skipped

    def _todo(self, units: list[Unit], ledger: Commits) -> Choice:
        how = (ledger, self.mode, self.token, self.placement.stamp)
        if self.target.rollup is not None:
            choice: Choice = ([], [])
            for (rules, rollup), some in self._rollups(self.target.rollup, units, ledger).items():
                source = self._place.source(rollup)
                facts = RollupFacts(rollup, source.ledger(), *how, rules=rules, source_sharding=source.stamp)
                due = facts.due(some)
                source_units = source.units(due, facts.source)
                if isinstance(rollup, Newest) and due:
                    check_placed(self.target, rollup, facts.source, source.stamp)
                    check_whole(self.target, rollup, source_units, self._repair_log(rollup))
                    facts = replace(facts, present=RollupSource(self._place).counted(due))
                chosen = facts.choose(some, source_units)
                choice[0].extend([*chosen.todo, *chosen.frozen])
                choice[1].extend(chosen.skipped)
            return choice
        additions = read_additions(self.lake) if self.mode == MISSING_COLUMNS else ()
        landed = read_manifests(self.lake, units)
        arguments = (additions, self.placement.shard, ledger.revoked, self._elsewhere())
        return choose(
            self.pipeline, self.target, landed, *how, *arguments, shards=self.shards, others=ledger.others
        )

    def _repair_log(self, newest: Newest) -> Callable[[Unit], str]:
        words = ("--table", newest.source, "--mode", "repair")
        return lambda unit: self.pipeline.command("run", *unit.slice.words, *words)

    def _rollups(
        self, now: Derived, units: list[Unit], ledger: Commits
    ) -> dict[tuple[str, Derived], list[Unit]]:
        """Groups units by the rollup that makes their rows, with the digest of its rules: it is as it was for
        those that keep theirs, while its source is there."""
        groups: dict[tuple[str, Derived], list[Unit]] = defaultdict(list)
        keeps = self.mode in KEEPS_RULES and not isinstance(now, Newest)
        reader, tables = RulesReader(self.lake), {target.table for target in self.pipeline.targets}
        for unit in units:
            row = ledger.get(unit) or ledger.revoked.get(unit)
            rules = reader.table(row.rules) if row is not None and keeps else None
            earlier = rules.rollup(now) if rules is not None else None
            if row is None or earlier is None or earlier.source not in tables:
                groups["", now].append(unit)
            else:
                groups[row.rules, earlier].append(unit)
        return groups

    def _elsewhere(self) -> dict[Unit, list[LedgerRow]]:
        """Returns the newest rows that other tables have of each unit, if these matter."""
        newest: dict[Unit, list[LedgerRow]] = defaultdict(list)
        if self.mode in KEEPS_RULES:
            others = [t for t in self.pipeline.targets if t.table != self.target.table and t.rollup is None]
            departed = departed_tables([self.client], self.pipeline, self.lake.url)
            others += [self.target.model_copy(update={"table": one.name}) for one in departed]
            question = LedgerQuestion(self.pipeline, self.lake.url, others)
            for rows in ask_ledger(self.client, [question])[0].values() if others else ():
                for unit, row in (*rows.revoked.items(), *rows.items()):
                    newest[unit].append(row)
        return newest

    def _runs(
        self, lease: Lease, todo: list[LoadWork], ledger: Commits, abilities: Abilities
    ) -> list[UnitLoad]:
        keeps = self.mode in KEEPS_RULES
        if self.mode in ADDS_COLUMNS:
            self._add_columns(lease, [work for work in todo if not (keeps and work.rules)], ledger)
        target_table, _ = inspect_target(self.client, self.pipeline, self.target, checks=False)
        self.shards.expect_unchanged(target_table)
        create_view(self.client, target_table)
        if self.target.counted:
            create_expected(self.client, self.pipeline, self.lake, target_table)
        crash_points.reached(Load.VIEWED)
        if abilities.quorum:
            self._replicas(lease).await_quorum(self.pipeline.clickhouse.lease)
        todo = with_kept(self.client, self.pipeline, target_table, todo)
        loaded: list[UnitLoad] = []
        refused: list[TargetRefused] = [self._lacks(work) for work in todo if work.lacking]
        todo = [work for work in todo if not work.lacking]
        runs = deque(
            run
            for frozen in (False, True)
            for group in by_rules(work for work in todo if work.frozen is frozen)
            for run in cut(group, self._most_rows)
        )
        number = 0
        while runs:
            works, number = runs.popleft(), number + 1
            every_column, types = self.mode == MISSING_COLUMNS, self.mode != "retry"
            place = self._place.by_rules(works[0].rules, every_column, types)
            as_loaded, filling = place.inspect()
            if not works[0].kept and not every_column:
                self._check_later(place, target_table, works)
            rules = write_rules(self.lake, place.kept(as_loaded))
            crash_points.reached(Load.RULES_KEPT)
            attempt = LoadAttempt(self.target.table, lease.generation, number)
            units, unit = frozenset(work.unit for work in works), partial(unit_of, self.pipeline)
            writer = Writer(self.client, attempt, lease.renew, unit, units, abilities.writes)
            placement = placement_in(works[0].sharding)
            lacks = () if works[0].kept else self._counted(filling)
            checks = RowChecks.of(place.target, counts=not works[0].kept)
            shard_filter = ShardFilter(placement, as_loaded, writer, lacks, checks)
            run = LoadRun(
                pipeline=self.pipeline,
                target=place.target,
                target_table=as_loaded,
                present=target_table,
                works=works,
                staging=place.staging(as_loaded, filling, works, writer, shard_filter),
                writer=writer,
                lake_root=self.lake.url,
                token=self.token,
                rules=works[0].rules if works[0].frozen else rules,
                released=self._released(works, ledger),
                marks=abilities.marks,
            )
            try:
                loaded += self._execute(run)
            except DefaultFails as error:
                alone = [[work] for work in works] if len(works) > 1 else []
                refused += [] if alone else [error]
                runs.extend(alone)  # the others' rows load
            except UnitsRefused as error:
                if self.mode == "amend" and isinstance(error, RowsHeld):
                    self.say(Remark(error))  # the table has nothing of them
                else:
                    refused.append(error)
                runs.extend(cut(error.others(works), self._most_rows))
            self.statements += writer.statements
            self.blocks += writer.blocks
            shown = f"{self.target.table}{f' on {self.placement.shard}' if self.placement.shard else ''}"
            self.say(f"{shown}: {sum(one.loaded for one in loaded)} of {len(todo)} slices loaded")
        for other in refused[1:]:
            self.say(Remark(other))
        if refused:
            raise refused[0]
        return loaded

    def _released(
        self, works: Sequence[LoadWork], ledger: Commits
    ) -> dict[Unit, tuple[tuple[str, str], ...]]:
        """Returns the checks that units have been released of, in this landing. An erasure takes a person out
        of what the table has, whatever holds the rest."""
        if self.mode == "amend":
            every = tuple((name, check.sql) for name, check in self.target.checks.items())
            return {w.unit: every for w in works if w.unit in ledger or w.unit in ledger.revoked}
        if not any(check.on_fail == "hold" for check in self.target.checks.values()):
            return {}
        slices = [work.unit.slice for work in works]
        notes = read_held(self.lake, SliceRange(min(slices).start, max(slices).end, slices[0].length))
        manifests = {(work.unit.slice.id, work.unit.cluster): work for work in works}
        return {
            work.unit: one.released_of
            for name, held in notes.items()
            for one in held
            if (one.table, one.shard) == (self.target.table, self.placement.shard)
            and (work := manifests.get((name, one.cluster))) is not None
            and work.manifest == one.manifest
        }

    def _note_held(self, error: RowsHeld, works: Sequence[LoadWork]) -> None:
        manifests, now = {work.unit: work.manifest for work in works}, int(time.time())
        hold(
            self.lake,
            {
                unit: HeldRows(
                    table=self.target.table,
                    cluster=unit.cluster,
                    shard=self.placement.shard,
                    manifest=manifests[unit],
                    checks={name: (self.target.checks[name].sql, rows) for name, rows in counts.items()},
                    at=now,
                    mode=self.mode,
                )
                for unit, counts in error.held.items()
            },
        )

    @property
    def _most_rows(self) -> int:
        return MOST_KEYS if isinstance(self.target.rollup, Newest) else MAX_ROWS

    def _lacks(self, work: LoadWork) -> TargetRefused:
        slice_, rows = work.unit.slice, work.landed + work.lacking
        remake = self.pipeline.command("run", *slice_.words, "--mode", "remake")
        return TargetRefused(
            self.target.table,
            f"it was loaded with {rows:,} rows of slice {work.unit}, and the lake has only {work.landed:,}, "
            "of another landing: the manifest of the one before is lost, or this is another lake; the table "
            "keeps its rows",
            f"put `_slices/` of the lake back from a copy; or give these rows up: `{remake}`",
        )

    def _check_later(self, place: LoadPlace, target_table: TargetTable, works: Sequence[LoadWork]) -> None:
        """Raises TargetRefused where rows would lose values of columns that came after their load: only a
        repair gives these their DEFAULT, and not where one of them may have been renamed."""
        slices = [work.unit.slice for work in works if work.replaces]
        if place.rules is None or self.target.rollup is not None:
            return
        values = later_values(self.client, self.pipeline, self.target, target_table, place.rules, slices)
        if values and (values.lacking or self.mode != "repair"):
            raise values.refusal(slices)
        for column, rows in values.rows.items() if values else ():
            self.say(
                Remark(
                    f"table {target_table.table}: column {visible(column)} came after these hours were "
                    f"loaded: {rows:,} of their rows get its DEFAULT in place of other values"
                )
            )

    def _counted(self, filling: Filling) -> tuple[Lack, ...]:
        """Leaves out fields that the mask drops: their columns have no values on purpose."""
        mask, kinds = self.pipeline.mask, (*self.target.types, CATCH_ALL)
        return tuple(
            lack
            for lack in filling.lacks
            if not any(hides(mask, kind, path) for kind in kinds for path in lack.paths)
        )

    def _add_columns(self, lease: Lease, todo: list[LoadWork], ledger: Commits) -> None:
        arguments = (self.pipeline, self.target, self.lake, self.client, lease, self.placement.shard)
        Evolution(*arguments, self.token, self.say, ledger.keys(), self.shards.columns).add_columns(todo)
        crash_points.reached(Load.EVOLVED)

    def _execute(self, run: LoadRun) -> list[UnitLoad]:
        """A `reland` may remove the files that are being loaded: then missing rows are no anomaly."""
        if run.works[0].frozen:
            self.say(Remark(frozen_line(self.target, run.works)))
            return run.freeze()
        try:
            return run.execute()
        except RowsHeld as error:
            self._note_held(error, run.works)
            raise
        except SluiceError as error:
            if error.retryable or self.target.rollup is not None:
                raise
            now = read_manifests(self.lake, [work.unit for work in run.works])
            for work in run.works:
                if work.unit in now and now[work.unit].id != work.manifest:
                    raise Relanded(
                        f"table {run.target.table}: slice {work.unit} was landed again while it was loaded: "
                        "load it again"
                    ) from error
            raise
