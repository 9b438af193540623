"""No COMMENT of a column holds a value, and those of older releases are cleared."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.infer.column import column
from sluice.infer.comments import without_values
from sluice.infer.types import Rules
from sluice.infer.values import loads

MARK = "Xq7"
LEAVES = [MARK, f"{MARK}@example.org", f"2026-{MARK}", 98_765_432_101, -98_765_432_101, 98_765.4321, True]
KEYS = st.sampled_from([f"{MARK}@x", f"{MARK}.a"])
VALUES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=6,
)


@given(st.lists(VALUES | st.none(), min_size=1, max_size=30), st.integers(0, 3))
def test_no_comment_holds_a_value_or_a_key(values: list[Any], missing: int):
    sample = [loads(json.dumps(value)) for value in values]
    found = column("f", sample, len(sample) + missing, Rules(misfits=0.5))
    for text in (found.comment, found.warning):
        assert MARK not in text and "987" not in text.replace(",", "") and "4321" not in text


@pytest.mark.parametrize(
    ("old", "kept"),
    [
        ('in all 2 events; 2 different texts; such as "ann@example.org", "bo"', "in all 2 events"),
        ("in 75.0 % of 4 events; whole numbers from 1,000 to 1,000; such as 1000", "in 75.0 % of 4 events"),
        ('in all 9 events; UUIDs; 1 of 9 would be a misfit: "x; such as"', "in all 9 events"),
        (
            "added by Sluice: in 35 of 400 rows of slice 2026-11-20T10Z; whole numbers from 1 to 7",
            "added by Sluice: in 35 of 400 rows of slice 2026-11-20T10Z",
        ),
        ("in all 9 events; objects with a key 'ann@example.org'", "in all 9 events"),
        (
            "in all 9 events; 9 of 9 objects have a container at key ann, which",
            "in all 9 events",
        ),
        ("in all 9 events; UUIDs", None),
        ("in all 2 events; 2 different texts; at most 12 characters", None),
        ("the buyer, such as a firm", None),
        ("in all countries; such as Peru", None),
        ("", None),
    ],
)
def test_comments_of_before(old: str, kept: str | None):
    assert without_values(old) == (old if kept is None else kept)
