"""How landings and loads were done, and what clients did, as samples: values from counts on paper."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pendulum
import pytest
from clickhouse_connect.driver.summary import QuerySummary

from sluice.clients.clickhouse.client import Client
from sluice.clients.lake import s3_client
from sluice.clients.lake.settings import S3Settings
from sluice.errors import ClickHouseUnavailable
from sluice.flow import metrics
from sluice.flow.load.work import LoadResult, UnitLoad
from sluice.flow.metrics import landing_shape, landing_totals
from sluice.manifest import FieldSeen, LandedFile, PartitionCount, Traffic, TypeFields
from sluice.metrics import meter
from sluice.metrics.meter import Metered, MetricSample, SparkStage, count_stages
from sluice.metrics.table import METRICS
from sluice.slices import Slice, Unit
from tests.support.manifests import made_manifest
from tests.unit.doctor.test_doctor_kafka import pipeline


def values(found: Iterable[MetricSample]) -> dict[tuple[str, ...], float]:
    """By name and the labels beside pipeline and cluster."""
    return {
        (one.metric.name, *[v for k, v in one.labels.items() if k not in ("pipeline", "cluster")]): one.value
        for one in found
    }


def file(kind: str, rows: int, size: int) -> LandedFile:
    return LandedFile("k", "a", kind, "2026-11-20T10", rows, size, "")


def test_the_shape_of_a_landing():
    """Three partitions of 10, 20 and 60 records; a click has two fields; landed ten minutes after its end."""
    manifest = made_manifest(
        *("p", "2026-11-20T10Z", "dc1", 1, "a", (), (file("click", 60, 3_000_000),), (), 90, {}, 0),
        landed_at="2026-11-20T11:10:00Z",
        counts=tuple(PartitionCount("bids", n, read, 0) for n, read in enumerate((10, 20, 60))),
        traffic=(Traffic("e.traffic", {}, (), {}, (file("counts", 7, 2_000_000),)),),
        empty=4,
        fields=(TypeFields("click", 60, True, {"a": FieldSeen(60, {}), "b": FieldSeen(3, {})}),),
    )
    spec = pipeline(tables={"click": "e.clicks", "*": "e.other"})
    assert values(landing_shape(spec, [manifest], {"pipeline": "p", "cluster": "dc1"})) == {
        ("partitions_landed",): 3,
        ("partition_skew",): 2.0,
        ("bytes_per_row",): 50_000,
        ("rows_per_file",): 60,
        ("largest_file_bytes",): 3_000_000,
        ("fields_landed", "click"): 2,
        ("landing_delay_seconds",): 600,
    }
    totals = landing_totals([manifest, replace(manifest, read=0, empty=0)])
    assert (totals["files_small"], totals["counts_landed"], totals["bytes_counts"]) == (0, 14, 4_000_000)
    assert (totals["records_empty"], totals["units_empty"]) == (4, 1)


def load_result(*units: tuple[int, int, bool]) -> LoadResult:
    """`(rows, rejected rows, loaded)` of each unit; five statements made ten blocks."""
    hours = [Slice(pendulum.datetime(2026, 11, 20, n)) for n in range(len(units))]
    loads = [UnitLoad(Unit(piece, "dc1"), "m", *unit) for piece, unit in zip(hours, units, strict=True)]
    return LoadResult("e.clicks", tuple(loads), statements=5, blocks=10)


def test_the_shape_of_a_load():
    """What was committed before counts in no share."""
    result = load_result((80, 20, True), (1_000, 500, False))
    assert values(metrics.load_shape("p", "e.clicks", result, 4.0, [("price", 15), ("", 5)])) == {
        ("rejected_rows_by_column", "e.clicks", "price"): 15,
        ("rejected_rows_by_column", "e.clicks", "_event"): 5,
        ("values_defaulted", "e.clicks"): 0,
        ("load_statements", "e.clicks"): 5,
        ("load_blocks", "e.clicks"): 10,
        ("load_seconds", "e.clicks"): 4.0,
        ("load_rows_per_second", "e.clicks"): 25.0,
        ("rows_per_block", "e.clicks"): 10.0,
        ("rejected_share", "e.clicks"): 0.2,
        ("column_rejected_share", "e.clicks", "price"): 0.15,
        ("column_rejected_share", "e.clicks", "_event"): 0.05,
    }
    assert values(metrics.load_shape("p", "e.clicks", load_result((9, 1, False)), 4.0, [])) == {}


def test_what_clients_did_is_sent_once_with_the_pipeline():
    list(meter.drain("earlier"))
    meter.add("bucket_requests", operation="GetObject")
    meter.add("bucket_requests", operation="GetObject")
    meter.add("bucket_requests", operation="PutObject")
    meter.add("bucket_bytes_sent", 700)
    meter.took("insert_seconds", 1.5)
    assert values(meter.drain("p")) == {
        ("bucket_requests", "GetObject"): 2,
        ("bucket_requests", "PutObject"): 1,
        ("bucket_bytes_sent",): 700,
        ("insert_seconds",): 1.5,
    }
    assert list(meter.drain("p")) == []


def test_what_another_process_did_counts_as_this_ones():
    meter.take()
    meter.add("bucket_requests", operation="GetObject")
    meter.add("bytes_discarded", 30)
    meter.took("spark_stage_seconds", 2.5)
    handed = meter.take()
    assert list(meter.drain("p")) == []
    meter.add("bytes_discarded", 12)
    meter.put(handed)
    assert meter.total("bytes_discarded") == 42
    assert values(meter.drain("p")) == {
        ("bytes_discarded",): 42,
        ("bucket_requests", "GetObject"): 1,
        ("spark_stage_seconds",): 2.5,
    }
    assert meter.total("bytes_discarded") == 0


def test_stages_of_spark():
    """Of four tasks one failed and was tried again: five tries, 10 s together."""
    meter.take()
    count_stages([SparkStage(5, 1, 6.0, 10.0, 700, 30), SparkStage(1, 0, 0.5, 0.25, 0, 0)])
    taken = meter.take()
    assert taken.counts == (
        ("spark_stages", {}, 2),
        ("spark_tasks", {}, 6),
        ("spark_tasks_failed", {}, 1),
        ("spark_shuffle_bytes", {}, 700),
        ("spark_spilled_bytes", {}, 30),
    )
    assert sorted(taken.times) == [
        ("spark_stage_seconds", 0.5),
        ("spark_stage_seconds", 6.0),
        ("spark_task_seconds", 0.25),
        ("spark_task_seconds", 2.0),
    ]


def test_bytes_that_are_written_for_each_that_is_kept():
    """900 bytes of events and 100 of rejected records stay, 250 were removed."""
    manifest = made_manifest(
        *("p", "2026-11-20T10Z", "dc1", 1, "a", (), (file("click", 60, 900),)),
        *((file("", 2, 100),), 62, {}, 0),
    )
    driver = Metered((("bucket_requests", {"operation": "PutObject"}, 7), ("bytes_discarded", {}, 250)))
    assert values(metrics.written("p", [manifest], driver)) == {("bytes_written_per_byte_kept",): 1.25}
    assert values(metrics.written("p", [], driver)) == {}


def test_rows_that_are_inserted_for_each_that_stays():
    found = values(metrics.load_shape("p", "e.clicks", load_result((80, 20, True)), 4.0, [], inserted=210))
    assert found["rows_written_per_row_kept", "e.clicks"] == 2.1


@pytest.mark.parametrize(
    ("sql", "said", "counted"),
    [
        ("INSERT INTO t SELECT 1", {"written_rows": "7", "written_bytes": "900"}, (7, 900)),
        ("INSERT INTO t SELECT 1", {"written_rows": "many", "written_bytes": "-1"}, (0, 0)),
        ("INSERT INTO t SELECT 1", {}, (0, 0)),
        ("ALTER TABLE t", {"written_rows": "7", "written_bytes": "900"}, (0, 0)),
    ],
)
def test_rows_and_bytes_of_an_insert_are_the_servers(
    sql: str, said: dict[str, str], counted: tuple[int, int]
):
    class Driver:
        def command(self, *_: object, **__: object) -> QuerySummary:
            return QuerySummary(said)

    meter.take()
    Client(Driver(), "h:1").run(sql)
    assert (meter.total("insert_rows"), meter.total("insert_bytes")) == counted


def test_times_of_one_step_have_a_bound():
    list(meter.drain("earlier"))
    for _ in range(meter.MOST_TIMES + 5):
        meter.took("insert_seconds", 1)
    assert len(list(meter.drain("p"))) == meter.MOST_TIMES


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("-- Why.\nINSERT INTO t SELECT 1", "INSERT"),
        ("  select 1", "SELECT"),
        ("OPTIMIZE TABLE t", "other"),
        ("", "other"),
    ],
)
def test_a_statement_counts_by_its_first_word(sql: str, kind: str):
    class Driver:
        def command(self, *_: object, **__: object) -> None:
            raise OSError("gone")

    list(meter.drain("earlier"))
    with pytest.raises(ClickHouseUnavailable):
        Client(Driver(), "h:1").run(sql)
    found = values(meter.drain("p"))
    assert found["clickhouse_statements", kind] == found["clickhouse_failures", kind] == 1
    assert (("insert_seconds",) in found) is (kind == "INSERT")


def test_there_are_more_than_a_hundred():
    assert len(METRICS) > 100


class Store(BaseHTTPRequestHandler):
    """A bucket that takes every object and gives 700 bytes for each."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "700")
        self.end_headers()
        self.wfile.write(b"x" * 700)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def test_requests_to_a_bucket_and_their_bytes_are_counted():
    server = HTTPServer(("127.0.0.1", 0), Store)
    Thread(target=server.serve_forever, daemon=True).start()
    made = s3_client.client(
        S3Settings(f"http://127.0.0.1:{server.server_port}", "us-east-1", "key", "secret", addressing="path")
    )
    list(meter.drain("earlier"))
    made.put_object(Bucket="b", Key="k", Body=b"y" * 300, ChecksumAlgorithm="CRC32")
    assert made.get_object(Bucket="b", Key="k")["Body"].read() == b"x" * 700
    server.shutdown()
    assert values(meter.drain("p")) == {
        ("bucket_requests", "PutObject"): 1,
        ("bucket_requests", "GetObject"): 1,
        ("bucket_bytes_sent",): 300,
        ("bucket_bytes_received",): 700,
    }
