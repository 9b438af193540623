"""`header:NAME` is read, counted, searched, masked and erased like a field."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from sluice.config.event import Event
from sluice.config.mask import MaskRule
from sluice.config.pipeline import Pipeline
from sluice.field_path import names_of
from sluice.flow.find.search_files import read_match
from sluice.flow.land.reject_reasons import NO_TIME, TIME_NOT_UNDERSTOOD
from sluice.flow.land.task.columns import HEADERS
from sluice.flow.land.task.count_fields import header_texts
from sluice.flow.land.task.erasing import ErasedValues, no_type
from sluice.flow.land.task.parse import header_times
from sluice.mask.mask_rules import KeyedRule, MaskKey, MaskRules
from sluice.mask.unit_mask import UnitMask
from sluice.state.erasures import Erasure, ErasureList
from sluice.time_grammar import Spelled


def rows(*headers: list[tuple[str, bytes | None]] | None) -> pa.Table:
    return pa.table({"_headers": pa.array(headers, HEADERS)})


def test_the_type_of_a_header_has_one_spelling():
    short = Event.model_validate({"type": {"field": "header:kind"}, "time": {"record": True}})
    long = Event.model_validate({"type": {"header": "kind"}, "time": {"record": True}})
    assert short == long


def test_a_header_needs_a_name():
    with pytest.raises(ValidationError, match="header:NAME"):
        Event.model_validate({"type": {"topic": True}, "time": {"field": "header:"}})


def test_a_header_with_dots_is_one_name():
    assert names_of("header:a.b.c") == ("header:a.b.c",)


def test_times_of_headers():
    texts = [b"2026-11-20T10:00:00Z", None, b"noon", b"\xff", b"1970-01-01T00:00:01Z"]
    times, refused = header_times(texts, Spelled("iso8601"))
    assert [times[0], times[4]] == [1_795_168_800_000, 1_000]
    assert refused == {1: NO_TIME, 2: TIME_NOT_UNDERSTOOD, 3: TIME_NOT_UNDERSTOOD}
    times, refused = header_times([b"1.5", b"x", b"2"], Spelled("epoch_s"))
    assert [times[0], times[2]] == [1_500, 2_000]
    assert refused == {1: TIME_NOT_UNDERSTOOD}


def test_counts_take_the_last_header():
    given = rows([("a", b"1"), ("a", b'"2')], None, [("b", b"1")], [("a", None)], [("a", b"\xff")])
    assert header_texts(given, "a") == [b'"\\"2"', b"null", b"null", b"null", '"\ufffd"'.encode()]


def test_find_looks_at_every_header_of_the_name():
    match = read_match(None, "header:user.id=7")
    given = rows([("user.id", b"7"), ("user.id", b"8")], None, [("user.id", b"77")], [("id", b"7")])
    assert match.column == "_headers"
    assert match.positions(given).tolist() == [0]


def test_an_erasure_finds_a_header():
    bare = ErasureList("ab" * 32)
    asked = bare.asked(names_of("header:user.id"), b"7")
    values = ErasedValues(bare, [Erasure((asked,), "", "", "9999", "", "asked", "", "")])
    found: list[dict[str, Any]] = [{"key": "user.id", "value": b"7"}, {"key": "user.id", "value": b"8"}]
    assert values.has(None, b'{"a": 1}', no_type, found)
    assert values.has(None, None, no_type, found)
    assert not values.has(None, b'{"header:user.id": "7"}', no_type, found[1:])
    assert not values.has(None, b'{"a": 1}', no_type, None)


def test_a_header_has_a_mask_of_its_own():
    keys = (MaskKey(b"a key of the test"),)
    parts = {name: KeyedRule(MaskRule(drop=True)) for name in ("_key", "_headers", "_rejected")}
    fields = {
        "header:kept": KeyedRule(MaskRule(keep=True)),
        "header:short": KeyedRule(MaskRule(keep_first=2)),
        "header:hashed": KeyedRule(MaskRule.model_validate({"hash": "a key of the test"}), keys),
    }
    unit = UnitMask(MaskRules(fields, parts, frozenset({"read"})))
    given = [(name, b"value") for name in ("kept", "short", "hashed", "read", "other")]
    assert unit.headers(given) == [
        ("kept", b"value"),
        ("short", b"va***"),
        ("hashed", keys[0].token(b"value")),
        ("read", b"value"),
        ("other", None),
    ]
    assert unit.event_of("any")(b'{"header:kept":"value"}') == b'{"header:kept":"value"}'


def test_the_type_cannot_be_masked():
    with pytest.raises(ValidationError, match="the event's type"):
        Pipeline.model_validate(
            {
                "name": "p",
                "kafka": [{"cluster": "c", "bootstrap": "k:9092", "topics": ["t"]}],
                "event": {"type": {"header": "kind"}, "time": {"record": True}},
                "lake": "file:///lake",
                "clickhouse": {"connection": "c"},
                "tables": {"*": "a.b"},
                "mask": {"header:kind": "drop"},
            }
        )
