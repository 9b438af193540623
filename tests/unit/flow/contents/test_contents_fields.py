"""A field that is missing from one slice to the next is told once, with what came instead."""

from __future__ import annotations

import json

import pytest

from sluice.event_values import read_event
from sluice.flow.contents.payload_fields import FieldSample, MissingField, gone, sample_of

TOTAL, NESTED = ("total",), ("geo", "country")


def events(rows: int, **fields) -> FieldSample:
    return sample_of([fields] * rows, [TOTAL, NESTED])


def shares(*missing: int) -> list[FieldSample]:
    """Samples of a hundred events, of which so many lack `total`."""
    return [FieldSample(100, {TOTAL: 100 - n, ("id",): 100}) for n in missing]


def told(*missing: int) -> list[tuple]:
    """Of the first sample against those before it."""
    now, *before = shares(*missing)
    return [one.path for one in gone(now, before, [TOTAL])]


def test_a_renamed_field_is_told_with_its_new_name():
    before, now = events(60, id=1, total=5), events(60, id=1, total_amount=5, geo={"country": "NL"})
    found = gone(now, [before], [TOTAL, ("id",)])
    assert found == [MissingField(TOTAL, 0.0, 1.0, (("geo",), NESTED, ("total_amount",)))]


def test_a_field_inside_an_object():
    before, now = events(60, geo={"country": "NL"}), events(60, geo={"land": "NL"})
    assert [one.path for one in gone(now, [before], [TOTAL, NESTED])] == [NESTED]
    assert gone(now, [before], [NESTED])[0].came == (("geo", "land"),)


def test_null_is_missing_and_other_empty_values_are_not():
    before = events(60, total=1)
    assert [one.path for one in gone(events(60, total=None), [before], [TOTAL])] == [TOTAL]
    assert gone(events(60, total=0), [before], [TOTAL]) == []
    assert gone(events(60, total=""), [before], [TOTAL]) == []


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ((100, 0), [TOTAL]),
        ((90, 10), [TOTAL]),
        ((100, 100), []),  # as the one before
        ((100, 100, 0), []),  # told then
        ((100, 95), []),  # rare
        ((100, 30), []),  # sometimes missing
        ((60, 0), []),
        ((100, 60, 0), [TOTAL]),  # in two steps
        ((0, 100), []),  # it came back
    ],
)
def test_only_a_jump_is_told(missing: tuple[int, ...], expected: list[tuple]):
    assert told(*missing) == expected


def test_few_events_say_nothing():
    full, few = events(60, total=1), events(49, total=1)
    assert gone(events(49), [full], [TOTAL]) == []
    assert gone(events(60), [few], [TOTAL]) == []
    assert gone(events(60), [], [TOTAL]) == []
    assert [one.path for one in gone(events(60), [few, full], [TOTAL])] == [TOTAL]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('{"geo": {"country": "a", "country": "b"}}', {("geo",), NESTED}),
        ('{"geo": {"country": "a", "country": null}}', {("geo",), NESTED}),
        ('{"geo": {"country": null, "country": "b"}}', {("geo",)}),
        ('{"geo": {"country": "a"}, "geo": {"land": "b"}}', {("geo",), NESTED}),
        ('{"geo": {"land": "b"}, "geo": {"country": "a"}}', {("geo",), ("geo", "land")}),
        ('{"geo": 1, "geo": {"country": "a"}}', {("geo",)}),
        ('{"geo": null, "geo": {"country": "a"}}', set()),
        ('{"total": 1, "total": null}', {TOTAL}),
        ('{"total": null, "total": 1}', set()),
    ],
)
def test_of_a_field_that_is_there_twice_the_first_counts_as_in_a_load(text: str, paths: set[tuple]):
    sampled = sample_of([read_event(text.encode())] * 60, [TOTAL, NESTED])
    assert sampled == FieldSample(60, dict.fromkeys(paths, 60))


def test_a_deep_field_that_is_there_twice():
    deep = ("a", "b", "c", "d")
    text = json.dumps({"a": {"b": {"c": {"d": 1, "again": 2}}}}).replace("again", "d")
    assert sample_of([read_event(text.encode())], [deep]).paths[deep] == 1
