"""A file of the lake that holds something else is an anomaly that names it, and stops no verify."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.flow.contents.check_lake_rows import check_unit
from sluice.flow.contents.compare import ContentsReport, Share
from sluice.flow.contents.sampling import choose, rows_in
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline

UNITS = [Unit(slice_, "dc1") for slice_ in hours(2)]
SECOND = UNITS[1]
ROWS = 60


@pytest.fixture(scope="module")
def landed() -> MemoryLake:
    """Two hours of clicks, of which the second is damaged by each test."""
    log = [event("click", hour * 60 + n / 2, n=n) for hour in range(2) for n in range(ROWS)]
    lake, world = MemoryLake(), World({("dc1", "bids"): [log]})
    world.resolve(pipeline(), lake, hours(2))
    world.land(pipeline(), lake, hours(2))
    return lake


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def damaged(lake: MemoryLake, change: Any) -> tuple[MemoryLake, Manifest]:
    manifest = read_manifests(lake, UNITS)[SECOND]
    [file] = manifest.held_events
    rows = pq.read_table(io.BytesIO(lake.objects[file.key][0]))
    return MemoryLake(objects={**lake.objects, file.key: (parquet(change(rows)), 1)}), manifest


def without(name: str) -> Any:
    return lambda rows: rows.drop_columns(name)


def instead(name: str, values: pa.Array) -> Any:
    return lambda rows: rows.set_column(rows.column_names.index(name), name, values)


def nulls(name: str) -> Any:
    return lambda rows: instead(name, pa.nulls(ROWS, rows.schema.field(name).type))(rows)


FOREIGN = [
    (lambda _: pa.table({"x": [1] * ROWS}), "it has no column _cluster"),
    (without("_payload"), "it has no column _payload"),
    (without("_offset"), "it has no column _offset"),
    (without("_timestamp"), "it has no column _timestamp"),
    (nulls("_offset"), "60 rows have no _offset"),
    (nulls("_topic"), "60 rows have no _topic"),
    (nulls("_type"), "60 rows have no _type"),
    (instead("_partition", pa.array(["x"] * ROWS)), "x"),
    (instead("_payload", pa.array([[1]] * ROWS)), "list"),
    (
        instead("_topic", pa.array([b"\xff"] * ROWS, pa.binary()).view(pa.string())),
        "UTF8",
    ),
]


def seen(anomalies: list[Anomaly], manifest: Manifest) -> str:
    """What is seen of the one anomaly, which is of the file."""
    [anomaly] = anomalies
    [file] = manifest.held_events
    assert (anomaly.kind, anomaly.file) == (AnomalyKind.ROW_PAYLOAD, file.key)
    assert anomaly.command == Repairs("demo").reland(SECOND.slice)
    return anomaly.seen


def share_of(lake: MemoryLake, manifest: Manifest) -> ContentsReport:
    [chosen] = choose([(SECOND, manifest)])
    report = ContentsReport()
    share = Share(pipeline(), lake, Repairs("demo"), tables=())
    share.check([], chosen, cast("Any", SimpleNamespace()), report)
    return report


@pytest.mark.parametrize(("change", "said"), FOREIGN)
def test_a_file_of_other_columns_is_told(landed: MemoryLake, change: Any, said: str):
    lake, manifest = damaged(landed, change)
    contents = check_unit(pipeline(), lake, SECOND, manifest, Repairs("demo"))
    assert said in seen(contents.anomalies, manifest)
    report = share_of(lake, manifest)
    assert said in seen(report.anomalies, manifest)
    assert report.rows == 0


def test_a_share_of_a_file_with_other_rows_than_its_manifest_says(landed: MemoryLake):
    lake, manifest = damaged(landed, lambda rows: rows.slice(0, 0))
    assert seen(share_of(lake, manifest).anomalies, manifest) == "it has 0 rows, and its manifest says 60"


@pytest.mark.parametrize("groups", [0, 1])
def test_a_row_group_without_rows_is_a_share_without_rows(landed: MemoryLake, groups: int):
    manifest = read_manifests(landed, UNITS)[SECOND]
    [chosen] = choose([(SECOND, manifest)])
    sink = io.BytesIO()
    rows = pq.read_table(io.BytesIO(landed.objects[chosen.file.key][0]))
    with pq.ParquetWriter(sink, rows.schema) as writer:
        for _ in range(groups):
            writer.write_table(rows.slice(0, 0))
    file = SimpleNamespace(key=chosen.file.key, rows=0)
    lake = MemoryLake(objects={chosen.file.key: (sink.getvalue(), 1)})
    sampled = rows_in(lake, cast("Any", SimpleNamespace(file=file, number=chosen.number)))
    assert (sampled.num_rows, sampled.column_names) == (0, rows.column_names)
    whole = rows_in(landed, chosen)
    assert (whole.num_rows, whole.column_names) == (ROWS, rows.column_names)
