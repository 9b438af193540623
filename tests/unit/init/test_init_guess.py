"""Which field is the type and which the time, and what is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.errors import WrongUse
from sluice.init.questions import (
    LAKE,
    EventGuess,
    InitChoices,
    InitRequest,
    TimeField,
    ask,
    guess,
    questions,
)

AT = "2026-11-20T10:00:00Z"
NOTHING = EventGuess((), ())
FOUND = EventGuess(("type", "meta.kind"), (TimeField("at", "iso8601"), TimeField("ts", "epoch_s")))


def request(**given) -> InitRequest:
    first = {"name": None, "topic": "web-shop.orders", "file": None, "bootstrap": None}
    return InitRequest(**{**first, "connection": "k", "clickhouse": "c", "folder": Path("p"), **given})


@pytest.mark.parametrize(
    ("event", "types", "times"),
    [
        ({"type": "a", "at": AT}, ["type"], [("at", "iso8601")]),
        ({"kind": "a", "created_at": 1_700_000_000}, ["kind"], [("created_at", "epoch_s")]),
        ({"eventType": "a", "timestamp": 1_700_000_000_123}, ["eventType"], [("timestamp", "epoch_ms")]),
        ({"name": "a", "event": "b", "type": "c"}, ["type", "event", "name"], []),
        ({"meta": {"type": "a", "time": AT}}, ["meta.type"], [("meta.time", "iso8601")]),
        ({"meta": {"type": "a"}, "action": "b"}, ["action", "meta.type"], []),
        ({"a": {"b": {"type": "x", "time": AT}}}, [], []),
        ({"type": 1, "at": "yesterday"}, [], []),
        ({"type": "", "seen": AT, "timestamp": AT}, [], [("timestamp", "iso8601"), ("seen", "iso8601")]),
        ({"user_id": 1_700_000_000, "x.type": "a", "": {"type": "a"}}, ["x.type"], []),
        ({"x..type": "a", ".type": "a", "type.": "a"}, [], []),
        ({"type\n": "a", "time": None}, [], []),
    ],
)
def test_the_likeliest_first(event: dict, types: list, times: list):
    found = guess([event] * 3)
    assert list(found.types) == types
    assert [(one.field, one.format) for one in found.times] == times


def test_a_field_that_some_events_lack_is_neither():
    """Their records would be rejected."""
    whole, bare = {"type": "a", "at": AT}, {"type": None}
    assert guess([whole] * 1_000 + [bare]) == EventGuess(("type",), (TimeField("at", "iso8601"),))
    assert guess([whole] * 100 + [bare]) == NOTHING
    assert guess([whole] * 100 + [{"type": "a", "at": "now"}]).times == ()


def test_a_field_with_as_many_values_as_events_is_no_type():
    assert guess([{"name": f"n{n}"} for n in range(101)]).types == ()
    assert guess([{"name": f"n{n}"} for n in range(100)]).types == ("name",)


def test_headers_are_behind_fields_and_a_cloud_events_attributes_before_them():
    plain = {"kind": "a", "at": AT, "header:type": "x", "header:my.type": "y", "header:time": AT}
    assert guess([plain]).types == ("kind", "header:type")
    assert [one.field for one in guess([plain]).times] == ["at", "header:time"]
    cloud = {"type": "data", "time": AT, "header:ce_type": "shop.order", "header:ce_time": AT}
    assert guess([cloud]) == EventGuess(
        ("header:ce_type", "type"), (TimeField("header:ce_time", "iso8601"), TimeField("time", "iso8601"))
    )


def test_six_questions_and_none_of_what_was_said():
    asked = {one.key: one.default for one in questions(request(), FOUND)}
    assert asked == {
        "name": "web_shop_orders", "type": "type", "time": "at", "database": "", "not_null": "-",
        "lake": LAKE,
    }  # fmt: skip
    said = request(name="n", type="-", time="at", database="d", not_null="-", lake="file:///x")
    assert questions(said, FOUND) == []
    assert [one.key for one in questions(request(name="n", lake="s3://b"), NOTHING)] == [
        "type", "time", "database", "not_null",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "answers", "expected"),
    [
        ({}, {}, InitChoices("web_shop_orders", "type", FOUND.times[0], "web_shop_orders", LAKE)),
        ({}, {"name": "Shop.a"}, InitChoices("Shop.a", "type", FOUND.times[0], "shop_a", LAKE)),
        ({"topic": None, "file": "/x/a-b.ndjson.gz"}, {},
         InitChoices("a_b", "type", FOUND.times[0], "a_b", LAKE)),
        ({"topic": None, "file": "-"}, {}, InitChoices("events", "type", FOUND.times[0], "events", LAKE)),
        ({"name": "n"}, {"type": "-", "time": "-"}, InitChoices("n", None, None, "n", LAKE)),
        ({"type": "", "time": ""}, {"name": "n"}, InitChoices("n", None, None, "n", LAKE)),
        ({}, {"time": " ts ", "database": "d", "lake": "s3://b"},
         InitChoices("web_shop_orders", "type", FOUND.times[1], "d", "s3://b")),
        ({"not_null": "*"}, {"name": "n"}, InitChoices("n", "type", FOUND.times[0], "n", LAKE, ("*",))),
        ({"name": "n"}, {"not_null": "id, total,"},
         InitChoices("n", "type", FOUND.times[0], "n", LAKE, ("id", "total"))),
    ],
)  # fmt: skip
def test_answers(given: dict, answers: dict, expected: InitChoices):
    """An empty answer is the default."""
    assert ask(request(**given), FOUND, lambda one: answers.get(one.key, "")) == expected


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"time": "type"}, "'type' does not hold a time in nearly every event; these do: at, ts"),
        ({"name": "../x"}, "name '../x': expected letters"),
        ({"name": "a-b"}, "name 'a-b': expected letters"),
    ],
)
def test_answers_that_are_refused(given: dict, why: str):
    with pytest.raises(WrongUse, match=why.replace(".", r"\.")):
        ask(request(**given), FOUND, lambda _: "")
