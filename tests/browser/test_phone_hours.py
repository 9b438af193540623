"""On a phone each row of hours has its time beside it, which can be read: measured in Chromium."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page_stack import PageStack

pytestmark = pytest.mark.integration

ROWS = """(grid) => [...grid.querySelectorAll(".group")].map((group) => {
    const mark = group.querySelector(".mark"), cells = [...group.querySelectorAll(".cell")];
    const text = document.createRange();
    text.selectNodeContents(mark);
    const box = (of) => {
        const { left, right, top, bottom } = of.getBoundingClientRect();
        return { left, right, top, bottom };
    };
    return {
        said: mark.innerText.trim().split(/\\s*\\n\\s*/),
        size: parseFloat(getComputedStyle(mark).fontSize),
        mark: box(text),
        cells: cells.map(box),
        first: cells[0].dataset.key.split(" ")[1],
    };
})"""


@pytest.mark.parametrize("view", ["hours", "pipeline"])
def test_each_row_of_hours_has_its_time(
    log_in: Callable[..., Page], page_stack: PageStack, shoot: Callable[..., None], view: str
):
    page = log_in("user", "light", 390, 844)
    page.goto(page_stack.url + {"hours": "/sluice/#/?from=48h&to=now", "pipeline": "/sluice/#/p/adx"}[view])
    expect(page.locator(".grid .cell").first).to_be_visible()
    rows: list[dict[str, Any]] = page.locator(".grid").first.evaluate(ROWS)
    assert len(rows) in (4, 5)
    for number, row in enumerate(rows):
        start = datetime.strptime(row["first"], "%Y-%m-%dT%HZ").replace(tzinfo=UTC)
        date = f"{start.day} {start:%b}"
        begins = number == 0 or start.hour == 0
        assert row["said"] == ([date] if begins else []) + [f"{start:%H:00}"]
        assert start.hour in (0, 12) or number == 0
        assert row["size"] >= 11
        assert 0 <= row["mark"]["left"] < row["mark"]["right"] <= row["cells"][0]["left"]
        assert abs(_middle(row["mark"]) - _middle(row["cells"][0])) <= 2
        assert 1 <= len(row["cells"]) <= 12
        assert len({cell["top"] for cell in row["cells"]}) == 1
        assert all(cell["right"] - cell["left"] >= 20 and cell["right"] <= 390 for cell in row["cells"])
    for above, below in pairwise(rows):
        assert above["mark"]["bottom"] <= below["mark"]["top"]
        assert above["cells"][0]["bottom"] <= below["cells"][0]["top"]
    shoot(page, f"phone-rows-{view}")
    page.context.close()


def _middle(box: dict[str, float]) -> float:
    return (box["top"] + box["bottom"]) / 2
