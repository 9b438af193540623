"""How long a person waits: from the click to painted cells, in Chromium, from Airflow's own web server.

Each view is opened four times: by a browser that has nothing of the page yet and a server that has not
looked yet (`first`), by another such browser (`new browser`), and by one that has the page's files already,
twice. The time is the page's own clock: from the beginning of the navigation to the frame after the cells.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from benchmarks.page_server import environment
from local.environment import HOST
from local.leash import leashed
from local.readiness import answers, free_port, wait_until
from local.versions import ROOT

CHROMIUM = os.environ.get("SLUICE_CHROMIUM", "/usr/bin/chromium")
SECONDS = 120
VISITS = ("first", "new browser", "again", "again")
# The grid is filled in one go: the second frame after its first cell is on the screen.
PAINTED = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(".grid .cell[aria-label]")) return;
  observer.disconnect();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = performance.now(); }));
}).observe(document, {childList: true, subtree: true, attributes: true});
"""


@dataclass(frozen=True)
class Server:
    url: str
    token: str


def write_files(specs: Mapping[str, Mapping], folder: Path) -> None:
    folder.mkdir()
    for name, spec in specs.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(spec))


@contextmanager
def served(folder: Path, home: Path) -> Iterator[Server]:
    """Airflow's web server over the pipeline files in `folder`, until the end of the block."""
    port, log = free_port(), home / "server.log"
    (home / "dags").mkdir(parents=True)
    command = [sys.executable, "-m", "benchmarks.page_server", str(folder), str(port)]
    with log.open("w+") as output:
        process = subprocess.Popen(
            leashed(command), cwd=ROOT, env=environment(home), stdout=output, stderr=output
        )
    try:
        url = f"http://{HOST}:{port}"
        wait_until(lambda: answers(f"{url}/sluice/static/page.css"), "Airflow's web server", SECONDS)
        (line,) = (each for each in log.read_text().splitlines() if each.startswith("token "))
        yield Server(url, line.removeprefix("token "))
    finally:
        process.kill()
        process.wait()


BOTH = """
(() => {
    const first = performance.getEntriesByName("first-contentful-paint")[0];
    return first && window.painted ? [first.startTime, window.painted] : null;
})()
"""


def paints(server: Server, since: str) -> list[tuple[float, float]]:
    """Seconds of each of the `VISITS` to a range's overview: to the first contentful paint, to all cells."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        # The browser's own start is no part of it.
        _seconds(_context(browser, server), server.url + "/sluice/static/icon.svg", "[0, performance.now()]")
        found = []
        for visit in VISITS:
            if visit != "again":
                context = _context(browser, server)
            found.append(_seconds(context, f"{server.url}/sluice/#/?from={since}&to=now", BOTH))
        browser.close()
    return found


def _context(browser: Browser, server: Server) -> BrowserContext:
    # Waiting for a value of the page is an `eval` in it.
    context = browser.new_context(viewport={"width": 1280, "height": 860}, bypass_csp=True)
    context.add_cookies([{"name": "_token", "value": server.token, "url": server.url}])
    context.add_init_script(PAINTED)
    return context


def _seconds(context: BrowserContext, url: str, when: str) -> tuple[float, float]:
    page = context.new_page()
    page.goto(url)
    first, cells = page.wait_for_function(when, timeout=SECONDS * 1000).json_value()
    page.close()
    return first / 1000, cells / 1000
