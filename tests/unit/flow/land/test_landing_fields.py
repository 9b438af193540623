"""The fields that a manifest names, against a reader of the same events that shares nothing with landing."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.clients.lake.folder import FolderLake
from sluice.flow.land.read import unit_fields
from sluice.flow.land.task import field_tally
from sluice.flow.land.task import field_tally as field_sample
from sluice.flow.land.task.field_tally import FieldTally, chosen, rows_at, step_of
from sluice.flow.land.task.records import TYPE, table_of
from sluice.manifest import FieldSeen, Manifest, TypeFields, bounded, merged
from sluice.slices import Slice, Unit
from sluice.state.manifests import read_manifests
from tests.support.landing_world import START, World, event, hours, kafka_batch, pipeline

BIDS = ("dc1", "bids")
STAMP = event()[1]
AT = '"at":"2026-01-01T00:05:00Z"'


def kind_of(text: str) -> str:
    """JSON's own words, read off the value's text."""
    if text[0] == '"':
        return "string"
    if text[0] in "[{":
        return "array" if text[0] == "[" else "object"
    if text in ("null", "true", "false"):
        return "null" if text == "null" else "boolean"
    return "number" if set(text) & set(".eE") else "integer"


def expected(events: list[dict[str, str]], exact: bool = True) -> tuple[TypeFields, ...]:
    """`events` are the text of each value by name; the last one of a name counts."""
    found = {}
    for name in sorted({json.loads(one["type"]) for one in events}):
        own = [one for one in events if json.loads(one["type"]) == name]
        fields = {}
        for field in sorted({field for one in own for field in one}):
            kinds = Counter(kind_of(one[field]) for one in own if field in one)
            places = sum(list(one).index(field) for one in own if field in one)
            fields[field] = FieldSeen(kinds.total(), dict(kinds), places)
        found[name] = TypeFields(name, len(own), exact, fields)
    return tuple(found.values())


def value_of(one: dict[str, str]) -> bytes:
    return ("{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in one.items()) + "}").encode()


def spell(kind: str, **more: str) -> dict[str, str]:
    return {"type": json.dumps(kind), "at": '"2026-01-01T00:05:00Z"', **more}


TEXTS = [
    "null", "true", "false", "0", "-0", "7", "1.0", "1e3", "-2E-5", "1e400", "1e-400", "9" * 25, "9" * 5000,
    '""', '"a\\ud83d\\ude00"', '"\\u00e9"', "[]", "[1e999]", "{}", '{"a":{"b":[null]}}',
    "[" * 200 + "]" * 200,
]  # fmt: skip
NAMES = ["a", "b", "ключ", "with space", "", "q\u00fcr", 'quo"te', "at2", "\x01"]
events = st.builds(
    lambda kind, more: spell(kind, **more),
    st.sampled_from(["click", "bid", "wien/ä"]),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS), max_size=6),
)


def land(folder: Path, logs: list[list[bytes]], mode: str = "fill", **options) -> Manifest:
    spec, lake = options.pop("spec", pipeline()), FolderLake(folder / "demo")
    world = World({BIDS: [[(value, STAMP) for value in log] for log in logs]})
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1), mode, token=mode, **options)
    return read_manifests(lake, [Unit(Slice(START, spec.slice), "dc1")]).popitem()[1]


@settings(max_examples=25)
@given(st.lists(st.lists(events, max_size=8), min_size=1, max_size=3), st.integers(1, 20))
def test_each_field_and_each_kind_is_counted_however_the_records_are_divided(
    tmp_path_factory: pytest.TempPathFactory, logs: list[list[dict[str, str]]], per_read: int
) -> None:
    values = [[value_of(one) for one in log] for log in logs]
    landed = land(tmp_path_factory.mktemp("lake"), values, rows_per_read=per_read)
    assert landed.rejected_records == {}
    assert landed.fields == expected([one for log in logs for one in log])


def test_what_json_leaves_open_and_names_that_are_too_long(tmp_path: Path) -> None:
    twice = b'{"type":"click",' + AT.encode() + b',"a":1,"a":"x"}'
    long = b'{"type":"click",' + AT.encode() + b',"' + b"n" * 201 + b'":1}'
    refused = b'{"type":"click",' + AT.encode() + b',"c":1'
    found = land(tmp_path, [[twice, long, refused]]).fields_of("click")
    assert found is not None
    assert (found.rows, found.others) == (2, 1)
    assert found.fields.keys() == {"type", "at", "a"}
    assert found.fields["a"] == FieldSeen(1, {"string": 1}, 2)


@pytest.mark.parametrize("by", [{"field": "type"}, {"topic": True}])
def test_a_name_with_half_a_surrogate_never_lands(tmp_path: Path, by: dict[str, object]) -> None:
    """No UTF-8 has it, so the manifest could not."""
    half = b'{"type":"click",' + AT.encode() + b',"\\ud800":1}'
    spec = pipeline(event={"type": by, "time": {"record": True}})
    landed = land(tmp_path, [[half]], spec=spec)
    assert (landed.rejected_records, landed.fields) == ({"half a surrogate pair": 1}, ())


def test_reland_and_a_task_that_ran_twice_say_the_same(tmp_path: Path) -> None:
    logs = [[value_of(spell("click", n=str(n))) for n in range(50)] for _ in range(2)]
    first = land(tmp_path, logs)
    again = land(tmp_path, logs, mode="reland", rows_per_read=7, twice=True)
    assert again.generation == first.generation + 1
    assert again.fields == first.fields == expected([spell("click", n="1")] * 100)


def test_rows_of_arrays_are_counted_each(tmp_path: Path) -> None:
    form = {"type": {"field": "type"}, "time": {"field": "at"}, "rows": "array"}
    own = [spell("click", a="1"), spell("bid"), spell("click", a='"x"')]
    messages = [b"[" + b",".join(map(value_of, own)) + b"]", b"[]", b"[7]", b"[" + value_of(own[0]) + b"]"]
    landed = land(tmp_path, [messages], spec=pipeline(event=form))
    assert landed.fields == expected([*own, own[0]])


def small(monkeypatch: pytest.MonkeyPatch, whole: int) -> None:
    monkeypatch.setattr(field_sample, "WHOLE_UNIT", whole)


def test_of_a_large_unit_a_sample_is_inspected_that_no_division_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, 60)
    logs = [[value_of(spell("bid" if n % 2 else "click", n=str(n))) for n in range(300)] for _ in range(2)]
    first = land(tmp_path / "a", logs, rows_per_read=10_000)
    assert not any(one.exact for one in first.fields)
    rows = {one.type: one.rows for one in first.fields}
    assert sum(rows.values()) == 2 * len(chosen(0, 299, step_of(600)))
    assert min(rows.values()) > 15  # a fixed distance may meet one of the types alone
    assert land(tmp_path / "b", logs, rows_per_read=17).fields == first.fields
    assert land(tmp_path / "c", logs, rows_per_read=133, twice=True).fields == first.fields


@pytest.mark.parametrize("kind", ["bid", "*"])
def test_types_of_a_table_that_may_get_columns_are_counted_in_every_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    small(monkeypatch, 100)
    spec = pipeline(tables={"click": "e.clicks", kind: {"table": "e.bids", "evolve": "add"}})
    events = [spell("bid" if n % 7 == 0 else "click", **{f"f{n % 10}": "1"}) for n in range(1000)]
    landed = land(tmp_path, [list(map(value_of, events))], spec=spec, rows_per_read=500)
    (bids,) = expected([one for one in events if one["type"] == '"bid"'])
    assert landed.fields_of("bid") == bids
    clicks = landed.fields_of("click")
    assert clicks is not None and not clicks.exact and 50 < clicks.rows < 150


@pytest.mark.parametrize("step", [1, 2, 3, 10, 97])
def test_one_of_each_step_offsets_is_chosen_whatever_the_range(step: int) -> None:
    whole = chosen(0, 9_699, step)
    assert [offset // step for offset in whole.tolist()] == list(range(-(-9_700 // step)))[: len(whole)]
    parts = [chosen(first, first + 96, step) for first in range(0, 9_700, 97)]
    assert np.concatenate(parts).tolist() == whole.tolist()
    if step > 2:
        assert len(set((whole % step).tolist())) > 1


@given(st.lists(st.integers(0, 20), min_size=1), st.sets(st.integers(0, 20)))
def test_rows_are_found_by_their_offsets(offsets: list[int], wanted: set[int]) -> None:
    ordered = sorted(offsets)
    found = rows_at(np.array(ordered, np.int64), np.array(sorted(wanted), np.int64))
    assert found.tolist() == [place for place, offset in enumerate(ordered) if offset in wanted]


def test_steps() -> None:
    assert [step_of(n) for n in (0, 1, 10_000, 10_020, 20_000, 5_000_000, 10**9)] == [
        1,
        1,
        1,
        1,
        2,
        250,
        10_000,
    ]


def tallies(events: list[dict[str, str]], parts: int, names: list[str]) -> list[FieldTally]:
    """The events, dealt to tasks."""
    edges = {("bids", 0): np.array([0, len(events)])}
    found = [FieldTally(edges, names, ["click"], []) for _ in range(parts)]
    for number, tally in enumerate(found):
        own = events[number::parts]
        values, offsets = list(map(value_of, own)), range(number, len(events), parts)
        batch = kafka_batch(0, [(offset, value, 0) for offset, value in zip(offsets, values, strict=True)])
        rows = table_of(batch, "dc1", "bids", 0, np.zeros(len(own), np.int64))
        codes = [names.index(json.loads(one["type"])) for one in own]
        if own:
            tally.add(rows.append_column(TYPE, pa.array(codes, pa.int32())))
    return found


def united(found: list[FieldTally]) -> tuple[TypeFields, ...]:
    slices = [Slice(START, pipeline().slice)]
    return unit_fields([part for tally in found for part in tally.report("dc1", slices)], ["click"])


@given(st.lists(events, min_size=1, max_size=40), st.integers(1, 5))
def test_any_division_into_tasks_gives_the_same(dealt: list[dict[str, str]], parts: int) -> None:
    names = ["bid", "click", "wien/ä"]
    assert united(tallies(dealt, parts, names)) == expected(dealt)


def test_memory_is_bounded_and_what_is_kept_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event brings ten names that no other has, and one task meets more of them than the other."""
    monkeypatch.setattr(field_tally, "MOST_BYTES", 100_000)
    strange = [spell("click", **{f"n{n}-{i}": "1" for i in range(10)}) for n in range(400)]
    common = [spell("click", common="true") for _ in range(50)]
    one, two = (
        tallies(strange[:300] + common, 1, ["click"])[0],
        tallies(common + strange[300:], 1, ["click"])[0],
    )
    (clicks,) = united([one, two])
    assert all(0 < tally._bytes <= 100_000 for tally in (one, two))
    (wanted,) = expected([*strange, *common, *common])
    assert clicks.rows == 500
    assert 0 < len(clicks.fields) < 1000
    assert all(seen == wanted.fields[name] or name in ("type", "at") for name, seen in clicks.fields.items())
    occurrences = sum(seen.rows for seen in wanted.fields.values())
    assert clicks.others == occurrences - sum(seen.rows for seen in clicks.fields.values())


