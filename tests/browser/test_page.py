"""The page as people use it: in Chromium, inside Airflow, on the real stack.

The tests tell one story and run in this order: an hour waits, a backfill from the form brings it, somebody
deletes a row and verify says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from local.readiness import wait_until
from tests.browser.axe import findings
from tests.browser.page_stack import HOUR, MARKUP, SECONDS, PageStack, lines_of

pytestmark = pytest.mark.integration

Login = Callable[..., Page]
Shoot = Callable[..., None]
RUN_MS = 900_000
LAND_TASK = re.compile(r"/dags/adx_backfill/runs/.+/tasks/batch\.land/mapped/0$")
POST = """([url, body]) => fetch(
    url, {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)}
).then((answer) => answer.status)"""


# Of all layout shifts since the page is there, those after a person's own input aside.
SHIFTS = """() => new Promise((resolve) => {
    let sum = 0;
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) if (!entry.hadRecentInput) sum += entry.value;
    }).observe({type: "layout-shift", buffered: true});
    requestAnimationFrame(() => requestAnimationFrame(() => resolve(sum)));
})"""


def slice_id(hour: datetime) -> str:
    return f"{hour:%Y-%m-%dT%HZ}"


def cell(page: Page, hour: datetime) -> Locator:
    return page.locator(f'[data-key="adx {slice_id(hour)}"]')


def state(hour_cell: Locator) -> str:
    """What the cell says to somebody who cannot see it: `adx, …: verified (…)`."""
    return str(hour_cell.get_attribute("aria-label")).split(": ")[1].split(" ")[0]


def expect_state(hour_cell: Locator, expected: str, timeout: int = 90_000) -> None:
    expect(hour_cell).to_have_attribute("aria-label", re.compile(f": {expected} "), timeout=timeout)


def overview(page: Page, stack: PageStack) -> None:
    page.goto(stack.url + "/sluice/#/?from=48h&to=now")
    expect(cell(page, stack.hours[-1])).to_be_visible()


@pytest.fixture(scope="module")
def admin(log_in: Login) -> Page:
    return log_in("admin")


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


def backfill(page: Page, stack: PageStack, **query: str) -> Locator:
    """The backfill's view with what an address says of the form."""
    page.goto("about:blank")
    page.goto(f"{stack.url}/sluice/#/p/adx/backfill{'?' if query else ''}{urlencode(query)}")
    return page.get_by_role("form", name="Backfill")


def records(hours: Sequence[datetime]) -> int:
    return sum(len(lines_of(hour)) for hour in hours)


def test_a_backfill_from_the_form(admin: Page, page_stack: PageStack, shoot: Shoot):
    """Its plan first, then progress, then what it did; the four hours before are not asked for."""
    first, last = page_stack.hours[4], page_stack.hours[-1]
    form = backfill(admin, page_stack)
    form.get_by_label("From (UTC)").fill(f"{first:%Y-%m-%dT%H:%MZ}")
    form.get_by_label("To (UTC, not included)").fill(f"{last + HOUR:%Y-%m-%dT%H:%MZ}")
    form.get_by_role("button", name="Show the plan").click()
    plan = admin.locator(".plan")
    expect(plan.get_by_role("heading")).to_contain_text("16 slices, mode fill")
    expect(plan.locator(".does")).to_contain_text("16 land and load")
    expect(plan.locator("tbody tr")).to_have_count(16)
    expect(plan.locator(".stats")).to_contain_text(f"Rows{records(page_stack.hours[4:]):,}")
    expect(plan.locator(".replaces")).to_contain_text("replaces nothing")
    # No step of the pipeline was ever timed here; a second plan below knows more.
    expect(plan.locator(".time")).to_contain_text("Time: unknown: no earlier run")
    plan.get_by_role("button", name="Start").click()
    expect(plan.locator("[data-state=running]")).to_be_visible(timeout=RUN_MS)
    assert "&run=manual__" in admin.url
    land = plan.get_by_role("row", name=re.compile("^land"))
    expect(land).to_have_text("land1010", timeout=RUN_MS)  # of one task none is done, and one at work
    shoot(admin, "page-backfill-running")
    admin.reload()  # the address says which run is followed
    expect(plan.locator("[data-state=success]")).to_contain_text("all done", timeout=RUN_MS)
    expect(plan.locator(".did")).to_contain_text(f"landed {records(page_stack.hours[4:]):,} records")
    expect(plan.locator(".did").get_by_role("row", name=re.compile("^land"))).to_contain_text(
        f"{records(page_stack.hours[4:]):,}"
    )
    shoot(admin, "page-backfill-ended")
    past = admin.locator(".past tbody tr")
    expect(past).to_have_count(1)
    expect(past).to_contain_text(f"{first:%Y-%m-%d %H:%M} – {last + HOUR:%Y-%m-%d %H:%M}")
    expect(past).to_contain_text("backfill by admin")
    overview(admin, page_stack)
    for hour in (first, last):
        expect_state(cell(admin, hour), "verified")
    assert state(cell(admin, page_stack.hours[3])) == "late"


