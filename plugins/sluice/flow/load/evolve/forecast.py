"""What a load would add, for a plan: nothing is changed, and little is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import Server, connect_shards
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.chosen_tables import Tables
from sluice.config.pipeline import Pipeline, Target
from sluice.flow.load.evolve.column_types import column_types
from sluice.flow.load.evolve.earlier import kinds_of
from sluice.flow.load.evolve.fields import choose_fields, joined, slice_fields, taken_names
from sluice.flow.load.evolve.lake_values import sample_values, values_of
from sluice.flow.load.work import LoadWork, choose
from sluice.plan.modes import Mode
from sluice.safe_text import visible
from sluice.state.additions import decides, latest, read_additions
from sluice.state.status import UnitStatus

_MOST_ROWS = 200_000  # whose values are read


def new_columns(
    pipeline: Pipeline, statuses: Sequence[UnitStatus], mode: Mode, tables: Tables | None = None
) -> tuple[str, ...]:
    """Returns a line for each column that the loads of a run would add, as far as its slices have landed."""
    if not pipeline.evolving_types:
        return ()
    with connect_shards(pipeline) as servers:
        server = next(server for server in servers if server.client)
        return tuple(forecast(server, pipeline, open_lake(pipeline), statuses, mode, tables))


def forecast(
    server: Server,
    pipeline: Pipeline,
    lake: Lake,
    statuses: Sequence[UnitStatus],
    mode: Mode,
    tables: Tables | None = None,
) -> Iterator[str]:
    """Yields a line for each column that loads of what has landed would add, and for what is not known.

    Raises what the clients raise.
    """
    for target in pipeline.chosen(tables):
        if target.evolves:
            works = _works(pipeline, lake, target, statuses, mode)
            yield from _columns(server, pipeline, lake, target, works, statuses)
            unknown = sum(not work.counted for work in works)
            if unknown:
                yield (
                    f"{target.table}: the fields of {_slices(unknown)} are not counted in every row: "
                    "the load counts them"
                )
    missing = sum(status.manifest is None for status in statuses)
    if missing and pipeline.evolving_types:
        yield f"what has not landed is not known: {_slices(missing)}"


def _slices(count: int) -> str:
    return f"{count:,} slice{'' if count == 1 else 's'}"


def _works(
    pipeline: Pipeline, lake: Lake, target: Target, statuses: Sequence[UnitStatus], mode: Mode
) -> list[LoadWork]:
    landed = {status.unit: status.manifest for status in statuses if status.manifest is not None}
    rows = {s.unit: row for s in statuses if (row := s.tables.get(target.table)) and not row.lacking}
    sharding = pipeline.clickhouse.sharding(target.table)
    todo, _ = choose(pipeline, target, landed, rows, mode, "", sharding, read_additions(lake))
    return todo


def _columns(
    server: Server,
    pipeline: Pipeline,
    lake: Lake,
    target: Target,
    works: Sequence[LoadWork],
    statuses: Sequence[UnitStatus],
) -> Iterator[str]:
    table = read_table(server.reached, target.database, target.name)
    if table is None or not works:
        return
    taken = taken_names(pipeline, target, table.columns)
    slices = joined(slice_fields(work.unit.slice.id, work.fields) for work in works)
    chosen = choose_fields(taken, slices, target.evolve_rows).fields
    names = [new_field.name for new_field in chosen]
    holding = _first([work for work in works if work.may_have(names)])
    all_values = partial(values_of, lake, holding)
    todo = {work.unit for work in works}
    earlier = [s.manifest for s in statuses if s.manifest is not None and s.unit not in todo]
    kinds = kinds_of(pipeline, target, earlier, names)
    types = column_types(sample_values(lake, holding, names), all_values, kinds) if names else {}
    additions = latest(read_additions(lake), target.table)
    decided = {
        name: addition.type
        for name, addition in additions.items()
        if decides(addition, server.shard.name, "")
    }
    for new_field in chosen:
        kind = decided.get(new_field.name, types[new_field.name].type)
        yield f"{target.table}: would add `{visible(new_field.name)}` {kind}, {new_field.evidence}"


def _first(works: Sequence[LoadWork]) -> list[LoadWork]:
    """Returns the first works with at most _MOST_ROWS rows together; at least one."""
    chosen: list[LoadWork] = []
    for work in works:
        if chosen and sum(chosen_work.landed for chosen_work in chosen) + work.landed > _MOST_ROWS:
            break
        chosen.append(work)
    return chosen
