"""A dotted path means the same to whatever reads, hides or searches a field."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.event import Event
from sluice.doctor.proposed_tables import _at
from sluice.field_path import (
    all_fields,
    field,
    first_field,
    first_keys,
    holds,
    last_keys,
    names_of,
    paths_of,
    read_event,
    spellings,
)
from sluice.flow.find.search_files import read_match
from sluice.flow.land.reject_reasons import NO_TIME, NO_TYPE, TYPE_NOT_TEXT
from sluice.flow.land.task.count_fields import FieldTexts
from sluice.flow.land.task.erasing import ErasedValues
from sluice.flow.land.task.parse import Parser
from sluice.flow.land.task.records import REASON, TIME, TYPE
from sluice.flow.load.evolve.lake_values import _value_of, _values
from sluice.mask.unit_mask import DROP, EventMask
from sluice.runtime import deeper
from sluice.ship.record_times import RecordKeys
from sluice.state.erasures import Erasure, ErasureList
from tests.support.landing_world import record_table
from tests.support.path_cases import (
    CASES,
    TOKENS,
    PathCase,
    covered_by_model,
    random_event,
    read_by_model,
    written,
)

TIMES = {token: f"2026-01-0{day}T00:00:00Z" for day, token in enumerate(TOKENS, start=1)}


def parsed(event: dict[str, Any], texts: Sequence[bytes], reasons: set[str]) -> tuple[Parser, pa.Table]:
    parser = Parser(Event.model_validate(event))
    rows, rejected = parser.split(record_table(texts))
    assert rejected is None or set(rejected[REASON].to_pylist()) <= reasons
    return parser, rows


def types(path: str, texts: Sequence[bytes]) -> list[str | None]:
    event = {"type": {"field": path}, "time": {"record": True}}
    parser, rows = parsed(event, texts, {NO_TYPE, TYPE_NOT_TEXT})
    found: list[str | None] = [None] * len(texts)
    for row, code in zip(rows["_offset"].to_pylist(), rows[TYPE].to_pylist(), strict=True):
        found[row] = parser.types.names[code]
    return found


def times(path: str, texts: Sequence[bytes]) -> list[int | None]:
    _, rows = parsed({"type": {"topic": True}, "time": {"field": path}}, texts, {NO_TIME})
    found: list[int | None] = [None] * len(texts)
    for row, time in zip(rows["_offset"].to_pylist(), rows[TIME].to_pylist(), strict=True):
        found[row] = time
    return found


def counted(path: str, texts: Sequence[bytes]) -> list[Any]:
    [column] = FieldTexts([path]).read(texts)
    return [json.loads(text) for text in column]


def erases(path: str, value: str, text: bytes) -> bool:
    bare = ErasureList("ab" * 32)
    asked = bare.asked(names_of(path), value.encode())
    with deeper():
        return ErasedValues(bare, [Erasure((asked,), "", "", "9999", "", "asked", "", "")]).has(
            None, text, lambda _: None
        )


def finds(path: str, value: str, text: bytes) -> bool:
    rows = pa.table({"_payload": pa.array([text], pa.binary())})
    with deeper():
        return len(read_match(None, f"{path}={value}").positions(rows)) == 1


def masked(path: str, text: bytes) -> list[bytes]:
    mask = EventMask({names_of(path): DROP})
    with deeper():
        return [mask.masked(text), mask.masked_slowly(text)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.path}-{case.event}")
def test_whatever_reads(case: PathCase):
    text, path = case.event.encode(), names_of(case.path)
    assert types(case.path, [text]) == [case.value]
    assert counted(case.path, [text]) == [case.value]
    assert field(read_event(text), path) == case.value  # as `verify --contents` judges a row's type and time
    assert first_field(read_event(text), path) == case.value
    assert _at([json.loads(text)], (path,)) == [case.value] * (case.value is not None)
    assert json.loads(_value_of(_values(text), case.path)) == case.value
    assert RecordKeys(case.path).of([text]) == [None if case.value is None else case.value.encode()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.path}-{case.event}")
def test_the_time(case: PathCase):
    text = case.event
    for token, time in TIMES.items():
        text = text.replace(f'"{token}"', f'"{time}"')
    days = None if case.value is None else np.datetime64(TIMES[case.value][:-1], "ms").astype(int)
    assert times(case.path, [text.encode()]) == [days]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.path}-{case.event}")
def test_whatever_hides_and_searches(case: PathCase):
    text = case.event.encode()
    assert {token for token in TOKENS if erases(case.path, token, text)} == set(case.covered)
    assert {token for token in TOKENS if finds(case.path, token, text)} == set(case.covered)
    for left in masked(case.path, text):
        json.loads(left)
        assert {token for token in TOKENS if f'"{token}"'.encode() in left} == case.left


@pytest.mark.parametrize("path", ["user.id", "a.b.c"])
def test_events_of_all_kinds_together(path: str):
    """One batch: what reads quickly where all are alike must not mix them up where they are not."""
    cases = [case for case in CASES if case.path == path]
    texts = [case.event.encode() for case in cases]
    assert types(path, texts) == [case.value for case in cases]
    assert counted(path, texts) == [case.value for case in cases]
    for case, text in zip(cases, texts, strict=True):
        assert types(path, [text] * 3) == [case.value] * 3


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**64), st.sampled_from(["a.b", "a.b.c", "a.c", "b.c", "a"]))
def test_random_events(seed: int, path: str):
    chance = Random(seed)
    events = [random_event(chance) for _ in range(3)]
    names = path.split(".")
    values = [read_by_model(event, names) for event in events]
    texts = [written(event) for event in events]
    assert counted(path, texts) == values
    assert types(path, texts) == [value if isinstance(value, str) else None for value in values]
    for event, text, value in zip(events, texts, values, strict=True):
        assert first_field(event, names) == value and field(event, names) == value
        assert json.loads(_value_of(_values(text), path)) == value
        covered = list(covered_by_model(event, names))
        assert sorted(one for one in all_fields(event, names) if isinstance(one, str)) == sorted(covered)
        every = [one for one in text.decode().split('"') if one[:1] == "t"]
        for one in every:
            assert erases(path, one, text) is finds(path, one, text) is (one in covered)
        for left in masked(path, text):
            assert not [one for one in covered if one.encode() in left]
            assert list(all_fields(read_event(left), names)) == []


@pytest.mark.parametrize(
    ("column", "paths", "expected"),
    [
        ("a", {}, [("a",)]),
        ("a.b", {}, [("a", "b")]),
        ("x", {"x": "a.b"}, [("a", "b")]),
        ("x", {"x": ("a.b", "x")}, [("a", "b"), ("x",)]),
        ("../../etc", {}, [("../../etc",)]),
        (".a", {}, [(".a",)]),
        ("a.", {}, [("a.",)]),
        ("x", {"x": "a..b"}, [("a..b",)]),
        ("a" + ".b" * 8, {}, [("a" + ".b" * 8,)]),
    ],
)
def test_the_paths_of_a_column(column: str, paths: dict[str, Any], expected: list[tuple[str, ...]]):
    """ClickHouse reads no field without a name, so that none of a column's is empty."""
    assert list(paths_of(column, paths)) == expected


def test_spellings():
    assert spellings(("a",)) == (("a",),)
    assert spellings(("a", "b")) == (("a.b",), ("a", "b"))
    assert spellings(("a", "b", "c")) == (("a.b.c",), ("a.b", "c"), ("a", "b.c"), ("a", "b", "c"))
    assert first_keys(("a", "b", "c")) == {"a", "a.b", "a.b.c"}
    assert last_keys(("a", "b", "c")) == {"c", "b.c", "a.b.c"}
    assert len(spellings(tuple("abcdefgh"))) == 128


@pytest.mark.parametrize(
    ("keys", "inside"),
    [
        (("a", "b"), True),
        (("a.b",), True),
        (("a", "b", "c"), True),
        (("a.b", "c"), True),
        (("a",), False),
        (("a", "b.c"), False),
        (("a.b.c",), False),
        (("b",), False),
    ],
)
def test_what_a_path_holds(keys: tuple[str, ...], inside: bool):
    assert holds(("a", "b"), keys) is inside
