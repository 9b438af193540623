"""What is counted, by which fields, and what is refused, as tables of cases."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sluice.config.counts import COUNTS, OWN, Counts
from sluice.errors import Conservation
from sluice.flow.land.conservation import Counted, counted
from sluice.flow.land.task.count_fields import NULL, FieldTexts, canonical
from sluice.flow.land.task.reports import WrittenFile
from sluice.slices import Slice, Unit
from tests.support.landing_world import START

UNIT = Unit(Slice(START), "dc1")


@pytest.mark.parametrize(
    ("given", "by"),
    [
        ({}, {}),
        ({"by": []}, {}),
        ({"by": ["country", "device.os"]}, {"country": "country", "device_os": "device.os"}),
        ({"by": ("a.b.c",)}, {"a_b_c": "a.b.c"}),
        ({"by": {"os": "device.os", "A9_": "x-y z"}}, {"os": "device.os", "A9_": "x-y z"}),
        ({"by": ["device", "devices.os"]}, {"device": "device", "devices_os": "devices.os"}),
    ],
)
def test_columns_and_their_fields(given, by):
    found = Counts.model_validate({"table": "db.t", **given})
    assert (dict(found.by), found.types) == (by, ())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"table": "t"}, "expected database.table, not 't'"),
        ({"table": "db."}, "expected database.table, not 'db.'"),
        ({"table": ".t"}, "expected database.table, not '.t'"),
        ({"by": ["a.b", "a_b"]}, "two fields give one column: write {column: field, …}"),
        *[({"by": [own]}, f"'{own}' cannot be a column of counts") for own in OWN],
        ({"by": {"9a": "x"}}, "'9a' cannot be a column of counts"),
        ({"by": {"a-b": "x"}}, "'a-b' cannot be a column of counts"),
        ({"by": {"": "x"}}, "'' cannot be a column of counts"),
        ({"by": {"_a": "x"}}, "'_a' cannot be a column of counts"),
        ({"by": {"a": "x..y"}}, "expected a field or a dotted path, not 'x..y'"),
        ({"by": {"a": ""}}, "expected a field or a dotted path, not ''"),
        ({"by": ["a", "a.b"]}, "no event has both a and a.b: the one runs through the other"),
        ({"by": ["a.b.c", "a.b"]}, "no event has both a.b and a.b.c: the one runs through the other"),
        ({"by": "a"}, "by"),
        ({"more": 1}, "more"),
    ],
)
def test_what_the_file_may_not_say(given, words):
    with pytest.raises(ValidationError, match=re.escape(words)):
        Counts.model_validate({"table": "db.t", **given})


def test_what_tables_of_counts_are_made_of():
    assert (OWN, COUNTS) == (("hour", "type", "count"), "counts")
    with pytest.raises(ValidationError, match="frozen"):
        Counts(table="db.t").table = "db.u"


def test_all_types_are_counted_unless_some_are_named():
    assert Counts(table="db.t").counts("click")
    some = Counts(table="db.t", types=("click", "bid"))
    assert [some.counts(kind) for kind in ("click", "bid", "view")] == [True, True, False]


def file(kind: str | None, rows: int, hour: str = "2026-01-01T00", **types: int) -> WrittenFile:
    return WrittenFile("dc1", UNIT.slice.id, kind, hour, "k", rows, 1, "s", types)


LANDED = [
    file("click", 3),
    file("click", 2_000, "2026-01-01T01"),
    file(None, 5, bid=1, odd=4),
    file(None, 9, ""),
]
ALL, CLICKS, NONE = (
    Counts(table="db.a"),
    Counts(table="db.c", types=("click",)),
    Counts(table="db.n", types=("x",)),
)
SUMS = file("db.a", 2, "", click=2_003, bid=1, odd=4)
CLICK_SUMS = file("db.c", 1, "", click=2_003)


def test_each_table_of_counts_has_its_own_sums():
    assert counted(UNIT, [CLICKS, NONE, ALL], LANDED, [SUMS, CLICK_SUMS]) == (
        Counted(CLICKS, CLICK_SUMS),
        Counted(NONE, None),
        Counted(ALL, SUMS),
    )
    assert counted(UNIT, [], LANDED, []) == ()
    assert counted(UNIT, [ALL], [file(None, 9, "")], []) == (Counted(ALL, None),)


@pytest.mark.parametrize(
    ("spec", "totals", "words"),
    [
        (ALL, [], "table db.a sum up to 0 rows of type 'bid', and 1 landed"),
        (
            ALL,
            [file("db.a", 2, "", click=1_003, bid=1, odd=4)],
            "1,003 rows of type 'click', and 2,003 landed",
        ),
        (
            ALL,
            [file("db.a", 2, "", click=2_003, bid=1, odd=4, view=7)],
            "7 rows of type 'view', and 0 landed",
        ),
        (
            CLICKS,
            [file("db.c", 2, "", click=2_003, bid=1)],
            "table db.c sum up to 1 rows of type 'bid', and 0 landed",
        ),
    ],
)
def test_sums_that_are_not_those_of_the_rows_are_refused(spec, totals, words):
    again = "nothing was committed; land the slice again and report it if it happens twice"
    message = f"^slice {UNIT}: the counts for .*{re.escape(words)}: {again}$"
    with pytest.raises(Conservation, match=message):
        counted(UNIT, [spec], LANDED, totals)


EVENTS = [
    b'{"a":1,"b":{"c":"x","d":{"e":[1, 2]}}}',
    b'{"b":{"d":null,"c":null},"a":"1"}',
    b'{"b":{}}',
    b"{}",
    b'{"b":null,"a":1.0}',
    b'{"a":{"b":{"c":1}},"b":{"d":{"e":{}, "x":1}}}',
]
PATHS = ["a", "b.c", "b.d.e"]
TEXTS = [
    [b"1", b'"1"', b"null", b"null", b"1.0", b'{"b":{"c":1}}'],
    [b'"x"', b"null", b"null", b"null", b"null", b"null"],
    [b"[1, 2]", b"null", b"null", b"null", b"null", b"{}"],
]


def test_the_texts_of_fields():
    assert FieldTexts(PATHS).read(EVENTS) == TEXTS
    assert FieldTexts(reversed(PATHS)).read(EVENTS) == TEXTS[::-1]
    assert FieldTexts([]).read(EVENTS) == []
    assert FieldTexts(PATHS).read([]) == [[], [], []]
    assert NULL == b"null"


@pytest.mark.parametrize("odd", [b'{"b":[1],"a":2}', b'{"b":"x","a":2}', b'{"a":2,"b":{"d":7}}'])
def test_a_value_that_is_no_object_has_no_fields(odd):
    """One such event among others: theirs are found all the same."""
    found = FieldTexts(PATHS).read([*EVENTS, odd])
    assert found == [[*column, last] for column, last in zip(TEXTS, [b"2", b"null", b"null"], strict=True)]


LEAVES = st.sampled_from([None, True, 0, -7, 1.5, "", "x", 'é"', [], [1], {}, {"d": 1}])


def objects(depth: int) -> st.SearchStrategy[dict]:
    inner = LEAVES if depth == 0 else LEAVES | objects(depth - 1)
    return st.fixed_dictionaries({}, optional=dict.fromkeys("abc", inner))


def plain(event: object, path: str) -> object:
    for name in path.split("."):
        event = event.get(name) if isinstance(event, dict) else None
    return event


@given(
    st.lists(objects(2), max_size=5),
    st.lists(st.sampled_from(["a", "b.a", "b.c", "c.a.a", "c.a.b"]), unique=True),
)
@settings(deadline=None)
def test_whatever_the_events_are(events, paths):
    found = FieldTexts(paths).read([json.dumps(event).encode() for event in events])
    assert [[json.loads(text) for text in column] for column in found] == [
        [plain(event, path) for event in events] for path in paths
    ]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (b'"a"', b'"a"'),
        (rb'"\u0061\/\u00e9"', '"a/é"'.encode()),
        (rb'"\n\""', rb'"\n\""'),
        (b"1.0", b"1.0"),
        (rb'{"a": "\u0061"}', rb'{"a": "\u0061"}'),
        (rb'["\u0061"]', rb'["\u0061"]'),
        (b"null", b"null"),
        (b"18446744073709551615", b"18446744073709551615"),
        (b"-9223372036854775808", b"-9223372036854775808"),
        (b"18446744073709551616", b'"18446744073709551616"'),
        (b"-9223372036854775809", b'"-9223372036854775809"'),
        (b"1.7e308", b"1.7e308"),
        (b"1.8e308", b'"1.8e308"'),
        (b"-1E+0400", b'"-1E+0400"'),
        (b"1e-400", b"1e-400"),
        (b"0." + b"1" * 40, b"0." + b"1" * 40),
        (b"1" * 310, b'"' + b"1" * 310 + b'"'),
        (b'["1e400", 12345678901234567890123]', rb'"[\"1e400\", 12345678901234567890123]"'),
        (b'["1e400", "12345678901234567890123"]', b'["1e400", "12345678901234567890123"]'),
    ],
)
def test_a_string_is_the_same_however_it_is_escaped(text, same):
    assert canonical(text) == same
