"""An operator asks ten questions, and has at most three clicks and ten seconds for each answer.

What is expected comes from what was published, from ClickHouse's own tables and from the lake's files as they
are, never from the product's code. What the questions are about is in history.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from local.readiness import wait_until
from tests.browser.asking import Operator, change, complete, over, patience, rate_of, read_at, shown
from tests.browser.history import DOUBLED, GONE, KEPT, LOST, TWICE, WATCHED, burst
from tests.browser.page_stack import DAY, HOUR, PARTITIONS, SECONDS, TABLES, WEEK, PageStack
from tests.browser.steps import cell, slice_id, state

pytestmark = [pytest.mark.integration, pytest.mark.long]


def behind(history: PageStack) -> int:
    """The records that have not landed: of three hours, and those that came since."""
    return history.records(history.hours[:3]) + len(burst(history))


@pytest.fixture
def operator(admin: Page, history: PageStack, shoot: Callable[..., None]) -> Iterator[Operator]:
    admin.goto("about:blank")
    asked = f"{history.url}/sluice/api/pipelines/adx/lag-now"
    # The page keeps Kafka's answer for half a minute: it may be one of before the history.
    wait_until(
        lambda: admin.request.get(asked).json()["records"] == behind(history), "the lag of now", SECONDS
    )
    expect.set_options(timeout=patience() * 1000)
    found = Operator(admin, shoot)
    admin.goto(history.url + "/sluice/")
    expect(cell(admin, history.hours[-1])).to_be_visible()
    yield found
    expect.set_options(timeout=5000)
    assert admin.wrong == []


@pytest.fixture
def asked_again(admin: Page, history: PageStack) -> None:
    """The page keeps what Kafka said of retention for a minute: what an earlier test saw, before the
    topic had a bound, may still be it."""

    def kept() -> str:
        admin.goto("about:blank")
        admin.goto(history.url + "/sluice/#/p/adx?tab=lag")
        region = admin.get_by_role("region", name="How long Kafka keeps topics")
        return region.get_by_role("row", name="local/adx").get_by_role("cell").nth(1).inner_text()

    wait_until(lambda: kept() != "no limit", "the topic's bound on the page", SECONDS)


def test_which_hours_are_complete(operator: Operator, history: PageStack):
    """Those of which every table has rows; rows of one were deleted since."""
    said = {hour: state(cell(operator.page, hour)) for hour in shown(history)}
    done = {hour for hour, one in said.items() if one in ("verified", "broken")}
    assert done == complete(history) & said.keys()
    assert [hour for hour, one in said.items() if one == "broken"] == [
        history.hours[n] for n in (GONE, DOUBLED, LOST)
    ]
    left = len(said) - len(done)
    newest = operator.page.locator(".stat", has_text="Newest complete")
    expect(newest).to_contain_text(f"{max(done):%H:%M} UTC {max(done):%m-%d}")
    expect(newest).to_contain_text(f"; {left} before are not")
    operator.answered("complete", operator.page.locator("section.pipeline"))


def test_which_are_late_and_why(operator: Operator, history: PageStack):
    """No run: the DAG is paused."""
    done = complete(history)
    late = [hour for hour in shown(history) if state(cell(operator.page, hour)) == "late"]
    assert late == [hour for hour in shown(history) if hour not in done]
    operator.click(cell(operator.page, late[0]))
    remedies = operator.page.get_by_role("dialog").locator(".remedies")
    expect(remedies).to_contain_text("DAG adx is paused")
    expect(remedies).to_contain_text("airflow dags unpause adx")
    operator.answered("late", operator.page.get_by_role("dialog"))


def test_which_is_late_for_what_it_lacks(operator: Operator, history: PageStack):
    """An hour that is in the lake and in one table."""
    hour = history.hours[3]
    lacks = [table for table in TABLES if hour not in history.loaded(table)]
    assert 0 < len(lacks) < len(TABLES)
    operator.click(cell(operator.page, hour))
    said = operator.page.get_by_role("dialog").locator(".said")
    expect(said).to_contain_text("It is in the lake, but not in ")
    named = said.inner_text().split("not in ")[1].strip(" .").split(", ")
    assert sorted(named) == sorted(lacks)
    operator.answered("lacks")


def test_what_is_wrong_and_what_to_do_first(operator: Operator, history: PageStack):
    """Five kinds of damage at once, a finding each, and three that can be repaired with a button."""
    urgent = operator.page.locator(".first-finding")
    expect(urgent).to_contain_text("rows are missing (adx.bids): 1 hour")
    expect(urgent.get_by_role("link", name="Plan this repair")).to_be_visible()
    for table, sign in (("bids", "≠1"), ("impressions", "≠1"), ("traffic", "!")):
        expect(operator.page.locator(".mark-of", has_text=table)).to_contain_text(sign)
    operator.pipeline()
    wrong = operator.page.locator(".place.findings li")
    for what, hour in (
        ("rows are missing (adx.bids)", history.hours[GONE]),
        ("(adx.impressions)", history.hours[DOUBLED]),
        ("lake file is gone", history.hours[LOST]),
    ):
        own = wrong.filter(has_text=what)
        expect(own).to_have_count(1)
        expect(own).to_contain_text(slice_id(hour))
        expect(own.get_by_role("link", name="Plan this repair")).to_be_visible()
    doubled = wrong.filter(has_text="adx.impressions")
    operator.click(doubled.locator("summary"))
    twice = (
        "SELECT uniqExact(_partition) FROM (SELECT _partition, _offset FROM adx.impressions "
        f"WHERE _slice = '{history.hours[DOUBLED]:%F %T}' GROUP BY ALL HAVING count() > 1)"
    )
    (partitions,) = history.client().query(twice).first_row
    expect(doubled.locator(".examples li")).to_have_count(partitions)
    said = [
        re.search(r"seen (\d+) rows of (\d+) records", one) for one in doubled.locator("li").all_inner_texts()
    ]
    assert sum(int(seen) - int(records) for seen, records in (one.groups() for one in said)) == TWICE
    expect(wrong.filter(has_text="DAG adx is paused")).to_have_count(1)
    operator.answered("wrong", operator.page.locator(".place.findings"))


def test_did_we_lose_anything(operator: Operator, history: PageStack):
    """Nothing in Kafka; rows of one hour are gone from a table since it was loaded."""
    hour = history.hours[GONE]
    published = sum('"type":"bid_request"' in line for line in history.lines(hour))
    gone = published - history.rows("adx.bids", hour)
    assert gone > 0
    expect(operator.page.locator(".stat", has_text="Lost")).to_contain_text("none")
    operator.pipeline()
    lost = operator.page.locator(".place.findings li", has_text="rows are missing (adx.bids)").first
    expect(lost).to_contain_text(f"rows missing in {slice_id(hour)}")
    expect(lost).to_contain_text(f"expected {published} rows, seen {published - gone}")
    expect(lost.locator(".found")).to_have_text(
        re.compile(r"^Seen since \S+ \S+ UTC (now|\d+ (s|min) ago); last correct \S+ \S+ UTC .* ago\.$")
    )
    found, held = (
        datetime.fromisoformat(one.get_attribute("datetime")) for one in lost.locator("time").all()
    )
    assert found > held
    operator.answered("lost", operator.page.locator(".place.findings"))


def test_which_records_were_rejected(operator: Operator, history: PageStack):
    """Two of each hour by the generator: a click's price that is no number, and an event without a type."""
    hour = history.hours[9]
    (unfit,) = (line for line in history.lines(hour) if '"price": "free' in line)
    (untyped,) = (line for line in history.lines(hour) if '"type"' not in line)
    operator.click(cell(operator.page, hour))
    groups = operator.page.get_by_role("dialog").locator(".reject")
    expect(groups).to_have_count(2)
    by_column = groups.filter(has_text="adx.clicks.price: does not fit")
    expect(by_column).to_contain_text("1 rejected row,")
    expect(by_column).to_contain_text(unfit)
    expect(by_column.locator(".advice")).to_contain_text("retry the rejected records")
    expect(groups.filter(has_text="no type")).to_contain_text("1 rejected")
    expect(groups.filter(has_text="no type")).to_contain_text(untyped)
    expect(groups.filter(has_text="no type").locator(".advice")).to_contain_text("retry the rejected records")
    operator.answered("rejected", operator.page.locator(".card", has=operator.page.locator(".reject")))


