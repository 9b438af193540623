"""Tables that the pipeline file no longer names, whose rows stay where they are, and those that are not
there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from sluice.clients.clickhouse.client import STEADY, Client
from sluice.clients.clickhouse.errors import UNKNOWN_DATABASE, UNKNOWN_TABLE, ServerError
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.clickhouse.sql import Sql, identifier, listed, render, table
from sluice.clients.clickhouse.tables import Column, TargetTable, written_by
from sluice.clients.clickhouse.types import parse, takes
from sluice.clients.lake.base import Lake
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import SOURCE, Derived, Newest, Rollup
from sluice.errors import TargetRefused, WrongUse
from sluice.named_file import read_named_text
from sluice.state.newest_version import OWN
from sluice.state.rules import FOLDER, RulesReader, TableRules
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.stored_json import UNREADABLE

# How a table that is gone was made: by the statements that its last load kept (state/rules.py).

_NAME = r"(?:`(?:[^`\\]|\\.)+`|\w+)"
_KINDS = "TABLE|MATERIALIZED VIEW|VIEW"
_CREATE = re.compile(rf"CREATE (?:{_KINDS}) (?P<database>{_NAME})\.(?P<name>{_NAME})")
_TABLE = msgspec.json.Decoder(TableRules)
_INNER = ".inner"
"""How the server calls the table of a view without TO: it makes it with the view."""
_NO_LEDGER = (UNKNOWN_DATABASE, UNKNOWN_TABLE)


def creations(client: Client, pipeline: Pipeline, tables: Sequence[str]) -> dict[str, str]:
    """Returns what creates each of the tables, which this server lacks: what it was made by, with those of
    its views and their tables that are gone, too; else what the pipeline file says of it. A derived table is
    made as it was only where what it is made of now would be taken."""
    targets = {target.table: target for target in pipeline.targets if target.table in tables}
    made = _made_by(client, targets, last_rules(client, pipeline, open_lake(pipeline), list(targets)))
    return {name: creation(pipeline, target, made[name]) for name, target in targets.items()}


def _made_by(
    client: Client, targets: Mapping[str, Target], rules: Mapping[str, TableRules]
) -> dict[str, tuple[str, ...]]:
    """Returns by target the statements that made it and what is gone of its views; empty where unknown."""
    known = {name: one.ddl for name, one in rules.items() if fits(client, targets[name].rollup, one)}
    named = {name for ddl in known.values() for statement in ddl if (name := named_by(statement))}
    absent = set(gone(client, sorted(named | set(targets))))
    there = {name for (name,) in client.rows(render("state/databases"))}
    return {name: missing_of(known.get(name, ()), absent, there) for name in targets}


def recreate(pipeline: Pipeline, name: str) -> int:
    """Creates what servers lack of a target, its views and their tables, as its last load knew them. What is
    there stays. Every server is asked before the first statement. Returns how many servers lacked something.

    Only statements that the ledger vouches for are run: it names them by their checksum. Raises WrongUse
    where they are not known, for replicas, and for what is no target of the pipeline; and what the clients
    and the lake raise.
    """
    targets = {target.table: target for target in pipeline.targets if target.table == name}
    if not targets:
        raise WrongUse(
            f"{name} is no table of {pipeline.name}: {', '.join(t.table for t in pipeline.targets)}"
        )
    lake = open_lake(pipeline)
    with connect_shards(pipeline) as servers:
        made = []
        for shard, client in [(server.shard, server.reached) for server in servers]:
            statements = _made_by(client, targets, ledger_rules(client, pipeline, lake, [name]))[name]
            if not statements and not gone(client, [name]):
                continue
            if shard.replicas or not statements:
                why = "its server has replicas" if shard.replicas else "no load has kept how it was made"
                remedy = creation(pipeline, targets[name], statements)
                raise WrongUse(f"{name} cannot be created from here: {why}; {remedy}")
            made.append((client, statements))
        for client, statements in made:
            for statement in statements:
                client.run(statement)
    return len(made)


def check_written(client: Client, pipeline: Pipeline, target_table: TargetTable) -> None:
    """Raises TargetRefused for a view of the target that writes to a table which is not there: then every
    INSERT into the target fails."""
    for view in target_table.view_tables:
        if view.engine or view.columns:
            continue
        known = last_rules(client, pipeline, open_lake(pipeline), [target_table.table])
        made = missing_of(known[target_table.table].ddl, {view.table}) if known else ()
        created = f"create it as it was: {'; '.join(made)}; or " if made else ""
        raise TargetRefused(
            view.called,
            f"materialized view {view.view} writes to it, and it is not there, or the user may not see it",
            f"{created}DROP VIEW {table(view.view)}",
        )


def lost_views(client: Client, pipeline: Pipeline, name: str) -> dict[str, str]:
    """Returns the materialized views that the last load of the table knew and that are gone, each with what
    creates it as it was, and the table that it writes to where that is gone, too. Raises what the client and
    the lake raise."""
    rules = last_rules(client, pipeline, open_lake(pipeline), [name]).get(name)
    lost = gone(client, sorted(rules.views)) if rules and rules.views else []
    if not rules or not lost:
        return {}
    written = {named_by(statement): ".".join(written_by("", "", statement)) for statement in rules.ddl}
    absent = {*lost, *gone(client, sorted({written[view] for view in lost if view in written}))}
    there = {database for (database,) in client.rows(render("state/databases"))}
    needed = {view: {view, written.get(view, "")} & absent for view in lost}
    return {view: "; ".join(missing_of(rules.ddl, names, there)) for view, names in needed.items()}


def last_rules(
    client: Client, pipeline: Pipeline, lake: Lake, tables: Sequence[str]
) -> dict[str, TableRules]:
    """Returns the rules of each table's last load, with the CREATE statements of it, its views and their
    tables, where they are known. Raises what the client and the lake raise."""
    found = ledger_rules(client, pipeline, lake, tables)
    if len(found) < len(tables):
        found = {**_newest_kept(lake, tables), **found}
    return {name: rules for name, rules in found.items() if rules.ddl}


def ledger_rules(
    client: Client, pipeline: Pipeline, lake: Lake, tables: Sequence[str]
) -> dict[str, TableRules]:
    """Returns the rules that the ledger names by their checksum."""
    reader = RulesReader(lake)
    digests = _digests(client, pipeline, lake, tables)
    return {name: rules for name, digest in digests.items() if (rules := reader.table(digest))}


def _digests(client: Client, pipeline: Pipeline, lake: Lake, tables: Sequence[str]) -> Mapping[str, str]:
    parameters = {"pipeline": pipeline.name, "lake": lake.url, "targets": list(tables)}
    try:
        rows = client.rows(render("state/last_rules"), parameters)
        return {str(name): str(digest) for name, digest in rows}
    except ServerError as error:
        if error.code not in _NO_LEDGER:
            raise
        return {}


def _newest_kept(lake: Lake, tables: Sequence[str]) -> dict[str, TableRules]:
    """Returns the newest rules of each table that the lake keeps: the ledger is gone, or is a new one."""
    kept: dict[str, TableRules] = {}
    for _, rules in kept_rules(lake):
        if rules.table in tables:
            kept.setdefault(rules.table, rules)
    return kept


def kept_rules(lake: Lake) -> Iterator[tuple[datetime, TableRules]]:
    """Yields the rules of tables that the lake keeps, and when a load kept each first; the newest first."""
    for item in sorted(lake.list(FOLDER), key=lambda item: item.modified, reverse=True):
        rules = _table_rules(lake, item.key)
        if rules is not None:
            yield item.modified, rules


def _table_rules(lake: Lake, key: str) -> TableRules | None:
    """Returns None for rules of a landing."""
    stored = lake.read(key)
    with suppress(*UNREADABLE):
        return None if stored is None else _TABLE.decode(stored.data)
    return None


def named_by(statement: str) -> str | None:
    """Returns what a CREATE statement makes, as `database.name`; None for what the server makes itself."""
    found = _CREATE.match(statement)
    if found is None:
        return None
    database, name = (re.sub(r"\\(.)", r"\1", part.strip("`")) for part in (found["database"], found["name"]))
    return None if name.startswith(_INNER) else f"{database}.{name}"


def missing_of(
    ddl: Sequence[str], absent: Collection[str], databases: Collection[str] | None = None
) -> tuple[str, ...]:
    """Returns the statements of what is gone, tables before views; each does nothing where it is there.
    `databases`: those that are there, where one of them may be gone, too."""
    named = {statement: name for statement in ddl if (name := named_by(statement)) in absent and name}
    tables_first = sorted(named, key=lambda statement: not statement.startswith("CREATE TABLE"))
    lost = sorted({name.partition(".")[0] for name in named.values()} - set(databases)) if databases else []
    return (
        *(f"CREATE DATABASE IF NOT EXISTS {identifier(name)}" for name in lost),
        *(re.sub(rf"^CREATE ({_KINDS}) ", r"CREATE \1 IF NOT EXISTS ", each) for each in tables_first),
    )


def gone(client: Client, tables: Sequence[str]) -> list[str]:
    """Returns those of the tables that the server does not have, or does not show to this user."""
    databases = sorted({name.partition(".")[0] for name in tables})
    asked = {"tables": list(tables), "databases": databases}
    existing = {name for (name,) in client.rows(render("state/target_tables"), asked)}
    return [name for name in tables if name not in existing]


# CREATE TABLE statements that a pipeline file asks for.
COUNT_TYPES = {"hour": "DateTime64(0, 'UTC')", "type": "LowCardinality(String)", "count": "UInt64"}


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
    if isinstance(target.rollup, Newest):
        return f"create it: {newest_ddl(pipeline, target, target.rollup)}"
    if isinstance(target.rollup, Rollup):
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


NamedTypes = tuple[tuple[str, str], ...]
"""(name, type) of what a SELECT gives."""


def columns_of(client: Client, rollup: Rollup) -> NamedTypes:
    """Raises ServerError when the SELECT does not work."""
    # With the settings that the rollup's statement carries, on which the types may depend.
    rows = client.rows(render("rollups/describe", select=everything(rollup)), settings=STEADY)
    return tuple((row[0], row[1]) for row in rows)


def rollup_creation(target: Target, rollup: Rollup) -> str:
    """Returns a CREATE TABLE for what the SELECT gives."""
    keys = "toDateTime(0, 'UTC') AS _slice, CAST('', 'LowCardinality(String)') AS _cluster"
    return (
        f"create it, for instance: CREATE TABLE {table(target.table)} ENGINE = MergeTree PARTITION BY "  # noqa: S608 - advice
        f"toYYYYMM(_slice) ORDER BY (_slice, _cluster) EMPTY AS SELECT *, {keys} FROM ({everything(rollup)})"
    )


def newest_ddl(pipeline: Pipeline, target: Target, newest: Newest) -> str:
    """Returns a CREATE TABLE for the newest rows of a log, with its columns."""
    own = "toUInt256(0) AS _version, toUInt8(0) AS _deleted"
    key = listed(map(identifier, newest.key))
    replicated = "Replicated" if any(part.replicas for part in pipeline.clickhouse.parts) else ""
    return (
        f"CREATE TABLE {table(target.table)} ENGINE = {replicated}ReplacingMergeTree(_version, _deleted) "  # noqa: S608
        f"ORDER BY ({key}) EMPTY AS SELECT *, {own} FROM {table(newest.source)}"
    )


def adding(name: str, columns: Iterable[Column]) -> str:
    """Returns what gives the table of newest rows columns of its log."""
    added = ", ".join(f"ADD COLUMN {identifier(column.name)} {column.type}" for column in columns)
    return f"ALTER TABLE {table(name)} {added}"


# Whether a derived table, made as it was at its last load, would take what it is made of now.
def fits(client: Client, now: Derived | None, rules: TableRules) -> bool:
    """Returns True of a table that is not derived: its columns are nobody else's. Raises what the client
    raises."""
    if now is None:
        return True
    same = (rules.source, rules.select) == (now.source, now.definition)
    given = _given(client, now)
    if given is None or (isinstance(now, Newest) and not same):
        return same
    columns = {name: parse(kind) for name, (kind, *_) in rules.definitions.items()}
    if isinstance(now, Rollup):
        return all(name in columns and takes(columns[name], parse(kind)) for name, kind in given.items())
    return all(
        takes(columns[name], parse(given[name])) if name in given else bool(default)
        for name, (_, _, default, _) in rules.definitions.items()
        if name not in OWN
    )


def _given(client: Client, derived: Derived) -> dict[str, str] | None:
    """Returns the types of the columns that the table is made of; None where nobody knows."""
    if isinstance(derived, Rollup):
        try:
            return dict(columns_of(client, derived))
        except ServerError as error:
            if error.retryable:
                raise
            return None
    database, _, name = derived.source.partition(".")
    log = read_table(client, database, name)
    return None if log is None else {column.name: column.type for column in log.columns if column.stored}


@dataclass(frozen=True)
class DepartedTable:
    """`rows` in the table, and `rejected_rows` of it in sluice.rejected, of `units` that the pipeline
    committed."""

    name: str
    units: int
    rows: int
    rejected_rows: int = 0

    def __str__(self) -> str:
        rejected_rows = f" and {self.rejected_rows:,} rejected rows" if self.rejected_rows else ""
        held = f"{self.rows:,} rows{rejected_rows} of this pipeline"
        return f"table {self.name} has {held} and is no longer in the file"

    @property
    def remedy(self) -> str:
        return "name it in the file again, or drop it: no run loads it, and no `verify` compares it"


def departed_tables(clients: Iterable[Client], pipeline: Pipeline, lake: str) -> tuple[DepartedTable, ...]:
    """Returns those with rows on any of the servers, by name; `lake` is the lake's url. Raises what the
    clients raise."""
    parameters = {
        "named": sorted({target.table for target in pipeline.targets}),
        "pipeline": pipeline.name,
        "lake": lake,
    }
    units: dict[str, set[tuple[int, str]]] = {}
    counts: dict[str, tuple[int, int]] = {}
    for client in clients:
        for name, committed, rows, rejected_rows in _rows(client, parameters):
            units.setdefault(name, set()).update(map(tuple, committed))
            earlier = counts.get(name, (0, 0))
            counts[name] = earlier[0] + rows, earlier[1] + rejected_rows
    return tuple(DepartedTable(name, len(units[name]), *counts[name]) for name in sorted(units))


def read_departed(pipeline: Pipeline, lake: str) -> tuple[DepartedTable, ...]:
    """Reads those of the servers that answer. Raises what the clients raise."""
    with connect_shards(pipeline) as servers:
        return departed_tables([server.client for server in servers if server.client], pipeline, lake)


def _rows(client: Client, parameters: Mapping[str, Any]) -> list[Sequence[Any]]:
    """A server that was never loaded has no ledger."""
    try:
        return client.rows(render("state/read_departed"), parameters)
    except ServerError as error:
        if error.code in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            return []
        raise


# Tables that are not there, and what of a unit's state does not hold without them. Pure.
@dataclass(frozen=True)
class GoneTable:
    """A table that a server lacks. `target` is the target that nothing is loaded into without it: the table
    itself, or the source of a view that writes to it."""

    table: str
    target: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.table}: {self.reason}; {self.remedy}"


def without_tables(statuses: Iterable[UnitStatus], gone: Collection[GoneTable]) -> list[UnitStatus]:
    """Returns the statuses with those units `landed` whose rows are not where the ledger says: a target, or a
    table that a view of it writes to, is gone."""
    tables, targets = {one.table for one in gone}, {one.target for one in gone}
    return [
        replace(
            status,
            state=UnitState.LANDED,
            tables={name: row for name, row in status.tables.items() if name not in tables},
        )
        if status.state.done and targets & status.tables.keys()
        else status
        for status in statuses
    ]


# Target tables, and tables that their views write to, that are not there: nothing is loaded into such a
# target, whatever has landed.
def gone_tables(pipeline: Pipeline) -> tuple[GoneTable, ...]:
    """Returns each table that a server lacks once. Raises what the clients raise."""
    found: dict[str, GoneTable] = {}
    with connect_shards(pipeline) as servers:
        for server in servers:
            for table in _of_server(server.client, pipeline) if server.client else ():
                found.setdefault(table.table, table)
    return tuple(found.values())


def _of_server(client: Client, pipeline: Pipeline) -> Iterator[GoneTable]:
    targets = {target.table: target for target in pipeline.targets}
    missing = gone(client, list(targets))
    for name, remedy in (creations(client, pipeline, missing) if missing else {}).items():
        yield GoneTable(name, name, "there is no such table", remedy)
    databases = sorted({target.database for target in targets.values()})
    for (name,) in client.rows(render("state/fed"), {"tables": list(targets), "databases": databases}):
        target_table = read_table(client, targets[name].database, targets[name].name)
        if target_table is None:
            continue
        try:
            check_written(client, pipeline, target_table)
        except TargetRefused as error:
            yield GoneTable(error.table, name, error.reason, error.remedy)