def test_a_plan_says_how_long_it_takes(admin: Page, page_stack: PageStack, shoot: Shoot):
    """At the rates of the run before, and what it replaces; a plan of nothing has no time. An address fills
    the form, as a repair's button does."""
    edges = {"from": slice_id(page_stack.hours[4]), "to": slice_id(page_stack.hours[-1] + HOUR)}
    form = backfill(admin, page_stack, **edges, mode="reload")
    expect(form.get_by_role("radio", name=re.compile("^reload"))).to_be_checked()
    plan = admin.locator(".plan")
    expect(plan.locator(".does")).to_contain_text("16 load again")
    expect(plan.locator(".time")).to_contain_text(re.compile(r"Time: about \d+ .*load \d+"))
    rows = page_stack.client().query("SELECT count() FROM adx.clicks").first_row[0]
    expect(plan.locator(".replaces")).to_contain_text(f"adx.clicks: {rows:,} rows of 16 hours")
    plan.scroll_into_view_if_needed()
    shoot(admin, "page-backfill-plan")
    form.get_by_label("adx.clicks", exact=True).check()
    form.get_by_role("button", name="Show the plan").click()
    expect(plan.get_by_role("heading")).to_contain_text("mode reload, only adx.clicks")
    expect(plan.locator(".replaces li")).to_have_count(1)
    assert "table=adx.clicks" in admin.url
    form = backfill(admin, page_stack, **edges)
    expect(plan).to_contain_text("There is nothing to do.")
    expect(plan.locator(".time")).to_have_count(0)


def test_a_backfill_can_be_cancelled(admin: Page, page_stack: PageStack):
    hour = page_stack.hours[10]
    backfill(admin, page_stack, **{"from": slice_id(hour), "to": slice_id(hour + HOUR), "mode": "reload"})
    plan = admin.locator(".plan")
    plan.get_by_role("button", name="Start").click()
    plan.get_by_role("button", name="Cancel").click()
    plan.get_by_role("button", name="Cancel for good").click()
    # Which of the two it is depends on whether a task was scheduled before.
    expect(plan.locator("[data-state=failed], [data-state=cancelled]")).to_be_visible(timeout=RUN_MS)
    expect(plan.locator(".did")).to_contain_text("What is done stays")
    expect(admin.locator(".past tbody tr").first).to_contain_text(re.compile("failed|cancelled"))