def test_what_the_lag_is_and_its_trend(operator: Operator, history: PageStack):
    """Now by Kafka; and by the hour, as three runs of the watch counted it: what was to be landed then."""
    hours, newest, now = history.hours, history.hours[-1], behind(history)
    seen = [
        history.records([*hours[:4], *hours[-2:]]),
        history.records([*hours[:4], *hours[-1:]]) + len(burst(history)),
        now,
    ]
    expect(operator.page.locator(".stat", has_text="Lag")).to_contain_text(f"{now:,} records")
    operator.pipeline("Lag and retention")
    expect(operator.page.locator(".lag-sum")).to_contain_text(f"{now:,} records in 3 partitions")
    trend = operator.page.locator(".place.trend")
    expect(trend.locator("figcaption")).to_contain_text(
        f"records behind {now:,} at the end, at most {max(seen):,}"
    )
    operator.answered("lag", operator.page.locator(".two"))
    read = {read_at(trend, newest + since) for since in WATCHED}
    assert read == {
        (f"{newest + since:%Y-%m-%d %H:%M}", f"{records:,}")
        for since, records in zip(WATCHED, seen, strict=True)
    }


def test_how_large_and_how_fast_an_hour_was(operator: Operator, history: PageStack):
    """Against the same hour of a day and a week before, and the mean of seven days, which is expected."""
    newest = history.hours[-1]
    own, day, week = (history.records([newest - back]) for back in (0 * DAY, DAY, WEEK))
    mean = round(sum(history.records([newest - n * DAY]) for n in range(1, 8)) / 7)
    rates = [rate_of(history, "land", newest), rate_of(history, "load", newest)]
    operator.pipeline("Traffic")
    row = operator.page.locator(".place.sizes").get_by_role(
        "row", name=re.compile(f"^{newest:%Y-%m-%d %H:%M} UTC")
    )
    expect(row).to_be_visible()
    cells = row.get_by_role("cell").all_inner_texts()
    assert cells[1] == f"{own:,}"
    assert cells[2:5] == [f"{then:,} {change(own, then)}" for then in (day, week, mean)]
    assert cells[7:9] == [f"{rate:,.0f}/s" for rate in rates]
    operator.answered("size", operator.page.locator(".place.sizes"))


