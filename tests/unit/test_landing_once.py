"""Lines that were shipped twice: one lands, the other is in `_rejected/`, and the counts add up."""

from __future__ import annotations

import base64
import json
from itertools import permutations
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.lake.folder import FolderLake
from sluice.landing.once import Lines
from sluice.manifests import read_manifests
from sluice.slices import Slice, Unit
from tests import landing_world
from tests.landing_world import START, World, event, hours, pipeline

ONCE = {"type": {"field": "type"}, "time": {"field": "at"}, "batch": {"header": "sluice_batch"}}
# By hand: the header of each record of partition 0, and whether it is a second copy.
FIRST_HOUR = [
    ("b1:1", False),
    ("b1:2", False),
    ("b2:1", False),
    ("b1:2", True),
    ("b1:3", False),
    (None, False),
    ("no line", False),
    ("no line", False),
    ("b1:1", True),
    ("x:b1:1", False),
]
NEXT_HOUR = [("b1:1", False), ("b1:1", True)]  # the other slice is not looked into


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    logs = []
    for hour, shipped in enumerate((FIRST_HOUR, NEXT_HOUR)):
        logs += [event("click", hour * 60 + n, shipped=name or "") for n, (name, _) in enumerate(shipped)]
    usual = landing_world.kafka_batch

    def with_headers(place, rows, most=None) -> pa.RecordBatch:
        names = [json.loads(value)["shipped"] for _, value, _ in rows]
        texts = [header(name) if name else None for name in names]
        batch = usual(place, rows, most)
        return batch.set_column(
            batch.schema.get_field_index("headers"), "headers", pa.array(texts, pa.string())
        )

    monkeypatch.setattr(landing_world, "kafka_batch", with_headers)
    return World({("dc1", "bids"): [logs, []]})


def header(name: str) -> str:
    """As Spark's to_json writes a record's headers."""
    return json.dumps([{"key": "sluice_batch", "value": base64.b64encode(name.encode()).decode()}])


def landed(world: World, folder: Path, **changes: object) -> tuple[list[str], list[tuple[str, str]], list]:
    """What is in rows, what is rejected and why, and the manifests."""
    lake, spec = FolderLake(folder), pipeline(**changes)
    world.resolve(spec, lake, hours(2))
    world.land(spec, lake, hours(2))
    units = [Unit(Slice(START.add(hours=n)), "dc1") for n in range(2)]
    manifests = [read_manifests(lake, units)[unit] for unit in units]
    found = [(f, manifest) for manifest in manifests for f in (*manifest.files, *manifest.rejected)]
    rows = {f.key: pq.read_table(folder / f.key).to_pylist() for f, _ in found}
    kept = [json.loads(row["_payload"])["shipped"] for m in manifests for f in m.files for row in rows[f.key]]
    refused = [row for m in manifests for f in m.rejected for row in rows[f.key]]
    told = [(json.loads(row["_payload"])["shipped"], row["_reason"]) for row in refused]
    return sorted(kept), sorted(told), manifests


def test_the_second_copy_of_a_line_is_rejected(world: World, tmp_path: Path):
    kept, told, manifests = landed(world, tmp_path, event=ONCE)
    every = [*FIRST_HOUR, *NEXT_HOUR]
    assert kept == sorted(name or "" for name, twice in every if not twice)
    assert told == sorted((name, "shipped twice") for name, twice in every if twice)
    counts = [(m.read, m.parsed, dict(m.unparsed)) for m in manifests]
    assert counts == [(10, 8, {"shipped twice": 2}), (2, 1, {"shipped twice": 1})]


def test_without_the_key_every_copy_lands(world: World, tmp_path: Path):
    kept, told, _ = landed(world, tmp_path)
    assert (len(kept), told) == (12, [])


def test_a_set_of_lines_whatever_their_order():
    for order in permutations(range(6)):
        lines = Lines()
        assert [lines.add(line) for line in order] == [True] * 6
        assert [lines.add(line) for line in range(-1, 7)] == [True, *[False] * 6, True]
    random, lines, known = Random(7), Lines(), set()
    for _ in range(5_000):
        line = random.randrange(800)
        assert lines.add(line) is (line not in known)
        known.add(line)
