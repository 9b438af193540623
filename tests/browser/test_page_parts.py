"""What every view has: an address, a legend, tables that fit; and what is changed is seen at once."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.page_stack import PageStack
from tests.browser.steps import overview, slice_id

pytestmark = pytest.mark.integration

GONE = {
    "kind": "table missing",
    "tone": "bad",
    "what": "adx.clicks is missing in ClickHouse",
    "effect": "14 hours",
    "table": "adx.clicks",
}


def test_what_is_recreated_is_no_longer_missing(admin: Page, page_stack: PageStack):
    """The finding goes at once, and not with the next answer of a page that asks seldom."""
    made: list[str] = []

    def with_finding(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        if not made:
            found["pipelines"][0].update(can_start=True, findings=[GONE])
        route.fulfill(response=answer, body=json.dumps(found))

    def recreate(route: Route) -> None:
        made.append(route.request.url)
        route.fulfill(json={"servers": 1})

    admin.route("**/api/overview?*", with_finding)
    admin.route("**/tables/adx.clicks", recreate)
    admin.goto("about:blank")
    admin.goto(page_stack.url + "/sluice/#/p/adx")
    missing = admin.locator(".place.findings").get_by_text(GONE["what"])
    expect(missing).to_be_visible()
    admin.get_by_role("button", name="Recreate").click()
    expect(missing).to_have_count(0, timeout=10_000)
    admin.unroute_all(behavior="wait")


def test_an_hour_that_is_released_is_no_longer_held(admin: Page, page_stack: PageStack):
    hour = slice_id(page_stack.hours[5])
    held = {"kind": "held", "tone": "warn", "what": "A check holds it out of adx.clicks", "first": hour}
    asked: list[str] = []

    def with_finding(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        if not asked:
            found.update(can_start=True, findings=[{**held, "release": "adx.clicks"}])
        route.fulfill(response=answer, body=json.dumps(found))

    def release(route: Route) -> None:
        asked.append(route.request.method)
        route.fulfill(json={"units": 1})

    admin.route(f"**/slices/{hour}", with_finding)
    admin.route(f"**/slices/{hour}/release/adx.clicks", release)
    admin.goto("about:blank")
    admin.goto(f"{page_stack.url}/sluice/#/s/adx/{hour}")
    finding = admin.get_by_text(held["what"])
    expect(finding).to_be_visible()
    admin.get_by_role("button", name="Release").click()
    expect(finding).to_have_count(0, timeout=10_000)
    assert asked == ["POST"]
    admin.unroute_all(behavior="wait")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("#/nowhere", "There is no view nowhere: this is the overview."),
        ("#/p/adx?tab=zzz", "There is no tab zzz: this is Hours and tables."),
        ("#/?from=yesterday&to=now", "'yesterday' is not an instant such as 2026-11-20T10:00Z, nor now"),
        ("#/p/adx?from=yesterday&to=now", "'yesterday' is not an instant such as 2026-11-20T10:00Z, nor now"),
        (
            "#/p/adx/backfill?from={hour}&to=now&mode=explode",
            "choose a mode: one of fill, repair, reload, remake, reland",
        ),
    ],
)
def test_an_address_that_is_none_says_so(admin: Page, page_stack: PageStack, address: str, said: str):
    admin.goto("about:blank")
    admin.goto(f"{page_stack.url}/sluice/{address.format(hour=slice_id(page_stack.hours[5]))}")
    expect(admin.get_by_role("alert")).to_have_text(said)
    overview(admin, page_stack)
    expect(admin.get_by_role("alert")).to_have_count(0)


WIDE = "(it) => it.scrollWidth > it.clientWidth + 1"


@pytest.mark.parametrize("width", [1280, 400])
def test_what_is_cut_off_at_the_right_is_hinted_at(
    log_in: Callable[..., Page], landed: PageStack, width: int
):
    page = log_in("user", width=width)
    seen = 0
    for tab in ("", "lag", "runs", "traffic"):
        page.goto("about:blank")
        page.goto(f"{landed.url}/sluice/#/p/adx?tab={tab}")
        expect(page.locator(".place table").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        for box in page.locator(".scroll:has(> .wide-hint):visible").all():
            hint = box.locator(".wide-hint span")
            assert hint.is_visible() == box.evaluate(WIDE), (tab, box.get_attribute("aria-label"))
            assert box.evaluate("(it) => it.scrollHeight <= it.clientHeight + 1"), tab
            seen += 1
    assert seen >= 4
    page.context.close()


def test_a_long_table_says_how_many_rows_are_left(admin: Page, page_stack: PageStack):
    overview(admin, page_stack)
    admin.evaluate("""async () => {
        const { table } = await import(new URL("static/js/dom.js", document.baseURI).href);
        const rows = Array.from({ length: 130 }, (_, n) => n);
        document.getElementById("view").append(table("Many", [{ name: "n", value: String }], rows));
    }""")
    many = admin.get_by_role("region", name="Many")
    expect(many.locator("tbody tr")).to_have_count(100)
    many.get_by_role("button", name="Show 30 more rows").click()
    expect(many.locator("tbody tr")).to_have_count(130)
    expect(many.get_by_role("button")).to_have_count(0)


def test_the_legend_has_every_sign(admin: Page, page_stack: PageStack):
    overview(admin, page_stack)
    admin.get_by_role("button", name="What the signs mean").click()
    legend = admin.get_by_role("dialog", name="What the signs mean")
    expect(legend.locator("li b").first).to_have_text("before")
    expect(legend).to_contain_text("no table in the lake, and a table that has to have it is not there")
