"""Compares one sampled file: its rows with their payloads, and the tables with its rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import pendulum
import pyarrow as pa

from sluice.clients.clickhouse.shards import Server
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.errors import Busy, TargetRefused
from sluice.flow.contents.check_lake_rows import events_of, of_file, unreadable
from sluice.flow.contents.compare_tables import Comparing
from sluice.flow.contents.report import ContentsReport, relanded
from sluice.flow.contents.sampling import (
    SAMPLED_ROWS,
    SampledRowGroup,
    judge,
    reading_of,
    rows_in,
    same_records,
)
from sluice.flow.contents.staged_load import Stage, stage_of
from sluice.flow.load.target_checks import inspect_target
from sluice.flow.load.work import LoadWork, work_for
from sluice.flow.verify.current import is_current
from sluice.flow.verify.repairs import Repairs
from sluice.state.status import UnitStatus


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
            target_table, _ = inspect_target(stage.client, self.pipeline, stage.target)
            where = same_records(target_table.columns, rows)
            if where is not None:
                file = replace(chosen.file, rows=rows.num_rows)
                part = replace(work, files=(file,), landed=rows.num_rows)
                with reading_of(rows) as reading:
                    contents.add(comparing.check_sample(part, reading, where))
            elif work.landed <= SAMPLED_ROWS:
                contents.add(comparing.check([work]))
        except (Busy, TargetRefused) as error:
            contents.busy.append(str(error))
