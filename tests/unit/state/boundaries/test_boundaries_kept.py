"""What a topic's settings say about how long its records stay."""

from __future__ import annotations

import pytest

from sluice.clients.kafka.topic_facts import kept_ms, kept_since

WEEK = {"cleanup.policy": "delete", "retention.bytes": "-1", "retention.ms": "604800000"}


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, 604_800_000),
        ({"retention.ms": "0"}, 0),
        ({"retention.ms": "1"}, 1),
        ({"retention.ms": "-1"}, None),
        ({"retention.ms": None}, None),
        ({"retention.bytes": "1073741824"}, None),
        ({"retention.bytes": None}, None),
        ({"cleanup.policy": "compact"}, None),
        ({"cleanup.policy": "compact,delete"}, None),
        ({"cleanup.policy": None}, None),
    ],
)
def test_records_stay_for_sure_where_only_their_age_takes_them(change: dict, kept: int | None):
    settings = {name: value for name, value in {**WEEK, **change}.items() if value is not None}
    assert kept_ms(settings) == kept


@pytest.mark.parametrize(
    ("now_ms", "kept", "since"),
    [
        (20_000_000, None, None),
        (20_000_000, 5_000_000, 18_600),  # an hour later than the age says: the broker's clock may be ahead
        (20_000_001, 5_000_000, 18_601),  # the first whole second
        (20_001_000, 5_000_000, 18_601),
        (20_000_000, 0, 23_600),
    ],
)
def test_the_first_second_of_which_no_record_has_gone(now_ms: int, kept: int | None, since: int | None):
    assert kept_since(now_ms, kept) == since
