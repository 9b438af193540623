"""An operator before the page, and where the tests of what they ask get their answers from."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from playwright.sync_api import Locator, Page, expect

from tests.browser.page_stack import HOUR, TABLES, PageStack

MOST_CLICKS, MOST_SECONDS = 3, 10


def patience() -> float:
    """Ten seconds on a machine that has nothing else to do; a busy one has as many times longer."""
    return MOST_SECONDS * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@dataclass
class Operator:
    """Begins on the overview as Airflow's navigation opens it, and counts clicks and seconds."""

    page: Page
    shoot: Callable[..., None]
    clicks: int = 0
    began: float = field(default_factory=time.monotonic)

    def click(self, what: Locator) -> None:
        self.clicks += 1
        what.click()

    def pipeline(self, tab: str | None = None) -> None:
        self.click(self.page.get_by_role("link", name="adx", exact=True))
        if tab is not None:
            self.click(self.page.get_by_role("link", name=tab, exact=True))

    def answered(self, question: str, where: Locator | None = None) -> None:
        """The answer is on the page, in the part `where`."""
        took = time.monotonic() - self.began
        assert self.clicks <= MOST_CLICKS and took <= patience(), (self.clicks, took, os.getloadavg())
        if where is not None:
            where.scroll_into_view_if_needed()
        self.shoot(self.page, f"page-question-{question}", where)


def complete(stack: PageStack) -> set[datetime]:
    """The hours of which every table has rows."""
    return set.intersection(*(stack.loaded(table) for table in TABLES))


def over() -> set[datetime]:
    """The hours of the overview that are over by now, with those that have ended since the stack began."""
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    return {now - number * HOUR for number in range(1, 48)}


def shown(stack: PageStack) -> list[datetime]:
    """The hours of the overview that had events and are over."""
    first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 47 * HOUR
    newest = stack.hours[-1]
    return [hour for n in range(47, -1, -1) if (hour := newest - n * HOUR) >= first]


def change(now: int, then: int) -> str:
    share = abs(now - then) / then * 100
    return f"{'+' if now >= then else '−'}{share:.2g} %" if share < 10 else f"+{share:.0f} %"


def rate_of(stack: PageStack, step: str, hour: datetime) -> float:
    """Rows a second of the newest batch that held the hour, of all its tables, as the steps have noted it."""
    paths = sorted(stack.settings.home.glob("lake/adx/_timings/*.ndjson"))
    steps = [path for path in paths if not path.stem.endswith("-drivers")]
    notes = [json.loads(line) for path in steps for line in path.read_text().splitlines()]
    held = [
        one
        for one in notes
        if one["step"] == step
        and datetime.fromisoformat(one["start"]) <= hour < datetime.fromisoformat(one["until"])
    ]
    last = [one for one in held if one["run"] == held[-1]["run"]]
    return sum(one["rows"] for one in last) / sum(one["seconds"] for one in last)


def read_at(trend: Locator, hour: datetime) -> tuple[str, str]:
    """The hour and the records behind that the plot's legend says where the mouse is: over the hour, on an
    axis of the last 48 hours up to now."""
    now = datetime.now(UTC)
    first = now.replace(minute=0, second=0, microsecond=0) - 47 * HOUR
    share = (hour - first) / (now - first)
    box = trend.locator(".u-over").bounding_box()
    trend.page.mouse.move(box["x"] + 1 + share * (box["width"] - 2), box["y"] + box["height"] / 2)
    values = trend.locator(".u-legend .u-value")
    expect(values.nth(0)).to_have_text(f"{hour:%Y-%m-%d %H:%M}")
    return values.nth(0).inner_text(), values.nth(1).inner_text()
