"""What is said of a run that is over: why it ended, then its hours by the states of the page's cells."""

from __future__ import annotations

import pytest

from sluice.page.models import Cell
from sluice.page.run_outcome import (
    _COMPLETE,
    _FILLED,
    _PAST_A_FILL,
    _WORDS,
    advice_of,
    counted,
    heading,
    running_words,
)


@pytest.mark.parametrize(
    ("cells", "said", "advice"),
    [
        # A fill over damaged hours: every hour is in every table, and three are broken.
        ({"verified": 16, "broken": 3}, "16 of 19 hours are complete; 3 are broken.", "attention"),
        # A reland that was cancelled while it loaded.
        ({"stale": 2}, "0 of 2 hours are complete; 2 are stale.", "fill"),
        ({"landed": 1}, "The hour is landed, and not in every table.", "fill"),
        ({"verified": 1}, "The hour is complete.", ""),
        ({"verified": 10, "loaded": 4, "odd": 1, "empty": 1}, "All 16 hours are complete.", ""),
        (
            {"verified": 1, "no-table": 1, "late": 2},
            "1 of 4 hours is complete; 1 is waiting for a table that is missing; 2 are late.",
            "attention",
        ),
        ({"expired": 1200}, "0 of 1,200 hours are complete; 1,200 are no longer in Kafka.", "attention"),
        ({"open": 1, "lossy": 1}, "1 of 2 hours is complete; 1 is not over.", ""),
        ({}, "", ""),
    ],
)
def test_hours_are_counted_by_their_cells_and_a_fill_is_named_where_it_is_enough(
    cells: dict[str, int], said: str, advice: str
):
    assert (counted(cells), advice_of(cells)) == (said, advice)


def test_every_state_of_a_cell_has_its_words():
    assert set(Cell) == _COMPLETE | _WORDS.keys() and not _COMPLETE & _WORDS.keys()
    assert _WORDS.keys() == _FILLED | _PAST_A_FILL | {Cell.OPEN, Cell.BEFORE}


def test_how_a_run_ended_comes_first():
    assert heading("failed", "Stopped in verify") == "Failed"
    assert heading("cancelled", "Cancelled by ann while landing.") == "Cancelled by ann while landing"
    assert (heading("success", ""), heading("running", "")) == ("Done", "Running")


def test_how_far_a_run_is():
    assert running_words(10, 2, "loading") == "2 of 10 hours done, now loading."
    assert running_words(1, 0, "queued") == "0 of 1 hour done."
    assert running_words(0, 0, "") == "No hour has work yet."
