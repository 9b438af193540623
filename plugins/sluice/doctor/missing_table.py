"""Says how a missing target table is created: from its events, where there are some."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import identifier, render
from sluice.config.files import pipelines_folder
from sluice.config.pipeline import Pipeline, Target
from sluice.doctor.check import Area, Check, fail
from sluice.errors import TableMissing


def missing(
    client: Client, target: Target, error: TableMissing, command: str, area: Area, place: str
) -> Check:
    """Returns the check of a table that is not there; `command` proposes one, where it is not empty."""
    remedy = f"create it: `{command}` prints a CREATE TABLE for its events" if command else error.remedy
    if not client.rows(render("doctor/has_database"), {"database": target.database})[0][0]:
        remedy = f"CREATE DATABASE {identifier(target.database)}, and {remedy}"
    return fail(area, place, error.reason, remedy)


def ddl_command(pipeline: Pipeline, config: Path, target: Target, sampled: Collection[str]) -> str:
    """Returns the command that proposes the table; empty where none of its own types is among the
    `sampled`."""
    kind = next((name for name in target.types if name in sampled), None)
    if kind is None:
        return ""
    usual = pipelines_folder() / f"{pipeline.name}.yaml"
    elsewhere = [] if config.resolve() == usual.resolve() else ["--config", str(config)]
    return shlex.join(["sluice", "doctor", pipeline.name, *elsewhere, "--ddl", kind])


def types_beside(pipeline: Pipeline, kind: str) -> frozenset[str]:
    """Returns the types whose events go into the table of `kind`: their fields are its columns."""
    target = next((target for target in pipeline.targets if kind in target.types), None)
    return frozenset(target.types) if target else frozenset({kind})
