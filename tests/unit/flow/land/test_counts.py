"""Traffic counts in the landing: what is counted, once, whatever happens to the tasks and the records."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.base import Lake
from sluice.clients.lake.folder import FolderLake
from sluice.flow.land import merge
from sluice.flow.land.task import count_fields as count_tally
from sluice.manifest import Manifest
from sluice.slices import Slice, Unit
from sluice.state.manifests import read_manifests
from sluice.state.status import uncounted
from tests.support.landing_world import SPEC as LANDING
from tests.support.landing_world import START, World, event, hours, pipeline
from tests.support.long_form import per_commit
from tests.unit.flow.land import test_landing_crashes as crashes

BIDS = ("dc1", "bids")
SPEC = {"table": "db.traffic", "by": ["country", "device.os"]}
Key = tuple


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


def record(kind: str, minute: float, arrives: float | None = None, **more: object) -> tuple[bytes, int]:
    """An event of `minute` that reaches Kafka at minute `arrives`."""
    fields = {"type": kind, "at": START.add(minutes=minute).isoformat(), **more}
    return json.dumps(fields).encode(), event(minute=minute if arrives is None else arrives)[1]


def expected(records: list[tuple[bytes, int]], types: tuple[str, ...] = ()) -> Counter[Key]:
    """By (slice, hour, type, country, os): of the published events themselves, with Python's own JSON."""
    found: Counter[Key] = Counter()
    for value, stamp in records:
        fields = json.loads(value)
        device = fields.get("device")
        os = device.get("os") if isinstance(device, dict) else None
        piece = START.add(hours=int((stamp / 1000 - START.timestamp()) // 3600)).strftime("%Y-%m-%dT%HZ")
        if not types or fields["type"] in types:
            hour = fields["at"][:13] + ":00:00Z"
            found[piece, hour, fields["type"], json.dumps(fields.get("country")), json.dumps(os)] += 1
    return found


def rows_of(lake: Lake, manifests: list[Manifest], table: str = "db.traffic") -> list[tuple]:
    """(slice, hour, type, country, os, count) of every row of counts that the manifests name."""
    found = []
    for manifest in manifests:
        for file in manifest.traffic_for(table).files:
            with lake.local(file.key) as path:
                rows = pq.read_table(path)["_payload"].to_pylist()
            for row in rows:
                fields = json.loads(row)
                texts = (json.dumps(fields[name]) for name in ("country", "device_os"))
                found.append((manifest.slice, fields["hour"], fields["type"], *texts, fields["count"]))
    return found


def land(lake: FolderLake, records: list, spec=SPEC, **options) -> list[Manifest]:
    made, world = pipeline(counts=[spec]), World({BIDS: [records[::2], records[1::2]]})
    world.resolve(made, lake, hours(4))
    world.land(made, lake, hours(4), **options)
    units = [Unit(piece, "dc1") for piece in hours(4)]
    return list(read_manifests(lake, units).values())


def traffic(count: int) -> list[tuple[bytes, int]]:
    """Events in the order of their arrival; every seventh comes an hour and a half late."""
    found = []
    for n in range(count):
        minute = n * 120 / count
        found.append(
            record(
                ("click", "bid", "view")[n % 3],
                minute,
                minute + 90 if n % 7 == 0 else None,
                country=(None, "DE", "US", 'a"\\é', 7)[n % 5],
                device=({"os": "ios"}, {"os": "android", "x": [1]}, {}, None, "odd")[n % 4 if n % 50 else 4],
            )
        )
    return sorted(found, key=lambda item: item[1])


def test_counts_are_those_of_the_events_that_landed(lake):
    records = traffic(600)
    manifests = land(lake, records)
    rows = rows_of(lake, manifests)
    assert {row[:-1]: row[-1] for row in rows} == expected(records)
    assert len(rows) == len(expected(records)), "a key is there twice"
    by_type = Counter()
    for manifest in manifests:
        assert dict(manifest.traffic_for("db.traffic").sums) == manifest.rows_by_type()
        by_type.update(manifest.rows_by_type())
    assert by_type == Counter(json.loads(value)["type"] for value, _ in records)


def test_tasks_that_run_twice_and_memory_that_is_small_change_nothing(lake, monkeypatch):
    monkeypatch.setattr(count_tally, "MOST_BYTES", 1000)
    monkeypatch.setattr(merge, "FAN_IN", 3)
    monkeypatch.setattr(merge, "_ROWS_WRITTEN", 5)
    records = traffic(600)
    rows = rows_of(lake, land(lake, records, twice=True))
    assert {row[:-1]: row[-1] for row in rows} == expected(records)
    assert len(rows) == len(expected(records))
    assert not list(lake.list("_attempts/"))


def test_a_slice_that_is_read_once_more_counts_once(lake):
    """A record above 64 KiB: its slice is cut, and landed by the second read, in which it is whole."""
    records = traffic(200)
    large = record("click", 30, country="FR", pad="x" * 70_000)
    records = sorted([*records, large], key=lambda item: item[1])
    rows = rows_of(lake, land(lake, records))
    assert {row[:-1]: row[-1] for row in rows} == expected(records)


def test_only_the_types_that_are_asked_for(lake):
    records = traffic(300)
    manifests = land(lake, records, {**SPEC, "types": ["bid", "none"]})
    rows = rows_of(lake, manifests)
    assert {row[:-1]: row[-1] for row in rows} == expected(records, ("bid", "none"))


def test_without_fields_and_without_rows(lake):
    records = [record("click", m) for m in (1, 2, 3)]
    manifests = land(lake, [*records, (b"oops", records[-1][1])], {"table": "db.traffic"})
    assert [len(m.traffic_for("db.traffic").files) for m in manifests] == [1, 0, 0, 0]
    (row,) = pq.read_table(lake.root / manifests[0].traffic[0].files[0].key).to_pylist()
    assert json.loads(row["_payload"]) == {"hour": "2026-01-01T00:00:00Z", "type": "click", "count": 3}


def test_what_the_parser_takes_is_counted_however_deep_it_is(lake):
    """A task for each record: beside one that is refused, records are parsed one by one."""
    value, stamp = record("click", 1, country="DE")
    nests = [b"[" * depth + b"]" * depth for depth in range(890, 910)]
    beside = [(value[:-1] + b',"x":' + nest + b"}", stamp) for nest in nests]
    inside = [(value[:-1] + b',"device":{"os":' + nest + b"}}", stamp) for nest in nests]
    made, world = pipeline(counts=[SPEC]), World({BIDS: [[*beside, *inside]]})
    world.resolve(made, lake, hours(1))
    world.land(made, lake, hours(1), rows_per_read=1)
    (manifest,) = read_manifests(lake, [Unit(Slice(START), "dc1")]).values()
    refused = {
        row["_payload"]
        for file in manifest.rejected
        for row in pq.read_table(lake.root / file.key).to_pylist()
    }
    assert len(refused) == 10 + 11 and manifest.rejected_records == {"nested too deep": len(refused)}
    wanted = Counter("null" for text, _ in beside if text not in refused)
    wanted.update(nest.decode() for nest, (text, _) in zip(nests, inside, strict=True) if text not in refused)
    assert Counter({row[4]: row[-1] for row in rows_of_texts(lake, manifest)}) == wanted


def rows_of_texts(lake: Lake, manifest: Manifest) -> list[tuple]:
    """As `rows_of`, with each field's own text: Python's reader of JSON takes no deeper ones either."""
    (file,) = manifest.traffic_for("db.traffic").files
    with lake.local(file.key) as path:
        rows = pq.read_table(path)["_payload"].to_pylist()
    form = re.compile(r'{"hour":"(.*?)","type":"(.*?)","country":(.*?),"device_os":(.*),"count":(\d+)}')
    found = [form.fullmatch(row).groups() for row in rows]
    return [(manifest.slice, *fields, int(count)) for *fields, count in found]


def test_each_row_of_a_message_counts(lake):
    """`rows: array`, with an element that cannot be a row: it is not counted either."""
    records = traffic(120)
    first, stamp = records[0]
    message = b"[" + b",".join(value for value, _ in records) + b',{"type":1}]'
    made = pipeline(counts=[SPEC], event={**LANDING["event"], "rows": "array"})
    world = World({BIDS: [[(message, stamp), (b"[]", stamp), (b"[" + first + b"]", stamp)]]})
    world.resolve(made, lake, hours(1))
    world.land(made, lake, hours(1))
    rows = rows_of(lake, list(read_manifests(lake, [Unit(Slice(START), "dc1")]).values()))
    assert {row[:-1]: row[-1] for row in rows} == expected([(v, stamp) for v, _ in [*records, records[0]]])


def test_types_beyond_the_folders_are_counted_under_their_own_names(lake):
    made = pipeline(counts=[SPEC], max_types=1)
    records = [record(kind, n / 10) for n, kind in enumerate("abcab" * 4)]
    world = World({BIDS: [records]})
    world.resolve(made, lake, hours(1))
    world.land(made, lake, hours(1))
    (manifest,) = read_manifests(lake, [Unit(Slice(START), "dc1")]).values()
    assert dict(manifest.traffic[0].sums) == {"a": 8, "b": 8, "c": 4}


def test_a_remake_makes_the_counts_and_a_reland_keeps_them(lake):
    records = traffic(100)
    made, world = pipeline(counts=[SPEC]), World({BIDS: [records]})
    world.resolve(made, lake, hours(4))
    world.land(pipeline(), lake, hours(4))
    units = [Unit(piece, "dc1") for piece in hours(4)]
    assert all(m.traffic_for("db.traffic") is None for m in read_manifests(lake, units).values())
    world.land(made, lake, hours(4), "reland", "as it landed")
    assert all(m.traffic_for("db.traffic") is None for m in read_manifests(lake, units).values())
    world.land(made, lake, hours(4), "remake", "counted")
    for now in (made, pipeline()):
        world.land(now, lake, hours(4), "reland", f"with {len(now.counts)}")
    manifests = list(read_manifests(lake, units).values())
    assert {row[:-1]: row[-1] for row in rows_of(lake, manifests)} == expected(records)
    there = sorted(item.key for item in lake.list("_counts/"))
    assert there == sorted(file.key for m in manifests for one in m.traffic for file in one.files)


@pytest.mark.parametrize("mode", per_commit(["reland", "fill"]))
def test_killed_before_any_step_and_repeated(mode, monkeypatch):
    monkeypatch.setattr(crashes, "SPEC", pipeline(counts=[SPEC]))

    def seen(lake: Lake) -> tuple:
        return crashes.visible(lake), sorted(
            rows_of(lake, list(read_manifests(lake, crashes.UNITS).values()))
        )

    whole = crashes.prepared(with_first=mode == "reland")
    crashes.world().land(crashes.SPEC, whole, hours(2), mode, "one")
    wanted, kills = seen(whole), 0
    assert sum(row[-1] for row in wanted[1]) == 19, "eighteen in one partition, one in the other"
    while True:
        lake = crashes.prepared(with_first=mode == "reland")
        try:
            crashes.world().land(crashes.SPEC, crashes.Mortal(lake, kills), hours(2), mode, "one")
            break
        except crashes.Killed:
            kills += 1
        crashes.world().land(crashes.SPEC, lake, hours(2), mode, "one")
        assert seen(lake) == wanted, f"killed before step {kills - 1}"
    assert kills > 18, "four steps more than without counts: two files written, two moved"


def test_plan_names_slices_that_were_counted_otherwise(lake):
    (manifest, *_) = land(lake, traffic(20))
    assert uncounted(pipeline(counts=[SPEC]), manifest) == ()
    for other in ({**SPEC, "by": ["country"]}, {**SPEC, "types": ["bid"]}, {"table": "db.more"}):
        assert uncounted(pipeline(counts=[other]), manifest) == (other["table"],)
    assert uncounted(pipeline(), manifest) == ()