def test_which_table_is_behind(operator: Operator, history: PageStack):
    """adx.clicks has an hour more than the others, by the tables' own rows. The newest may still come."""
    overdue = over() - {max(over())}
    lacks = {table: len(overdue - history.loaded(table)) for table in TABLES}
    fewer = lacks.pop("adx.clicks")
    assert fewer > 0 and set(lacks.values()) == {fewer + 1}
    lacks["adx.clicks"] = fewer
    operator.pipeline()
    rows = operator.page.locator(".place.tables tbody tr")
    for table, hours in lacks.items():
        row = rows.filter(has_text=table).first
        wrong = table in ("adx.bids", "adx.impressions")
        expect(row.get_by_role("cell").nth(1)).to_have_text("wrong rows" if wrong else "behind")
        expect(row.get_by_role("cell").nth(2)).to_have_text(re.compile(rf"^{hours}\s*Plan"))
    operator.answered("table", operator.page.locator(".place.tables"))


def test_what_a_backfill_of_yesterday_costs(operator: Operator, history: PageStack):
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    yesterday = {today - DAY + n * HOUR for n in range(24)}
    left = [hour for hour in history.hours if hour in yesterday - complete(history)]
    operator.pipeline("Backfill")
    operator.click(operator.page.get_by_role("button", name="Yesterday"))
    plan = operator.page.locator(".plan")
    expect(plan.get_by_role("heading")).to_contain_text(f"{today - DAY:%Y-%m-%d} 00:00:00")
    if left:
        expect(plan.locator(".stats")).to_contain_text(f"Records{history.records(left):,}")
        expect(plan.locator(".stats")).to_contain_text("KiB")
        expect(plan.locator(".time")).to_contain_text(re.compile(r"about \d+"))
    else:
        expect(plan).to_contain_text("There is nothing to do.")
    operator.answered("backfill", plan)


