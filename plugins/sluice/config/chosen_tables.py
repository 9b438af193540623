"""The tables that a command or a run names, and those that go with them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from sluice.config.pipeline import Pipeline, Target
from sluice.errors import WrongUse

Tables = frozenset[str]


def tables_for(pipeline: Pipeline, names: Sequence[str], mode: str) -> Tables | None:
    """As `chosen_tables`. A repair loads no more than it has to, and no traffic counts: their rows are not
    made of the table's. Raises WrongUse, also for a mode that replaces all tables' rows."""
    tables = chosen_tables(pipeline, names, counts=mode != "repair")
    if tables is not None and mode in ("remake", "reland"):
        raise WrongUse(
            f"mode {mode} replaces the hours in the lake, and so in all tables: choose no table, or load the "
            "table again from the lake with mode reload"
        )
    return tables


def chosen_tables(pipeline: Pipeline, names: Sequence[str], *, counts: bool = True) -> Tables | None:
    """Returns the named target tables with what goes with them, or None for all of the pipeline's.

    A name is `database.table`, a type that the file routes to a table, or a table's name where only one
    database has it. With a table go its rollups, and with `counts` the traffic counts of its types alone.

    Raises WrongUse for a name that is none of these, or several.
    """
    named = {_named(pipeline, name) for name in names}
    if not named:
        return None
    targets = pipeline.targets
    chosen = set(named)
    for target in targets:  # a rollup comes after what it is made from
        source = target.rollup.source if target.rollup else ""
        if source in chosen or (counts and target.counted and _counts_only(pipeline, target, named)):
            chosen.add(target.table)
    return None if len(chosen) == len(targets) else frozenset(chosen)


def _named(pipeline: Pipeline, name: str) -> str:
    tables = [target.table for target in pipeline.targets]
    if name in tables:
        return name
    if name in pipeline.tables:
        return pipeline.tables[name].table
    same = [table for table in tables if table.partition(".")[2] == name]
    if len(same) == 1:
        return same[0]
    if same:
        raise WrongUse(f"table {name!r}: which one? {' or '.join(same)}")
    near = get_close_matches(name, [*tables, *pipeline.tables, *(t.partition(".")[2] for t in tables)], 1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(tables) or 'none'}"
    raise WrongUse(f"pipeline {pipeline.name} has no table {name!r}; {hint}")


def _counts_only(pipeline: Pipeline, counted: Target, named: set[str]) -> bool:
    """Returns whether all types that the traffic counts have go to the tables."""
    types = next(counts.types for counts in pipeline.counts if counts.table == counted.table)
    return all(target.table in named for target in _takers(pipeline, types))


def _takers(pipeline: Pipeline, types: Sequence[str]) -> Iterator[Target]:
    """Yields the tables of events into which those types go, without types all."""
    for target in pipeline.targets:
        plain = not target.counted and target.rollup is None
        if plain and (not types or pipeline.routed(target, types)):
            yield target
