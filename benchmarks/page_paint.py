"""How long a person waits: from the click to painted cells, in Chromium, from Airflow's own web server.

Each view is opened four times: by a browser that has nothing of the page yet, from a server that nobody has
asked for an overview yet (`first`: like every server it has warmed its caches by itself after the first
request, for the icon in Airflow's navigation), by another such browser (`new browser`), and by one that has
the page's files already, twice. A person is in Airflow when they click: what server, browser and tab do for
themselves after their start is over by then. The time is the page's own clock: from the beginning of the
navigation to the frame after the cells.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
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
# Both are said by the page itself: to ask it again and again would take from the processor what is measured.
PAINTED = """
window.painted = new Promise((resolve) => {
  new MutationObserver((_, observer) => {
    if (!document.querySelector(".grid .cell[aria-label]")) return;
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now())));
  }).observe(document, {childList: true, subtree: true, attributes: true});
});
"""
BOTH = """
window.painted.then((cells) => {
  const [first] = performance.getEntriesByName("first-contentful-paint");
  return [first.startTime, cells];
})
"""


@dataclass(frozen=True)
class Server:
    """`endpoints`: each one's method, path and the names of its query."""

    url: str
    token: str
    endpoints: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


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
        wait_until(lambda: answers(f"{url}/sluice/static/nav.svg"), "Airflow's web server", SECONDS)
        yield _server(url, log.read_text().splitlines())
    finally:
        process.kill()
        process.wait()


def _server(url: str, said: list[str]) -> Server:
    (token,) = (line.removeprefix("token ") for line in said if line.startswith("token "))
    endpoints = (line.split()[1:] for line in said if line.startswith("endpoint "))
    return Server(url, token, tuple((method, path, tuple(names)) for method, path, *names in endpoints))


def paints(server: Server, since: str) -> list[tuple[float, float]]:
    """Seconds of each of the `VISITS` to a range's overview: to the first contentful paint, to all cells."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        found = []
        for visit in VISITS:
            if visit != "again":
                context = _context(browser, server)
            found.append(_seconds(context, server, since))
        browser.close()
    return found


def _context(browser: Browser, server: Server) -> BrowserContext:
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    context.add_cookies([{"name": "_token", "value": server.token, "url": server.url}])
    context.add_init_script(PAINTED)
    return context


def _seconds(context: BrowserContext, server: Server, since: str) -> tuple[float, float]:
    page = context.new_page()
    page.goto(f"{server.url}/sluice/static/nav.svg")
    wait_until(_idle, "the end of what server and browser do at their start", SECONDS)
    page.goto(f"{server.url}/sluice/#/?from={since}&to=now")
    first, cells = page.evaluate(BOTH)
    page.close()
    return first / 1000, cells / 1000


def _idle() -> bool:
    """Whether all that this process has started uses less than a tenth of a core."""
    before = _used()
    time.sleep(0.2)
    return _used() - before < 0.02


def _used() -> float:
    """Seconds of CPU."""
    found = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found += times.user + times.system
    return found
