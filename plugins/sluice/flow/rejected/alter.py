"""The ALTER TABLE that gives a column a type which takes what it has rejected."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.shards import Servers
from sluice.clients.clickhouse.sql import identifier, table
from sluice.clients.clickhouse.tables import TargetTable
from sluice.clients.clickhouse.types import Type, parse
from sluice.config.pipeline import Pipeline
from sluice.flow.rejected.rejections import RejectionCause, no_type_takes
from sluice.infer.types import decimal_digits
from sluice.slices import SliceRange
from sluice.state.system_tables import read_rejected_rows

MOST_VALUES = 1_000
_UNFIT = "does not fit "
_INTEGER = re.compile(r"-?[0-9]{1,76}", re.ASCII)
_PLAIN = re.compile(r"U?Int\d+|Decimal|Float\d+|Bool|Enum\d+|UUID|IPv\d|FixedString")
"""Of times the pipeline file says how they are written, and what a container holds has a type of its own."""
_MOST_DIGITS = 76  # of a Decimal256
_SIGNED = {"Int64": 63, "Int128": 127, "Int256": 255}


def read_alters(
    servers: Servers, pipeline: Pipeline, causes: Collection[RejectionCause], slices: SliceRange
) -> Mapping[RejectionCause, str]:
    """Returns the statement for each cause that one cures: a column of the table itself, which is in none of
    its keys. Raises what the clients raise."""
    clients = [server.client for server in servers if server.client]
    tables = {
        target.table: read_table(clients[0], target.database, target.name)
        for target in pipeline.targets
        if clients and any(cause.table == target.table for cause in causes)
    }
    alters: dict[RejectionCause, str] = {}
    for cause in causes:
        target_table = tables.get(cause.table)
        if target_table is None or not may_change(target_table, cause):
            continue
        asked = {
            "start": int(slices.start.timestamp()),
            "end": int(slices.end.timestamp()),
            "column": cause.column,
            "reason": cause.reason,
            "most": MOST_VALUES,
        }
        rows = [
            row
            for client in clients
            for row in read_rejected_rows(client, "rejected/values_of_column", pipeline, [cause.table], asked)
        ]
        if statement := alter(target_table, cause.column, [str(value) for (value,) in rows]):
            alters[cause] = statement
    return alters


def may_change(target_table: TargetTable, cause: RejectionCause) -> bool:
    """Returns whether another type of the column itself may take the rows: not of a part of it, of a time, of
    a column in a key, nor where no type takes them."""
    keys = f"{target_table.partition_key} {target_table.sorting_key}"
    in_key = re.search(rf"(?<!\w){re.escape(cause.column)}(?!\w)", keys) is not None
    kinds = [parse(column.type).plain.name for column in target_table.columns if column.name == cause.column]
    plain = bool(kinds) and all(_PLAIN.fullmatch(name) for name in kinds)
    return plain and not in_key and cause.reason.startswith(_UNFIT) and not no_type_takes(cause.reason)


def alter(target_table: TargetTable, column: str, values: Sequence[str]) -> str:
    """Returns the statement; empty where nothing is known of the values, or the column is a String."""
    before = next(parse(one.type) for one in target_table.columns if one.name == column)
    kind = wider(before.plain, values)
    if not values or kind == before.plain.text:
        return ""
    whole = before.text.replace(before.plain.text, kind) if before.text.endswith(")") else kind
    return f"ALTER TABLE {table(target_table.table)} MODIFY COLUMN {identifier(column)} {whole}"


def wider(before: Type, values: Sequence[str]) -> str:
    """Returns the narrowest type of the column's own kind that takes the values and all that it has; else
    String.

    `Int32` and `7000000000`: Int64. `Decimal(9, 2)` and `12345678.125`: Decimal(38, 3).
    """
    if re.fullmatch(r"U?Int\d+", before.name) and all(map(_INTEGER.fullmatch, values)):
        return _integer(before.name, values)
    if before.name == "Decimal" and (digits := [decimal_digits(value) for value in values]):
        known = [one for one in digits if one is not None]
        precision, scale = (int(text) for text in before.arguments)
        left = max(precision - scale, *(whole for whole, _ in known), 0)
        right = max(scale, *(after for _, after in known), 0)
        if len(known) == len(digits) and left + right <= _MOST_DIGITS:
            return f"Decimal({max(38 if left + right <= 38 else _MOST_DIGITS, precision)}, {right})"
    return "String"


def _integer(before: str, values: Sequence[str]) -> str:
    bits = int(re.sub(r"\D", "", before))
    needed = max(
        bits if before.startswith("U") else bits - 1, *(abs(int(one)).bit_length() for one in values)
    )
    return next((name for name, most in _SIGNED.items() if needed <= most), "String")
