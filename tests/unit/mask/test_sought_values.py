"""Whoever looks for a value finds it as it is, and as each key has hashed it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sluice.flow.find.search_files import read_match, with_hashes
from sluice.mask.mask_rules import hidden_by, mask_rules
from sluice.mask.unit_mask import UnitMask
from sluice.runtime import deeper
from tests.support.landing_world import pipeline

OLD, NEW = "the first key of 2026", "the second key of 2026"
BEFORE = {"mask": {"email": {"hash": OLD}, "user.name": "keep_first"}}
NOW = {"mask": {"email": {"hash": [NEW, OLD]}, "user.name": "keep_first"}}
EVENTS = [
    {"email": "a@b.c"},
    {"email": "x@b.c"},
    {"email": 7},
    {"email": "7"},
    {"email": True},
    {"n": "a@b.c"},
]


def lake() -> pa.Table:
    """Each event as it is, as the old key masked it, and as the new one does."""
    texts = [json.dumps(event, ensure_ascii=number % 2 == 0).encode() for number, event in enumerate(EVENTS)]
    keys = [b"k1", b"k2", b"k1", None, b"k1", b"k3"]
    masks = [UnitMask(mask_rules(pipeline(**one))) for one in (BEFORE, NOW)]  # type: ignore[arg-type]  # not None
    payloads, own = list(texts), list(keys)
    for mask in masks:
        payloads += [mask.event_of("click")(text) for text in texts]
        own += [mask.key(key) for key in keys]
    return pa.table({"_payload": pa.array(payloads, pa.binary()), "_key": pa.array(own, pa.binary())})


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [("email=a@b.c", [0]), ("email=7", [2, 3]), ("email=true", [4]), ("n=a@b.c", [5]), ("email=b", [])],
)
def test_a_field(asked: str, numbers: list[int]):
    match = with_hashes(read_match(None, asked), mask_rules(pipeline(**NOW)))
    with deeper():
        found = match.positions(lake()).tolist()
    assert found == sorted(n + len(EVENTS) * copy for n in numbers for copy in range(3))


def test_a_key():
    match = with_hashes(read_match("k1", None), mask_rules(pipeline(**NOW)))
    assert match.positions(lake()).tolist() == sorted(n + 6 * copy for n in (0, 2, 4) for copy in range(3))


def test_what_cannot_be_found():
    rules = mask_rules(pipeline(mask={"ip": "drop", "user.name": "keep_first", "_key": "keep"}))
    assert hidden_by(rules, "user.name") == "keep_first 1"
    assert hidden_by(rules, "ip") == "drop"
    assert [hidden_by(rules, name) for name in ("_key", "email")] == ["", ""]
    assert hidden_by(None, "ip") == ""


@pytest.mark.parametrize(
    ("rule", "action"), [("drop", "drop"), ({"hash": OLD}, "hash"), ("keep_first", "keep_first 1")]
)
def test_a_field_is_hidden_by_the_mask_of_one_around_it(rule: object, action: str):
    """Of an object the lake has the hash of the whole, or nothing."""
    rules = mask_rules(pipeline(mask={"user.of": rule}))
    event = b'{"user":{"of":{"id":{"n":7}},"id":7}}'
    assert b'"n":7' not in UnitMask(rules).event_of("click")(event)
    assert [hidden_by(rules, name) for name in ("user.of.id", "user.of.id.n")] == [action, action]
    assert [hidden_by(rules, name) for name in ("user.id", "user.off", "user.off.id", "of.id")] == [""] * 4
