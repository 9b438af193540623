"""Is ClickHouse fit: version, rights, and every target table with its views?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.engine import Family
from sluice.clients.clickhouse.errors import UNKNOWN_IDENTIFIER, ServerError
from sluice.clients.clickhouse.inspect_tables import grant, lacking
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, render, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.config.pipeline import Keep, Pipeline, Target
from sluice.config.target import Newest
from sluice.doctor.check import Area, Check, fail, guarded, ok, warn
from sluice.errors import TableMissing
from sluice.flow.load.abilities import check_reach
from sluice.flow.load.rollups.newest import lacked
from sluice.flow.load.target_checks import inspect_target
from sluice.state.departed_tables import adding, departed_tables
from sluice.state.system_tables import check_owner, check_system_tables_visible
from sluice.state.ttl import deleting, instants

OLDEST = (25, 8)
_TARGET_RIGHTS = ("SELECT", "INSERT", "ALTER DELETE")
_SYSTEM_RIGHTS = ("CREATE TABLE", "CREATE VIEW", "DROP TABLE", "SELECT", "INSERT", "ALTER DELETE")


@dataclass(frozen=True)
class Replica:
    """A row of system.replicas; `quorum` is the pipeline file's as text."""

    readonly: bool
    active: int
    total: int
    queue: int
    delay_seconds: int
    quorum: str


def clickhouse_checks(client: Client, pipeline: Pipeline, lake_url: str) -> Iterator[Check]:
    """Raises ClickHouseUnavailable and ServerError; what a table lacks is one of the checks."""
    [(version, user, readonly)] = client.rows(render("doctor/server"))
    yield version_check(client.address, version)
    if readonly not in ("0", None):
        remedy = "give the connection a user whose profile has readonly = 0"
        yield fail(
            Area.CLICKHOUSE, client.address, f"user {user} may only read (readonly = {readonly})", remedy
        )
    else:
        yield from guarded(Area.CLICKHOUSE, client.address, partial(_settings, client, user))
    yield from _granted(client, user, ("CREATE DATABASE", *_SYSTEM_RIGHTS), identifier(SYSTEM) + ".*")
    yield from guarded(Area.CLICKHOUSE, SYSTEM, partial(_visible, client))
    for target in pipeline.targets:
        place = f"table {target.table}"
        checks = partial(_target, client, pipeline, lake_url, target, user)
        yield from guarded(Area.CLICKHOUSE, place, checks)
    for departed in departed_tables([client], pipeline, lake_url):
        yield warn(Area.CLICKHOUSE, departed.name, str(departed), departed.remedy)


def _settings(client: Client, user: str) -> Iterator[Check]:
    """Raises ServerError for a setting that a load carries and the user's profile holds back."""
    client.rows(render("clickhouse/evaluate", expression=Sql("1")), settings=WRITE)
    yield ok(Area.CLICKHOUSE, client.address, f"user {user} may set what a load sets")


def _visible(client: Client) -> Iterator[Check]:
    check_system_tables_visible(client)
    yield ok(Area.CLICKHOUSE, SYSTEM, "no row of its tables is hidden")


def version_check(address: str, version: str) -> Check:
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        remedy = f"Sluice is made for {'.'.join(map(str, OLDEST))} and newer: upgrade the server"
        return fail(Area.CLICKHOUSE, address, f"version {version}", remedy)
    return ok(Area.CLICKHOUSE, address, f"version {version}")


def _granted(client: Client, user: str, rights: tuple[str, ...], place: str) -> Iterator[Check]:
    missing_rights = lacking(client, rights, Sql(place))
    if missing_rights:
        remedy = grant(client, missing_rights, Sql(place))
        yield fail(Area.CLICKHOUSE, place, f"user {user} lacks {', '.join(missing_rights)}", remedy)
    else:
        yield ok(Area.CLICKHOUSE, place, f"user {user} has {', '.join(rights)}")