def test_types_without_end_are_bounded_and_configured_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_tally, "MOST_BYTES", 50_000)
    names = ["click", *(f"t{n}" for n in range(1000))]
    (tally,) = tallies([spell(name) for name in names], 1, names)
    found = {one.type: one for one in united([tally])}
    assert 0 < tally._bytes <= 50_000
    assert found["click"].rows == 1 and 1 < len(found) < 500


def fields(*rows: int) -> dict[str, FieldSeen]:
    return {f"f{place}": FieldSeen(n, {"integer": n}, n) for place, n in enumerate(rows)}


def test_the_types_and_fields_in_most_rows_are_kept() -> None:
    types = [TypeFields("a", 5, True, fields(1, 5, 3)), TypeFields("b", 9, True, fields(9), 2)]
    few = TypeFields("c", 1, True, fields(1))
    assert bounded([*types, few], most_types=2) == tuple(types)
    assert bounded(types, most_fields=2)[0] == TypeFields(
        "a", 5, True, {"f1": FieldSeen(5, {"integer": 5}, 5), "f2": FieldSeen(3, {"integer": 3}, 3)}, 1
    )
    assert [one.type for one in bounded([*types, few], most_in_all=3)] == ["b", "c"]  # a does not fit whole


def test_parts_of_which_one_is_a_sample_are_no_whole() -> None:
    part = TypeFields("a", 5, True, fields(5))
    (found,) = merged([part, replace(part, exact=False, others=3)])
    assert found == TypeFields("a", 10, False, {"f0": FieldSeen(10, {"integer": 10}, 10)}, 3)


