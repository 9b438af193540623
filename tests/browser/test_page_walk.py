"""The panel of an hour while its answer is on its way or does not come, and the way through hours."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.page_stack import HOUR, PageStack
from tests.browser.steps import cell, overview

pytestmark = pytest.mark.integration

SLICE = re.compile(r"/slices/[^/]+$")


@pytest.fixture
def page(log_in: Callable[..., Page], page_stack: PageStack) -> Iterator[Page]:
    opened = log_in("user")
    overview(opened, page_stack)
    yield opened
    opened.context.close()


def held(page: Page) -> list[Route]:
    """Holds back the answers about hours; returns those that were asked for."""
    asked: list[Route] = []
    page.route(SLICE, lambda route: asked.append(route))
    return asked


def test_the_panel_is_there_before_its_answer(page: Page, page_stack: PageStack):
    asked, hour = held(page), page_stack.hours[6]
    cell(page, hour).click()
    panel = page.get_by_role("dialog")
    title = panel.get_by_role("heading", level=1)
    expect(title).to_have_text(f"adx, {hour:%Y-%m-%d %H:%M} UTC")
    expect(panel.get_by_role("status", name="Loading the hour")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(title).to_have_text(f"adx, {hour + HOUR:%Y-%m-%d %H:%M} UTC")
    page.wait_for_timeout(500)
    assert len(asked) == 2
    asked[0].continue_()
    page.wait_for_timeout(1500)
    expect(panel.get_by_role("status", name="Loading the hour")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    asked[1].continue_()
    page.wait_for_timeout(1500)
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.wrong == []


def test_no_key_is_lost_and_back_leaves_the_panel(page: Page, page_stack: PageStack):
    hour = page_stack.hours[4]
    below = page.url
    cell(page, hour).click()
    title = page.get_by_role("dialog").get_by_role("heading", level=1)
    expect(title).to_contain_text(f"{hour:%H:%M} UTC")
    for _ in range(9):
        page.keyboard.press("ArrowRight")
        time.sleep(0.06)
    expect(title).to_have_text(f"adx, {hour + 9 * HOUR:%Y-%m-%d %H:%M} UTC")
    expect(cell(page, hour + 9 * HOUR)).to_have_attribute("aria-current", "true")
    page.go_back()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.url == below
    cell(page, hour).click()
    expect(title).to_be_visible()
    before = page.evaluate("history.length")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page).to_have_url(below)
    assert page.evaluate("history.length") == before, "it went back, and did not add an entry"
    assert page.wrong == []


@pytest.mark.parametrize("slice_id", ["garbage", "offline"])
def test_an_error_stands_in_a_panel_that_can_be_closed(page: Page, page_stack: PageStack, slice_id: str):
    panel = page.get_by_role("dialog")
    if slice_id == "garbage":
        page.goto(page_stack.url + "/sluice/#/s/adx/garbage")
    else:
        page.context.set_offline(True)
        cell(page, page_stack.hours[5]).click()
    expect(panel.get_by_role("alert")).to_have_text(
        re.compile("does not answer|is not a slice id"), timeout=20_000
    )
    expect(panel.get_by_role("heading", level=1)).to_contain_text("adx, ")
    panel.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