def _target(
    client: Client,
    pipeline: Pipeline,
    lake_url: str,
    target: Target,
    user: str,
) -> Iterator[Check]:
    try:
        target_table, filling = inspect_target(client, pipeline, target)
    except TableMissing as error:
        yield missing(client, target, error, Area.CLICKHOUSE, target.table)
        return
    destinations = {
        view_table.view: "a table of its own" if view_table.called == view_table.view else view_table.table
        for view_table in target_table.view_tables
    }
    views = ", ".join(f"{view} to {destination}" for view, destination in destinations.items())
    text = f"{target_table.engine}, {len(filling.columns)} columns are filled" + (
        f"; views {views}" if views else ""
    )
    yield ok(Area.CLICKHOUSE, target_table.table, text)
    yield _owner(client, pipeline, lake_url, target)
    for name in target_table.tables:
        yield from _granted(client, user, _TARGET_RIGHTS, table(name))
    yield from _slice_is_found_quickly(client, target_table, target)
    if isinstance(target.rollup, Newest):
        yield from _log_columns(client, pipeline, target_table, target.rollup)
    yield from ttl_checks(client, pipeline.keep, target_table)
    if target_table.storage.family is Family.SHARED:
        yield from guarded(Area.CLICKHOUSE, target_table.table, partial(_reach, client, target_table))
    if target_table.storage.family is Family.REPLICATED:
        yield from replica_checks(target_table.table, _replica(client, pipeline, target))


def _reach(client: Client, target_table: TargetTable) -> Iterator[Check]:
    check_reach(client, target_table)
    yield ok(Area.CLICKHOUSE, target_table.table, "statements can be killed on all servers")


def _owner(client: Client, pipeline: Pipeline, lake_url: str, target: Target) -> Check:
    mine = check_owner(client, pipeline, lake_url, target)
    return ok(Area.CLICKHOUSE, target.table, "is this pipeline's" if mine else "is no pipeline's yet")


def _slice_is_found_quickly(client: Client, target_table: TargetTable, target: Target) -> Iterator[Check]:
    parameters = {"database": target.database, "name": target.name}
    if isinstance(target.rollup, Newest):  # FINAL reads an index of it in versions of its own
        return
    if (
        "_slice" in f"{target_table.partition_key} {target_table.sorting_key}"
        or client.rows(render("doctor/slice_index"), parameters)[0][0]
    ):
        return
    remedy = f"ALTER TABLE {table(target_table.table)} ADD INDEX slice _slice TYPE minmax GRANULARITY 1"
    yield warn(Area.CLICKHOUSE, target_table.table, "counting a slice reads the whole column _slice", remedy)


def _log_columns(
    client: Client, pipeline: Pipeline, target_table: TargetTable, newest: Newest
) -> Iterator[Check]:
    columns = lacked(client, target_table, newest)
    if columns:
        names = ", ".join(column.name for column in columns)
        fill = f"then `{pipeline.command('verify')}` prints the fill"
        remedy = f"{adding(target_table.table, columns)}; {fill}"
        finding = f"lacks {names}, which its log {newest.source} has"
        yield warn(Area.CLICKHOUSE, target_table.table, finding, remedy)


def _replica(client: Client, pipeline: Pipeline, target: Target) -> Replica | None:
    parameters = {"database": target.database, "name": target.name}
    rows = client.rows(render("doctor/replica"), parameters)
    if not rows:
        return None
    readonly, active, total, queue, delay = rows[0]
    return Replica(bool(readonly), active, total, queue, delay, str(pipeline.clickhouse.quorum))


def replica_checks(name: str, replica: Replica | None) -> Iterator[Check]:
    """Yields what a replicated target needs before anything is inserted. Pure."""
    if replica is None:
        yield fail(Area.CLICKHOUSE, name, "has no row in system.replicas", "SYSTEM RESTART REPLICA of it")
        return
    finding = f"{replica.active} of {replica.total} replicas are active, {replica.queue} entries in the queue"
    if replica.readonly:
        yield fail(Area.CLICKHOUSE, name, "is read-only: it has lost its Keeper", "bring Keeper back")
    elif replica.active < replica.total:
        yield warn(Area.CLICKHOUSE, name, finding, "start the others: a quorum may not be reached")
    else:
        yield ok(Area.CLICKHOUSE, name, finding)
    quorum = replica.quorum
    needed = replica.total // 2 + 1 if quorum == "auto" else int(quorum or 0)
    if needed > replica.active:
        remedy = "start replicas, or lower `quorum` in the pipeline file"
        yield fail(Area.CLICKHOUSE, name, f"quorum {quorum} needs {needed} active replicas", remedy)
    elif replica.total > 1 and needed < 2:
        remedy = "set `quorum: auto` in the pipeline file: a replica that dies may take rows with it"
        yield warn(Area.CLICKHOUSE, name, "inserts wait for no other replica", remedy)


