"""A table's TTL against `keep` in the pipeline file: where they contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import UNKNOWN_IDENTIFIER, ServerError
from sluice.clients.clickhouse.sql import Sql, identifier, render
from sluice.clients.clickhouse.tables import TargetTable
from sluice.config.keep import Keep
from sluice.doctor.check import Area, Check, ok, warn
from sluice.flow.verify.ttl import deleting, instants

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
