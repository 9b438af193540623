"""What Airflow is doing to each hour, from its runs and tasks."""

from __future__ import annotations

import tracemalloc
from datetime import timedelta

import pytest

from sluice.page.airflow_runs import DagRunView, Phase, TaskRun, hull, joined, progress, work_of
from sluice.page.run_history import share_done, step_counts

HOUR = timedelta(hours=1)
HOURS = range(0, 10 * 3600, 3600)


def span(first: int, end: int) -> tuple[int, int]:
    return first * 3600, end * 3600


def run(
    state: str, *tasks: tuple[str, int, str | None], batches=None, asked=(0, 1), name: str = "r"
) -> DagRunView:
    cut = None if batches is None else tuple(span(*batch) for batch in batches)
    return DagRunView("p", name, state, span(*asked), cut, tuple(TaskRun(*task) for task in tasks))


def phases(*runs: DagRunView) -> dict[int, str]:
    return {start // 3600: str(work.phase) for start, work in work_of(runs, HOURS, HOUR).items()}


def test_a_run_that_has_cut_nothing_yet_is_about_its_own_hours():
    assert phases(run("queued", asked=(2, 4))) == {2: "queued", 3: "queued"}
    assert phases(run("running", asked=(2, 3))) == {2: "resolving"}
    assert phases(run("failed", asked=(2, 3))) == {2: "failed"}


def test_a_run_that_waits_for_late_records_reads_nothing_yet():
    waiting = [
        run("running", ("settle", -1, state), asked=(2, 3)) for state in ("up_for_reschedule", "running")
    ]
    over = run("running", ("settle", -1, "success"), asked=(2, 3))
    planning = run("running", ("settle", -1, None), asked=(2, 3))
    found = [phases(each)[2] for each in (*waiting, over, planning)]
    assert found == ["settling", "settling", "resolving", "resolving"]


def test_each_batch_is_where_its_first_unfinished_task_is():
    tasks = [
        ("batch.land", 0, "success"),
        ("batch.load.a.b", 0, "running"),
        ("batch.verify", 0, None),
        ("batch.land", 1, "up_for_retry"),
        ("batch.land", 2, "success"),
        ("batch.load.a.b", 2, "success"),
        ("batch.verify", 2, "queued"),
        ("batch.land", 3, "success"),
        ("batch.load.a.b", 3, "success"),
        ("batch.verify", 3, "success"),
        ("batch.publish", 3, "success"),
    ]
    found = phases(run("running", *tasks, batches=[(0, 2), (2, 3), (3, 4), (5, 6)]))
    assert found == {0: "loading", 1: "loading", 2: "landing", 3: "verifying"}


def test_a_batch_is_done_although_tables_were_skipped_that_the_run_is_not_for():
    loads = [
        ("batch.load.a.b", 0, "success"),
        ("batch.load.a.c", 0, "skipped"),
        ("batch.publish", 0, "skipped"),
    ]
    tasks = [
        ("batch.land", 0, "success"),
        ("batch.verify", 0, "success"),
        *loads,
        ("batch.land", 1, "running"),
    ]
    under_way = run("running", *tasks, batches=[(0, 1), (1, 2)])
    assert phases(under_way) == {1: "landing"}
    assert progress(under_way, HOUR) == (2, 1, "landing")


def test_a_failed_batch_does_not_speak_for_the_others():
    tasks = [
        ("batch.land", 0, "failed"),
        ("batch.verify", 0, "upstream_failed"),
        ("batch.land", 1, "success"),
        ("batch.verify", 1, "success"),
    ]
    assert phases(run("failed", *tasks, batches=[(0, 1), (1, 2)])) == {0: "failed"}


def test_a_cancelled_run_has_failed_nowhere():
    """Airflow calls the task failed that was at work; the hours are what lake and ledger say."""
    tasks = [("batch.land", 0, "success"), ("batch.load.a.b", 0, "failed"), ("batch.verify", 0, "skipped")]
    assert phases(run("cancelled", *tasks, batches=[(0, 2)])) == {}
    assert phases(run("cancelled", asked=(0, 2))) == {}


def test_the_newest_run_has_the_say():
    newer = run("success", batches=[(0, 1)], name="newer")
    older = run("failed", ("batch.land", 0, "failed"), batches=[(0, 2)], name="older")
    assert phases(newer, older) == {1: "failed"}


def test_spans_that_meet_are_one():
    spans = [span(5, 6), span(1, 2), span(2, 4), span(3, 4)]
    assert (joined(spans), hull(spans)) == ([span(1, 4), span(5, 6)], span(1, 6))
    assert (joined([]), hull([])) == ([], None)


def test_a_run_without_work_says_nothing():
    assert phases(run("running", batches=[])) == {}


def test_only_hours_in_view_count():
    found = work_of([run("running", asked=(-1000, 1000))], [3600], HOUR)
    assert {start: work.phase for start, work in found.items()} == {3600: Phase.RESOLVING}


def test_how_far_a_run_is_by_its_batches():
    """Counted by hand: batches of 2, 3 and 5 hours, of which the first is done and the others are not."""
    tasks = [
        *((task, 0, "success") for task in ("batch.land", "batch.load.a.b", "batch.verify", "batch.publish")),
        ("batch.land", 1, "success"),
        ("batch.load.a.b", 1, "running"),
        ("batch.land", 2, "queued"),
    ]
    under_way = run("running", *tasks, batches=[(0, 2), (2, 5), (7, 12)])
    assert progress(under_way, HOUR) == (10, 2, "loading")
    assert progress(run("running", batches=[]), HOUR) == (0, 0, "")
    assert progress(run("queued", asked=(2, 4)), HOUR) == (2, 0, "queued")
    assert progress(run("success", asked=(2, 4)), HOUR) == (2, 2, "")


def test_a_run_of_a_thousand_years_costs_no_memory():
    years = run("running", asked=(0, 8_766_000))
    tracemalloc.start()
    found, shown = progress(years, HOUR), phases(years)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == (8_766_000, 0, "resolving")
    assert len(shown) == len(HOURS) and most < 1_000_000


STEPS = ("land", "load.a.b", "load.a.c", "verify", "publish")


def shares(*runs: DagRunView) -> list[float]:
    return [share_done(each, step_counts(each, STEPS)) for each in runs]


def test_how_much_of_a_run_is_done_moves_with_each_step():
    """Of one batch with five steps, of which one under way counts half; 2 % are for the batches being cut."""
    landing = run("running", ("batch.land", 0, "running"), batches=[(0, 4)])
    landed = [("batch.land", 0, "success")]
    loading = run("running", *landed, ("batch.load.a.b", 0, "running"), batches=[(0, 4)])
    loaded = [*landed, ("batch.load.a.b", 0, "success"), ("batch.load.a.c", 0, "skipped")]
    whole = [*loaded, ("batch.verify", 0, "success"), ("batch.publish", 0, "success")]
    resolving, over = run("running", asked=(0, 4)), run("success", batches=[(0, 4)])
    found = shares(
        resolving,
        landing,
        loading,
        run("running", *loaded, batches=[(0, 4)]),
        run("running", *whole, batches=[(0, 4)]),  # `verify_all` is still to come
        over,
    )
    assert found == [0.0, 0.118, 0.314, 0.608, 0.99, 1.0]


COLUMNS = ("done", "running", "waiting", "failed", "skipped", "held")


def columns(found: DagRunView) -> dict[str, tuple[int, ...]]:
    """By step; each has a row of its own, and its columns add up to the batches."""
    counts = step_counts(found, STEPS)
    rows = {one.step: tuple(getattr(one, column) for column in COLUMNS) for one in counts}
    assert {one.batches for one in counts} == {len(found.batches or ())}
    assert all(sum(rows[one.step]) == one.batches for one in counts)
    return rows


def test_what_each_step_of_a_run_has_done():
    """Of the second batch Airflow has made no task but the first one."""
    tasks = [
        ("batch.land", 0, "success"),
        ("batch.load.a.b", 0, "failed"),
        ("batch.load.a.c", 0, "up_for_retry"),
        ("batch.verify", 0, "upstream_failed"),
        ("batch.land", 1, "running"),
        ("batch.land", -1, None),
        ("verify_all", -1, "success"),
    ]
    assert columns(run("running", *tasks, batches=[(0, 4), (4, 8)])) == {
        "land": (1, 1, 0, 0, 0, 0),
        "load a.b": (0, 0, 1, 1, 0, 0),
        "load a.c": (0, 1, 1, 0, 0, 0),
        "verify": (0, 0, 1, 0, 0, 1),
        "publish": (0, 0, 2, 0, 0, 0),
    }


def test_a_step_of_a_table_that_the_run_is_not_for_is_not_done():
    tasks = [(f"batch.{step}", 0, "success") for step in STEPS if step != "load.a.c"]
    found = columns(run("success", *tasks, ("batch.load.a.c", 0, "skipped"), batches=[(0, 4)]))
    assert found["load a.c"] == (0, 0, 0, 0, 1, 0)
    assert {row for step, row in found.items() if step != "load a.c"} == {(1, 0, 0, 0, 0, 0)}


@pytest.mark.parametrize("state", ["failed", "cancelled"])
def test_what_a_run_that_was_ended_had_still_to_do_never_began(state: str):
    """Airflow fails what was at work and skips the rest, or has not made it yet."""
    tasks = [
        ("batch.land", 0, "success"),
        ("batch.load.a.b", 0, "failed"),
        ("batch.load.a.c", 0, "skipped"),
        ("batch.verify", 0, "skipped"),
    ]
    assert columns(run(state, *tasks, batches=[(0, 4)])) == {
        "land": (1, 0, 0, 0, 0, 0),
        "load a.b": (0, 0, 0, 1, 0, 0),
        "load a.c": (0, 0, 0, 0, 0, 1),
        "verify": (0, 0, 0, 0, 0, 1),
        "publish": (0, 0, 0, 0, 0, 1),
    }
