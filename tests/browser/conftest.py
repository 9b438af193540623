"""The whole stack with its page, and a browser that has logged in.

page_stack   session   the embedded stack on ports of its own, with twenty hours of events in Kafka
log_in       session   (role, scheme="light", width=1280, height=900) -> a page, logged in by the form
shoot        session   (page, name, whole=False): keeps a picture in the folder SLUICE_SCREENSHOTS, if any
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.page_stack import PageStack

CHROMIUM = os.environ.get("SLUICE_CHROMIUM", "/usr/bin/chromium")
# The machine may be busy with other tests.
PATIENCE_MS = 60_000


@pytest.fixture(scope="session")
def page_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageStack]:
    stack = PageStack.start(tmp_path_factory.mktemp("page_stack"))
    try:
        stack.prepare()
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Chromium's own sandbox does not start as root, which is what CI is.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def log_in(page_stack: PageStack, browser: Browser) -> Callable[..., Page]:
    def opened(role: str, scheme: str = "light", width: int = 1280, height: int = 900) -> Page:
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.wrong = []
        page.on("pageerror", lambda error: page.wrong.append(str(error)))
        page.on("dialog", lambda dialog: page.wrong.append(f"a dialog: {dialog.message}"))
        page.goto(page_stack.url + "/auth/login")
        page.fill("input[name=username]", role)
        page.fill("input[name=password]", page_stack.passwords()[role])
        page.click("button[type=submit]")
        page.wait_for_url(lambda url: "/auth/login" not in url)
        return page

    return opened


@pytest.fixture(scope="session")
def shoot() -> Callable[..., None]:
    folder = os.environ.get("SLUICE_SCREENSHOTS")

    def kept(page: Page, name: str, whole: bool = False) -> None:
        if folder:
            page.wait_for_load_state("networkidle")
            page.screenshot(path=Path(folder) / f"{name}.png", animations="disabled", full_page=whole)

    return kept
