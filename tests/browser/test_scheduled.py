"""Runs that Airflow's scheduler makes, and what the page says of them: last, for the DAG stays unpaused."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from local.readiness import wait_until
from tests.browser.page_stack import SECONDS, PageStack
from tests.browser.steps import RUN_MS, cell, expect_state, overview, state

pytestmark = [pytest.mark.integration, pytest.mark.long]


def test_airflows_own_backfill_of_the_hourly_dag(admin: Page, page_stack: PageStack):
    """`airflow backfill create`: a run for each hour, by the scheduler, and the page has them verified."""
    first, last = page_stack.hours[1], page_stack.hours[2]
    overview(admin, page_stack)
    assert [state(cell(admin, hour)) for hour in (first, last)] == ["late", "late"]
    page_stack.airflow.unpause("adx")
    span = ("--from-date", first.isoformat(), "--to-date", last.isoformat())
    done = page_stack.command("airflow", "backfill", "create", "--dag-id", "adx", *span)
    assert done.returncode == 0, done.stdout + done.stderr
    for hour in (first, last):
        expect_state(cell(admin, hour), "verified", timeout=RUN_MS)
    wait_until(lambda: page_stack.backfilled() == ["success", "success"], "Airflow's runs", SECONDS)
