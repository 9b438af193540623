"""CREATE TABLE statements that a pipeline file asks for."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from sluice.clients.clickhouse.sql import Sql, identifier, table
from sluice.config.pipeline import Pipeline, Target
from sluice.config.rollups import SOURCE, Rollup
from sluice.named_file import read_named_text

COUNT_TYPES = {"hour": "DateTime('UTC')", "type": "LowCardinality(String)", "count": "UInt64"}


def counts_creation(pipeline: Pipeline, name: str) -> str:
    """Returns a CREATE TABLE for the counts as the pipeline file asks for them."""
    spec = next(one for one in pipeline.counts if one.table == name)
    by = dict.fromkeys(spec.by, "LowCardinality(Nullable(String))")
    needed = {"_slice": "DateTime('UTC')", "_cluster": "LowCardinality(String)"}
    columns = ", ".join(f"{identifier(n)} {kind}" for n, kind in {**COUNT_TYPES, **by, **needed}.items())
    return (
        f"create it: CREATE TABLE {table(name)} ({columns}) ENGINE = MergeTree PARTITION BY toYYYYMM(_slice) "
        "ORDER BY (hour, type, _slice)"
    )


NEEDED = {"_slice": "DateTime('UTC')", "_cluster": "LowCardinality(String)"}


def lacking(name: str, columns: Iterable[str]) -> tuple[str, str] | None:
    """Returns what a table of these columns lacks of those that every target needs, and what adds them."""
    present = set(columns)
    missing = [needed for needed in NEEDED if needed not in present]
    if not missing:
        return None
    added = ", ".join(f"ADD COLUMN {identifier(needed)} {NEEDED[needed]}" for needed in missing)
    return f"it has no column {' and '.join(missing)}", f"ALTER TABLE {table(name)} {added}"


def creation(pipeline: Pipeline, target: Target, ddl: Sequence[str] = ()) -> str:
    """Returns what creates a table that is not there: the statements that it was made by, where they are
    known (`ddl`), those of `init`, what the pipeline file says of all its columns, or the command that
    proposes columns for its events."""
    if ddl:
        return f"create it as it was: {'; '.join(ddl)}"
    if made_by_init := _init(pipeline, target):
        return f"`{made_by_init}` creates it"
    if target.counted:
        return counts_creation(pipeline, target.table)
    if target.rollup is not None:
        return rollup_creation(target, target.rollup)
    if target.catch_all:
        return f"create it, {to_begin_with(pipeline, target)}"
    propose = pipeline.command("doctor", "--ddl", target.types[0])
    return f"create it: `{propose}` prints a CREATE TABLE for its events"


def to_begin_with(pipeline: Pipeline, target: Target) -> str:
    """Returns a CREATE TABLE of the columns that the pipeline file names, and the lake's."""
    time = pipeline.event.time.field
    fields = {} if target.catch_all or time is None or "." in time else {time: "DateTime64(3, 'UTC')"}
    fields |= dict.fromkeys(target.columns, "String")
    lake = {"_type": "LowCardinality(String)", "_payload": "String"} if target.catch_all else {}
    columns = ", ".join(f"{identifier(n)} {kind}" for n, kind in {**fields, **lake, **NEEDED}.items())
    return (
        f"with a column for each field you want, for instance: CREATE TABLE {table(target.table)} "
        f"({columns}) ENGINE = MergeTree PARTITION BY toYYYYMM(_slice) ORDER BY (_slice, _cluster)"
    )


def _init(pipeline: Pipeline, target: Target) -> str:
    """Returns the command that runs the statements which `init` wrote beside the pipeline file, where they
    create the table."""
    statements = pipeline.file.with_suffix(".sql") if pipeline.file else None
    if statements is None:
        return ""
    try:
        text = read_named_text(statements)
    except OSError:
        return ""  # there is nothing that `init` could run
    if f"EXISTS {table(target.table)}" not in text:
        return ""
    into = ["--into", str(pipeline.config.parent)] if pipeline.config else []
    return shlex.join(["sluice", "init", pipeline.name, *into, "--apply"])


def everything(rollup: Rollup) -> Sql:
    """Returns the SELECT over the whole source: for its columns, not for its rows."""
    return over(rollup, Sql(f"(SELECT * FROM {table(rollup.source)})"))  # noqa: S608 - quoted


def over(rollup: Rollup, source: Sql) -> Sql:
    return Sql(rollup.select.replace(SOURCE, source))


def rollup_creation(target: Target, rollup: Rollup) -> str:
    """Returns a CREATE TABLE for what the SELECT gives."""
    keys = "toDateTime(0, 'UTC') AS _slice, CAST('', 'LowCardinality(String)') AS _cluster"
    return (
        f"create it, for instance: CREATE TABLE {table(target.table)} ENGINE = MergeTree PARTITION BY "  # noqa: S608 - advice
        f"toYYYYMM(_slice) ORDER BY (_slice, _cluster) EMPTY AS SELECT *, {keys} FROM ({everything(rollup)})"
    )
