"""What doctor says of a table's TTL and `keep` in the pipeline file."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sluice.config.pipeline import Keep
from sluice.doctor.clickhouse import judged

DAYS_90, DAYS_400, DAYS_730 = (timedelta(days=days) for days in (90, 400, 730))
VANISH = "has a TTL: old rows vanish by themselves"
AGAIN = "a `reload` of older hours brings rows that go again"


@pytest.mark.parametrize(
    ("keep", "expires", "age", "said"),
    [
        ({}, False, None, []),
        ({}, True, DAYS_90, [("warn", VANISH)]),
        ({}, True, None, [("warn", VANISH)]),
        ({"lake": "400d"}, False, None, []),
        (
            {"lake": "400d"},
            True,
            DAYS_90,
            [("warn", VANISH), ("warn", "keeps rows for 90 days, and the lake files for 400 days")],
        ),
        ({"lake": "400d"}, True, DAYS_730, [("warn", VANISH)]),
        ({"tables": "730d"}, True, DAYS_730, [("ok", "has a TTL of 730 days, as `keep.tables` says")]),
        (
            {"tables": "730d"},
            True,
            DAYS_90,
            [("warn", "has a TTL of 90 days, and `keep.tables` says 730 days")],
        ),
        (
            {"tables": "90d"},
            True,
            DAYS_730,
            [("warn", "has a TTL of 730 days, and `keep.tables` says 90 days")],
        ),
        (  # counted from the begin of the day
            {"tables": "730d"},
            True,
            DAYS_730 - timedelta(hours=23),
            [("warn", "has a TTL of 17,497 hours, and `keep.tables` says 730 days")],
        ),
        (
            {"tables": "729d"},
            True,
            DAYS_730 - timedelta(hours=23),
            [("ok", "has a TTL of 17,497 hours, as `keep.tables` says")],
        ),
        (
            {"tables": "730d"},
            False,
            None,
            [("warn", "has no TTL that deletes rows, and `keep.tables` says 730 days")],
        ),
        ({"tables": "730d"}, True, None, [("warn", "has a TTL, and `keep.tables` says 730 days")]),
        (
            {"tables": {"e.clicks": "90d"}, "lake": "400d"},
            True,
            DAYS_90,
            [
                ("ok", "has a TTL of 90 days, as `keep.tables` says"),
                ("warn", "keeps rows for 90 days, and the lake files for 400 days"),
            ],
        ),
        (
            {"tables": {"e.clicks": "90d"}, "lake": "400d"},
            False,
            None,
            [
                ("warn", "has no TTL that deletes rows, and `keep.tables` says 90 days"),
                ("warn", "keeps rows for 90 days, and the lake files for 400 days"),
            ],
        ),
    ],
)
def test_contradictions(keep: dict, expires: bool, age: timedelta | None, said: list[tuple[str, str]]):
    found = list(judged("e.clicks", expires, age, Keep.model_validate(keep)))
    assert [(str(check.level), check.finding) for check in found] == said
    assert all(check.remedy for check in found if check.level != "ok")
    assert (AGAIN in [check.remedy for check in found]) == any("lake files" in text for _, text in said)
