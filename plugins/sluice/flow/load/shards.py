"""Loads one target on every shard, side by side: each with its own lease, tables and ledger rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import Servers, connect_replicas, connect_shards, placement_of
from sluice.clients.clickhouse.sql import render
from sluice.clients.connections import find
from sluice.clients.lake.base import Lake
from sluice.config.clickhouse import Shard
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import ShardsRefused, ShardsWait, SluiceError, Unavailable
from sluice.flow.load.load import load
from sluice.flow.load.own_placement import NO_OTHERS, OtherShards, others_of, own_placements
from sluice.flow.load.work import LoadResult, UnitLoad
from sluice.plan.modes import KEEPS_PLACEMENT, Mode
from sluice.safe_text import Say
from sluice.slices import Unit
from sluice.state.additions import confirm, latest, read_additions
from sluice.state.shard_definitions import check_alike
from sluice.state.shard_ledgers import check_different, remember

# Each waits for its server most of the time.
_SIDE_BY_SIDE = 16


def load_shards(
    pipeline: Pipeline,
    target: Target,
    units: Iterable[Unit],
    lake: Lake,
    *,
    mode: Mode,
    token: str = "",
    on_progress: Say = lambda _: None,
    patience: timedelta | None = None,
    then: Callable[[Client, LoadResult], None] = lambda client, result: None,
) -> LoadResult:
    """Loads each shard; what one of them meets does not stop the others. `then` is called
    with what each shard has loaded.

    With one `connection` it raises what `load` raises. With shards: ShardsWait when the failure is retryable,
    and ShardsRefused when a person has to act, both after the other shards are done. TargetRefused where the
    shards' columns differ, or the rows of a unit cannot stay where they are, before any of them is loaded.
    """
    units = list(units)
    remember(lake, pipeline.clickhouse)
    # Airflow's own look-up is for the thread that its task runs in.
    connections = {s.name: tuple(map(find, s.connections)) for s in pipeline.clickhouse.parts}

    how: Any = {"mode": mode, "token": token, "on_progress": on_progress, "patience": patience}

    silent: dict[str, Unavailable] = {}
    other_shards: dict[str, OtherShards] = {}

    def load_one(shard: Shard) -> LoadResult:
        if error := silent.get(shard.name):
            raise error
        with connect_replicas(connections[shard.name]) as clients:
            client, others = clients[0], clients[1:] if shard.replicas else None
            placement = placement_of(pipeline.clickhouse, shard, target.table)
            beside: Any = {"others": others, "shards": other_shards.get(shard.name, NO_OTHERS)}
            result = load(pipeline, target, units, lake, client, **how, placement=placement, **beside)
            then(client, result)
            return result

    if not pipeline.clickhouse.shards:
        if mode in KEEPS_PLACEMENT:
            with connect_shards(pipeline) as servers:
                own_placements(servers, pipeline, target, lake, units, mode).check(pipeline, target)
        return load_one(pipeline.clickhouse.parts[0])
    with connect_shards(pipeline) as servers:
        check_different(servers, target)
        remember(lake, pipeline.clickhouse, servers)
        confirm_stopped(servers, target, lake)
        alike = check_alike(servers, target, lake)
        placements = own_placements(servers, pipeline, target, lake, units, mode)
        placements.check(pipeline, target)
        other_shards |= others_of(servers, target, lake, alike, placements)
        # Also if it answers by now: nobody has compared its table with the others'.
        silent |= {server.shard.name: server.error for server in servers if server.error is not None}
    return _together(target, pipeline.clickhouse.shards, load_one)


def _together(target: Target, shards: Iterable[Shard], load_one: Callable[[Shard], LoadResult]) -> LoadResult:
    with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="shard") as pool:
        running: dict[str, Future[LoadResult]] = {
            shard.name: pool.submit(load_one, shard) for shard in shards
        }
    failures, loaded = {}, {}
    for name, future in running.items():
        error = future.exception()
        if error is None:
            loaded[name] = future.result()
        elif isinstance(error, SluiceError):
            failures[name] = error
        else:
            raise error
    if failures:
        wait = all(error.retryable for error in failures.values())
        details = "; ".join(f"shard {name}: {error}" for name, error in failures.items())
        raise (ShardsWait if wait else ShardsRefused)(target.table, details, ", ".join(loaded))
    return merged(target.table, loaded)


def merged(table: str, loaded: Mapping[str, LoadResult]) -> LoadResult:
    """Returns one result: a unit was loaded where any shard has loaded it; rows and rejected rows of all."""
    units: dict[Unit, UnitLoad] = {}
    for result in loaded.values():
        for part in result.units:
            earlier = units.get(part.unit)
            units[part.unit] = part if earlier is None else _added(earlier, part)
    statements = sum(result.statements for result in loaded.values())
    blocks = sum(result.blocks for result in loaded.values())
    return LoadResult(table, tuple(units[unit] for unit in sorted(units)), statements, blocks)


def _added(one: UnitLoad, other: UnitLoad) -> UnitLoad:
    return replace(
        one,
        rows=one.rows + other.rows,
        rejected_rows=one.rejected_rows + other.rejected_rows,
        loaded=one.loaded or other.loaded,
    )


# Confirms columns that a load on a shard added, and did not confirm before it was stopped.
def confirm_stopped(servers: Servers, target: Target, lake: Lake) -> None:
    """Confirms them for every shard that answers, before any of them decides the type of a column.

    Nothing was committed with them yet: the column counts from the next generation on. Raises what the lake
    and the servers raise.
    """
    if not target.evolves:
        return
    additions = latest(read_additions(lake), target.table)
    for server in servers:
        shard = server.shard.name
        names = {name for name, one in additions.items() if shard not in one.shards}
        if server.client is None or not names:
            continue
        table = read_table(server.client, target.database, target.name)
        unconfirmed = names & {column.name for column in table.columns} if table else set()
        if unconfirmed:
            newest_sql = render("load/newest_generation")
            [(newest,)] = server.client.rows(newest_sql, {"target": target.table})
            confirm(lake, target.table, unconfirmed, shard, newest + 1)
