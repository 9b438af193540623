"""Repairs that a load would refuse, because a column of the table may have been renamed since."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import Server
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline, Target
from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.facts import TableFacts, VerifyFacts
from sluice.flow.verify.repairs import ranged
from sluice.slices import Slice
from sluice.state.later_columns import LaterValues, later_values
from sluice.state.rules import RulesReader

Renamed = Mapping[tuple[str, str], LaterValues]
"""By slice id and table what the rows have in columns that came later, where one that they had is gone."""


def with_what_works(
    facts: VerifyFacts, servers: Sequence[Server], lake: Lake, anomalies: Sequence[Anomaly]
) -> list[Anomaly]:
    """Returns the anomalies with what works in place of a `repair` that would be refused. Raises what the
    lake and ClickHouse raise."""
    names = {table for anomaly in anomalies for table in _repaired(facts.pipeline, anomaly)}
    slices = {anomaly.slice for anomaly in anomalies if _repaired(facts.pipeline, anomaly)}
    renamed: dict[tuple[str, str], LaterValues] = {}
    for target in facts.pipeline.targets:
        if target.table in names and target.rollup is None:
            for server in servers:
                renamed |= _renamed(facts, server, lake, target, slices)
    by_id = {status.unit.slice.id: status.unit.slice for status in facts.statuses}
    return [with_reload(facts.pipeline, renamed, by_id, anomaly) for anomaly in anomalies]


def with_reload(
    pipeline: Pipeline, renamed: Renamed, slices: Mapping[str, Slice], anomaly: Anomaly
) -> Anomaly:
    """Returns the anomaly without a `repair` of tables that are `renamed` in its hour. Pure."""
    tables = _repaired(pipeline, anomaly)
    refused = [table for table in tables if (anomaly.slice, table) in renamed]
    left = [table for table in tables if table not in refused]
    command = ranged(anomaly.command)
    if not refused or command is None:
        return anomaly
    if left and anomaly.table not in refused:
        named = "".join(f" --table {shlex.quote(table)}" for table in left)
        return replace(anomaly, command=str(replace(command, named=named)))
    values = renamed[anomaly.slice, anomaly.table if anomaly.table in refused else refused[0]]
    hour = [slices[anomaly.slice]]
    return replace(anomaly, command=values.command(hour), advice=values.remedy(hour))


def _repaired(pipeline: Pipeline, anomaly: Anomaly) -> list[str]:
    """Returns the tables that the anomaly's command repairs."""
    command = ranged(anomaly.command)
    if command is None or command.mode != "repair":
        return []
    return command.tables or [target.table for target in pipeline.targets]


def _renamed(
    facts: VerifyFacts, server: Server, lake: Lake, target: Target, slices: Collection[str]
) -> dict[tuple[str, str], LaterValues]:
    target_table = read_table(server.reached, target.database, target.name)
    if target_table is None:
        return {}
    by_digest: dict[str, set[Slice]] = defaultdict(set)
    for part in _parts(facts, server):
        for unit, row in part.ledger.items() if part.table == target.table else ():
            if unit.slice.id in slices:
                by_digest[row.rules].add(unit.slice)
    reader = RulesReader(lake)
    found: dict[tuple[str, str], LaterValues] = {}
    for digest, hours in by_digest.items():
        rules = reader.table(digest)
        if rules is None:
            continue
        values = later_values(server.reached, facts.pipeline, target, target_table, rules, hours)
        if values is not None and values.lacking:
            found |= {(hour.id, target.table): values for hour in hours}
    return found


def _parts(facts: VerifyFacts, server: Server) -> Iterable[TableFacts]:
    mine = [part for part in facts.shards if part.shard == server.shard.name]
    return mine or facts.tables
