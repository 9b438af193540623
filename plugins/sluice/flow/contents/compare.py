"""Compares contents: all of a range (`sluice verify --contents`), or the share that each run samples."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import pendulum

from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.settings import READ_QUORUM
from sluice.clients.clickhouse.shards import Server, connect_shards
from sluice.clients.clickhouse.tables import TargetTable, ViewTable
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import Busy
from sluice.flow.contents.check_lake_rows import check_unit
from sluice.flow.contents.compare_tables import Comparing, TableContents
from sluice.flow.contents.report import ContentsReport, forgotten_lines, relanded
from sluice.flow.contents.sampled_file import Share
from sluice.flow.contents.sampling import FETCHED_BYTES, choose
from sluice.flow.contents.staged_load import Stage, stage_of
from sluice.flow.load.rollups.decide import RollupFacts
from sluice.flow.load.rollups.hours import choose as choose_rollup
from sluice.flow.load.work import LoadWork, work_for
from sluice.flow.verify.anomaly import ROW_KINDS, Anomaly, AnomalyKind
from sluice.flow.verify.current import is_current
from sluice.flow.verify.repairs import Repairs
from sluice.flow.verify.verdict import doubtful_units
from sluice.flow.verify.verdict_store import read_verdict
from sluice.manifest import Manifest
from sluice.safe_text import Say
from sluice.slices import Unit
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
            units = {(unit.slice.id, unit.cluster) for unit, _ in landed} | contents.compared
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
        if target.rollup is not None and _changes(target.rollup.select):
            table = read_table(server.reached, target.database, target.name)
            lines = [
                f"table {target.table} is not compared: its SELECT may give other rows each time",
                *(
                    f"table {view_table.called} is not compared: {target.table} is not"
                    for view_table in _stored(table)
                ),
            ]
            contents.notes += [line for line in lines if line not in contents.notes]
            return
        stage = stage_of(server, self.pipeline, target, self.lake)
        now, keep = pendulum.now("UTC"), self.pipeline.keep
        tables = (target.table, *([target.rollup.source] if target.rollup else []))
        young = [s for s in statuses if not any(keep.may_lack(t, s.unit.slice.start, now) for t in tables)]
        readable = [s for s in young if target.rollup is not None or not s.forgotten_on]
        current = [status for status in readable if is_current(self.pipeline, target, status)]
        reason = ""
        for _ in range(_AGAIN):
            try:
                works = self._works(stage, current)
                self.say(f"comparing {sum(work.landed for work in works):,} rows of {target.table}")
                table_contents = Comparing(stage, self.repairs).check(works) if works else TableContents()
            except Busy as error:
                reason = str(error)
                continue
            contents.add(table_contents)
            contents.compared |= {(work.unit.slice.id, work.unit.cluster) for work in works}
            if table_contents.moved:
                contents.busy.append(
                    f"table {target.table}: {len(table_contents.moved):,} slices were loaded meanwhile"
                )
            return
        contents.busy.append(reason)

    def _works(self, stage: Stage, statuses: Sequence[UnitStatus]) -> list[LoadWork]:
        target, ledger = stage.target, stage.ledger()
        if target.rollup is None:
            return [
                work_for(self.pipeline, target, s.unit, s.manifest, True, stage.placement.stamp)
                for s in statuses
                if s.manifest and s.unit in ledger and ledger[s.unit].manifest == s.manifest.id
            ]
        rollup_facts = RollupFacts(
            target.rollup, stage.source(target.rollup), ledger, "reload", "", stage.placement.stamp
        )
        units = [status.unit for status in statuses]
        works, _ = choose_rollup(stage.client, self.pipeline, target.table, rollup_facts, units)
        return [w for w in works if w.unit in ledger and ledger[w.unit].manifest == w.manifest]

    def _new(self, anomalies: Sequence[Anomaly]) -> list[Anomaly]:
        """Removes what a count has reported already of the same unit and table."""
        counted = {(a.slice, a.cluster, a.table) for a in self.known if a.table}
        kinds = (AnomalyKind.VALUES, AnomalyKind.MISFITS)
        return [a for a in anomalies if a.kind not in kinds or (a.slice, a.cluster, a.table) not in counted]


def auditor(
    pipeline: Pipeline,
    config: Path | None,
    say: Say = lambda _: None,
    known: Sequence[Anomaly] = (),
    tables: Collection[str] | None = None,
) -> Auditor:
    return Auditor(pipeline, open_lake(pipeline), Repairs(pipeline.name, config), say, known, tables)


def _stored(table: TargetTable | None) -> tuple[ViewTable, ...]:
    """Returns the tables of its views."""
    return () if table is None else table.stored


def _landed(statuses: Sequence[UnitStatus]) -> list[tuple[Unit, Manifest]]:
    return [(status.unit, status.manifest) for status in statuses if status.manifest is not None]


# Whose answer the order of rows decides, or the clock, chance or another table.
_CHANGING = re.compile(
    r"\b(any\w*|first_value\w*|last_value\w*|group\w*Array\w*|topK\w*|arg(Min|Max)\w*|"
    r"(quantile|median)(?!s?Exact)\w*|now\w*|today|yesterday|rand\w*|generate\w+|dict\w+|joinGet\w*|hostName|currentUser|rowNumber\w+|file|url|s3)"
    r"\s*\(|\bJOIN\b|\bLIMIT\b",
    re.IGNORECASE,
)


def _changes(select: str) -> bool:
    return _CHANGING.search(select) is not None
