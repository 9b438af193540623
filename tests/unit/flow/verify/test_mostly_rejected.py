"""An hour of which one reason has rejected most is found by verify, and by each one that follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.flow.land import reject_reasons
from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.check_rejected import check_rejected, error_of_rejected, held_back
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.verdict import Verdict, Verification, opened_by
from tests.support.verified import CLICKS, FACTS, OTHER, TEN, pipeline, with_manifest

AT = Verification("2026-11-21T00:00:00Z", "2026-11-20T10:00:00Z", "2026-11-20T12:00:00Z", 2, 9, 2)


def bounded(facts: VerifyFacts, share: float) -> VerifyFacts:
    return replace(facts, pipeline=pipeline(rejected={"fail_above": share}))


def said(facts: VerifyFacts) -> list[str]:
    return [f"{one.place}: {one.seen}" for one in check_rejected(facts)]


FOUR = ["4 of 10 records (40.0 %): no type", "4 of 10 records (40.0 %): not JSON"]
RECORDS = "slice 2026-11-20T10Z/dc1: "


@pytest.mark.parametrize(
    ("counts", "bound", "seen"),
    [
        # A cause rejects more than half; exactly half is not more.
        ({"read": 10, "rejected_records": {"not JSON": 6}}, 0.5, ["6 of 10 records (60.0 %): not JSON"]),
        ({"read": 10, "rejected_records": {"not JSON": 5}}, 0.5, []),
        ({"read": 1, "rejected_records": {"no time": 1}}, 0.5, ["1 of 1 records (100 %): no time"]),
        # Not several causes together.
        ({"read": 10, "rejected_records": {"not JSON": 4, "no type": 4}}, 0.5, []),
        ({"read": 10, "rejected_records": {"not JSON": 4, "no type": 4}}, 0.39, FOUR),
        # Neither tombstones nor erased records are among the records.
        (
            {"read": 100, "erased": 7, "rejected_records": {"no value": 90, "not JSON": 2}},
            0.5,
            ["2 of 3 records (66.7 %): not JSON"],
        ),
        ({"read": 100, "rejected_records": {"no value": 100}}, 0.2, []),
        ({"read": 100, "rejected_records": {"shipped twice": 90}}, 0.5, []),
        # Rows of arrays are judged among rows.
        (
            {"read": 2, "rejected_records": {}, "rows": 10, "rejected_elements": {"no type": 9}},
            0.5,
            ["9 of 10 rows of arrays (90.0 %): no type"],
        ),
        ({"read": 10, "rejected_records": {"not JSON": 10}}, 1, []),
    ],
)
def test_records_of_one_reason(counts: dict[str, Any], bound: float, seen: list[str]):
    found = [one.removeprefix(RECORDS) for one in said(bounded(with_manifest(**counts), bound))]
    assert found == seen


def table_rejects(columns: dict[str, dict[str, int]]) -> VerifyFacts:
    """The first hour has 6 clicks."""
    return replace(FACTS, tables=(replace(CLICKS, rejected_columns={TEN: columns}), OTHER))


@pytest.mark.parametrize(
    ("columns", "seen"),
    [
        ({"click": {"n": 4}}, ["4 of 6 rows (66.7 %): n does not fit"]),
        ({"click": {"n": 3}}, []),
        ({"click": {"": 6}}, ["6 of 6 rows (100 %): the row does not fit"]),
        ({"gone": {"n": 4}}, []),
    ],
)
def test_rows_of_one_column(columns: dict[str, dict[str, int]], seen: list[str]):
    found = list(check_rejected(table_rejects(columns)))
    assert len(found) == len(seen) and all(
        one.seen.startswith(text) for one, text in zip(found, seen, strict=True)
    )
    assert {(one.table, one.slice, one.cluster) for one in found} <= {("e.clicks", "2026-11-20T10Z", "dc1")}


def test_it_says_what_repairs_it():
    (record,) = check_rejected(with_manifest(read=3, rejected_records={"not JSON": 3}))
    hour = "--from 2026-11-20T10:00Z --to 2026-11-20T11:00Z"
    assert record.advice == (
        f"`sluice rejected ads {hour} --reason 'not JSON'` says what repairs it; a larger "
        "`rejected.fail_above` in the pipeline file accepts it"
    )
    assert record.expected == "at most 50.0 % rejected for one reason" and not record.command
    (row,) = check_rejected(table_rejects({"click": {"n": 6}}))
    assert f"`sluice rejected ads {hour} --table e.clicks --column n` says" in row.advice


def verdict(*found: Anomaly) -> Verdict:
    return Verdict(tuple(opened_by(one, AT) for one in found))


def test_the_run_ends_with_it_and_the_slice_is_held_back():
    found = [*check_rejected(with_manifest(read=3, rejected_records={"not JSON": 3}))]
    more = [*found, *check_rejected(table_rejects({"click": {"n": 6}}))]
    assert held_back(verdict(*more)) == {"2026-11-20T10Z"}
    error = error_of_rejected(verdict(*more))
    assert str(error) == (
        "mostly rejected: slice 2026-11-20T10Z/dc1: expected at most 50.0 % rejected for one reason, seen "
        f"3 of 3 records (100 %): not JSON (and 1 more); {found[0].advice}"
    )
    assert error is not None and (error.exit_code, error.retryable) == (1, False)
    assert error_of_rejected(verdict()) is None and held_back(verdict()) == frozenset()


def test_the_reasons_are_those_of_the_landing():
    assert (reject_reasons.TOMBSTONE, reject_reasons.SHIPPED_TWICE) == ("no value", "shipped twice")
