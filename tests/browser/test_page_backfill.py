"""Backfills from the page's form: the plan first, then progress, and what was done. The first lands 16 of
twenty hours, for the files after it, too."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.page_stack import HOUR, PageStack
from tests.browser.steps import RUN_MS, cell, expect_state, overview, slice_id, state

pytestmark = pytest.mark.integration

Shoot = Callable[..., None]


def backfill(page: Page, stack: PageStack, **query: str) -> Locator:
    """The backfill's view with what an address says of the form."""
    page.goto("about:blank")
    page.goto(f"{stack.url}/sluice/#/p/adx/backfill{'?' if query else ''}{urlencode(query)}")
    return page.get_by_role("form", name="Backfill")


def test_a_backfill_from_the_form(admin: Page, page_stack: PageStack, shoot: Shoot):
    """Its plan first, then progress, then what it did; the four hours before are not asked for."""
    first, last = page_stack.hours[4], page_stack.hours[-1]
    form = backfill(admin, page_stack)
    form.get_by_label("From (UTC)").fill(f"{first:%Y-%m-%dT%H:%MZ}")
    form.get_by_label("To (UTC, not included)").fill(f"{last + HOUR:%Y-%m-%dT%H:%MZ}")
    form.get_by_role("button", name="Show the plan").click()
    plan = admin.locator(".plan")
    expect(plan.get_by_role("heading")).to_contain_text("16 slices, mode fill")
    expect(plan.locator(".does")).to_contain_text("16 land and load")
    expect(plan.locator("tbody tr")).to_have_count(16)
    expect(plan.locator(".stats")).to_contain_text(f"Records{page_stack.records(page_stack.hours[4:]):,}")
    expect(plan.locator(".replaces")).to_contain_text("replaces nothing")
    # No step of the pipeline was ever timed here; a second plan below knows more.
    expect(plan.locator(".time")).to_contain_text("Time: unknown: no earlier run")
    plan.get_by_role("button", name="Start").click()
    expect(plan.locator("[data-state=running]")).to_be_visible(timeout=RUN_MS)
    assert f"&run=fill__{quote(f'{first:%Y-%m-%dT%H:%MZ}')}__" in admin.url
    land = plan.get_by_role("row", name=re.compile("^land"))
    # Of one task none is done, and one at work.
    expect(land).to_have_text("land1010000", timeout=RUN_MS)
    shoot(admin, "page-backfill-running")
    admin.reload()  # the address says which run is followed
    expect(plan.locator("[data-state=success]")).to_have_text("All 16 hours are complete.", timeout=RUN_MS)
    expect(plan.locator(".did")).to_contain_text(
        f"landed {page_stack.records(page_stack.hours[4:]):,} records"
    )
    expect(plan.locator(".did").get_by_role("row", name=re.compile("^land"))).to_contain_text(
        f"{page_stack.records(page_stack.hours[4:]):,}"
    )
    shoot(admin, "page-backfill-ended")
    past = admin.locator(".past tbody tr")
    expect(past).to_have_count(1)
    expect(past).to_contain_text(f"{first:%Y-%m-%d %H:%M} – {last + HOUR:%Y-%m-%d %H:%M}")
    expect(past).to_contain_text("backfill by admin")
    overview(admin, page_stack)
    for hour in (first, last):
        expect_state(cell(admin, hour), "verified")
    assert state(cell(admin, page_stack.hours[3])) == "late"


def test_a_plan_says_how_long_it_takes(admin: Page, page_stack: PageStack, shoot: Shoot):
    """At the rates of the run before, and what it replaces; a plan of nothing has no time. An address fills
    the form, as a repair's button does."""
    edges = {"from": slice_id(page_stack.hours[4]), "to": slice_id(page_stack.hours[-1] + HOUR)}
    form = backfill(admin, page_stack, **edges, mode="reload")
    expect(form.get_by_role("radio", name=re.compile("^Reload from the lake"))).to_be_checked()
    plan = admin.locator(".plan")
    expect(plan.locator(".does")).to_contain_text("16 load again")
    expect(plan.locator(".time")).to_contain_text(re.compile(r"Time: about \d+ .*load \d+"))
    rows = page_stack.client().query("SELECT count() FROM adx.clicks").first_row[0]
    expect(plan.locator(".replaces")).to_contain_text(f"adx.clicks: {rows:,} rows of 16 hours")
    plan.scroll_into_view_if_needed()
    shoot(admin, "page-backfill-plan")
    form.get_by_label("adx.clicks", exact=True).check()
    form.get_by_role("button", name="Show the plan").click()
    expect(plan.get_by_role("heading")).to_contain_text("mode reload, only adx.clicks")
    expect(plan.locator(".replaces li")).to_have_count(1)
    assert "table=adx.clicks" in admin.url
    form = backfill(admin, page_stack, **edges)
    expect(plan).to_contain_text("There is nothing to do.")
    expect(plan.locator(".time")).to_have_count(0)


