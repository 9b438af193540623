"""What a pipeline needs somebody for, as a table, and the order that the overview has by it."""

from __future__ import annotations

import pytest

from sluice.page.models import OverviewCell, OverviewRow
from sluice.page.overview import Need, attended, by_need


def row(name: str, *cells: str, **more: object) -> OverviewRow:
    said = [OverviewCell(id=f"2026-11-20T{hour:02}Z", cell=cell) for hour, cell in enumerate(cells)]
    fixed = {"slice_seconds": 3600, "can_start": False, "paused": False, "behind_seconds": 0, "anomalies": 0}
    return OverviewRow.model_validate({**fixed, "pipeline": name, "cells": said, **more})


@pytest.mark.parametrize(
    ("cells", "more", "needs"),
    [
        ("verified open", {}, []),
        ("loaded landed waiting landing before", {}, []),
        ("broken broken late", {}, [("broken", 2), ("late", 1)]),
        ("verified", {"anomalies": 4}, [("anomaly", 4)]),
        ("broken", {"anomalies": 4}, [("broken", 1)]),
        ("expired failed failed", {}, [("expired", 1), ("failed", 2)]),
        ("no-table no-table no-table stale", {}, [("no-table", 3), ("stale", 1)]),
        ("lossy lossy", {}, [("lossy", 2)]),
        ("", {"problems": {"lag": 2, "retention": 1}}, [("problem", 3)]),
        ("late", {"paused": True}, [("late", 1), ("paused", 1)]),
        ("", {"error": "no answer", "problems": {"lag": 1}}, [("unavailable", 1), ("problem", 1)]),
    ],
)
def test_needs(cells: str, more: dict, needs: list[tuple[str, int]]):
    assert [(one.need, one.count) for one in attended(row("ads", *cells.split(), **more)).needs] == needs


@pytest.mark.parametrize(
    ("need", "count", "seconds", "text"),
    [
        (Need.BROKEN, 1, 3600, "1 hour: counts do not hold"),
        (Need.ANOMALY, 1, 3600, "1 cause of counts that do not hold"),
        (Need.LATE, 1200, 3600, "1,200 hours late"),
        (Need.FAILED, 2, 900, "2 slices: the last run failed"),
        (Need.PROBLEM, 1, 3600, "1 problem that the watch sees"),
        (Need.PAUSED, 1, 3600, "paused: no hour is landed by itself"),
    ],
)
def test_words(need: Need, count: int, seconds: int, text: str):
    assert need.text(count, seconds) == text


def test_the_order_of_the_overview():
    """By the most urgent need, then by how often, then by name; those that need nobody are last."""
    rows = [
        row("well", "verified"),
        row("also-well", "verified"),
        row("late", "late"),
        row("later", "late", "late"),
        row("wrong", "broken", "late"),
        row("down", error="the lake does not answer"),
        row("paused", "verified", paused=True),
    ]
    found = by_need([attended(one) for one in rows])
    assert [one.pipeline for one in found] == [
        "down", "wrong", "later", "late", "paused", "also-well", "well"
    ]  # fmt: skip


def test_days_count_their_hours():
    days = [
        OverviewCell(id="2026-11-20", cell="late", counts={"late": 3, "verified": 21}),
        OverviewCell(id="2026-11-21", cell="failed", counts={"failed": 1, "late": 2, "verified": 21}),
    ]
    needs = attended(row("days").model_copy(update={"cells": days})).needs
    assert [(one.need, one.count) for one in needs] == [("failed", 1), ("late", 5)]
