"""Chooses what of a rollup has to be made, out of the ledger and the source's table."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.clickhouse.client import Client
from sluice.pipeline import Pipeline
from sluice.rollups.decide import Choice, Made
from sluice.rollups.hours import parts_of, touched
from sluice.slices import Unit


def choose(client: Client, pipeline: Pipeline, made: Made, units: Sequence[Unit]) -> Choice:
    """By event hour the hours come first: the rows that say that a unit's hours are made are committed with
    them or after them. Raises what the client raises."""
    todo, skipped = made.choose(units)
    if made.rollup.grain == "slice" or not todo:
        return todo, skipped
    own = [work.unit for work in todo]
    hours = touched(client, pipeline, made.rollup, own) | made.hours_naming(own)
    works = made.hour_works(parts_of(client, pipeline, made.rollup, hours))
    return [*works, *todo], skipped
