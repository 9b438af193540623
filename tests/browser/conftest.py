"""The whole stack with its page, and a browser that has logged in.

page_stack   session   the embedded stack on ports of its own, with a week of events in Kafka, whose last
                       twenty hours are the pipeline's
landed       session   the same with all but the first four of the twenty in the tables
history      session   the same with all that the ten questions are about (history.py)
log_in       session   (role, scheme="light", width=1280, height=900) -> a page, logged in by the form
admin        session   the page of one who may do everything
shoot        session   (page, name, part=None): keeps a picture of what is seen of the page, or of a part, in
                       the folder SLUICE_SCREENSHOTS, if any, where a document shows one of that name

The files tell one story in the order of their names: hours wait, a backfill from the form brings them,
somebody deletes a row and verify says so, an operator asks ten questions. Each file also runs alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from local.versions import ROOT
from tests.browser.history import make_history
from tests.browser.page_stack import HOUR, PageStack

CHROMIUM = os.environ.get("SLUICE_CHROMIUM", "/usr/bin/chromium")
PICTURE = re.compile(r"images/(page-[a-z-]+)\.png")
MARGIN, COLOURS = 8, 128
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
def landed(page_stack: PageStack) -> PageStack:
    """By the form of test_page_backfill.py, where that has run, else by the command."""
    first, end = page_stack.hours[4], page_stack.hours[-1] + HOUR
    if first not in page_stack.loaded("adx.bids"):
        page_stack.sluice("backfill", first, end, "--wait")
    return page_stack


@pytest.fixture(scope="session")
def history(landed: PageStack) -> PageStack:
    make_history(landed)
    return landed


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
def admin(log_in: Callable[..., Page]) -> Page:
    return log_in("admin")


@pytest.fixture(scope="session")
def shoot() -> Callable[..., None]:
    folder = os.environ.get("SLUICE_SCREENSHOTS")
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {name for one in documents for name in PICTURE.findall(one.read_text())}

    def kept(page: Page, name: str, part: Locator | None = None) -> None:
        if folder and name in shown:
            page.wait_for_load_state("networkidle")
            clip = seen(page, part) if part is not None else None
            picture = page.screenshot(animations="disabled", clip=clip)
            few = Image.open(BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
            few.save(Path(folder) / f"{name}.png", optimize=True)

    return kept


def seen(page: Page, part: Locator) -> dict[str, float]:
    """What the window shows of the part, with a small margin."""
    box, window = part.bounding_box(), page.viewport_size
    left, top = max(box["x"] - MARGIN, 0), max(box["y"] - MARGIN, 0)
    right = min(box["x"] + box["width"] + MARGIN, window["width"])
    bottom = min(box["y"] + box["height"] + MARGIN, window["height"])
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}
