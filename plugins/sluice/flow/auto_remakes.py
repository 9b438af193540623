"""Reads which units a fill remakes by itself: the adapter of `sluice.plan.auto_remake`."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.clients.lake.open import open_lake
from sluice.config.chosen_tables import Tables
from sluice.config.pipeline import Pipeline
from sluice.flow.land.rules_now import rules_now
from sluice.plan.auto_remake import Remakes, chosen, older_window, other_rules
from sluice.plan.backlog import hours_until
from sluice.slices import SliceRange
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.status import UnitStatus
from sluice.state.survey import survey_of


def auto_remakes(pipeline: Pipeline, statuses: Sequence[UnitStatus]) -> Remakes:
    """Returns what a fill of the units in `statuses` remakes by itself. Raises SchemaRefused."""
    if pipeline.remake != "auto":
        return Remakes()
    return chosen(pipeline, statuses, rules_now(pipeline))


def forecast_remakes(
    pipeline: Pipeline, statuses: Sequence[UnitStatus], mode: str, tables: Tables | None
) -> tuple[Remakes, int]:
    """Returns what a run remakes by itself, and how many units landed by other rules than those of now."""
    if mode != "fill" or tables is not None:
        return Remakes(), 0
    rules = rules_now(pipeline)
    by_other_rules = (s for s in statuses if s.manifest and not s.gone and other_rules(s.manifest, rules))
    return auto_remakes(pipeline, statuses), sum(1 for _ in by_other_rules)


def hourly_remakes(
    pipeline: Pipeline, own: SliceRange, apart: Sequence[SliceRange], turn: int, older: bool = True
) -> Remakes:
    """Returns what run number `turn` remakes of its `own` slices and, with `older`, of one window of those
    before them. `apart`: ranges that it lands or loads. Raises what lake and ClickHouse raise."""
    if pipeline.remake != "auto":
        return Remakes()
    lake = open_lake(pipeline)
    boundaries = BoundaryLog(lake).read()
    statuses = survey_of(pipeline, own, lake, boundaries)
    window = older_window(hours_until(pipeline, boundaries, own.start), turn) if older else None
    if window is not None:
        statuses += survey_of(pipeline, window, lake, boundaries)
    return chosen(pipeline, statuses, rules_now(pipeline), apart, turn)
