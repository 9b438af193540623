"""`sluice erase --pending`: applies the erasure list to units that landed without some of its entries."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.flow.erase.unit_loads import UnitLoads
from sluice.safe_text import Say
from sluice.slices import Unit
from sluice.state.erasures.erasure_progress import unerased
from sluice.state.file_moves import finish_moves
from sluice.state.manifests import landed_units, read_manifests


@dataclass(frozen=True)
class Applied:
    """`units` that landed without an entry, `records` that were taken out of them, and what verify says."""

    units: int
    records: int
    wrong: tuple[str, ...] = ()


def apply_list(pipeline: Pipeline, lake: Lake, say: Say) -> Applied:
    """Repeatable at any time. Raises BeforeStart, and what rewriting and loading raise."""
    manifests = finish_moves(lake, landed_units(lake, pipeline.slice))
    owing: list[Unit] = sorted(unerased(lake, manifests))
    if not owing:
        return Applied(0, 0)
    loads = UnitLoads(pipeline, lake, say)
    loads.due({unit: manifests[unit] for unit in owing}, owing)
    loads.rewrite(owing)
    now = read_manifests(lake, owing)
    wrong = loads.load("erasure-list", loads.due(now, []).load)
    erased = sum(now[unit].erased_rows - manifests[unit].erased_rows for unit in owing)
    return Applied(len(owing), erased, tuple(wrong))
