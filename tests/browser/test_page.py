"""The page as people use it: in Chromium, inside Airflow, on the real stack. Nothing has landed yet."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.page_stack import HOUR, PageStack
from tests.browser.steps import SHIFTS, cell, overview, slice_id, state

pytestmark = pytest.mark.integration

Login = Callable[..., Page]
Shoot = Callable[..., None]
POST = """([url, body]) => fetch(
    url, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)}
).then((answer) => answer.status)"""


def test_the_page_is_in_airflows_navigation(admin: Page, page_stack: PageStack, shoot: Shoot):
    admin.goto(page_stack.url + "/plugin/sluice")
    frame = admin.frame_locator("iframe")
    expect(frame.get_by_role("heading", name="Pipelines")).to_be_visible()
    expect(frame.get_by_role("gridcell")).not_to_have_count(0)
    shoot(admin, "page-in-airflow")


def test_the_address_of_a_view_is_airflows_own(admin: Page, page_stack: PageStack):
    """Back, forward and reload work, and so does a copied address; Airflow's own links stay its own."""
    admin.goto(page_stack.url + "/plugin/sluice")
    frame = admin.frame_locator("iframe")
    title = frame.get_by_role("heading", level=1)
    expect(title).to_have_text("Pipelines")
    frame.get_by_role("link", name="7 days").click()
    admin.wait_for_url(re.compile(r"/plugin/sluice[^#]*#/\?from=168h&to=now$"))
    frame.get_by_role("link", name="adx", exact=True).click()
    admin.wait_for_url(re.compile(r"#/p/adx\?from=168h&to=now$"))
    expect(title).to_have_text("adx")
    copied = admin.url
    frame.locator(f'[data-key="adx {slice_id(page_stack.hours[2])}"]').click()
    expect(frame.get_by_role("dialog")).to_be_visible()
    assert f"#/s/adx/{slice_id(page_stack.hours[2])}?" in admin.url
    admin.go_back()
    expect(frame.get_by_role("dialog")).to_have_count(0)
    assert admin.url == copied
    admin.go_back()
    expect(title).to_have_text("Pipelines")
    expect(frame.get_by_role("link", name="7 days")).to_have_attribute("aria-current", "true")
    admin.go_forward()
    expect(title).to_have_text("adx")
    admin.goto("about:blank")
    admin.goto(copied)
    expect(title).to_have_text("adx")
    expect(frame.get_by_role("link", name="7 days")).to_have_attribute("aria-current", "true")
    admin.reload()
    expect(title).to_have_text("adx")
    admin.evaluate("window.kept = true")
    admin.locator('a[href$="/dags"]').first.click()
    admin.wait_for_url(re.compile(r"/dags"))
    admin.go_back()
    expect(title).to_have_text("adx")
    assert admin.evaluate("window.kept"), "Airflow's own router went there: nothing was loaded again"
    assert admin.wrong == []


def test_cells_are_wide_enough_to_hit_and_nothing_moves(admin: Page, page_stack: PageStack):
    """48 hours in a line, seven days in lines of 24; what comes later has its place already."""
    overview(admin, page_stack)
    box = cell(admin, page_stack.hours[5]).bounding_box()
    assert box["width"] >= 16 and box["height"] >= 24, box
    expect(admin.locator(".stat", has_text="Lag")).to_contain_text("records")
    assert admin.evaluate(SHIFTS) < 0.01
    admin.goto(page_stack.url + "/sluice/#/?from=168h&to=now")
    lines = admin.locator(".grid .line")
    expect(lines.nth(2).locator(".cell")).to_have_count(24)
    said = [hour.get_attribute("aria-label") for hour in lines.nth(2).locator(".cell").all()]
    assert len({label.split(", ")[1][:10] for label in said}) == 1
    box = lines.nth(2).locator(".cell").first.bounding_box()
    assert box["width"] >= 16 and box["height"] >= 24, box


def test_hours_that_nobody_has_landed_wait(admin: Page, page_stack: PageStack):
    overview(admin, page_stack)
    assert state(cell(admin, page_stack.hours[-1])) in ("waiting", "late")  # late: an hour later
    assert state(cell(admin, page_stack.hours[0])) == "late"
    assert state(cell(admin, page_stack.hours[0] - HOUR)) == "before"


def test_a_viewer_may_look_and_cannot_start(log_in: Login, page_stack: PageStack):
    viewer = log_in("viewer")
    viewer.goto(page_stack.url + "/sluice/#/p/adx/backfill")
    expect(viewer.get_by_text("Your role may read, but not start runs.")).to_be_visible()
    expect(viewer.get_by_role("button", name="Show the plan")).to_be_disabled()
    start = f"{page_stack.url}/api/v2/dags/adx_backfill/dagRuns"
    plan = f"{page_stack.url}/sluice/api/pipelines/adx/plan"
    asked = {"start": slice_id(page_stack.hours[0]), "end": slice_id(page_stack.hours[1]), "mode": "fill"}
    body = {"logical_date": None, "conf": {"from": asked["start"], "to": asked["end"]}}
    assert viewer.evaluate(POST, [start, body]) == 403
    assert viewer.evaluate(POST, [plan, asked]) == 403
    viewer.context.close()
