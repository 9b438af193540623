"""Reads what was rejected: rejected records from manifests, rejected rows from ClickHouse, a part of the
range at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.shards import Servers
from sluice.clients.clickhouse.sql import render
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.flow.rejected.rejections import Rejection, RejectionCause, RejectionFilter
from sluice.manifest import Manifest
from sluice.safe_text import Say
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.ledger import unit_of
from sluice.state.manifests import landed_units, read_manifests
from sluice.state.system_tables import own_tables, read_rejected_rows
from sluice.state.units import awaits, units_of

_TOGETHER = 480  # slices of which manifests and rejected rows are in memory at once
_MOST_ROWS = 200_000  # of one answer


@dataclass(frozen=True)
class RejectionReader:
    """Reads the rejections of a pipeline that a filter takes, in the order of their slices."""

    pipeline: Pipeline
    lake: Lake
    rejection_filter: RejectionFilter
    say: Say

    def rejected_records(self, slices: SliceRange) -> Iterator[Rejection]:
        """Yields rejected records, and rows of records, by unit and reason. Raises what the lake raises."""
        if not self.rejection_filter.rejected_records:
            return
        boundaries = BoundaryLog(self.lake).read()
        for part in parts(slices):
            self._say_progress(part, slices)
            for unit, manifest in read_manifests(
                self.lake, units_of(self.pipeline, part, boundaries)
            ).items():
                yield from rejected_records_of(unit, manifest, self.rejection_filter)

    def unlanded(self, slices: SliceRange) -> tuple[list[Unit], list[Unit]]:
        """Returns the units of the range, and those of them of which nothing has landed."""
        landed = set(landed_units(self.lake, self.pipeline.slice))
        known = units_of(self.pipeline, slices, BoundaryLog(self.lake).read())
        units = [unit for unit in known if unit in landed or awaits(self.pipeline, unit)]
        return units, [unit for unit in units if unit not in landed]

    def rejected_rows(self, servers: Servers, slices: SliceRange) -> Iterator[Rejection]:
        """Yields rejected rows by unit and cause, of all shards. Raises TargetTaken for another pipeline's
        table, and what the clients raise."""
        tables = [t.table for t in self.pipeline.chosen(self.rejection_filter.tables) if t.rollup is None]
        clients = [server.reached for server in servers] if tables else []
        asked = [(one, own_tables(one, self.pipeline, self.lake.url, tables)) for one in clients]
        for part in parts(slices) if tables else ():
            counts: dict[tuple[Unit, RejectionCause], int] = {}
            for client, own in asked:
                for unfit in self._of_server(client, part, own):
                    key = (unfit.unit, unfit.cause)
                    counts[key] = counts.get(key, 0) + unfit.records
            gone = self._forgotten({unit for unit, _ in counts})
            for (unit, cause), records in sorted(counts.items()):
                yield Rejection(unit, cause, records, records if unit in gone else 0)

    def _forgotten(self, units: Collection[Unit]) -> Collection[Unit]:
        """Returns those of which the lake has forgotten the files: they cannot be loaded again."""
        return {unit for unit, m in read_manifests(self.lake, sorted(units)).items() if m.forgotten_on}

    def _of_server(self, client: Client, slices: SliceRange, own: Collection[str]) -> Iterator[Rejection]:
        rows = read_rejected_rows(
            client, "rejected/rejected_rows", self.pipeline, own, self._parameters(slices)
        )
        if len(rows) < _MOST_ROWS:
            for start, cluster, table, column, reason, records in rows:
                cause = RejectionCause("row", table, column, reason)
                yield Rejection(unit_of(self.pipeline, start, cluster), cause, records)
            return
        if len(slices) == 1:
            raise WrongUse(
                f"{slices} has more than {_MOST_ROWS:,} kinds of rejected rows: name --table or --reason"
            )
        for part in parts(slices, (len(slices) + 1) // 2):
            yield from self._of_server(client, part, own)

    def _parameters(self, slices: SliceRange) -> dict[str, Any]:
        return {
            **span(slices),
            "reason": self.rejection_filter.reason,
            "column": self.rejection_filter.column,
            "type": self.rejection_filter.type,
            "most": _MOST_ROWS,
        }

    def _say_progress(self, part: SliceRange, slices: SliceRange) -> None:
        if len(slices) > _TOGETHER:
            done = int((part.start.timestamp() - slices.start.timestamp()) // slices.length.total_seconds())
            self.say(f"reading manifests: {done:,} of {len(slices):,} slices")


def rejected_records_of(unit: Unit, manifest: Manifest, rejection_filter: RejectionFilter) -> list[Rejection]:
    gone = manifest.forgotten_by_reason()
    return [
        Rejection(unit, RejectionCause("record", "", "", reason), records, gone.get(reason, 0))
        for reason, records in manifest.refused_by_reason().items()
        if rejection_filter.takes(reason)
    ]


def revoked(servers: Servers, pipeline: Pipeline, lake: str, slices: SliceRange) -> Collection[Unit]:
    """Returns the units whose rows a load that was stopped has taken out of some table."""
    tables = [target.table for target in pipeline.targets]
    parameters = {**span(slices), "targets": tables, "pipeline": pipeline.name, "lake": lake}
    clients = [server.reached for server in servers] if tables else []
    rows = [row for client in clients for row in _rows(client, "rejected/revoked", parameters)]
    return {unit_of(pipeline, start, cluster) for start, cluster in rows}


def parts(slices: SliceRange, most: int = _TOGETHER) -> Iterator[SliceRange]:
    """Yields the range in parts of at most so many slices."""
    start = slices.start
    while start < slices.end:
        end = min(start + most * slices.length, slices.end)
        yield SliceRange(start, end, slices.length)
        start = end


def span(slices: SliceRange) -> dict[str, int]:
    return {"start": int(slices.start.timestamp()), "end": int(slices.end.timestamp())}


def _rows(client: Client, statement: str, parameters: dict[str, Any]) -> list[Any]:
    """Returns nothing where ClickHouse has no table of Sluice's yet."""
    try:
        return list(client.rows(render(statement), parameters))
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return []
        raise
