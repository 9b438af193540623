"""The end of a span whose last records are not there, on a broker that is asked and answers at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import pytest
from kafka import TopicPartition
from kafka.errors import KafkaTimeoutError
from kafka.protocol.consumer import IsolationLevel

from sluice.clients.kafka import records as own
from sluice.clients.kafka.fetch import FetchAdmin, Fetched
from sluice.clients.kafka.record_batch import stored_batches
from sluice.clients.kafka.records import BoundedReader, OffsetSpan
from sluice.clients.kafka.settings import KafkaSettings
from sluice.errors import KafkaUnavailable
from tests.support.stored_batch import batch, record

POLICY = {"topic": {"t": {"cleanup.policy": {"value": "compact,delete"}}}}
PLACE = TopicPartition("t", 0)


@dataclass
class Compacted(FetchAdmin):
    """Offsets 3 and 4 are left of all up to `end`; the log goes on behind it, unavailable."""

    end: int
    policy: dict = field(default_factory=lambda: POLICY)
    fetched: list[int] = field(default_factory=list)

    def fetch(self, place: TopicPartition, offset: int, *_: object) -> Fetched:
        self.fetched.append(offset)
        data = batch([record(0, b"three"), record(1, b"four")], 2, "none", 7, start=3)
        batches = [one for one in stored_batches(data) if one.until > offset]
        return Fetched(tuple(batches), end=self.end)

    def describe_configs(self, *_: object, **__: object) -> dict:
        return self.policy


@contextmanager
def reading(monkeypatch: pytest.MonkeyPatch, client: Compacted) -> Iterator[BoundedReader]:
    monkeypatch.setattr(own, "fetching", lambda _: nullcontext(client))
    with BoundedReader(KafkaSettings("dc1", "nowhere:1", "read_committed"), 1 << 20) as reader:
        yield reader


def test_a_span_whose_last_records_compaction_removed_ends(monkeypatch: pytest.MonkeyPatch):
    client = Compacted(end=9)
    with reading(monkeypatch, client) as reader:
        found = [
            list(one.values) for one in reader.read([OffsetSpan("t", 0, 0, 9), OffsetSpan("t", 0, 4, 9)])
        ]
    assert found == [[b"three", b"four"], [b"four"]]
    assert client.fetched == [0, 5, 4, 5]
    batches = list(client.batches(PLACE, 0, 9, IsolationLevel.READ_COMMITTED))
    assert [(one.start, one.until) for one in batches] == [(3, 5)]


@pytest.mark.parametrize(("end", "policy"), [(8, POLICY), (9, {}), (9, {"topic": {"t": {}}})])
def test_what_may_still_come_is_waited_for(monkeypatch: pytest.MonkeyPatch, end: int, policy: dict):
    """Records that cannot be read yet, and those of a topic of which nobody knows that it is compacted."""
    monkeypatch.setattr(own, "_PATIENCE_SECONDS", 0.01)
    client = Compacted(end, policy)
    with reading(monkeypatch, client) as reader, pytest.raises(KafkaUnavailable, match="brings no more"):
        list(reader.read([OffsetSpan("t", 0, 0, 9)]))
    with pytest.raises(KafkaTimeoutError, match="brings no more"):
        list(client.batches(PLACE, 0, 9, IsolationLevel.READ_COMMITTED))


def test_a_record_that_is_wanted_and_gone(monkeypatch: pytest.MonkeyPatch):
    with reading(monkeypatch, Compacted(end=9)) as reader:
        assert [one.value for one in reader.each("t", 0, [3, 4])] == [b"three", b"four"]
        with pytest.raises(KafkaUnavailable, match="no longer has offset 7"):
            list(reader.each("t", 0, [7]))
