"""Files that others can prune: each event's time and the statistics."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.landing_world import World, event, hours, pipeline

START = datetime(2026, 1, 1, tzinfo=UTC)
TOPIC = ("dc1", "bids")
STATISTICS = ["_type", "_event_time", "_timestamp", "_topic", "_partition", "_offset"]
# Of two partitions: the type and minute of each event, so that an hour's events are not in order.
MINUTES = [
    [("click", m % 75) for m in (3, 1, 60, 74, 2, 59, 61, 0)],
    [("view" if m % 2 else "click", m) for m in range(40, 80, 5)],
]


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


def world() -> World:
    """Each record is of the hour in which it was sent: of the first slice."""
    return World({TOPIC: [[(event(kind, m)[0], 1_767_225_600_000) for kind, m in log] for log in MINUTES]})


def expected() -> Counter:
    return Counter(
        (partition, offset, kind, START + timedelta(minutes=minute))
        for partition, log in enumerate(MINUTES)
        for offset, (kind, minute) in enumerate(log)
    )


def landed(lake: FolderLake, world: World, mode: str = "fill", token: str = "t") -> tuple:
    """The units and manifests of two hours, of which the first has everything."""
    spec = pipeline(max_early="3h")
    world.resolve(spec, lake, hours(2))
    world.land(spec, lake, hours(2), mode, token)
    units = [Unit(piece, "dc1") for piece in hours(2)]
    manifests = read_manifests(lake, units)
    return spec, [(unit, manifests[unit]) for unit in units]


def files(lake: FolderLake, found: list) -> list[tuple[Unit, Path]]:
    return [(unit, lake.root / file.key) for unit, manifest in found for file in manifest.files]


def times(lake: FolderLake, found: list) -> Counter:
    names = ["_partition", "_offset", "_type", "_event_time"]
    rows = [row for _, path in files(lake, found) for row in pq.read_table(path, columns=names).to_pylist()]
    return Counter(tuple(row[name] for name in names) for row in rows)


def test_each_row_has_the_time_of_its_event(lake):
    _, found = landed(lake, world())
    assert times(lake, found) == expected()
    for _, path in files(lake, found):
        kind = pq.ParquetFile(path).schema_arrow.field("_event_time").type
        assert kind == pa.timestamp("ms", "UTC")


@pytest.mark.parametrize("merged", [True, False])
def test_statistics_say_what_the_rows_say(lake, monkeypatch, merged):
    monkeypatch.setattr("sluice.flow.land.read.together", lambda run, **_: [run])  # a task for each partition
    if not merged:
        monkeypatch.setattr("sluice.flow.land.merge.SMALL_BYTES", 0)
    _, found = landed(lake, world())
    groups = 0
    for _, path in files(lake, found):
        file = pq.ParquetFile(path)
        for number in range(file.num_row_groups):
            groups += 1
            rows = file.read_row_group(number)
            group = file.metadata.row_group(number)
            seen = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
            for name in STATISTICS:
                values, said = rows[name].to_pylist(), seen[name].statistics
                assert (said.min, said.max) == (min(values), max(values)), name
    assert groups == (4 if merged else 6)


def test_rejected_records_have_statistics_and_no_event_time(lake):
    kafka = World({TOPIC: [[(b"no JSON", 1_767_225_600_123), (b"[]", 1_767_225_600_124)]]})
    _, found = landed(lake, kafka)
    (key,) = [file.key for _, manifest in found for file in manifest.rejected]
    file = pq.ParquetFile(lake.root / key)
    assert "_event_time" not in file.schema_arrow.names
    group = file.metadata.row_group(0)
    seen = {group.column(i).path_in_schema: group.column(i).statistics for i in range(group.num_columns)}
    assert (seen["_offset"].min, seen["_offset"].max) == (0, 1)
    assert (seen["_topic"].min, seen["_partition"].max) == ("bids", 0)
