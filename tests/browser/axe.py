"""What axe-core finds in a page as it is shown now: WCAG 2 A and AA, and its best practices."""

from __future__ import annotations

from playwright.sync_api import Page

from local.fetch import axe_script

_RUN = """() => axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => violations.flatMap(
    ({id, nodes}) => nodes.map((node) => `${id}: ${node.target.join(" ")}: ${node.failureSummary}`)
))"""


def findings(page: Page) -> list[str]:
    """A line for each element and rule. Animations are at their end: a colour half-way has no contrast."""
    page.evaluate("() => { for (const one of document.getAnimations()) one.cancel(); }")
    page.evaluate(axe_script().read_text())
    return page.evaluate(_RUN)
