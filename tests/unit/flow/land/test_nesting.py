"""How deep an event may be nested: judged by how each text was made."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.flow.land.expansion import MOST_LEVELS, too_deep
from sluice.flow.land.reject_reasons import Rejected
from sluice.flow.land.task.decode import elements_of

STRINGS = st.text(st.sampled_from('[]{}"\\,:a\n\u00e9'), max_size=8)


def nested(levels: int, leaf: Any, kinds: Any) -> str:
    """`kinds()` says of each level whether it is an array; strings full of brackets stand around."""
    before, after = [], []
    for _ in range(levels):
        array, text = kinds()
        near = json.dumps(text, ensure_ascii=False)
        before.append(f"[{near}," if array else f"{{{near}: ")
        after.append(f", {near}]" if array else f', {near}: "["}}')
    return "".join(before) + json.dumps(leaf) + "".join(reversed(after))


@given(st.integers(0, 40), st.integers(0, 40), STRINGS, st.data())
def test_levels_are_counted_outside_of_strings(levels: int, most: int, leaf: str, data: st.DataObject):
    text = nested(levels, leaf, lambda: data.draw(st.tuples(st.booleans(), STRINGS)))
    json.loads(text)
    assert too_deep(text.encode(), most) == (levels > most)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * MOST_LEVELS + b"]" * MOST_LEVELS,
        b"[" + b"[]," * 5000 + b"[]]",
        b'["' + b"[" * 5000 + b'"]',
        b'["' + rb"\"[" * 5000 + b'"]',
        b'{"' + rb"\\\"{" * 5000 + b'": 1}',
    ],
)
def test_many_brackets_are_no_depth(text: bytes):
    json.loads(text)
    assert not too_deep(text)


@pytest.mark.parametrize(
    ("opening", "levels"), [(b"[", 1), (b'{"a":', 1), (b'["]",', 1), (rb'["\\",', 1), (b'[{"]}":', 2)]
)
def test_one_level_more(opening: bytes, levels: int):
    assert not too_deep(opening * (MOST_LEVELS // levels))
    assert too_deep(opening * (MOST_LEVELS // levels) + b"[")


def test_an_array_with_an_element_that_is_too_deep_is_refused_as_a_whole():
    at, above = (b"[" * levels + b"]" * levels for levels in (MOST_LEVELS, MOST_LEVELS + 1))
    assert [bytes(one) for one in elements_of(b"[1," + at + b"]")] == [b"1", at]
    with pytest.raises(Rejected, match="nested too deep"):
        elements_of(b"[1," + above + b"]")
