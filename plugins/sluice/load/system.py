"""What Sluice keeps in ClickHouse beside the targets: the ledger, rejected rows, claims and views."""

from __future__ import annotations

import hashlib

from sluice.clickhouse.client import Client
from sluice.errors import TargetRefused
from sluice.load.inspect import TargetTable
from sluice.load.names import SYSTEM
from sluice.load.sql import identifier, literal, render, table
from sluice.pipeline import Pipeline, Target


def create_system_tables(client: Client) -> None:
    """Makes what is missing; repeatable."""
    for name in ("create_database", "create_ledger", "create_rejected", "create_targets"):
        client.run(render(name))


def check_owner(client: Client, pipeline: Pipeline, lake_root: str, target: Target) -> bool:
    """Whether the target is this pipeline's already, or nobody's. Raises TargetRefused: somebody else's."""
    claims = client.rows(render("read_claims"), {"target": target.table})
    if claims and claims[0] != (pipeline.name, lake_root):
        owner, lake = claims[0]
        raise TargetRefused(
            target.table,
            f"it belongs to pipeline {owner!r} with lake {lake}, not to {pipeline.name!r} with {lake_root}",
            "list the topics in one pipeline, or give this one a table of its own; if the other one is gone: "
            f"DELETE FROM sluice.targets WHERE target = {literal(target.table)}",
        )
    return bool(claims)


def claim(client: Client, pipeline: Pipeline, lake_root: str, target: Target) -> None:
    """Makes the target this pipeline's. Raises TargetRefused when another claim came first."""
    if not check_owner(client, pipeline, lake_root, target):
        parameters = {"target": target.table, "pipeline": pipeline.name, "lake": lake_root}
        client.run(render("claim_target"), parameters)
        check_owner(client, pipeline, lake_root, target)


def create_view(client: Client, found: TargetTable) -> None:
    """Makes sluice.`database.table`, the view of committed slices only, when the table's shape is new."""
    shape = repr((found.uuid, [(c.name, c.type, c.kind) for c in found.columns]))
    comment = f"committed slices of {found.table}; made for {hashlib.sha256(shape.encode()).hexdigest()[:16]}"
    known = client.rows(render("table_comment"), {"database": SYSTEM, "name": found.table})
    if [(comment,)] != [tuple(row) for row in known]:
        sql = render(
            "create_view",
            view=identifier(SYSTEM, found.table),
            target=table(found.table),
            target_name=literal(found.table),
            table_uuid=literal(found.uuid),
            comment=literal(comment),
        )
        client.run(sql)