def test_a_pipelines_page_says_how_far_behind_it_is_and_who_watches(admin: Page, page_stack: PageStack):
    """Four of the twenty hours were not asked for: they are in Kafka and before the landed ones."""
    admin.goto("about:blank")
    admin.goto(page_stack.url + "/sluice/#/p/adx")
    expect(admin.locator(".place.problems")).to_contain_text("adx_watch is paused")
    clicks = admin.locator(".place.tables tbody tr", has_text="adx.clicks").first
    expect(clicks).to_contain_text("behind")
    expect(clicks).to_contain_text("not in this range")
    admin.get_by_role("link", name="Lag and retention").click()
    left = records(page_stack.hours[:4])
    expect(admin.locator(".lag-sum")).to_contain_text(f"{left:,} records in 3 partitions are not landed")
    expect(admin.locator(".place.trend")).to_contain_text("unpause its DAG")
    kept = admin.get_by_role("region", name="How long Kafka keeps topics")
    expect(kept.get_by_role("row", name="local/adx")).to_contain_text("no bound")
    expect(
        admin.get_by_role("region", name="Hours that have not landed").locator("tbody tr").first
    ).to_contain_text(slice_id(page_stack.hours[0]))
    admin.get_by_role("link", name="Runs", exact=True).click()
    landed = admin.locator(".place.runs tbody tr", has_text="success").last
    expect(landed).to_contain_text(f"{records(page_stack.hours[4:]):,}")
    admin.get_by_role("link", name="Changes").click()
    expect(admin.locator(".place.changes")).to_contain_text("versions are known since")
    admin.go_back()
    expect(admin.locator(".place.runs tbody tr").first).to_be_visible()
    assert admin.wrong == []


def test_a_slice_shows_all_that_is_known_and_nothing_runs(admin: Page, page_stack: PageStack):
    overview(admin, page_stack)
    cell(admin, page_stack.hours[5]).click()
    panel = admin.get_by_role("dialog")
    for title in ("Counts", "Steps", "Tables", "Offsets", "Rows landed by type", "Unparsed by reason"):
        expect(panel.get_by_role("heading", name=title, exact=True)).to_be_visible()
    expect(panel.locator(".said")).to_contain_text(
        "Every table has it, and verify found every count to hold."
    )
    # 300 events of the hour, 6 late ones, and the three strange ones.
    expect(panel.locator("dt:has-text('Records read') + dd")).to_have_text("309")
    reasons = panel.locator(".reject")
    expect(reasons.filter(has_text="no type")).to_contain_text("of the records read")
    expect(reasons.filter(has_text="adx.clicks.price")).to_contain_text(f"free {MARKUP}")
    rows_of = panel.get_by_role("region", name="Type", exact=True)
    expect(rows_of).to_contain_text(MARKUP)
    expect(rows_of.get_by_role("row", name="click")).to_contain_text(re.compile(r"adx\.clicks.*committed"))
    expect(panel.locator(".event-hour")).to_contain_text(f"Event hour {page_stack.hours[5]:%Y-%m-%d %H}:00")
    expect(panel.get_by_role("list", name="Time of each step").first).to_contain_text("load adx.clicks")
    runs = panel.get_by_role("region", name="Airflow runs and attempts")
    expect(runs.get_by_role("link", name="batch.land")).to_have_attribute("href", LAND_TASK)
    assert admin.locator("img[src=x]").count() == 0
    assert admin.wrong == []


def test_a_link_to_a_run_leaves_airflows_frame(admin: Page, page_stack: PageStack):
    admin.goto(page_stack.url + "/plugin/sluice")
    frame = admin.frame_locator("iframe")
    frame.locator(f'[data-key="adx {slice_id(page_stack.hours[5])}"]').click()
    frame.get_by_role("link", name="adx_backfill · ").first.click()
    admin.wait_for_url(re.compile(r"/dags/adx_backfill/runs/manual__"))


def test_by_keyboard(admin: Page, page_stack: PageStack):
    overview(admin, page_stack)
    hour = page_stack.hours[6]
    cell(admin, hour).focus()
    admin.keyboard.press("ArrowRight")
    expect(cell(admin, hour + HOUR)).to_be_focused()
    assert admin.locator('.cell[tabindex="0"]').count() == 1
    admin.keyboard.press("Enter")
    expect(admin.get_by_role("dialog")).to_contain_text(f"{hour + HOUR:%Y-%m-%d %H:%M} UTC")
    admin.keyboard.press("Escape")
    expect(admin.get_by_role("dialog")).to_have_count(0)
    expect(cell(admin, hour + HOUR)).to_be_focused()


