"""Says how a missing target table is created."""

from __future__ import annotations

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import identifier, render
from sluice.config.pipeline import Pipeline, Target
from sluice.doctor.check import Area, Check, fail
from sluice.errors import TableMissing


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