def test_a_plan_knows_a_table_that_is_gone_and_a_run_that_stops_says_why(admin: Page, page_stack: PageStack):
    """The table goes away after a plan was made, which may be started; one that is made then may not. All
    hours of its range stay complete in the ledger. The overview makes one like it."""
    hour, client = page_stack.hours[12], page_stack.client()
    definition = client.command("SHOW CREATE TABLE adx.clicks")
    edges = {"from": slice_id(hour), "to": slice_id(hour + HOUR)}
    backfill(admin, page_stack, **edges, mode="reload")
    plan = admin.locator(".plan")
    start = plan.get_by_role("button", name="Start")
    expect(start).to_be_enabled()
    client.command("RENAME TABLE adx.clicks TO adx.away")
    try:
        start.click()
        expect(plan.locator("[data-state=failed]")).to_be_visible(timeout=RUN_MS)
        did = plan.locator(".did")
        expect(did).to_contain_text("Stopped in plan: table adx.clicks: there is no such table")
        reason = did.locator(".why")
        assert reason.evaluate("one => one.scrollHeight <= one.clientHeight && one.clientWidth > 400")
        expect(admin.locator(".past tbody tr").first).to_contain_text("Stopped in plan: table adx.clicks")
        backfill(admin, page_stack, **edges, mode="reload")
        expect(plan.locator(".obstacles")).to_contain_text(
            "the run would stop before it lands anything: table adx.clicks: there is no such table"
        )
        expect(start).to_be_disabled()
        overview(admin, page_stack)
        first = admin.locator(".first-finding")
        expect(first).to_contain_text("adx.clicks is missing in ClickHouse")
        first.get_by_role("button", name="Recreate").click()
        expect(first).not_to_contain_text("is missing in ClickHouse")
        assert client.command("SHOW CREATE TABLE adx.clicks") == definition
    finally:
        client.command("DROP TABLE IF EXISTS adx.clicks SYNC")
        client.command("RENAME TABLE adx.away TO adx.clicks")


def test_a_backfill_can_be_cancelled(admin: Page, page_stack: PageStack):
    """While it runs, the same plan in another tab is not started without a question."""
    hour = page_stack.hours[10]
    edges = {"from": slice_id(hour), "to": slice_id(hour + HOUR), "mode": "reload"}
    backfill(admin, page_stack, **edges)
    plan = admin.locator(".plan")
    expect(plan.get_by_role("button", name="Start")).to_be_enabled()
    tab = admin.context.new_page()
    backfill(tab, page_stack, **edges)
    other = tab.locator(".plan")
    expect(other.get_by_role("button", name="Start")).to_be_enabled()
    plan.get_by_role("button", name="Start").click()
    expect(plan.locator("[data-state=running], [data-state=queued]")).to_be_visible()
    other.get_by_role("button", name="Start").click()
    expect(other).to_contain_text("has been started since this plan was made")
    other.get_by_role("button", name="Start").click()
    expect(other.get_by_role("button", name="Start all the same")).to_be_enabled()
    tab.close()
    plan.get_by_role("button", name="Cancel").click()
    plan.get_by_role("button", name="Cancel for good").click()
    expect(plan.locator("[data-state=cancelled]")).to_be_visible(timeout=RUN_MS)
    expect(plan.get_by_role("heading")).to_contain_text("Cancelled by admin")
    expect(plan.locator(".did")).to_contain_text("What is done stays")
    expect(admin.locator(".past tbody tr").first).to_contain_text("cancelled")


def test_a_link_to_a_run_leaves_airflows_frame(admin: Page, page_stack: PageStack):
    admin.goto(page_stack.url + "/plugin/sluice")
    frame = admin.frame_locator("iframe")
    frame.locator(f'[data-key="adx {slice_id(page_stack.hours[5])}"]').click()
    frame.get_by_role("link", name="adx_backfill · ").first.click()
    admin.wait_for_url(re.compile(r"/dags/adx_backfill/runs/fill__"))
