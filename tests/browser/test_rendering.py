"""Every view in both themes and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import findings
from tests.browser.page_stack import HOUR, PageStack
from tests.browser.steps import slice_id

pytestmark = pytest.mark.integration

Login = Callable[..., Page]
Shoot = Callable[..., None]


def test_pictures(log_in: Login, page_stack: PageStack, shoot: Shoot):
    """Every view in both themes and on a phone: nothing is wider than the window, and axe-core finds
    nothing."""
    start = page_stack.hours[4]
    repair = {"from": slice_id(start), "to": slice_id(start + 12 * HOUR), "mode": "reload"}
    views = {
        "hours": "/sluice/#/?from=48h&to=now",
        "week": "/sluice/#/?from=168h&to=now",
        "year": "/sluice/#/?from=8760h&to=now",
        "pipeline": "/sluice/#/p/adx",
        "traffic": "/sluice/#/p/adx?tab=traffic",
        "lag": "/sluice/#/p/adx?tab=lag",
        "runs": "/sluice/#/p/adx?tab=runs",
        "changes": "/sluice/#/p/adx?tab=changes",
        "backfill": f"/sluice/#/p/adx/backfill?{urlencode(repair)}",
        "slice": f"/sluice/#/s/adx/{slice_id(page_stack.hours[5])}",
    }
    shown = {
        "slice": ".panel-body",
        "traffic": ".place.delays table",
        "lag": ".place.retention table",
        "runs": ".place.runs table",
        "changes": ".place.changes .card",
        "backfill": ".plan .replaces",
        "pipeline": ".place.tables table",
    }
    wrong: list[tuple[str, str, str]] = []
    for name, scheme, width, height in (
        ("light", "light", 1280, 860),
        ("dark", "dark", 1280, 860),
        ("phone", "light", 390, 844),
        ("phone-dark", "dark", 390, 844),
    ):
        page = log_in("user", scheme, width, height)
        for view, path in views.items():
            page.goto("about:blank")
            page.goto(page_stack.url + path)
            expect(page.locator(shown.get(view, ".grid .cell")).first).to_be_visible()
            if view == "slice":
                expect(page.locator(".reject").first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, view)
            wrong += [(name, view, line) for line in findings(page)]
            shoot(page, f"page-{view}-{name}")
        assert page.wrong == []
        page.context.close()
    assert wrong == []