def test_the_end_of_a_landing_says_what_has_changed(tmp_path: Path) -> None:
    """Against hours that landed before, and against those of the same landing."""
    before, after = [spell("click", user_id="7"), spell("bid")] * 30, [spell("click", uid="8")] * 60
    log = [(value_of(one), STAMP + hour * 3_600_000) for hour in range(3) for one in before]
    log += [(value_of(one), STAMP + hour * 3_600_000) for hour in range(3, 6) for one in after]
    spec, lake, said = pipeline(), FolderLake(tmp_path / "demo"), list[str]()
    world = World(
        {BIDS: [[(value.replace(b"T00:", b"T%02d:" % (n // 60)), at) for n, (value, at) in enumerate(log)]]}
    )
    world.resolve(spec, lake, hours(6))
    for count in (2, 6, 6):
        world.land(spec, lake, hours(count), say=said.append)
    changes = [line for line in said if line.startswith("schema changed: ")]
    assert changes == [
        "schema changed: 2026-01-01T03Z/dc1: type click: field `user_id` vanished: in none of 60 rows, "
        "was in 90 of 90 rows, 100 % (integer); likely `uid` now, which is in 60 of 60 rows, 100 % "
        "(integer), at the same place"
    ]


def test_many_changes_are_said_in_few_lines(tmp_path: Path) -> None:
    many = {f"f{number:02}": "1" for number in range(30)}
    log = [(value_of(spell("click")), STAMP)] * 30 + [
        (value_of(spell("click", **many)), STAMP + 3_600_000)
    ] * 30
    spec, lake, said = pipeline(), FolderLake(tmp_path / "demo"), list[str]()
    world = World({BIDS: [log]})
    world.resolve(spec, lake, hours(2))
    world.land(spec, lake, hours(2), say=said.append)
    changes = [line for line in said if line.startswith("schema changed: ")]
    assert len(changes) == 21
    assert "field `f19` is new" in changes[19]
    assert changes[20] == "schema changed: 10 more: `sluice status demo --changes` shows all"
