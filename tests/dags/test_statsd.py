"""Airflow's StatsD logger takes every sample with all its labels: it drops what it does not understand."""

from __future__ import annotations

import pytest
from airflow.sdk._shared.observability.metrics.statsd_logger import get_statsd_logger

from sluice.airflow import metrics
from sluice.metrics.meter import sample
from sluice.metrics.table import METRICS, NAMES, MetricKind
from tests.support.hostile_texts import HALVES, TEXTS

EVERY = {**TEXTS, **HALVES, "of the set": "click", "long and foreign": "日本" * 100}
OWN = {"partition": "2147483647", "error": "FieldsThatAreNoLongerThere"}


class Client:
    """In place of the package statsd's: what would go onto the wire."""

    def __init__(self, *_: object) -> None:
        self.sent: list[tuple[str, float]] = []

    def incr(self, name: str, value: float, _rate: float) -> None:
        self.sent.append((name, value))

    def gauge(self, name: str, value: float, _rate: float, _delta: bool) -> None:
        self.sent.append((name, value))

    def timing(self, name: str, value: object) -> None:
        self.sent.append((name, value.total_seconds()))


@pytest.fixture
def client(monkeypatch) -> Client:
    logger = get_statsd_logger(stats_class=Client, influxdb_tags_enabled=True, statsd_influxdb_enabled=True)
    monkeypatch.setattr(metrics, "stats", logger)
    return logger.statsd


@pytest.mark.parametrize("text", EVERY.values(), ids=EVERY)
def test_no_sample_is_dropped(client: Client, text: str):
    """Whatever its names are, the longest name of a metric with the most labels, too."""
    for metric in METRICS.values():
        labels = {name: text if name in NAMES else OWN.get(name, "a word") for name in metric.labels}
        metrics.to_airflow(sample(metric.name, 3, **labels))
    assert [value for _, value in client.sent] == [3] * len(METRICS)
    for (name, _), metric in zip(client.sent, METRICS.values(), strict=True):
        tags = dict(tag.split("=") for tag in name.split(",")[1:])
        assert (name.split(",")[0], tuple(tags)) == (metric.full_name, metric.labels)
        assert {v for k, v in tags.items() if k not in NAMES} <= {"a_word", *OWN.values()}
    assert {metric.kind for metric in METRICS.values()} == set(MetricKind)
