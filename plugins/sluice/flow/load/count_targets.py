"""sluice.`<table> expected`: the traffic that a table of counts lets one expect, beside what was seen."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, listed, literal, render, table
from sluice.clients.clickhouse.tables import Column, TargetTable
from sluice.clients.clickhouse.types import parse
from sluice.clients.lake.base import Lake
from sluice.config.counts import OWN, Counts
from sluice.config.pipeline import Pipeline
from sluice.errors import TargetRefused
from sluice.slices import HOUR
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.departed_tables import COUNT_TYPES
from sluice.state.units import spans


def view_name(table: str) -> str:
    return f"{table} expected"


def keys_of(spec: Counts, target_table: TargetTable) -> tuple[str, ...]:
    """Returns the columns that tell counts of one hour apart, as far as the table has them."""
    return ("type", *(name for name in spec.by if name in target_table.filled and name not in OWN))


def create_expected(client: Client, pipeline: Pipeline, lake: Lake, target_table: TargetTable) -> None:
    """Creates the view over the readers' view. Replaces it when the pipeline file, the table's shape or the
    begin of a cluster is new."""
    spec = next(counts for counts in pipeline.counts if counts.table == target_table.table)
    text = render(
        "load/create_expected",
        view=identifier(SYSTEM, view_name(target_table.table)),
        committed=identifier(SYSTEM, target_table.table),
        target_name=literal(target_table.table),
        table_uuid=literal(target_table.uuid),
        keys=listed(map(identifier, keys_of(spec, target_table))),
        hours_of_slice=Sql(str(max(1, pipeline.slice // HOUR))),
        clusters=_awaited(pipeline, lake),
        slices_of_hour=Sql(str(max(1, HOUR // pipeline.slice))),
        comment=Sql("{comment}"),
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    comment = f"traffic of {target_table.table}, expected and seen; made for {digest}"
    comments = client.rows(
        render("clickhouse/table_comment"), {"database": SYSTEM, "name": view_name(target_table.table)}
    )
    if [(comment,)] != [tuple(row) for row in comments]:
        client.run(Sql(text.replace("{comment}", literal(comment))), settings=WRITE)


def _awaited(pipeline: Pipeline, lake: Lake) -> Sql:
    """Returns each cluster with the first slice that waits for it, in seconds since the epoch. Of one cluster
    no slice is committed before it begins: the log is not read."""
    log = BoundaryLog(lake).read() if len(pipeline.kafka) > 1 else Boundaries()
    begins = spans(pipeline, log).begins
    start_by_cluster = {
        cluster: 0 if begin is None else int(begin.timestamp()) for cluster, begin in begins.items()
    }
    pairs = listed(f"({literal(c)}, {begin})" for c, begin in start_by_cluster.items())
    return Sql(f"CAST([{pairs}], 'Array(Tuple(String, UInt64))')")


_HELD_BY = {"hour": ("DateTime", "DateTime64"), "type": ("String",), "count": ("UInt64", "Int64")}


def check_counts(name: str, columns: Iterable[Column]) -> None:
    """Raises TargetRefused unless the table can say what was counted: verify and the view need it."""
    columns_by_name = {column.name: column for column in columns if column.filled}
    missing = [column for column in OWN if column not in columns_by_name]
    if missing:
        added = ", ".join(f"ADD COLUMN {identifier(column)} {COUNT_TYPES[column]}" for column in missing)
        reason = f"it takes traffic counts and has no column {' and '.join(missing)}"
        raise TargetRefused(name, reason, f"ALTER TABLE {table(name)} {added}")
    for column in OWN:
        if parse(columns_by_name[column].type).plain.name not in _HELD_BY[column]:
            reason = f"column {column} of traffic counts has type {columns_by_name[column].type}"
            remedy = f"ALTER TABLE {table(name)} MODIFY COLUMN {identifier(column)} {COUNT_TYPES[column]}"
            raise TargetRefused(name, reason, remedy)
