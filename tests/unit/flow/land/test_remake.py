"""A unit that is made again out of the lake holds what a first landing of the same offsets gives."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from local.versions import ROOT
from sluice.clients.lake import layout
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.land.land import land
from sluice.flow.land.task import read_lake
from sluice.manifest import Forgotten, Manifest, encode
from sluice.slices import Unit
from sluice.state.file_moves import finish_moves
from sluice.state.manifests import read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landed_contents import contents
from tests.support.landing_world import GAP, START, World, event, hours, pipeline
from tests.support.long_form import per_commit

BIDS, WINS, OTHER = ("dc1", "bids"), ("dc1", "wins"), ("dc2", "bids")
TWO_TOPICS = [{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids", "wins"]}]
TWO_CLUSTERS = [*TWO_TOPICS, {"cluster": "dc2", "bootstrap": "nowhere:2", "topics": ["bids"]}]
SLICES = hours(3)
BY_FIELD = {"type": {"field": "type"}, "time": {"field": "at", "format": "iso8601"}}


def odd(number: int, minute: float) -> tuple:
    """Records of every kind, some with headers: by number, so that each case meets each of them."""
    value, stamp = event(("click", "bid", "wïn")[number % 3], minute, grade=f"k{number % 2}", country="DE")
    at = int((START.timestamp() + minute * 60) * 1000)
    epoch = json.dumps({"type": "click", "at": at, "grade": "k0"}).encode()
    kinds: list[Any] = [
        value,
        epoch,  # not a time, as long as the file says that times are texts
        b"no json",
        None,
        b'{"at":"2026-01-01T00:00:01Z"}',
        b'{"type":"click","type":"bid","at":"2026-01-01T00:00:01Z"}',
        b'{"type":"x","at":"2026-01-01T00:01:00Z","s":"\xff"}',
        b"[" + value + b"," + epoch + b",7]",
        value.replace(b"2026-01-01", b"1990-01-01"),
    ]
    headers = [("table", b"t%d" % (number % 2)), ("none", None)] if number % 4 == 0 else None
    headers = [] if number % 7 == 3 else headers
    return kinds[number % len(kinds)] if number % 2 else value, stamp, headers


def log(first: int, count: int) -> list[tuple]:
    return [odd(first + n, n * 170 / count) for n in range(count)]


def worlds() -> dict[tuple[str, str], list[list[tuple]]]:
    return {BIDS: [log(0, 90), log(7, 30), []], WINS: [log(3, 40)], OTHER: [log(5, 50)]}


def spec(**changes: Any) -> Pipeline:
    return pipeline(**{"kafka": TWO_CLUSTERS, "event": BY_FIELD, **changes})


def units(of: Pipeline) -> list[Unit]:
    return [Unit(piece, cluster) for piece in SLICES for cluster in of.clusters]


def landed(
    before: Pipeline, logs: Any, by: Pipeline | None = None, **options: Any
) -> tuple[World, MemoryLake]:
    """`by`: the file that it lands by, if not the one that it is resolved by."""
    world, lake = World(logs), MemoryLake()
    world.resolve(before, lake, SLICES)
    world.land(by or before, lake, SLICES, **options)
    return world, lake


def remade(world: World, lake: MemoryLake, after: Pipeline, token: str = "again", **options: Any) -> Any:
    """With no Kafka that answers."""
    world.kafka.silent = frozenset(after.clusters)
    world.reads.clear()
    return world.land(after, lake, SLICES, "remake", token, **options)


def compare(before: Pipeline, after: Pipeline, logs: Any, **options: Any) -> list[Manifest]:
    """Both ways, and their contents; the manifests of the unit made again."""
    world, lake = landed(before, logs, **options)
    old = read_manifests(lake, units(after))
    remade(world, lake, after, **options)
    assert not world.reads
    assert world.out_of_lake
    _, oracle = landed(before, logs, by=after, **options)
    assert contents(lake, units(after)) == contents(oracle, units(after))
    new = read_manifests(lake, units(after))
    for unit, manifest in new.items():
        assert manifest.generation == 2
        assert manifest.remade is not None
        assert (manifest.remade.manifest, manifest.remade.rows) == (old[unit].id, old[unit].landed)
        assert manifest.remade.rejected_records == old[unit].kept_by_reason()
        assert {c.topic + str(c.partition): c.read for c in manifest.counts} == {
            c.topic + str(c.partition): c.read for c in old[unit].counts
        }
    named = {file.key for manifest in new.values() for file in manifest.all_files}
    assert {i.key for i in lake.list("") if i.key.endswith(".parquet")} == named
    return list(new.values())


CHANGES: dict[str, tuple[dict, dict]] = {
    "nothing": ({}, {}),
    "type by another field": ({}, {"event": {**BY_FIELD, "type": {"field": "grade"}}}),
    "type by a header": ({}, {"event": {**BY_FIELD, "type": {"header": "table"}}}),
    "type by topic, from a header": (
        {"event": {**BY_FIELD, "type": {"header": "table"}}},
        {"event": {**BY_FIELD, "type": {"topic": True}}},
    ),
    "another time format": (
        {},
        {"event": {**BY_FIELD, "time": {"field": "at", "format": "epoch_ms"}}},
    ),
    "time of the record": ({}, {"event": {**BY_FIELD, "time": {"record": True}}}),
    "fewer types": ({}, {"max_types": 1}),
    "more types": ({"max_types": 1, "tables": {}}, {"max_types": 50, "tables": {}}),
    "counts asked for later": ({}, {"counts": [{"table": "db.traffic", "by": ["country"]}]}),
    "counts by another field": (
        {"counts": [{"table": "db.traffic", "by": ["country"]}]},
        {"counts": [{"table": "db.traffic", "by": ["grade"]}]},
    ),
    "arrays from now on": ({}, {"event": {**BY_FIELD, "rows": "array"}}),
    "no arrays from now on": ({"event": {**BY_FIELD, "rows": "array"}}, {}),
    "arrays, and another type": (
        {"event": {**BY_FIELD, "rows": "array"}},
        {"event": {**BY_FIELD, "rows": "array", "type": {"field": "grade"}}},
    ),
    "a bound on late events": ({}, {"max_late": "2h", "max_early": "1h"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_what_a_first_landing_gives(change: str):
    before, after = CHANGES[change]
    compare(spec(**before), spec(**after), worlds())


CHOICES: dict[str, list[Any]] = {
    "type": [{"field": "type"}, {"field": "grade"}, {"header": "table"}, {"topic": True}],
    "time": [{"field": "at"}, {"field": "at", "format": "epoch_ms"}, {"record": True}],
    "rows": ["one", "array"],
    "batch": [None, {"header": "sluice_batch"}],
    "max_late": [None, "2h"],
    "counts": [[], [{"table": "db.traffic", "by": ["country"]}]],
    "tables": [{}, {"click": "db.click", "*": "db.other"}],
}
OF_EVENT = ("type", "time", "rows", "batch")


def any_file(chance: Random) -> Pipeline:
    found = {name: chance.choice(values) for name, values in CHOICES.items()}
    event_of = {name: found.pop(name) for name in OF_EVENT}
    return spec(event=event_of, rows_per_read=17, **found)


@pytest.mark.parametrize("seed", per_commit(range(300), 3))
def test_any_two_pipeline_files(seed: int, monkeypatch):
    """All that one rejects, moves or counts otherwise; read together or divided. Which types have a folder of
    their own beyond `max_types` depends on how records come in batches: it is left out here."""
    chance = Random(seed)
    before, after = any_file(chance), any_file(chance)
    logs = worlds()
    for number in chance.sample(range(90), 9):
        logs[BIDS][0][number] = (GAP, logs[BIDS][0][number][1])
    for number in chance.sample(range(40), 12):
        value, stamp, *_ = logs[WINS][0][number]
        logs[WINS][0][number] = (
            value,
            stamp,
            [("sluice_batch", b"b:%d" % chance.randrange(4)), ("table", b"t")],
        )
    if chance.random() < 0.5:
        monkeypatch.setattr("sluice.flow.land.read.together", lambda run, **_: [run])
    compare(before, after, logs, rows_per_read=17, most_rows=0)


def test_divided_and_sorted_on_disk_it_is_the_same(monkeypatch):
    """As a large unit is: tasks of some offsets each, and runs of a few rows, merged in several rounds."""
    monkeypatch.setattr("sluice.flow.land.read.together", lambda run, **_: [run])
    monkeypatch.setattr(read_lake, "PIECE_BYTES", 300)
    monkeypatch.setattr(read_lake, "FAN_IN", 2)
    monkeypatch.setattr(read_lake.sorted_by_record, "__defaults__", (2_000,))
    before, after = CHANGES["arrays, and another type"]
    options = {"rows_per_read": 10, "most_rows": 20}
    compare(spec(**before, rows_per_read=10), spec(**after, rows_per_read=10), worlds(), **options)


def test_gaps_stay_what_they_were():
    logs = worlds()
    for number in (0, 5, 6, 7, 88, 89):
        logs[BIDS][0][number] = (GAP, logs[BIDS][0][number][1])
    made = compare(spec(), spec(max_types=1), logs)
    assert sum(manifest.gaps for manifest in made) == 6


def shipped(number: int) -> tuple:
    value, stamp, _ = odd(number, number)
    return value, stamp, [("sluice_batch", b"b%d:%d" % (number % 3, number // 6))]


@pytest.mark.parametrize("later", [True, False])
def test_lines_that_were_shipped_twice(later: bool):
    once = {"event": {**BY_FIELD, "batch": {"header": "sluice_batch"}}}
    before, after = ({}, once) if later else (once, {})
    made = compare(spec(**before), spec(**after), {**worlds(), BIDS: [list(map(shipped, range(90)))]})
    assert (sum(manifest.rejected_records.get("shipped twice", 0) for manifest in made) > 10) is later


def test_a_third_generation_is_made_of_the_second():
    """There and back again: what the wrong rule rejected was kept whole."""
    wrong = spec(event={"type": {"header": "nothing"}, "time": {"field": "at"}})
    world, lake = landed(spec(), worlds())
    first = contents(lake, units(spec()))
    remade(world, lake, wrong, "one")
    assert not any(manifest.files for manifest in read_manifests(lake, units(wrong)).values())
    remade(world, lake, spec(), "two")
    assert contents(lake, units(spec())) == first
    assert {m.generation for m in read_manifests(lake, units(spec())).values()} == {3}


def test_the_same_token_makes_nothing_again():
    world, lake = landed(spec(), worlds())
    assert len(remade(world, lake, spec()).landed) == 6
    assert len(remade(world, lake, spec()).landed) == 0


def test_a_wrong_time_format_is_mended():
    """3 of 100 wrote their time in milliseconds: by hand, what comes in and what is left."""
    records = [event("click", n / 2) for n in range(100)]
    for number in (10, 50, 90):
        at = int((START.timestamp() + number * 30) * 1000)
        records[number] = (json.dumps({"type": "click", "at": at}).encode(), at)
    epoch = {"event": {**BY_FIELD, "time": {"field": "at", "format": "epoch_ms"}}}
    world, lake = landed(pipeline(event=BY_FIELD), {BIDS: [records]})
    [old, *_] = read_manifests(lake, units(pipeline())).values()
    assert (old.landed, dict(old.rejected_records)) == (97, {"time not understood": 3})
    world.kafka.silent = frozenset({"dc1"})
    world.land(pipeline(**epoch), lake, hours(1), "remake", "again")
    [new, *_] = read_manifests(lake, units(pipeline())).values()
    assert (new.landed, dict(new.rejected_records), new.read) == (3, {"time not understood": 97}, 100)


# ---- What cannot be made again.


@pytest.fixture
def there() -> tuple[World, MemoryLake]:
    return landed(pipeline(), {BIDS: [log(0, 90)]})


def state(lake: MemoryLake) -> dict[str, bytes]:
    return {key: data for key, (data, _) in lake.objects.items()}


def refused(world: World, lake: MemoryLake, after: Pipeline, why: str) -> None:
    """Nothing of the first unit is changed, and the others are made again."""
    [first, *others] = units(after)
    before = {k: v for k, v in state(lake).items() if first.slice.id in k}
    with pytest.raises(SluiceError, match=why):
        remade(world, lake, after)
    assert {k: v for k, v in state(lake).items() if first.slice.id in k} == before
    assert {m.generation for m in read_manifests(lake, others).values()} == {2}


def first_file(lake: MemoryLake, rejected: bool = False) -> str:
    manifest = read_manifests(lake, units(pipeline()))[units(pipeline())[0]]
    return (manifest.rejected if rejected else manifest.files)[0].key


@pytest.mark.parametrize("rejected", [False, True])
def test_a_file_that_is_missing(there, rejected: bool):
    world, lake = there
    lake.delete([key := first_file(lake, rejected)])
    world.kafka.silent = frozenset({"dc1"})
    with pytest.raises(Exception, match=key):
        remade(world, lake, pipeline())


def test_a_file_with_other_bytes(there):
    world, lake = there
    key = first_file(lake)
    data = bytearray(lake.read(key).data)
    data[20] ^= 1
    lake.put(key, bytes(data))
    refused(world, lake, pipeline(), f"file {key} has other bytes than its manifest says")


@pytest.mark.parametrize("column", ["_offset", "_partition"])
@pytest.mark.parametrize("texts", [False, True], ids=["without it", "of texts"])
def test_a_file_with_other_columns(there, column: str, texts: bool):
    world, lake = there
    table = pq.read_table(pa.BufferReader(lake.read(key := first_file(lake)).data)).drop_columns([column])
    if texts:
        table = table.append_column(column, pa.array(["x"] * len(table)))
    with pa.BufferOutputStream() as sink:
        pq.write_table(table, sink)
        lake.put(key, sink.getvalue().to_pybytes())
    refused(world, lake, pipeline(), f"file {key} has no column {column} as a landing writes it")


def test_what_the_lake_has_forgotten_is_refused_and_a_reland_brings_it_back(there):
    world, lake = there
    [first, *_] = units(pipeline())
    gone, why = Forgotten(lake="2028-01-01T00:00:00Z"), "it forgot its files on 2028-01-01T00:00:00Z"
    whole, old = contents(lake, [first]), read_manifests(lake, [first])[first]
    lake.put(layout.manifest(old.slice, old.cluster), encode(replace(old, forgotten=gone)))
    lake.delete(file.key for file in replace(old, forgotten=gone).forgotten_files)
    refused(world, lake, pipeline(), why)
    # What is left to be moved is moved, and nothing that is gone is looked for.
    lake.delete([layout.slice_success(old.slice, old.cluster)])
    assert finish_moves(lake, [first])[first].forgotten == gone
    world.kafka.silent = frozenset()
    before = {manifest.id for manifest in read_manifests(lake, units(pipeline())).values()}
    world.land(pipeline(), lake, SLICES)
    assert {m.id for m in read_manifests(lake, units(pipeline())).values()} == before, "a fill lands nothing"
    world.land(pipeline(), lake, SLICES, "reland", "read again")
    back = read_manifests(lake, [first])[first]
    assert (back.generation, back.forgotten, back.read) == (2, None, old.read)
    assert contents(lake, [first]) == whole


def test_empty_arrays_are_no_rows():
    arrays = {"event": {**BY_FIELD, "rows": "array"}}
    records = [(b"[" + value + b"]", stamp) for value, stamp in (event("click", n) for n in range(170))]
    records[3], records[9] = (b"[]", records[3][1]), (b" [ ]", records[9][1])
    logs = {BIDS: [records]}
    made = compare(pipeline(**arrays), pipeline(**arrays, max_types=1), logs)
    assert [manifest.empty for manifest in made] == [2, 0, 0]
    world, lake = landed(pipeline(**arrays), logs)
    refused(world, lake, pipeline(), "2 of its messages were empty arrays, of which the lake has no row")


def test_a_record_that_was_too_large_stays_so():
    large, at = event("click", 10, text="x" * 1_100_000)
    logs = {BIDS: [[(large, at) if n == 10 else event("click", n) for n in range(170)]]}
    small = pipeline(max_record="1MiB")
    made = compare(small, pipeline(max_record="1MiB", max_types=1), logs)
    assert made[0].rejected_records == {"too large": 1}
    world, lake = landed(small, logs)
    refused(
        world,
        lake,
        pipeline(),
        r"bids/0 offset 10 was too large \(1,100,\d+ bytes\), and `max_record` takes it now",
    )


@pytest.fixture(autouse=True)
def temporary_files_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_few_records_are_made_again_without_starting_spark(monkeypatch):
    """By the engine of the application itself."""
    monkeypatch.syspath_prepend(str(ROOT / "spark_jobs"))
    from engine import SparkEngine

    def no_session(self: object) -> None:
        raise AssertionError

    monkeypatch.setattr(SparkEngine, "session", no_session)
    before, after = (pipeline(**changes) for changes in CHANGES["another time format"])
    world, lake = landed(before, {BIDS: [log(0, 60), log(3, 40)]})
    with SparkEngine("test", lambda said: None) as engine:
        land(after, lake, SLICES, "remake", "again", engine, lambda said: None, no_kafka, accept_loss=True)
    _, oracle = landed(before, world.logs, by=after)
    assert contents(lake, units(after)) == contents(oracle, units(after))


def no_kafka(cluster: object) -> Any:
    raise AssertionError