def test_a_deleted_row_is_seen_after_verify(admin: Page, page_stack: PageStack, shoot: Shoot):
    hour = page_stack.hours[7]
    client = page_stack.client()
    (offset,) = client.query(f"SELECT min(_offset) FROM adx.bids WHERE _slice = '{hour:%F %T}'").first_row
    client.command(f"DELETE FROM adx.bids WHERE _slice = '{hour:%F %T}' AND _offset = {offset}")
    done = page_stack.verify()
    assert done.returncode == 1, done.stdout + done.stderr
    overview(admin, page_stack)
    expect_state(cell(admin, hour), "broken")
    assert state(cell(admin, hour + HOUR)) == "verified"
    cell(admin, hour).click()
    panel = admin.get_by_role("dialog")
    expect(panel.get_by_role("heading", name="Open anomalies")).to_be_visible()
    expect(panel.locator(".said")).to_contain_text("Every table has it, but verify found what does not hold")
    expect(panel.locator(".anomalies")).to_contain_text("rows missing")
    expect(panel.locator(".command code").first).to_contain_text("--mode reload")
    edges = f"from={hour:%Y-%m-%dT%H}%3A00Z&to={hour + HOUR:%Y-%m-%dT%H}%3A00Z"
    repair = panel.get_by_role("link", name="Plan this repair").first
    expect(repair).to_have_attribute("href", f"#/p/adx/backfill?{edges}&mode=reload")
    expect(panel.locator(".reject").first).to_be_visible()
    shoot(admin, "page-slice-broken")


def test_pictures(log_in: Login, page_stack: PageStack, shoot: Shoot):
    """Every view in both themes and on a phone: nothing is wider than the window, and axe-core finds
    nothing."""
    start = page_stack.hours[4]
    repair = {"from": slice_id(start), "to": slice_id(start + 12 * HOUR), "mode": "reload"}
    views = {
        "hours": "/sluice/#/?from=48h&to=now",
        "week": "/sluice/#/?from=168h&to=now",
        "year": "/sluice/#/?from=8760h&to=now",
        "pipeline": "/sluice/#/p/adx",
        "traffic": "/sluice/#/p/adx?tab=traffic",
        "lag": "/sluice/#/p/adx?tab=lag",
        "runs": "/sluice/#/p/adx?tab=runs",
        "changes": "/sluice/#/p/adx?tab=changes",
        "backfill": f"/sluice/#/p/adx/backfill?{urlencode(repair)}",
        "slice": f"/sluice/#/s/adx/{slice_id(page_stack.hours[5])}",
    }
    shown = {
        "slice": ".panel-body",
        "traffic": ".place.delays table",
        "lag": ".place.retention table",
        "runs": ".place.runs table",
        "changes": ".place.changes .card",
        "backfill": ".plan .replaces",
        "pipeline": ".place.tables table",
    }
    wrong: list[tuple[str, str, str]] = []
    for name, scheme, width, height in (
        ("light", "light", 1280, 860),
        ("dark", "dark", 1280, 860),
        ("phone", "light", 390, 844),
        ("phone-dark", "dark", 390, 844),
    ):
        page = log_in("user", scheme, width, height)
        for view, path in views.items():
            page.goto("about:blank")
            page.goto(page_stack.url + path)
            expect(page.locator(shown.get(view, ".grid .cell")).first).to_be_visible()
            if view == "slice":
                expect(page.locator(".reject").first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, view)
            wrong += [(name, view, line) for line in findings(page)]
            shoot(page, f"page-{view}-{name}", whole=view == "pipeline" and name != "phone")
        assert page.wrong == []
        page.context.close()
    assert wrong == []


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
