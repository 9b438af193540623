"""Events with a name twice: judged by how each was made, not by any reader of JSON."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.flow.land.expansion import MOST_LEVELS
from sluice.flow.land.task.parse import DuplicateFields
from sluice.runtime import deeper

NAMES = ("type", "at", "meta", "meta.at", "geo", "typ", 'ty"pe', "größe", "a/b", "")
NEEDED, OTHERS = ("type", "meta.at"), ("geo.größe", 'ty"pe', "a/b")
ALL = (*NEEDED, *OTHERS)
PATHS = [*(tuple(path.split(".")) for path in ALL), *((path,) for path in ALL if "." in path)]


class Object(list):
    """(name, value) pairs, as they are written."""


def values() -> st.SearchStrategy:
    leaves = st.sampled_from([None, 1, 12345678901234567890123, 1.5e300, *NAMES, '"type"', "\\u0074ype"])
    names = st.sampled_from(NAMES)

    def further(inner: st.SearchStrategy) -> st.SearchStrategy:
        return st.lists(inner, max_size=3) | st.lists(st.tuples(names, inner), max_size=5).map(Object)

    return st.recursive(leaves, further, max_leaves=12)


EVENTS = st.lists(st.tuples(st.sampled_from(NAMES), values()), max_size=6).map(Object)


def written(value: Any, escaped: Any) -> str:
    """`escaped()` says for each character whether it is written as `\\uXXXX`."""
    if isinstance(value, Object):
        space = " " if escaped() else ""
        pairs = (f"{written(name, escaped)}{space}:{space}{written(own, escaped)}" for name, own in value)
        return "{" + f",{space}".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(item, escaped) for item in value) + "]"
    if isinstance(value, str):
        chars = (f"\\u{ord(c):04x}" if escaped() else json.dumps(c, ensure_ascii=False)[1:-1] for c in value)
        return '"' + "".join(chars) + '"'
    return json.dumps(value)


def twice(found: Any, path: tuple[str, ...]) -> bool:
    if not isinstance(found, Object) or not path:
        return False
    own = [value for name, value in found if name == path[0]]
    return len(own) > 1 or (len(own) == 1 and twice(own[0], path[1:]))


@given(st.lists(EVENTS, max_size=4), st.randoms(use_true_random=False), st.sampled_from([0, 0.02, 0.5]))
def test_every_event_by_itself(events: list[Object], random: Any, share: float):
    texts = [written(event, lambda: random.random() < share).encode() for event in events]
    expected = [at for at, event in enumerate(events) if any(twice(event, path) for path in PATHS)]
    assert DuplicateFields(ALL).among(texts) == expected


@given(st.lists(EVENTS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_events_that_have_what_they_need(events: list[Object], random: Any):
    """As the fast reader has found them: each has a type, and an `at` in its `meta`."""
    whole = [Object([*event, ("type", "a"), ("meta", Object([("at", 1)]))]) for event in events]
    texts = [written(event, lambda: random.random() < 0.01).encode() for event in whole]
    expected = [at for at, event in enumerate(whole) if any(twice(event, path) for path in PATHS)]
    assert DuplicateFields(ALL).among(texts, {"type", "meta", "at"}) == expected


@pytest.mark.parametrize("event", [b"", None])
def test_what_was_refused_is_left_out(event: bytes | None):
    assert DuplicateFields(NEEDED).among([event, b'{"type": 1, "type": 1}']) == [1]


def test_deep_events():
    levels = MOST_LEVELS - 1
    inner = b'{"type":' * levels + b"1" + b"}" * levels
    once, twice = b'{"type": %b}' % inner, b'{"type": %b, "type": 1}' % inner
    with deeper():
        assert DuplicateFields(["type"]).among(pa.array([once, twice]).to_pylist()) == [1]


def test_without_fields_nothing_is_read():
    assert DuplicateFields(()).among([b'{"type": 1, "type": 1}']) == []
