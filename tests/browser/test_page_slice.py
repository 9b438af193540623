"""An hour's panel, and a pipeline's page, once sixteen hours of twenty have landed."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page_stack import HOUR, MARKUP, PageStack
from tests.browser.steps import cell, expect_state, overview, slice_id, state

pytestmark = pytest.mark.integration

Shoot = Callable[..., None]
LAND_TASK = re.compile(r"/dags/adx_backfill/runs/.+/tasks/batch\.land/mapped/0$")


def test_a_pipelines_page_says_how_far_behind_it_is_and_who_watches(admin: Page, landed: PageStack):
    """Four of the twenty hours were not asked for: they are in Kafka and before the landed ones."""
    admin.goto("about:blank")
    admin.goto(landed.url + "/sluice/#/p/adx")
    expect(admin.locator(".place.findings")).to_contain_text("adx_watch is paused: new problems go unnoticed")
    clicks = admin.locator(".place.tables tbody tr", has_text="adx.clicks").first
    expect(clicks).to_contain_text("behind")
    expect(clicks).to_contain_text("not in this range")
    admin.get_by_role("link", name="Lag and retention").click()
    left = landed.records(landed.hours[:4])
    expect(admin.locator(".lag-sum")).to_contain_text(f"{left:,} records in 3 partitions are not landed")
    expect(admin.locator(".place.trend")).to_contain_text("unpause its DAG")
    kept = admin.get_by_role("region", name="How long Kafka keeps topics")
    expect(kept.get_by_role("row", name="local/adx")).to_contain_text("no limit")
    expect(
        admin.get_by_role("region", name="Hours that have not landed").locator("tbody tr").first
    ).to_contain_text(slice_id(landed.hours[0]))
    admin.get_by_role("link", name="Runs", exact=True).click()
    run = admin.locator(".place.runs tbody tr", has_text="success").last
    expect(run).to_contain_text(f"{landed.records(landed.hours[4:]):,}")
    admin.get_by_role("link", name="Changes").click()
    expect(admin.locator(".place.changes")).to_contain_text("Versions of the pipeline file are known since")
    admin.go_back()
    expect(admin.locator(".place.runs tbody tr").first).to_be_visible()
    assert admin.wrong == []


def test_a_slice_shows_all_that_is_known_and_nothing_runs(admin: Page, landed: PageStack):
    overview(admin, landed)
    cell(admin, landed.hours[5]).click()
    panel = admin.get_by_role("dialog")
    for title in ("Counts", "Steps", "Tables", "Offsets", "Rows landed by type", "Rejected by reason"):
        expect(panel.get_by_role("heading", name=title, exact=True)).to_be_visible()
    expect(panel.locator(".said")).to_contain_text("Every table has it, and all counts match.")
    # 300 events of the hour, 6 late ones, and the three strange ones.
    expect(panel.locator("dt:has-text('Records read') + dd")).to_have_text("309")
    reasons = panel.locator(".reject")
    expect(reasons.filter(has_text="no type")).to_contain_text("of all records")
    expect(reasons.filter(has_text="adx.clicks.price")).to_contain_text(f"free {MARKUP}")
    rows_of = panel.get_by_role("region", name="Type", exact=True)
    expect(rows_of).to_contain_text(MARKUP)
    expect(rows_of.get_by_role("row", name="click")).to_contain_text(re.compile(r"adx\.clicks.*committed"))
    expect(panel.locator(".event-hour")).to_contain_text(f"Event hour {landed.hours[5]:%Y-%m-%d %H}:00")
    expect(panel.get_by_role("list", name="Time of each step").first).to_contain_text("load adx.clicks")
    expect(panel.get_by_text(re.compile(r"^Run adx_backfill · .+: from .+ in all"))).to_be_visible()
    runs = panel.get_by_role("region", name="Airflow runs and attempts")
    expect(runs.get_by_role("link", name="batch.land")).to_have_attribute("href", LAND_TASK)
    assert admin.locator("img[src=x]").count() == 0
    assert admin.wrong == []


def test_by_keyboard(admin: Page, landed: PageStack):
    overview(admin, landed)
    hour = landed.hours[6]
    cell(admin, hour).focus()
    admin.keyboard.press("ArrowRight")
    expect(cell(admin, hour + HOUR)).to_be_focused()
    assert admin.locator('.cell[tabindex="0"]').count() == 1
    admin.keyboard.press("Enter")
    title = admin.get_by_role("dialog").get_by_role("heading", level=1)
    expect(title).to_contain_text(f"{hour + HOUR:%Y-%m-%d %H:%M} UTC")
    admin.keyboard.press("ArrowLeft")
    expect(title).to_contain_text(f"{hour:%Y-%m-%d %H:%M} UTC")
    expect(cell(admin, hour)).to_have_attribute("aria-current", "true")
    admin.keyboard.press("ArrowRight")
    expect(title).to_contain_text(f"{hour + HOUR:%Y-%m-%d %H:%M} UTC")
    admin.keyboard.press("Escape")
    expect(admin.get_by_role("dialog")).to_have_count(0)
    expect(cell(admin, hour + HOUR)).to_be_focused()


def test_the_cells_stay_in_reach_beside_an_open_hour(log_in: Callable[..., Page], landed: PageStack):
    page = log_in("admin", width=1700)
    overview(page, landed)
    cell(page, landed.hours[9]).click()
    panel = page.get_by_role("dialog")
    expect(panel).to_be_visible()
    edge = panel.bounding_box()["x"]
    boxes = {hour: cell(page, hour).bounding_box() for hour in landed.hours}
    assert all(box["x"] + box["width"] < edge for box in boxes.values())
    other = boxes[landed.hours[12]]
    page.mouse.click(other["x"] + other["width"] / 2, other["y"] + other["height"] - 3)
    expect(panel.get_by_role("heading", level=1)).to_contain_text(f"{landed.hours[12]:%Y-%m-%d %H:%M} UTC")
    expect(cell(page, landed.hours[12])).to_have_attribute("aria-current", "true")
    page.mouse.click(5, 800)
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator(".cell[aria-current]")).to_have_count(0)
    assert page.wrong == []
    page.context.close()


def test_a_deleted_row_is_seen_after_verify(admin: Page, landed: PageStack, shoot: Shoot):
    hour = landed.hours[7]
    landed.delete_a_row(hour)
    done = landed.verify()
    assert done.returncode == 1, done.stdout + done.stderr
    overview(admin, landed)
    expect_state(cell(admin, hour), "broken")
    wrong = admin.locator(".mark-of.wrong")
    expect(wrong).to_have_count(1)
    expect(wrong).to_have_attribute("aria-label", "adx.bids has wrong rows: 1 hour")
    assert state(cell(admin, hour + HOUR)) == "verified"
    cell(admin, hour).click()
    panel = admin.get_by_role("dialog")
    expect(panel.get_by_role("heading", name="Needs attention")).to_be_visible()
    expect(panel.locator(".said")).to_contain_text("Every table has it, but rows are missing (adx.bids)")
    expect(panel.locator(".findings")).to_contain_text("rows are missing (adx.bids): this hour")
    held = panel.get_by_role("region", name="Tables of the hour").get_by_role("row", name="adx.bids")
    expect(held.locator(".bad-text")).to_have_text(f"{landed.rows('adx.bids', hour):,} ≠")
    expect(panel.locator(".command code").first).to_contain_text("--mode repair --table adx.bids")
    edges = f"from={hour:%Y-%m-%dT%H}%3A00Z&to={hour + HOUR:%Y-%m-%dT%H}%3A00Z"
    repair = panel.get_by_role("link", name="Plan this repair").first
    expect(repair).to_have_attribute("href", f"#/p/adx/backfill?{edges}&mode=repair&table=adx.bids")
    expect(panel.locator(".reject").first).to_be_visible()
    shoot(admin, "page-slice-broken")
