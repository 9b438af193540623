"""What a table of traffic counts, and its misfits, really sum up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sluice.clickhouse.client import Client
from sluice.counts.spec import OWN
from sluice.load.inspect import TargetTable
from sluice.load.ledger import unit_of
from sluice.load.sql import render, table
from sluice.pipeline import Pipeline, Target
from sluice.slices import Unit


def look_at_counts(
    client: Client, pipeline: Pipeline, target: Target, found: TargetTable, span: Mapping[str, int]
) -> dict[Unit, dict[str, int]]:
    """By unit and event type; nothing for a table of events. Raises what the client raises."""
    if not target.counted or not set(OWN) <= {column.name for column in found.columns}:
        return {}
    there = client.rows(render("verify_counts", table=table(target.table)), span)
    misfits = client.rows(render("verify_counts_rejected"), {"target": target.table, **span})
    units: dict[Unit, Counter[str]] = {}
    for start, cluster, kind, count in (*there, *misfits):
        units.setdefault(unit_of(pipeline, start, cluster), Counter())[kind] += count
    return {unit: dict(sums) for unit, sums in units.items()}
