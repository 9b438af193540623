"""What the tests of the page do and read again and again."""

from __future__ import annotations

import re
from datetime import datetime

from playwright.sync_api import Locator, Page, expect

from tests.browser.page_stack import PageStack

RUN_MS = 900_000
# Of all layout shifts since the page is there, those after a person's own input aside.
SHIFTS = """() => new Promise((resolve) => {
    let sum = 0;
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (!entry.hadRecentInput) sum += entry.value;
    }).observe({type: "layout-shift", buffered: true});
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(sum)));
})"""


def slice_id(hour: datetime) -> str:
    return f"{hour:%Y-%m-%dT%HZ}"


def cell(page: Page, hour: datetime) -> Locator:
    return page.locator(f'[data-key="adx {slice_id(hour)}"]')


def state(hour_cell: Locator) -> str:
    """What the cell says to somebody who cannot see it: `adx, …: verified (…)`."""
    said = str(hour_cell.get_attribute("aria-label"))
    assert "NaN" not in said
    return said.split(": ")[1].split(" ")[0]


def expect_state(hour_cell: Locator, expected: str, timeout: int = 90_000) -> None:
    expect(hour_cell).to_have_attribute("aria-label", re.compile(f": {expected} "), timeout=timeout)


def overview(page: Page, stack: PageStack) -> None:
    page.goto(stack.url + "/sluice/#/?from=48h&to=now")
    expect(cell(page, stack.hours[-1])).to_be_visible()