# A table's TTL against `keep` in the pipeline file: where they contradict each other.
_TIMES = ("Date", "DateTime", "LowCardinality(Date", "Nullable(Date")
_DAY = timedelta(days=1)


def ttl_checks(client: Client, keep: Keep, target_table: TargetTable) -> Iterator[Check]:
    """Raises what the client raises."""
    expressions = deleting(target_table.engine_full)
    yield from judged(target_table.table, bool(expressions), ttl_age(client, target_table), keep)


def ttl_age(client: Client, target_table: TargetTable) -> timedelta | None:
    """Returns the least age at which a TTL deletes a row whose times are all one instant; None where no TTL
    deletes rows, or one reads other columns than times."""
    expressions = deleting(target_table.engine_full)
    times = [column for column in target_table.columns if column.type.startswith(_TIMES)]
    if not expressions or not times:
        return None
    columns = Sql(
        ", ".join(f"CAST(_same_instant AS {column.type}) AS {identifier(column.name)}" for column in times)
    )
    try:
        [(seconds,)] = client.rows(render("doctor/ttl_age", columns=columns, expiries=instants(expressions)))
    except ServerError as error:
        if error.code == UNKNOWN_IDENTIFIER:
            return None
        raise
    return timedelta(seconds=int(seconds))


def judged(table: str, expires: bool, age: timedelta | None, keep: Keep) -> Iterator[Check]:
    """Yields a line for each contradiction. `age`: that at which the TTL deletes rows, None where it is
    not known. Pure."""
    kept = keep.of_table(table)
    if kept is not None:
        yield _against_file(table, expires, age, kept)
    elif expires:
        remedy = "reload only hours that are younger than it; `verify` takes missing old rows for expired"
        yield warn(Area.CLICKHOUSE, table, "has a TTL: old rows vanish by themselves", remedy)
    rows = age or (kept if not expires else None)
    if keep.lake is not None and rows is not None and rows < keep.lake:
        finding = f"keeps rows for {_days(rows)}, and the lake files for {_days(keep.lake)}"
        yield warn(Area.CLICKHOUSE, table, finding, "a `reload` of older hours brings rows that go again")


def _against_file(table: str, expires: bool, age: timedelta | None, kept: timedelta) -> Check:
    setting = f"`keep.tables` says {_days(kept)}"
    if not expires:
        remedy = "give it a TTL, or delete old rows yourself: Sluice deletes none for its age"
        return warn(Area.CLICKHOUSE, table, f"has no TTL that deletes rows, and {setting}", remedy)
    if age is None:
        remedy = "compare them yourself: the TTL reads other columns than times"
        return warn(Area.CLICKHOUSE, table, f"has a TTL, and {setting}", remedy)
    if timedelta() <= age - kept < _DAY:
        return ok(Area.CLICKHOUSE, table, f"has a TTL of {_days(age)}, as `keep.tables` says")
    remedy = "make them alike: `verify` reports rows that are missing before `keep.tables` says"
    return warn(Area.CLICKHOUSE, table, f"has a TTL of {_days(age)}, and {setting}", remedy)


def _days(length: timedelta) -> str:
    hours = round(length.total_seconds() / 3600)
    return f"{hours // 24:,} days" if hours % 24 == 0 else f"{hours:,} hours"


# Says how a missing target table is created.
def missing(client: Client, target: Target, error: TableMissing, area: Area, place: str) -> Check:
    """Returns the check of a table that is not there."""
    remedy = error.remedy
    if (
        "CREATE DATABASE" not in remedy
        and not client.rows(render("doctor/has_database"), {"database": target.database})[0][0]
    ):
        remedy = f"CREATE DATABASE {identifier(target.database)}, and {remedy}"
    return fail(area, place, error.reason, remedy)


def types_beside(pipeline: Pipeline, kind: str) -> frozenset[str]:
    """Returns the types whose events go into the table of `kind`: their fields are its columns."""
    target = next((target for target in pipeline.targets if kind in target.types), None)
    return frozenset(target.types) if target else frozenset({kind})
