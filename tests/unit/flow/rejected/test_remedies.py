"""What is advised about rejected rows: no other type for what none holds."""

from __future__ import annotations

import pytest

from sluice.cli.rejected import RejectedReport, show_report
from sluice.flow.rejected.rejections import (
    MISSING_REMEDY,
    NO_TYPE_REMEDY,
    NULL_ITEM_REMEDY,
    REJECTED_ROW_REMEDY,
    Rejection,
    RejectionCause,
    RejectionTally,
    remedy_of,
)
from sluice.slices import Unit
from tests.support.landing_world import hours


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        ("does not fit UInt8", REJECTED_ROW_REMEDY),
        ("missing", MISSING_REMEDY),
        ("there twice", NO_TYPE_REMEDY),
        ("does not fit an object at a.b (its path is a.b.c)", NO_TYPE_REMEDY),
        ("does not fit a JSON object that ClickHouse can parse", NO_TYPE_REMEDY),
        (
            "does not fit DateTime64(3, 'UTC') without `format: epoch_s`",
            "set `format: epoch_s`, or another unit, for the column in the table's `times`; then retry the "
            "rejected records",
        ),
    ],
)
def test_the_remedy_fits_the_reason(reason: str, remedy: str):
    assert remedy_of(reason, unfit=True) == remedy


@pytest.mark.parametrize(
    ("column", "remedy"),
    [
        ("n", MISSING_REMEDY),
        ("pair.n", MISSING_REMEDY),
        ("m[]", NULL_ITEM_REMEDY),
        ('m["k"]', NULL_ITEM_REMEDY),
        ("items[].price", NULL_ITEM_REMEDY),
    ],
)
def test_a_default_is_advised_only_for_what_missing_fills(column: str, remedy: str):
    assert remedy_of("missing", unfit=True, column=column) == remedy


def test_a_row_of_which_nothing_can_be_read_has_no_column(capsys: pytest.CaptureFixture[str]):
    """As one with 1e400, which is beyond the range of doubles."""
    reason = "does not fit a JSON object that ClickHouse can parse"
    tally = RejectionTally()
    tally.add([Rejection(Unit(next(iter(hours(1))), "dc1"), RejectionCause("row", "db.t", "", reason), 1)])
    show_report(RejectedReport("p", hours(1), tally.sorted, []), "sluice rejected p", wide=True, json=False)
    said = capsys.readouterr().out.splitlines()
    assert f"then: sluice rejected p --table db.t --reason '{reason}' --retry" in said
    assert any(line.startswith(f"db.t {reason}: correct the producer, ") for line in said)
