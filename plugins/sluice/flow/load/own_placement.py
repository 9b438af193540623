"""Where the rows of a unit stay while an operation that changes no rules loads it: where they are.

Decided once for all shards, before any of them is loaded. A unit that cannot stay so is refused there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.shards import Servers, placement_in, shards_in, stamp
from sluice.clients.clickhouse.sql import render, table
from sluice.clients.clickhouse.tables import Column, TargetTable
from sluice.clients.lake.base import Lake
from sluice.concurrency import each
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import Changed, TargetRefused
from sluice.manifest import Manifest
from sluice.plan.modes import KEEPS_PLACEMENT, LOADS_AGAIN, Mode
from sluice.slices import SliceRange, Unit
from sluice.state.ledger import Commits, LedgerRow, committed, unit_of
from sluice.state.manifests import read_manifests
from sluice.state.shard_definitions import Definitions, coming, had_elsewhere

Stamps = Mapping[str, str]
"""By shard, what the ledger rows of a unit are stamped with: a shard that is not in it holds none of it."""


@dataclass(frozen=True)
class OwnPlacements:
    """`stamps` are of the units that stay where they are, and `refused` says why one cannot. The pipeline
    file places all others. `commits`: the ledger of each shard that answers."""

    commits: Mapping[str, Commits] = field(default_factory=dict)
    stamps: Mapping[Unit, Stamps] = field(default_factory=dict)
    refused: Mapping[Unit, str] = field(default_factory=dict)

    def check(self, pipeline: Pipeline, target: Target) -> None:
        """Raises TargetRefused if a unit is refused."""
        if not self.refused:
            return
        slices = sorted({unit.slice for unit in self.refused})
        span = SliceRange(slices[0].start, slices[-1].end, slices[0].length)
        reload = pipeline.command("run", *span.words, "--table", target.table, "--mode", "reload")
        first = min(self.refused)
        more = f", and {len(self.refused) - 1:,} more slices" if len(self.refused) > 1 else ""
        raise TargetRefused(
            target.table,
            f"the rows of slice {first} cannot stay where they are: {self.refused[first]}{more}",
            f"place them anew: `{reload}`, then run this again",
        )


def own_stamps(
    manifest: Manifest, rows: Mapping[str, LedgerRow], listed: Collection[str]
) -> Stamps | str | None:
    """Returns where the rows of a unit are, or why they cannot stay there; None if no load of the manifest,
    or of one that it amends, has placed them. Pure.

    `rows`: the newest of each shard, committed or revoked. `listed`: the shards of the pipeline file.
    """
    own = {shard: row.sharding for shard, row in rows.items() if row.continues(manifest)}
    if not own:
        return None
    shardings = {placement_in(text).sharding for text in own.values()}
    sharding = min(shardings)
    # Without shards the one server has all rows, whatever it is called by now.
    stamps = {name: stamp(sharding, name) for name in (shards_in(sharding) if sharding else own)}
    if gone := [name for name in stamps if name not in listed]:
        return f"shard {gone[0]} has left the pipeline file"
    mixed = len(shardings) > 1 or (not sharding and len(own) > 1)
    if mixed or not rows.keys() <= stamps.keys() or any(stamps[shard] != own[shard] for shard in own):
        return "the shards do not hold them by one placement"
    return stamps


def own_placements(
    servers: Servers,
    pipeline: Pipeline,
    target: Target,
    lake: Lake,
    units: Collection[Unit],
    mode: Mode,
) -> OwnPlacements:
    """Raises what the clients and the lake raise."""
    # Each shard makes a rollup of its own rows.
    if not units or target.rollup is not None:
        return OwnPlacements()
    commits = _commits(servers, pipeline, lake, target, units)
    if mode not in KEEPS_PLACEMENT:
        return OwnPlacements(commits)
    listed = [server.shard.name for server in servers]
    stamps: dict[Unit, Stamps] = {}
    refused: dict[Unit, str] = {}
    for unit, manifest in read_manifests(lake, units).items():
        rows = {shard: row for shard, ledger in commits.items() if (row := ledger.newest(unit))}
        found = None if manifest.forgotten_on else own_stamps(manifest, rows, listed)
        if isinstance(found, str):
            current = all(unit in commits[s] and row.manifest == manifest.id for s, row in rows.items())
            if current and mode not in LOADS_AGAIN:
                stamps[unit] = {}  # it has nothing to load
            else:
                refused[unit] = found
        elif found is not None:
            stamps[unit] = found
        elif len(commits) < len(listed) and not manifest.forgotten_on:
            stamps[unit] = {}  # a shard that does not answer may know where its rows are
    refused |= _moved(servers, pipeline, target, stamps, mode)
    return OwnPlacements(commits, stamps, refused)


def _commits(
    servers: Servers, pipeline: Pipeline, lake: Lake, target: Target, units: Collection[Unit]
) -> dict[str, Commits]:
    span = _span(pipeline, units)
    answering = [server for server in servers if server.client is not None]
    ledgers = each(lambda server: committed(server.reached, pipeline, lake.url, target, span), answering)
    return {server.shard.name: ledger for server, ledger in zip(answering, ledgers, strict=True)}


def _moved(
    servers: Servers, pipeline: Pipeline, target: Target, stamps: Mapping[Unit, Stamps], mode: Mode
) -> dict[Unit, str]:
    """Returns why units cannot stay whose expression does not place their rows where they are: a column of it
    was altered since. A repair brings such rows back."""
    refused: dict[Unit, str] = {}
    for server in servers:
        name = server.shard.name
        units: dict[str, list[Unit]] = {}
        for unit, own in stamps.items():
            if name in own:
                units.setdefault(own[name], []).append(unit)
        for text, placed in units.items():
            placement = placement_in(text)
            if server.client is None or placement.alone or placement.by_partition:
                continue
            sql = render("verify/misplaced", table=table(target.table), own=placement.own_row)
            span = _span(pipeline, placed)
            try:
                rows = _misplaced(server.client, pipeline, sql, span)
            except ServerError as error:
                if error.retryable:
                    raise
                refused |= dict.fromkeys(placed, f"`{placement.by}` placed them: {error.reason}")
                continue
            for unit in placed:
                if rows.get(unit) and mode != "repair":
                    now = f"gives another shard for {rows[unit]:,} rows that are on {name}"
                    refused.setdefault(unit, f"`{placement.by}` placed them, and {now}")
    return refused


def _misplaced(client: Client, pipeline: Pipeline, sql: str, span: SliceRange) -> dict[Unit, int]:
    seconds = {"start": int(span.start.timestamp()), "end": int(span.end.timestamp())}
    return {unit_of(pipeline, start, cluster): n for start, cluster, n in client.rows(sql, seconds)}


def _span(pipeline: Pipeline, units: Collection[Unit]) -> SliceRange:
    slices = [unit.slice for unit in units]
    return SliceRange(min(s.start for s in slices), max(s.end for s in slices), pipeline.slice)


# What a load of one shard has to know of the others: a unit is made by one set of rules on all of them.

UnitRows = Mapping[Unit, Sequence[LedgerRow]]
"""The newest ledger rows of each unit, committed or revoked, each of another manifest or of other rules."""


@dataclass(frozen=True)
class OtherShards:
    """`columns`: those that loads have added on another shard. `agreed`: the shard's own columns, when they
    were like the others'. `rows` are of all shards. `stamps` are of the units that stay where they are."""

    columns: frozenset[str] = frozenset()
    agreed: tuple[Column, ...] = ()
    rows: UnitRows = field(default_factory=dict)
    stamps: Mapping[Unit, Stamps] = field(default_factory=dict)

    def own_or_other(self, own: LedgerRow | None, manifest: Manifest, unit: Unit) -> LedgerRow | None:
        """Returns the row by whose rules the unit goes on: the shard's own, else another's of the manifest.

        A shard that was away, or that is new, makes its part of the unit as the others have made theirs,
        whatever the pipeline file or the table has got since."""
        if own is not None and own.continues(manifest):
            return own
        return next((row for row in self.rows.get(unit, ()) if row.continues(manifest)), own)

    def expect_unchanged(self, target_table: TargetTable) -> None:
        """Raises Changed: nobody has compared the columns as they are now with the others'."""
        now = {column.name: column for column in target_table.columns}
        changed = [column.name for column in self.agreed if now.get(column.name) != column]
        if changed:
            raise Changed(
                f"table {target_table.table}: column {changed[0]} was changed while it was "
                "loaded: load it again"
            )


NO_OTHERS = OtherShards()


def others_of(
    servers: Servers,
    target: Target,
    lake: Lake,
    alike: Definitions,
    placements: OwnPlacements,
) -> dict[str, OtherShards]:
    """Returns by shard what it has to know of the others. Raises what the lake raises."""
    names, additions = [server.shard.name for server in servers], coming(target, lake)
    rows = _rows(placements.commits.values())
    return {
        name: OtherShards(
            columns=had_elsewhere(name, names, alike, additions),
            agreed=alike.get(name, ()),
            rows=rows,
            stamps=placements.stamps,
        )
        for name in names
    }


def _rows(ledgers: Iterable[Commits]) -> UnitRows:
    found: dict[Unit, dict[tuple[str, str], LedgerRow]] = {}
    for commits in ledgers:
        for unit, row in (*commits.items(), *commits.revoked.items()):
            found.setdefault(unit, {}).setdefault((row.manifest, row.rules), row)
    return {unit: tuple(rows.values()) for unit, rows in found.items()}
