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
from sluice.load.inspect import FedTable, TargetTable, read_table
from sluice.load.ledger import unit_of
from sluice.load.sql import Sql, literal, render, table
from sluice.load.view_select import is_union
from sluice.pipeline import Pipeline
from sluice.slices import Unit
from sluice.verification.expiry import forgets
from sluice.verification.facts import Fed
from sluice.verification.summing import Summing, summing
from sluice.verification.sums import Sums

Parameters = Mapping[str, int]


def look_at_views(
    client: Client, pipeline: Pipeline, found: TargetTable, span: Parameters
) -> tuple[Fed, ...]:
    """The views of a target and of its views' tables. A source with a TTL forgets what it has given."""
    feds = []
    for fed in () if forgets(found) else found.fed:
        definition = client.rows(render("verify_view_definition"), _place(fed.view))
        # What one of several views gives is a part of their table.
        shared = sum(other.table == fed.table for other in found.fed) > 1
        if not definition or shared or fed.engine == "Null":
            continue
        select, changed = definition[0]
        sums = None if is_union(select) else summing(fed, select)
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


def _source(found: TargetTable, fed: FedTable, select: str) -> str | None:
    """The one table that the view reads, as the server writes its name; rows of a Null table are nowhere."""
    tables = [found.table, *(other.table for other in found.stored if other.table != fed.table)]
    read = re.findall(r"\bFROM\s+((?:`(?:\\.|[^`])*`|[\w]+)\.(?:`(?:\\.|[^`])*`|[\w.]+))", select)
    names = {name.replace("`", "") for name in read}
    return names.pop() if len(names) == 1 and names <= set(tables) else None


def _expiring(client: Client, name: str) -> bool:
    database, _, rest = name.partition(".")
    found = read_table(client, database, rest)
    return found is None or forgets(found)


def _sums(
    client: Client, pipeline: Pipeline, sums: Summing, rows: Sql, span: Parameters, source: str | None
) -> dict[Unit, Sums]:
    """`source`: only its rows of the span are read, whatever the view's SELECT does with them."""
    settings: dict[str, Any] = {}
    if source is not None:
        inside = f"_slice >= toDateTime({span['start']}, 'UTC') AND _slice < toDateTime({span['end']}, 'UTC')"
        settings = {"additional_table_filters": f"{{{literal(source)}: {literal(inside)}}}"}
    found = client.rows(render("verify_view", rows=rows, **sums.parts), span, settings)
    return {unit_of(pipeline, start, cluster): sums.read(*held) for start, cluster, *held in found}


def _committed_since(client: Client, pipeline: Pipeline, found: TargetTable, changed: int) -> frozenset[Unit]:
    rows = client.rows(render("verify_commit_times"), {"target": found.table, "uuid": found.uuid})
    return frozenset(unit_of(pipeline, start, cluster) for start, cluster, at in rows if at >= changed)


def _place(name: str) -> dict[str, str]:
    database, _, rest = name.partition(".")
    return {"database": database, "name": rest}
