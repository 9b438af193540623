"""`sluice init` proposes `change` for a topic whose messages say what changed in a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from sluice.clients.kafka.topics import SampledRecord
from sluice.init import init as room
from sluice.init.sample import Sample
from tests.unit.init.test_init import NOW, request

SOURCE = {"table": "customer", "name": "pg", "ts_ms": 1795168800000}
ROW = {"id": 1, "name": "x"}
DEBEZIUM = [
    {"before": None, "after": ROW, "source": SOURCE, "op": "c", "ts_ms": 1},
    {"schema": {}, "payload": {"before": None, "after": ROW, "source": SOURCE, "op": "u", "ts_ms": 1}},
    {"before": ROW, "after": None, "source": SOURCE, "op": "d", "ts_ms": 1},
]
PLAIN = [{"op": "c", "id": 1}, {"payload": {"id": 1}}, {"before": 1, "op": "x"}]
CHANGED = {"type": {"topic": True}, "change": "debezium"}
RECORD = {"type": {"topic": True}, "time": {"record": True}}


def proposed(folder: Path, monkeypatch, values: list, keys: list | None = None) -> dict:
    texts = [None if value is None else json.dumps(value).encode() for value in values]
    records = tuple(
        SampledRecord("t", 0, number, 1795168800000, text, (), None, key)
        for number, (text, key) in enumerate(zip(texts, keys or [None] * len(texts), strict=True))
    )
    monkeypatch.setattr(room, "sample_topic", lambda *_: Sample(records, "a topic"))
    report = room.init(request(folder, topic="t", bootstrap="k:1"), lambda one: "", NOW)
    return yaml.safe_load(report.files[0].read_text())


@pytest.mark.parametrize("tombstones", [0, 2])
def test_of_debezium(tmp_path, monkeypatch, tombstones):
    found = proposed(tmp_path, monkeypatch, [*DEBEZIUM, *[None] * tombstones])
    assert found["event"] == {**CHANGED, "time": {"field": "__source.ts_ms", "format": "epoch_ms"}}


def test_of_a_compacted_topic(tmp_path, monkeypatch):
    keys = [b'{"id": 1}', b'{"id": 1}', b'{"id": 2}']
    found = proposed(tmp_path, monkeypatch, [{"name": "x"}, None, {"name": "y"}], keys)
    assert found["event"] == {**RECORD, "change": "compacted"}


@pytest.mark.parametrize("keys", [None, [b"1", b"2", b"3", b"4"]])
def test_not_of_events(tmp_path, monkeypatch, keys):
    found = proposed(tmp_path, monkeypatch, [*PLAIN, None], keys)
    assert "change" not in found["event"]
