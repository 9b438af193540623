"""Tables that materialized views fill, against what the view's own SELECT gives of its source now.

Only what can be compared for certain is: views that read nothing but their source and give the same answer
every time, of engines whose rows can be counted or summed whatever the blocks were, and units that were
committed since the view last changed (an older one has no rows in it, until it is loaded again).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sluice.clickhouse.client import Client
from sluice.load.columns import Column
from sluice.load.inspect import FedTable, TargetTable, read_table
from sluice.load.ledger import unit_of
from sluice.load.sql import Sql, identifier, literal, render, table
from sluice.load.types import parse
from sluice.pipeline import Pipeline
from sluice.slices import Unit
from sluice.verification.facts import Fed

# Of other tables, dictionaries, the clock and chance nobody knows what they said when the rows came.
_UNSURE = re.compile(
    r"\b(JOIN|IN\s*\(\s*SELECT|dict\w+\(|joinGet\w*\(|now\w*\(|today\(|yesterday\(|rand\w*\(|generate\w+\(|"
    r"currentUser\(|hostName\(|rowNumber\w+\(|LIMIT|file\(|url\(|s3\()",
    re.IGNORECASE,
)
_GROUPED = re.compile(r"\b(GROUP BY|DISTINCT)\b", re.IGNORECASE)
_SUMMED = re.compile(r"(U?Int\d+|Decimal\w*)")
_MERGED = ("count", "sum", "min", "max", "uniqExact")

Parameters = Mapping[str, int]


def look_at_views(
    client: Client, pipeline: Pipeline, found: TargetTable, span: Parameters
) -> tuple[Fed, ...]:
    """The views of a target and of its views' tables. A source with a TTL forgets what it has given."""
    feds = []
    for fed in () if found.ttl else found.fed:
        definition = client.rows(render("verify_view_definition"), _place(fed.view))
        if not definition or fed.engine == "Null":
            continue
        select, changed = definition[0]
        sums = summing(fed, select)
        source = _source(found, fed, select)
        if sums is None or source is None or _expiring(client, fed.table):
            continue
        given = Sql(f"({select})")
        feds.append(
            Fed(
                table=fed.table,
                view=fed.view,
                there=_sums(client, pipeline, sums, table(fed.table), span, None),
                given=_sums(client, pipeline, sums, given, span, source),
                covered=_committed_since(client, pipeline, found, changed),
            )
        )
    return tuple(feds)


def summing(fed: FedTable, select: str) -> Sql | None:
    """What is counted and summed of a unit's rows; None where the comparison would prove nothing."""
    if _UNSURE.search(select) or "_slice" not in fed.view_columns:
        return None
    keys = {part.strip(" `") for part in fed.sorting_key.split(",")}
    parts = []
    if fed.engine == "MergeTree" and not _GROUPED.search(select):
        parts.append("count()")
    if fed.engine in ("MergeTree", "SummingMergeTree", "AggregatingMergeTree"):
        own = [c for c in fed.columns if c.filled and c.name not in keys and c.name in fed.view_columns]
        parts += [part for part in map(_sum, own) if part]
    return Sql(f"toString(tuple({', '.join(parts)}))") if parts else None


def _sum(column: Column) -> str:
    kind, name = parse(column.type), identifier(column.name)
    if _SUMMED.fullmatch(kind.plain.name):
        return f"sum({name})"
    if kind.name == "AggregateFunction" and kind.arguments[0] in _MERGED:
        return f"{kind.arguments[0]}Merge({name})"
    if kind.name == "SimpleAggregateFunction" and kind.arguments[0] in ("sum", "min", "max"):
        return f"{kind.arguments[0]}({name})"
    return ""


def _source(found: TargetTable, fed: FedTable, select: str) -> str | None:
    """The one table that the view reads, as the server writes its name."""
    tables = [found.table, *(other.table for other in found.fed if other.table != fed.table)]
    read = re.findall(r"\bFROM\s+((?:`(?:\\.|[^`])*`|[\w]+)\.(?:`(?:\\.|[^`])*`|[\w.]+))", select)
    names = {name.replace("`", "") for name in read}
    return names.pop() if len(names) == 1 and names <= set(tables) else None


def _expiring(client: Client, name: str) -> bool:
    database, _, rest = name.partition(".")
    found = read_table(client, database, rest)
    return found is None or found.ttl


def _sums(
    client: Client, pipeline: Pipeline, sums: Sql, rows: Sql, span: Parameters, source: str | None
) -> dict[Unit, str]:
    """`source`: only its rows of the span are read, whatever the view's SELECT does with them."""
    settings: dict[str, Any] = {}
    if source is not None:
        inside = f"_slice >= toDateTime({span['start']}, 'UTC') AND _slice < toDateTime({span['end']}, 'UTC')"
        settings = {"additional_table_filters": f"{{{literal(source)}: {literal(inside)}}}"}
    found = client.rows(render("verify_view", sums=sums, rows=rows), span, settings)
    return {unit_of(pipeline, start, cluster): text for start, cluster, text in found}


def _committed_since(client: Client, pipeline: Pipeline, found: TargetTable, changed: int) -> frozenset[Unit]:
    rows = client.rows(render("verify_commit_times"), {"target": found.table, "uuid": found.uuid})
    return frozenset(unit_of(pipeline, start, cluster) for start, cluster, at in rows if at >= changed)


def _place(name: str) -> dict[str, str]:
    database, _, rest = name.partition(".")
    return {"database": database, "name": rest}
