"""sluice.`<table> expected`: what a table of traffic counts lets one expect, against what was seen."""

from __future__ import annotations

import hashlib

from sluice.clickhouse.client import Client
from sluice.counts.spec import OWN, Counts
from sluice.load.inspect import TargetTable
from sluice.load.names import SYSTEM
from sluice.load.settings import WRITE
from sluice.load.sql import Sql, identifier, listed, literal, render
from sluice.pipeline import Pipeline
from sluice.slices import HOUR


def view_name(table: str) -> str:
    return f"{table} expected"


def keys_of(spec: Counts, found: TargetTable) -> tuple[str, ...]:
    """The columns that tell counts of one hour apart, as far as the table has them."""
    return ("type", *(name for name in spec.by if name in found.filled and name not in OWN))


def create_expected(client: Client, pipeline: Pipeline, found: TargetTable) -> None:
    """Makes the view when the pipeline file or the table's shape is new, over the readers' view."""
    spec = next(one for one in pipeline.counts if one.table == found.table)
    text = render(
        "create_expected",
        view=identifier(SYSTEM, view_name(found.table)),
        committed=identifier(SYSTEM, found.table),
        target_name=literal(found.table),
        table_uuid=literal(found.uuid),
        keys=listed(map(identifier, keys_of(spec, found))),
        hours_of_slice=Sql(str(max(1, pipeline.slice // HOUR))),
        slices_of_hour=Sql(str(max(1, HOUR // pipeline.slice))),
        comment=Sql("{comment}"),
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    comment = f"traffic of {found.table}, expected and seen; made for {digest}"
    known = client.rows(render("table_comment"), {"database": SYSTEM, "name": view_name(found.table)})
    if [(comment,)] != [tuple(row) for row in known]:
        client.run(Sql(text.replace("{comment}", literal(comment))), settings=WRITE)
