"""Compares contents: all of a range (`sluice verify --contents`), or the share that each run samples."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import pendulum
import pyarrow as pa

from sluice.clients.clickhouse.client import READ_QUORUM
from sluice.clients.clickhouse.shards import Server, connect_shards
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import Derived, Newest
from sluice.errors import Busy, TargetRefused
from sluice.flow.contents.check_lake_rows import check_unit, events_of, of_file, unreadable
from sluice.flow.contents.compare_tables import Comparing, TableContents
from sluice.flow.contents.sampling import (
    FETCHED_BYTES,
    SAMPLED_ROWS,
    Sample,
    SampledRowGroup,
    choose,
    judge,
    reading_of,
    rows_in,
    same_records,
)
from sluice.flow.contents.staged_load import Stage, stage_of
from sluice.flow.load.rollups.decide import RollupFacts
from sluice.flow.load.target_checks import inspect_target
from sluice.flow.load.work import LoadWork, work_for
from sluice.flow.verify.anomaly import ROW_KINDS, Anomaly, AnomalyKind
from sluice.flow.verify.facts import is_current
from sluice.flow.verify.repairs import Repairs
from sluice.flow.verify.verdict import doubtful_units, read_verdict
from sluice.manifest import Manifest
from sluice.safe_text import Say
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from sluice.state.status import UnitStatus

_AGAIN = 3
"""How often a table is compared that a load takes away meanwhile."""


@dataclass(frozen=True)
class Auditor:
    """One pipeline's contents, of its tables only `tables`. `known` anomalies of counts are not reported
    again as other values."""

    pipeline: Pipeline
    lake: Lake
    repairs: Repairs
    say: Say
    known: Sequence[Anomaly] = ()
    tables: Collection[str] | None = None

    def whole(self, statuses: Sequence[UnitStatus]) -> ContentsReport:
        """Compares every row of the units in lake and tables. Raises what the lake and ClickHouse raise."""
        contents = ContentsReport()
        with connect_shards(self.pipeline, READ_QUORUM) as servers:
            self._rows(servers, statuses, contents)
        contents.anomalies = self._new(contents.anomalies)
        return contents

    def _rows(
        self, servers: Sequence[Server], statuses: Sequence[UnitStatus], contents: ContentsReport
    ) -> None:
        landed = _landed(statuses)
        contents.notes += forgotten_lines(landed)
        for number, (unit, manifest) in enumerate(landed, start=1):
            self.say(f"comparing the lake's rows of {unit}, {number:,} of {len(landed):,}")
            lake = check_unit(self.pipeline, self.lake, unit, manifest, self.repairs)
            if lake.anomalies and relanded(self.lake, unit, manifest):
                contents.busy.append(f"slice {unit} was landed again meanwhile")
                continue
            contents.rows += lake.rows
            contents.anomalies += lake.anomalies
        for target in self.pipeline.chosen(self.tables):
            for server in servers:
                self._table(server, target, statuses, contents)
        if not contents.busy:
            units = {(unit.slice.id, unit.cluster) for unit, _ in landed}
            contents.covered |= dict.fromkeys(map(str, ROW_KINDS), frozenset(units))

    def sample(self, statuses: Sequence[UnitStatus]) -> ContentsReport:
        """Compares a bounded share, and all of the units whose contents were wrong when they were last
        compared.

        A table that is being loaded is left out: its own run compares it.
        """
        contents, landed = ContentsReport(), _landed(statuses)
        doubtful = doubtful_units(read_verdict(self.lake))
        doubtful_statuses = [s for s in statuses if (s.unit.slice.id, s.unit.cluster) in doubtful]
        by_unit = {status.unit: status for status in statuses}
        share = Share(self.pipeline, self.lake, self.repairs, self.tables)
        with connect_shards(self.pipeline, READ_QUORUM) as servers:
            if doubtful_statuses:
                self._rows(servers, doubtful_statuses, contents)
            for chosen in choose(
                [pair for pair in landed if by_unit[pair[0]] not in doubtful_statuses],
                most_bytes=None if self.lake.url.startswith("file://") else FETCHED_BYTES,
            ):
                share.check(servers, chosen, by_unit[chosen.unit], contents)
        contents.anomalies = self._new(contents.anomalies)
        return contents

    def _table(
        self, server: Server, target: Target, statuses: Sequence[UnitStatus], contents: ContentsReport
    ) -> None:
        stage = stage_of(server, self.pipeline, target, self.lake)
        now, keep = pendulum.now("UTC"), self.pipeline.keep
        young = [s for s in statuses if not keep.may_lack(target.table, s.unit.slice.start, now)]
        readable = [s for s in young if target.rollup is not None or not s.forgotten_on]
        current = [status for status in readable if is_current(self.pipeline, target, status)]
        reason = ""
        for _ in range(_AGAIN):
            try:
                works = self.works(stage, current, contents)
                self.say(f"comparing {sum(work.landed for work in works):,} rows of {target.table}")
                table_contents = Comparing(stage, self.repairs).check(works) if works else TableContents()
            except Busy as error:
                reason = str(error)
                continue
            contents.add(table_contents)
            if table_contents.moved:
                contents.busy.append(
                    f"table {target.table}: {len(table_contents.moved):,} slices were loaded meanwhile"
                )
            return
        contents.busy.append(reason)

    def works(self, stage: Stage, statuses: Sequence[UnitStatus], contents: ContentsReport) -> list[LoadWork]:
        """Returns what a load would make again, to be compared with what the table has."""
        target, ledger = stage.target, stage.ledger()
        if target.rollup is not None:
            return self._rollup_works(stage, target.rollup, statuses, contents)
        return [
            work_for(self.pipeline, target, s.unit, s.manifest, True, stage.placement.stamp)
            for s in statuses
            if s.manifest and s.unit in ledger and ledger[s.unit].manifest == s.manifest.id
        ]

    def _rollup_works(
        self, stage: Stage, rollup: Derived, statuses: Sequence[UnitStatus], contents: ContentsReport
    ) -> list[LoadWork]:
        """Returns what the units would be made from now. Of those whose input is gone it adds a note."""
        ledger, source = stage.ledger(), stage.source(rollup)
        facts = RollupFacts(
            rollup=rollup,
            source=source.ledger(),
            ledger=ledger,
            mode="reload",
            token="",
            sharding=stage.placement.stamp,
            source_sharding=source.stamp,
        )
        units = [status.unit for status in statuses if status.unit in ledger]
        choice = facts.choose(units, source.units(facts.due(units), facts.source))
        table, frozen = stage.target.table, [work.unit for work in choice.frozen]
        if frozen:
            note = (
                f"table {table}: {len(frozen):,} slices are not compared ({frozen[0]} to {frozen[-1]}): rows "
                f"of {rollup.source} that they were made from have expired, and the lake has forgotten the "
                "files"
            )
            contents.notes += [note] if note not in contents.notes else []
            contents.uncompared |= {(unit.slice.id, unit.cluster, table) for unit in frozen}
        todo = choice.todo
        if isinstance(rollup, Newest) and any(work.source for work in todo):
            lacking = [work.unit for work in todo if work.source]
            contents.notes.append(
                f"table {table}: {len(lacking):,} slices are not compared ({lacking[0]} to {lacking[-1]}): "
                f"{rollup.source} has more or fewer rows of them than were committed"
            )
            contents.uncompared |= {(unit.slice.id, unit.cluster, table) for unit in lacking}
            todo = [work for work in todo if not work.source]
        rows = {work.unit: ledger[work.unit] for work in todo}
        return [w for w in todo if rows[w.unit].manifest == w.manifest and not rows[w.unit].added]

    def _new(self, anomalies: Sequence[Anomaly]) -> list[Anomaly]:
        """Removes what a count has reported already of the same unit and table."""
        counted = {(a.slice, a.cluster, a.table) for a in self.known if a.table}
        kinds = (AnomalyKind.VALUES, AnomalyKind.REJECTED_VALUES)
        return [a for a in anomalies if a.kind not in kinds or (a.slice, a.cluster, a.table) not in counted]


def auditor(
    pipeline: Pipeline,
    say: Say = lambda _: None,
    known: Sequence[Anomaly] = (),
    tables: Collection[str] | None = None,
) -> Auditor:
    return Auditor(pipeline, open_lake(pipeline), Repairs.of(pipeline), say, known, tables)


def _landed(statuses: Sequence[UnitStatus]) -> list[tuple[Unit, Manifest]]:
    return [(status.unit, status.manifest) for status in statuses if status.manifest is not None]


# Compares one sampled file: its rows with their payloads, and the tables with its rows.
@dataclass(frozen=True)
class Share:
    pipeline: Pipeline
    lake: Lake
    repairs: Repairs
    tables: Collection[str] | None = None

    def check(
        self, servers: Sequence[Server], chosen: SampledRowGroup, status: UnitStatus, contents: ContentsReport
    ) -> None:
        """Compares the file's sample with its payloads and with the tables; adds to `contents`."""
        try:
            rows = rows_in(self.lake, chosen)
            wrong = judge(events_of(self.pipeline, self.lake, chosen.manifest), chosen, rows)
        except (OSError, pa.ArrowException) as error:
            if relanded(self.lake, chosen.unit, chosen.manifest):
                contents.busy.append(f"slice {chosen.unit} was landed again meanwhile")
            else:
                contents.anomalies.append(unreadable(chosen.unit, chosen.file, error, self.repairs))
            return
        contents.rows += rows.num_rows
        contents.anomalies += [of_file(chosen.unit, chosen.file, fault, self.repairs) for fault in wrong]
        for target in self.pipeline.chosen(self.tables):
            plain = not target.counted and target.rollup is None
            routed = self.pipeline.routed(target, chosen.file.types()) if plain else ()
            if self.pipeline.keep.may_lack(target.table, chosen.unit.slice.start, pendulum.now("UTC")):
                continue
            if not routed or not rows.num_rows or not is_current(self.pipeline, target, status):
                continue
            for server in servers:
                stage = stage_of(server, self.pipeline, target, self.lake)
                work = work_for(
                    self.pipeline, target, chosen.unit, chosen.manifest, True, stage.placement.stamp
                )
                self._table(stage, work, chosen, rows, contents)

    def _table(
        self, stage: Stage, work: LoadWork, chosen: SampledRowGroup, rows: pa.Table, contents: ContentsReport
    ) -> None:
        """Compares the sampled rows where the table tells its rows apart, else all of a small unit."""
        comparing = Comparing(stage, self.repairs, views=False)
        try:
            target_table, _ = inspect_target(stage.client, self.pipeline, stage.target, checks=False)
            where = same_records(target_table.columns, rows)
            if where is not None:
                file = replace(chosen.file, rows=rows.num_rows)
                part = replace(work, files=(file,), landed=rows.num_rows)
                with reading_of(rows) as reading:
                    contents.add(comparing.check_sample(part, Sample(reading, where, rows)))
            elif work.landed <= SAMPLED_ROWS:
                contents.add(comparing.check([work]))
        except Busy as error:
            contents.busy.append(str(error))
        except TargetRefused as error:
            contents.blocked.append(str(error))


