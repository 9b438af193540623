from __future__ import annotations

import gzip
import io
from datetime import timedelta
from pathlib import Path

import pytest
import zstandard

from sluice import publish
from sluice.errors import WrongUse
from sluice.kafka.producer import MAX_EVENT_BYTES, TopicFacts
from sluice.pipeline import Event, Pipeline

NOW = 1_795_000_000_000
HOUR = 3_600_000
FACTS = TopicFacts(partitions=4, before_ms=2**62, after_ms=HOUR)


def event(**time) -> Event:
    return Event.model_validate({"type": {"field": "type"}, "time": time})


def times(source: Event, events: list[bytes], lag: timedelta = timedelta(), facts: TopicFacts = FACTS):
    clock = publish._RecordTimes(source, lag)
    return clock.of(events, NOW, facts), clock.no_time, clock.refused


@pytest.mark.parametrize(
    ("source", "line", "expected"),
    [
        (event(field="at"), b'{"at": "2026-11-20T10:00:00Z"}', 1_795_168_800_000 - 0),
        (event(field="at"), b'{"at": "2026-11-18T10:00:00+01:00"}', 1_794_992_400_000),
        (event(field="e.at"), b'{"type": 5, "e": {"at": "2026-11-18T09:00:00.5"}}', 1_794_992_400_500),
        (event(field="at", format="epoch_s"), b'{"at": 1794992400.25}', 1_794_992_400_250),
        (event(field="at", format="epoch_ms"), b'{"at": 0}', 0),
        (event(record=True), b"anything", NOW),
    ],
)
def test_the_record_time_is_the_events(source: Event, line: bytes, expected: int):
    facts = TopicFacts(4, 2**62, 10**12)
    assert times(source, [line], facts=facts) == ([expected], 0, 0)


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe", b"{", b"[]", b"{}", b'{"at": null}', b'{"at": 5}', b'{"at": "soon"}', b"[" * 100_000],
)
def test_bad_events_get_the_time_of_now_and_harm_nobody(line: bytes):
    good = b'{"at": "2026-11-18T09:00:00Z"}'
    assert times(event(field="at"), [good, line, good]) == (
        [1_794_992_400_000, NOW, 1_794_992_400_000],
        1,
        0,
    )


@pytest.mark.parametrize(
    ("at", "lag", "facts", "expected"),
    [
        (NOW + HOUR - 20_000, 0, FACTS, NOW + HOUR - 20_000),
        (NOW + HOUR + 1, 0, FACTS, NOW),
        (NOW, 7200, FACTS, NOW),
        (NOW - HOUR, 1800, FACTS, NOW - HOUR // 2),
        (-1, 0, FACTS, NOW),
        (NOW - HOUR - 1, 0, TopicFacts(4, HOUR, HOUR), NOW),
    ],
)
def test_a_time_that_the_broker_would_refuse(at: int, lag: int, facts: TopicFacts, expected: int):
    line = b'{"at": %d}' % at
    found = times(event(field="at", format="epoch_ms"), [line], timedelta(seconds=lag), facts)
    assert found == ([expected], 0, int(expected == NOW))


def pipeline_of(**clusters: list[str]) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "adx",
            "kafka": [{"cluster": c, "bootstrap": f"{c}:9092", "topics": t} for c, t in clusters.items()],
            "event": {"type": {"topic": True}, "time": {"record": True}},
            "lake": "file:///lake",
        }
    )


@pytest.mark.parametrize(
    ("clusters", "topic", "expected"),
    [
        ({"dc1": ["bids"]}, None, ("dc1", "bids")),
        ({"dc1": ["bids", "clicks"]}, "clicks", ("dc1", "clicks")),
        ({"dc1": ["bids"], "dc2": ["bids"]}, "dc2/bids", ("dc2", "bids")),
    ],
)
def test_the_topic_that_is_meant(clusters, topic, expected):
    cluster, name = publish.choose(pipeline_of(**clusters), topic)
    assert (cluster.cluster, name) == expected


@pytest.mark.parametrize(
    ("clusters", "topic", "message"),
    [
        ({"dc1": ["bids", "clicks"]}, None, "--topic chooses one of dc1/bids, dc1/clicks"),
        ({"dc1": ["bids"]}, "other", "has no such topic: --topic chooses one of dc1/bids"),
        ({"dc1": ["bids"], "dc2": ["bids"]}, "bids", "more than one such topic.*dc1/bids, dc2/bids"),
    ],
)
def test_a_topic_that_is_not_clear(clusters, topic, message):
    with pytest.raises(WrongUse, match=message):
        publish.choose(pipeline_of(**clusters), topic)


CONTENT = b'{"a": 1}\n\n{"b": 2}\r\n \nlast'
LINES = [b'{"a": 1}', b'{"b": 2}\r', b"last"]


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("events.ndjson", lambda content: content),
        ("events.ndjson.gz", lambda content: gzip.compress(content[:9]) + gzip.compress(content[9:])),
        (
            "events.ndjson.zst",
            lambda content: zstandard.compress(content[:9]) + zstandard.compress(content[9:]),
        ),
    ],
)
def test_every_kind_of_file(tmp_path: Path, name: str, pack):
    path = tmp_path / name
    path.write_bytes(pack(CONTENT))
    with publish.opened(str(path)) as stream:
        assert [line for found in publish.lines(stream, name) for line in found] == LINES


@pytest.mark.parametrize("name", ["missing.ndjson", ".", "cut.gz", "cut.zst", "plain.gz"])
def test_a_file_that_does_not_do(tmp_path: Path, name: str):
    (tmp_path / "cut.gz").write_bytes(gzip.compress(CONTENT)[:-9])
    (tmp_path / "cut.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"\xff" * 20)
    (tmp_path / "plain.gz").write_bytes(CONTENT)
    path = str(tmp_path / name)
    with pytest.raises(WrongUse, match=path), publish.opened(path) as stream:
        list(publish.lines(stream, path))


class Trickle(io.RawIOBase):
    """A pipe whose writer is slow: each read gives what was written at once."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        piece = self.pieces.pop(0) if self.pieces else b""
        buffer[: len(piece)] = piece
        return len(piece)


def test_a_slow_source_is_not_waited_for():
    source = Trickle(b"one\ntw", b"o\n", b"three\nfour\n")
    found = publish.lines(io.BufferedReader(source), "-")
    assert next(found) == [b"one"]
    assert len(source.pieces) == 2
    assert list(found) == [[b"two"], [b"three", b"four"]]


def test_a_line_without_an_end_does_not_fill_the_memory():
    endless = Trickle(*[b"x" * 8000] * (MAX_EVENT_BYTES // 8000 + 2))
    with pytest.raises(WrongUse, match="line 1: an event may have at most 20 MiB"):
        list(publish.lines(io.BufferedReader(endless), "-"))
