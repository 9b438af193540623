"""What a pipeline needs somebody for, as a table, and the order that the overview has by it."""

from __future__ import annotations

import pytest

from sluice.page.attention import AttentionFacts, Need, attended, by_need, needs_of, text_of
from sluice.page.models import OverviewCell, OverviewRow

CASES = [
    (AttentionFacts({"verified": 47, "open": 1}), []),
    (AttentionFacts({"loaded": 2, "landed": 1, "waiting": 1, "landing": 1, "before": 9}), []),
    (AttentionFacts({"broken": 2, "late": 1}), [("broken", 2), ("late", 1)]),
    (AttentionFacts({"verified": 3}, broken=4), [("anomaly", 4)]),
    (AttentionFacts({"broken": 1}, broken=4), [("broken", 1)]),
    (AttentionFacts({"expired": 1, "failed": 2}), [("expired", 1), ("failed", 2)]),
    (AttentionFacts({"no-table": 3, "stale": 1}), [("no-table", 3), ("stale", 1)]),
    (AttentionFacts({"lossy": 5}), [("lossy", 5)]),
    (AttentionFacts({}, problems={"lag": 2, "retention": 1}), [("problem", 3)]),
    (AttentionFacts({"late": 1}, problems={}, paused=True), [("late", 1), ("paused", 1)]),
    (AttentionFacts({}, unavailable=True, problems={"lag": 1}), [("unavailable", 1), ("problem", 1)]),
]


@pytest.mark.parametrize(("facts", "needs"), CASES)
def test_needs(facts: AttentionFacts, needs: list[tuple[str, int]]):
    assert needs_of(facts) == needs


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
    assert text_of(need, count, seconds) == text


def test_every_need_has_words():
    assert all(text_of(need, 2, 3600) for need in Need)


def row(name: str, *cells: str, **more: object) -> OverviewRow:
    said = [OverviewCell(id=f"2026-11-20T{hour:02}Z", cell=cell) for hour, cell in enumerate(cells)]
    fixed = {"slice_seconds": 3600, "can_start": False, "paused": False, "behind_seconds": 0, "anomalies": 0}
    return OverviewRow.model_validate({**fixed, "pipeline": name, "cells": said, **more})


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