# What a comparison of contents has found.
@dataclass
class ContentsReport:
    """`rows` of the lake and of the tables were compared; `busy` says what was being loaded meanwhile, and
    `blocked` what is not compared until somebody has done what it says.

    `covered`: the units, as (slice id, cluster), that were checked for each kind of anomaly; `uncompared`
    are the tables, as (slice id, cluster, table), whose rows of such a unit were not compared all the same.
    """

    rows: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    covered: dict[str, frozenset[tuple[str, str]]] = field(
        default_factory=lambda: dict.fromkeys(map(str, ROW_KINDS), frozenset())
    )
    uncompared: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, table_contents: TableContents) -> None:
        self.rows += table_contents.rows
        self.anomalies += table_contents.anomalies
        self.uncompared |= {(unit.slice.id, unit.cluster, name) for unit, name in table_contents.uncompared}
        self.notes += [note for note in table_contents.notes if note not in self.notes]
        self.blocked += [line for line in table_contents.blocked if line not in self.blocked]


def relanded(lake: Lake, unit: Unit, manifest: Manifest) -> bool:
    """Returns whether the unit has other files by now, or the lake has forgotten some since."""
    now = read_manifests(lake, [unit]).get(unit)
    return now is None or (now.id, now.forgotten) != (manifest.id, manifest.forgotten)


def forgotten_lines(landed: Sequence[tuple[Unit, Manifest]]) -> list[str]:
    """Returns a line on the units of which the lake has forgotten files: nothing is left to compare them
    with."""
    units = [unit for unit, manifest in landed if manifest.forgotten_files]
    if not units:
        return []
    span = str(units[0]) if len(units) == 1 else f"{units[0]} to {units[-1]}"
    return [f"{len(units):,} units ({span}) are not compared with files that the lake has forgotten"]