def test_what_retention_takes_and_when(asked_again: None, operator: Operator, history: PageStack):
    """The oldest hour that has not landed, once its first record is as old as the topic allows."""
    oldest = history.hours[0]
    operator.pipeline("Lag and retention")
    first = operator.page.get_by_role("region", name="Hours that have not landed").locator("tbody tr").first
    expect(first).to_contain_text(slice_id(oldest))
    expect(first).to_contain_text(f"{oldest + KEPT:%Y-%m-%d %H:%M:%S} UTC")
    expect(first).to_contain_text("by retention.ms")
    expect(first).to_contain_text(f"{history.records([oldest]):,}")
    operator.answered("retention", operator.page.locator(".place.retention"))


def test_who_or_what_has_changed(operator: Operator, history: PageStack):
    """The file's one edit, seen by the run after it; and how old the answer is."""
    operator.pipeline("Changes")
    changed = operator.page.locator(".changes li", has_text="pipeline file")
    expect(changed).to_have_count(1)
    operator.click(changed.locator("summary"))
    added = changed.locator(".added").all_inner_texts()
    assert [line.strip() for line in added] == ["+alarms:", "+  lag: 3h"]
    asked = operator.page.locator(".asked time")
    age = datetime.now(UTC) - datetime.fromisoformat(asked.get_attribute("datetime"))
    assert timedelta(0) <= age < timedelta(minutes=6)
    expect(asked).to_contain_text(re.compile(r"now|\d+ (s|min) ago"))
    operator.answered("changes", operator.page.locator(".place.changes"))


def test_did_kafka_delete_anything_before_it_landed(admin: Page, history: PageStack):
    """Last, for the hour is never as it was again: half of its records in one partition are gone. The page
    keeps what Kafka said of the lag for half a minute. What is left lands: a run that Airflow makes reads
    older hours, too."""
    gone = history.expire(history.hours[0])
    assert gone > 0

    def lost() -> str:
        admin.goto("about:blank")
        admin.goto(history.url + "/sluice/")
        expect(admin.locator(".stat", has_text="Lag")).to_contain_text("records")
        return " ".join(admin.locator(".stat", has_text="Lost").inner_text().split())

    wait_until(lambda: f"{gone:,} deleted by Kafka" in lost(), "Kafka's newest word", SECONDS)
    history.edit("alarms: {lag: 3h}", "alarms: {lag: 3h}\non_expired: land_rest")
    history.sluice("run", history.hours[0], history.hours[1])
    left = [
        line
        for number, line in enumerate(history.lines(history.hours[0]))
        if number % PARTITIONS or number // PARTITIONS >= gone
    ]
    assert history.rows("adx.bids", history.hours[0]) == sum('"bid_request"' in line for line in left)
    wait_until(
        lambda: lost().startswith(f"Lost {gone:,} records {gone:,} recorded"), "the loss, once", SECONDS
    )
    assert "deleted by Kafka" not in lost()
