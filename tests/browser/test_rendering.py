"""Every view in both themes and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import findings
from tests.browser.page_stack import HOUR, PageStack
from tests.browser.steps import SHIFTS, slice_id

pytestmark = pytest.mark.integration

Login = Callable[..., Page]
Shoot = Callable[..., None]


AT_ITS_END = "(it) => it.scrollLeft + it.clientWidth >= it.scrollWidth - 2"
TABS = ("Hours and tables", "Traffic", "Lag and retention", "Runs", "Changes", "Backfill")
# Points of 10:00, 11:00 and 14:00 in a range from 08:00 to 16:20.
SPREAD = """async () => {
    const { spread } = await import(new URL("static/js/charts.js", document.baseURI).href);
    return spread([36000, 39600, 50400], [{ values: [1, 2, 3] }], [28800, 58800]);
}"""
SPAN = """async ([asked, now]) => {
    const { spanOf } = await import(new URL("static/js/charts.js", document.baseURI).href);
    return spanOf(asked, now);
}"""


def test_a_plot_has_the_chosen_range_up_to_now_and_gaps(admin: Page, page_stack: PageStack):
    admin.goto(page_stack.url + "/sluice/")
    starts, values = admin.evaluate(SPREAD)
    assert [at // 3600 for at in starts] == [8, 9, 10, 11, 12, 13, 14, 15]
    assert values == [None, None, 1, 2, None, None, 3, None]
    hour, half = 3_600_000, 1_800_000
    now = 100 * hour + half
    assert admin.evaluate(SPAN, [{"from": "48h", "to": "now"}, now]) == [53 * 3600, 100.5 * 3600]
    day = {"from": "1970-01-02T00Z", "to": "1970-01-03"}
    assert admin.evaluate(SPAN, [day, now]) == [24 * 3600, 48 * 3600]
    assert admin.evaluate(SPAN, [{**day, "to": "2030-01-01"}, now])[1] == 100.5 * 3600


def test_the_head_of_a_pipeline_is_the_same_on_every_tab(admin: Page, page_stack: PageStack):
    admin.goto(page_stack.url + "/sluice/#/p/adx")
    places = set()
    for tab in TABS:
        admin.get_by_role("link", name=tab, exact=True).click()
        current = admin.get_by_role("link", name=tab, exact=True)
        expect(current).to_have_attribute("aria-current", "page")
        expect(admin.locator("#asof")).to_contain_text("UTC")
        box = admin.locator("nav.tabs").bounding_box()
        places.add((box["x"], box["y"], box["width"], box["height"]))
    assert len(places) == 1, places


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
            moved = page.evaluate(SHIFTS)
            assert moved < 0.05, (name, view, moved)
            if view == "year":
                assert page.locator(".scroll-x").first.evaluate(AT_ITS_END), name
            wrong += [(name, view, line) for line in findings(page)]
            shoot(page, f"page-{view}-{name}")
        assert page.wrong == []
        page.context.close()
    assert wrong == []
