"""The freshness of tables, with quantiles from counts on paper."""

from __future__ import annotations

import pendulum
import pytest

from sluice.page.traffic import FreshnessRow, freshness_of
from sluice.slices import Slice
from sluice.state.notes import Delay, FreshTable
from sluice.watch.problems import watch_remedy

NOW = pendulum.datetime(2026, 11, 20, 12)


def fresh(hours: int, table: str, *delays: tuple[float, int]) -> FreshTable:
    """An hour that ended so many hours ago, verified five minutes after it."""
    piece = Slice(NOW.add(hours=-hours - 1))
    return FreshTable(piece, table, int(piece.end.timestamp()) + 300, tuple(Delay(*one) for one in delays))


def test_a_row_for_each_table_of_the_file_with_its_day_and_week():
    found = [
        fresh(1, "e.a", (600, 60), (3000, 40)),
        fresh(2, "e.a", (7200, 1)),
        fresh(30, "e.a", (9000, 400)),
        fresh(3, "e.gone", (1, 1)),
    ]
    assert freshness_of(["e.b", "e.a"], found, NOW).tables == [
        FreshnessRow(
            table="e.b",
            records_day=0,
            p50_day=None,
            p99_day=None,
            p50_week=None,
            p99_week=None,
            newest="",
            verified="",
        ),
        FreshnessRow(
            table="e.a",
            records_day=101,
            p50_day=600,
            p99_day=3000,
            p50_week=9000,
            p99_week=9000,
            newest="2026-11-20T10Z",
            verified="2026-11-20T11:05:00+00:00",
        ),
    ]


@pytest.mark.parametrize(
    ("paused", "watched", "said"),
    [
        (True, True, "Unpause p_watch in Airflow: while it is paused, new problems go unnoticed"),
        (True, False, "Unpause p_watch in Airflow"),
        (False, False, "p_watch has not run yet"),
    ],
)
def test_where_nobody_watches_the_page_says_what_to_do(paused: bool, watched: bool, said: str):
    assert watch_remedy("p_watch", paused, watched).startswith(said)


def test_where_the_watch_runs_there_is_nothing_to_do():
    assert watch_remedy("p_watch", paused=False, watched=True) == ""
