"""What the ten questions are about, made on the stack once sixteen of its twenty hours have landed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.browser.page_stack import HOUR, WEEK, PageStack, lines_of

KEPT = timedelta(days=30)
GONE, DOUBLED, LOST = 7, 11, 13
"""Of the twenty hours: one with a row less in adx.bids, one with rows twice in adx.impressions, one without a
file of the lake."""
TWICE = 50
BURST = 60
"""Events that come in the hour that is not over."""
WATCHED = (-HOUR, 0 * HOUR, HOUR)
"""When the watch runs, from the newest of the twenty hours on; it counts what was to be landed by then."""


def make_history(stack: PageStack) -> None:
    """A week before the twenty hours; a file that was edited; a bound of Kafka's retention; a lag that rose
    and fell, as the watch saw it. And five kinds of damage at once: hours that nobody landed, an hour that
    two of the tables lack, a row that is gone, rows that are there twice, a file of the lake that is gone."""
    newest = stack.hours[-1]
    before, then, now = (newest + since for since in WATCHED)
    stack.edit("page: {payloads: shown}", "page: {payloads: shown}\nalarms: {lag: 3h}")
    stack.sluice("run", newest - WEEK, stack.hours[0])
    stack.watch(before)
    stack.publish(newest + HOUR, burst(stack), datetime.now(UTC) - newest - HOUR)
    stack.watch(then)
    stack.sluice("run", stack.hours[3], stack.hours[4], "--table", "adx.clicks")
    stack.watch(now)
    stack.keep(KEPT)
    stack.delete_a_row(stack.hours[GONE])
    stack.double_rows(stack.hours[DOUBLED], TWICE)
    stack.lose_a_file(stack.hours[LOST])
    assert stack.verify().returncode == 1


def burst(stack: PageStack) -> list[str]:
    return lines_of(stack.hours[-1] + HOUR, BURST)
