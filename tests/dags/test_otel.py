"""Airflow's metrics over OpenTelemetry: what a collector gets from a task's process, on the wire."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA as DELTA
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

SECONDS = 120
# Airflow's own start of a task's process, and samples of each kind.
TASK = """
from airflow.sdk.execution_time.task_runner import stats, stats_utils
from sluice.airflow.metrics import measuring
from sluice.metrics.meter import count
stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
with measuring("p", "land"):
    count("records_read", 5, pipeline="p", cluster="dc1")
    count("records_read", 7, pipeline="p", cluster="dc1")
    count("records_read", 11, pipeline="p", cluster="dc=2")
    count("lag_records", 41, pipeline="p")
    count("lease_wait", 2.5, pipeline="p", table="e.clicks")
"""


@dataclass
class Collector:
    """An OTLP collector's ear (HTTP, protobuf)."""

    port: int = 0
    paths: set[str] = field(default_factory=set)
    metrics: list[Metric] = field(default_factory=list)

    def hear(self, path: str, body: bytes) -> None:
        self.paths.add(path)
        asked = ExportMetricsServiceRequest.FromString(body)
        for resource in asked.resource_metrics:
            for scope in resource.scope_metrics:
                self.metrics.extend(scope.metrics)

    def named(self, name: str) -> list[Metric]:
        """Its exports: a flush at the end of a process sends gauges once more."""
        return [metric for metric in self.metrics if metric.name == f"airflow.sluice.{name}"]

    def points(self, name: str) -> list[tuple[dict[str, str], Any]]:
        """(labels, point) of every export."""
        found = [p for m in self.named(name) for p in getattr(m, m.WhichOneof("data")).data_points]
        return [({a.key: a.value.string_value for a in p.attributes}, p) for p in found]


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.hear(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        server.shutdown()


def test_what_a_task_sends_to_a_collector(collector: Collector):
    """As docs/guide/metrics.md says to set it: counters as deltas, timers as histograms in milliseconds."""
    environment = {
        **os.environ,
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
    }
    ran = subprocess.run(
        [sys.executable, "-c", TASK], env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert ran.returncode == 0, ran.stderr
    assert collector.paths == {"/v1/metrics"}

    read: Counter[tuple[str, str]] = Counter()
    for labels, point in collector.points("records_read"):
        read[labels["pipeline"], labels["cluster"]] += point.as_int
    assert read == {("p", "dc1"): 12, ("p", "dc/x3d2"): 11}
    for metric in collector.named("records_read"):
        assert metric.sum.is_monotonic and metric.sum.aggregation_temporality == DELTA

    gauges = collector.points("lag_records")
    assert {metric.WhichOneof("data") for metric in collector.named("lag_records")} == {"gauge"}
    assert [(labels, point.as_int) for labels, point in gauges[-1:]] == [({"pipeline": "p"}, 41)]

    waited = collector.points("lease_wait")
    assert {metric.unit for metric in collector.named("lease_wait")} == {"ms"}
    assert (sum(point.count for _, point in waited), sum(point.sum for _, point in waited)) == (1, 2500)
    assert collector.named("step_seconds") and collector.named("step_runs")
