"""Reads in what landed units differ from the pipeline file: the adapter of `sluice.state.rules`."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.flow.land.task.decode import schema_of
from sluice.flow.load.target_checks import required
from sluice.slices import Unit
from sluice.state.rules import Difference, LandingRules, RulesReader, difference_lines, differs, digest_of
from sluice.state.status import UnitStatus


def rule_differences(
    pipeline: Pipeline, lake: Lake, statuses: Iterable[UnitStatus]
) -> dict[Unit, tuple[Difference, ...]]:
    """Returns the differences of each landed unit that a run can still change.

    Raises SchemaRefused, and what the lake raises.
    """
    now, rules = LandingRules.of(pipeline, _schema(pipeline)), RulesReader(lake)
    return {
        status.unit: differs(pipeline, status.manifest, status.tables, now, rules, required)
        for status in statuses
        if status.manifest is not None and not status.gone and not status.forgotten_on
    }


def rule_lines(pipeline: Pipeline, lake: Lake, statuses: Iterable[UnitStatus]) -> list[str]:
    """Returns a line for each difference. Raises as `rule_differences`."""
    return difference_lines(rule_differences(pipeline, lake, statuses))


def _schema(pipeline: Pipeline) -> bytes | None:
    if pipeline.event.format.schema_file is None:
        return None
    return schema_of(pipeline.event)


# The rules of the pipeline file as it is now.
def rules_now(pipeline: Pipeline) -> str:
    """Returns the digest of the rules by which a record would become rows now. Raises SchemaRefused."""
    return digest_of(LandingRules.of(pipeline, schema_of(pipeline.event)))
