"""Which rows land never depends on how an hour was cut into reads, nor on the batches within one.

An oracle decides from the list of all records what lands and why something does not. It shares no code with
the landing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pendulum
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.flow.land.formats import decoders
from sluice.flow.land.formats.registry import StoredSchema
from sluice.flow.land.task import field_tally, times, type_folders
from sluice.flow.land.task import records as task_records
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landing_world import START, World, hours, pipeline
from tests.support.long_form import per_commit

TOPICS = ("bids", "clicks")
CLUSTER = {"cluster": "dc1", "bootstrap": "nowhere:1", "topics": [*TOPICS]}
FIELDS = {"type": {"field": "type"}, "time": {"field": "at"}}
BLOCK = 512
Place = tuple[str, int, int]
"""Topic, partition, hour."""


@dataclass(frozen=True)
class Event:
    """`late`: hours before its record; None: it has no time. `kind` None: it has no type."""

    kind: str | None
    late: int | None

    def text(self, hour: int) -> str:
        told: dict[str, Any] = {} if self.kind is None else {"type": self.kind}
        if self.late is not None:
            told["at"] = START.add(hours=hour - self.late, minutes=7).isoformat()
        return json.dumps(told)


@dataclass(frozen=True)
class Shipped:
    """One record: where it is, what its header names, and its events (of arrays any number)."""

    topic: str
    partition: int
    hour: int
    header: str | None
    events: tuple[Event, ...]

    @property
    def place(self) -> Place:
        return self.topic, self.partition, self.hour

    def message(self, arrays: bool) -> tuple[bytes, int, list[tuple[str, bytes]]]:
        texts = [event.text(self.hour) for event in self.events]
        value = f"[{','.join(texts)}]" if arrays else texts[0]
        stamp = int(START.add(hours=self.hour, minutes=1).timestamp()) * 1000
        headers = [] if self.header is None else [("sluice_batch", self.header.encode())]
        return value.encode(), stamp, headers


@dataclass(frozen=True)
class Bounds:
    types: int = 100
    hours: int = 100
    blocks: int = 100


LOW = Bounds(types=3, hours=2, blocks=4)


@dataclass
class Oracle:
    """Decides over one unit, whose records come by topic, partition and offset."""

    batch: bool
    bounds: Bounds
    types: list[str] = field(default_factory=list)
    far: list[int] = field(default_factory=list)
    lines: dict[Place, list[tuple[str, int]]] = field(default_factory=dict)

    def of_record(self, record: Shipped) -> str | None:
        if not self.batch or record.header is None:
            return None
        name, line = record.header.split(":")
        known = self.lines.setdefault(record.place, [])
        if (name, int(line)) in known:
            return "shipped twice"
        blocks = {(one, number // BLOCK) for one, number in known} | {(name, int(line) // BLOCK)}
        if len(blocks) > self.bounds.blocks:
            return "too many batches"
        known.append((name, int(line)))
        return None

    def of_event(self, event: Event) -> str | None:
        if event.kind is None:
            return "no type"
        if event.late is None:
            return "no time"
        if event.late < -1:
            return "time out of range"
        if event.kind != "click" and event.kind not in self.types:
            if len(self.types) == self.bounds.types:
                return "too many types"
            self.types.append(event.kind)
        if event.late > 31 * 24 and event.late not in self.far:
            if len(self.far) == self.bounds.hours:
                return "too many event hours"
            self.far.append(event.late)
        return None


Outcome = tuple[Place, int, int | None, str]
"""Of a record, or an element of it: its place, its offset, its number, and its event or the reason."""


def expected(
    records: Iterable[Shipped], spec: Pipeline, bounds: Bounds
) -> tuple[Counter[Outcome], Counter[Outcome]]:
    good, bad = Counter[Outcome](), Counter[Outcome]()
    logs: dict[tuple[str, int], list[Shipped]] = {}
    for record in records:
        logs.setdefault((record.topic, record.partition), []).append(record)
    for hour in (0, 1):
        oracle = Oracle(spec.event.batch is not None, bounds)
        for _, log in sorted(logs.items()):
            for offset, record in enumerate(log):
                if record.hour != hour:
                    continue
                if (reason := oracle.of_record(record)) is not None:
                    bad[record.place, offset, None, reason] += 1
                    continue
                for number, event in enumerate(record.events):
                    row = number if spec.event.arrays else None
                    if (reason := oracle.of_event(event)) is not None:
                        bad[record.place, offset, row, reason] += 1
                    else:
                        good[record.place, offset, row, event.text(hour)] += 1
    return good, bad


def traffic(good: Counter[Outcome]) -> list[Counter[str]]:
    """How many rows of each type each hour has."""
    rows = [Counter[str](), Counter[str]()]
    for ((_, _, hour), *_, text), count in good.items():
        rows[hour][json.loads(text)["type"]] += count
    return rows


def found(lake: Lake, manifests: Iterable[Manifest]) -> tuple[Counter[Outcome], Counter[Outcome]]:
    good, bad = Counter[Outcome](), Counter[Outcome]()
    for manifest in manifests:
        hour = (pendulum.from_format(manifest.slice, "YYYY-MM-DD[T]HH[Z]") - START).in_hours()
        for file in (*manifest.files, *manifest.rejected):
            with lake.local(file.key) as path:
                rows = pq.read_table(path).to_pylist()
            for row in rows:
                place = (row["_topic"], row["_partition"], hour)
                told = row["_payload"].decode() if isinstance(row["_payload"], bytes) else row["_payload"]
                into, last = (bad, row["_reason"]) if file in manifest.rejected else (good, told)
                into[place, row["_offset"], row.get("_row"), last] += 1
    return good, bad


KINDS = st.sampled_from(["click", "a", "b", "c", "d", "e", None])
LATE = st.sampled_from([0, 0, 0, 1, -2, None, 800, 900, 1000, 1100])
HEADERS = st.sampled_from([None, "x:1", "x:2", "x:3", "x:600", "x:1200", "y:1", "z:1", "v:1", "w:1"])
EVENTS = st.builds(Event, KINDS, LATE)


@st.composite
def records(draw: st.DrawFn, arrays: bool) -> list[Shipped]:
    each = st.lists(EVENTS, min_size=1, max_size=3) if arrays else st.tuples(EVENTS)
    place = st.tuples(st.sampled_from(TOPICS), st.integers(0, 1), HEADERS, each)
    drawn = [
        Shipped(topic, partition, hour, header, tuple(events))
        for hour in (0, 1)
        for topic, partition, header, events in draw(st.lists(place, max_size=16))
    ]
    return sorted(drawn, key=lambda record: (record.topic, record.partition, record.hour))


CUTS = st.fixed_dictionaries(
    {
        "rows_per_read": st.integers(1, 20),
        "batch": st.integers(0, 4),
        "most_rows": st.integers(0, 40),
        "twice": st.booleans(),
    }
)


def world_of(sent: list[Shipped], arrays: bool) -> World:
    logs: dict[tuple[str, str], list[list[tuple]]] = {("dc1", topic): [[], []] for topic in TOPICS}
    for record in sent:
        logs["dc1", record.topic][record.partition].append(record.message(arrays))
    return World(logs)


def landed(spec: Pipeline, lake: Lake) -> list[Manifest]:
    units = [Unit(piece, "dc1") for piece in hours(2)]
    return [read_manifests(lake, units)[unit] for unit in units]


@pytest.mark.parametrize(
    ("arrays", "once", "bounds"),
    per_commit([(False, True, Bounds()), (False, False, LOW), (True, True, LOW), (True, True, Bounds())], 2),
)
def test_the_same_lands_however_an_hour_is_cut(
    monkeypatch: pytest.MonkeyPatch, arrays: bool, once: bool, bounds: Bounds
):
    monkeypatch.setattr(type_folders, "MOST_TYPES", bounds.types)
    monkeypatch.setattr(times, "MOST", bounds.hours)
    monkeypatch.setattr(task_records, "MOST_BLOCKS", bounds.blocks)
    monkeypatch.setattr(field_tally, "WHOLE_UNIT", 5)
    event = {**FIELDS, **({"rows": "array"} if arrays else {})}
    batch = {"batch": {"header": "sluice_batch"}} if once else {}
    counts = [{"table": "db.traffic", "by": ["country"]}]
    spec = pipeline(kafka=[CLUSTER], event={**event, **batch}, counts=counts)

    @settings(max_examples=30, deadline=None)
    @given(records(arrays), CUTS, CUTS, CUTS, st.booleans())
    def tried(sent: list[Shipped], first: dict, again: dict, remade: dict, at_once: bool) -> None:
        world, lake = world_of(sent, arrays), MemoryLake()
        world.resolve(spec, lake, hours(2))
        wanted, fields = expected(sent, spec, bounds), None
        for mode, cuts in (("fill", first), ("reland", again), ("remake", remade)):
            for part in [hours(2)] if at_once else [hours(1), hours(1, 1)]:
                world.land(spec, lake, part, mode, mode, accept_loss=False, **cuts)
            manifests = landed(spec, lake)
            assert found(lake, manifests) == wanted, mode
            assert [dict(manifest.traffic[0].sums) for manifest in manifests] == traffic(wanted[0]), mode
            seen = [sorted(manifest.fields, key=str) for manifest in manifests]
            assert fields in (None, seen), mode
            fields = seen

    tried()


class Registry:
    """Has schemas for even ids, each of some 80 bytes."""

    def __init__(self, address: object, serialized: bool) -> None:
        pass

    def schema(self, number: int) -> StoredSchema | None:
        fields = '[{"name": "type", "type": "string"}]'
        text = f'{{"type": "record", "name": "e{number:08}", "fields": {fields}}}'
        return None if number % 2 else StoredSchema("AVRO", text)


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ([1, 3, 5, 7, 9, 11, 13, 15], "too many unknown schema ids"),
        ([2, 4, 6, 8, 2, 4, 6, 8], "too many large schemas in turn"),
    ],
)
@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_schemas_of_a_unit_have_one_bound(monkeypatch, ids: list[int], reason: str, rows: int):
    """Of unknown ids five are asked for. Two schemas are kept, and two are asked for again."""
    monkeypatch.setenv("AIRFLOW_CONN_R", "http://127.0.0.1:1")
    monkeypatch.setattr(decoders, "SchemaRegistry", Registry)
    monkeypatch.setattr(decoders, "MOST_WITHOUT_SCHEMA", 5)
    monkeypatch.setattr(decoders, "MOST_KEPT", 180)
    monkeypatch.setattr(decoders, "AGAIN_AT_ONCE", 180)
    monkeypatch.setattr(decoders, "AGAIN_BY_MESSAGE", 0)
    event = {"type": {"field": "type"}, "time": {"record": True}}
    spec = pipeline(event={**event, "format": "avro", "registry": {"connection": "r"}})
    stamp = int(START.timestamp()) * 1000
    log = [(b"\0" + number.to_bytes(4, "big") + b"\x0aclick", stamp) for number in ids]
    world, lake = World({("dc1", "bids"): [log]}), MemoryLake()
    world.resolve(spec, lake, hours(1))
    world.land(spec, lake, hours(1), rows_per_read=rows)
    unit = Unit(next(iter(hours(1))), "dc1")
    manifest = read_manifests(lake, [unit])[unit]
    _, bad = found(lake, [manifest])
    beyond = ids[5:] if ids[0] % 2 else ids[6:]
    assert {offset for _, offset, _, why in bad if why == reason} == set(range(8)[-len(beyond) :])
