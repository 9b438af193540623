"""No COMMENT of a column holds a value."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from sluice.infer.infer import column
from sluice.infer.types import Rules
from sluice.infer.values import loads

MARK = "Xq7"
LEAVES = [MARK, f"{MARK}@example.org", f"2026-{MARK}", 98_765_432_101, -98_765_432_101, 98_765.4321, True]
NAMES = [f"{MARK}@x", f"{MARK}.a"]
KEYS = st.sampled_from(NAMES)
VALUES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=6,
)


@given(st.lists(VALUES | st.none(), min_size=1, max_size=30), st.integers(0, 3))
@example([{NAMES[0]: 98_765_432_101}, {NAMES[0]: MARK}], 0)
def test_no_comment_holds_a_value_or_a_key(values: list[Any], missing: int):
    """A key that all objects have is the name of a part in the type, and no secret of the comment."""
    sample = [loads(json.dumps(value)) for value in values]
    found = column("f", sample, len(sample) + missing, Rules(unfit_values=0.5))
    for text in (found.comment, found.warning):
        for name in NAMES:
            text = text.replace(f".{name}", "") if f"`{name}`" in found.type else text
        assert MARK not in text and "987" not in text.replace(",", "") and "4321" not in text
