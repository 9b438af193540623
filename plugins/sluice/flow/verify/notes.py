"""What a verification could not compare. Pure."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import Server
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline, Target
from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.facts import TableFacts, VerifyFacts, units_of
from sluice.flow.verify.repairs import Repairs, Retried, consented, ranged, retried_rules
from sluice.slices import Slice, SliceRange
from sluice.state.additions import LaterValues, later_values
from sluice.state.boundaries.outside import outside_at_most
from sluice.state.rules import RulesReader
from sluice.state.status import UnitStatus


def notes(facts: VerifyFacts) -> Iterator[str]:
    """Yields a line on what no slice has, for each topic of which it is unknown what slices lack, and for
    each table whose rows a TTL may have deleted, or that the pipeline file no longer names."""
    forgotten = [status for status in facts.statuses if status.forgotten_on]
    if forgotten:
        yield (
            f"the lake has forgotten the files of {len(forgotten):,} units, from {forgotten[0].unit} to "
            f"{forgotten[-1].unit}: tables are compared with the counts of their manifests"
        )
    gone = {s.unit: sum(m.forgotten_by_reason().values()) for s, m in facts.landed if not m.forgotten_on}
    if counts := [count for count in gone.values() if count]:
        yield (
            f"the lake has forgotten the bytes of {sum(counts):,} rejected records of {len(counts):,} units: "
            "they are counted, and no file has them"
        )
    if words := outside_at_most(facts.pipeline, facts.boundaries):
        yield words
    yield from (
        topic.line(facts.pipeline) for topic in landed_without(facts.statuses) if topic.offsets is None
    )
    yield from (f"{departed}: {departed.remedy}" for departed in facts.departed)
    yield from _frozen(facts)
    for table in facts.tables:
        if before := sum(sum(rows.values()) for unit, rows in table.rows.items() if not unit.cluster):
            yield (
                f"table {table.table}: {before:,} rows without `_cluster` were there before Sluice: no load "
                "deletes them, and nothing proves them"
            )
    for table in facts.tables:
        if not table.expiring and table.aged is None:
            continue
        expired = [unit for unit in units_of(facts, table.table) if table.may_lack(unit)]
        if expired:
            missing = f"missing rows of {len(expired):,} slices are not reported"
            yield f"table {table.table}: {missing}, {_why(facts, table)}"


def _frozen(facts: VerifyFacts) -> Iterator[str]:
    for table, rollup in facts.pipeline.rollups.items():
        units = [status.unit for status in facts.statuses if table in status.frozen]
        if units:
            yield (
                f"table {table}: {len(units):,} slices are frozen, from {units[0]} to {units[-1]}: rows of "
                f"{rollup.source} that they are made from have expired, and the lake has forgotten the "
                "files; their rows stay as they were made last"
            )


def _why(facts: VerifyFacts, table: TableFacts) -> str:
    if table.aged is not None:
        return "because they are older than `keep.tables` says"
    contents = facts.pipeline.command("verify", "--contents")
    return f"because its TTL deletes rows; `{contents}` compares those that cannot have expired"


# Topics that slices landed without, in words: `status` and `verify` say the same of them.

BARRED = "topic {topic} was recreated, and what it had then is in the lake alone: no `reland` brings them"


@dataclass(frozen=True)
class LandedWithout:
    """A topic that `slices` of a cluster landed without; `offsets` is None where no boundary has it there:
    nobody has asked yet how many it has. `retried`: what a `reland` would reject again."""

    cluster: str
    topic: str
    slices: tuple[Slice, ...]
    offsets: int | None
    barred: str = ""
    retried: Retried = ()

    @property
    def name(self) -> str:
        return f"{self.cluster}/{self.topic}"

    def line(self, pipeline: Pipeline) -> str:
        first, last = min(self.slices), max(self.slices)
        lack = "slice lacks" if len(self.slices) == 1 else "slices lack"
        if self.barred:
            brings = BARRED.format(topic=self.barred)
        else:
            reland = Repairs.of(pipeline).run([first, last], "reland")
            command, advice = consented(pipeline, self.retried, reland)
            brings = "; ".join(filter(None, (f"`{command}` brings it", advice)))
        span = SliceRange(first.start, last.end, first.length)
        if self.offsets is None:
            offsets, counts = (
                "unknown offsets",
                f"`{pipeline.command('plan', *span.words)}` counts them, and ",
            )
        else:
            offsets, counts = f"{self.offsets:,} offsets", ""
        return (
            f"{len(self.slices):,} {lack} topic {self.name} ({offsets}), from {first.id} to {last.id}: "
            f"{counts}{brings}"
        )


def landed_without(statuses: Iterable[UnitStatus]) -> list[LandedWithout]:
    """Returns for each topic the slices in which its offsets are known, and those in which they are not; and
    apart from them those that cannot be landed again."""
    statuses = list(statuses)
    retried = retried_rules(statuses)
    places: dict[tuple[str, str, bool, str], list[tuple[Slice, int]]] = {}
    for status in statuses:
        for lacks in status.lacking:
            place = (status.unit.cluster, lacks.topic, lacks.offsets is not None, lacks.barred)
            places.setdefault(place, []).append((status.unit.slice, lacks.offsets or 0))
    return [
        LandedWithout(
            cluster,
            topic,
            tuple(slice_ for slice_, _ in found),
            sum(offsets for _, offsets in found) if known else None,
            barred,
            retried,
        )
        for (cluster, topic, known, barred), found in places.items()
    ]


# Repairs that a load would refuse, because a column of the table may have been renamed since.

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
