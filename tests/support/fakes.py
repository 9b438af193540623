"""Fakes that stand in for what is outside: the lake in memory, a Kafka, and a clock that tests turn."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock

import pendulum

from sluice.clients.kafka.lookups import NONE, PartitionLookUp
from sluice.clients.kafka.topics import TopicState
from sluice.clients.lake.base import Begun, Item, StoredObject
from sluice.config.pipeline import Cluster, command_line
from sluice.errors import KafkaUnavailable, LakeUnavailable, UnknownTopic


class FakeClock:
    """Seconds that pass only when somebody sleeps; `then` is called after each sleep."""

    def __init__(self, now: float = 0.0, then: Callable[[float], None] = lambda now: None) -> None:
        self.now, self.then = now, then

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.then(self.now)


@dataclass
class MemoryLake:
    """A lake in this process. `outages` requests fail before they do anything; of the next writes,
    `lost_answers` are done and then fail."""

    url: str = "memory://demo"
    pipeline: str = "demo"
    outages: int = 0
    lost_answers: int = 0
    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    _writes: int = 0
    _lock: RLock = field(default_factory=RLock)

    def command(self, command: str, *words: str) -> str:
        return command_line(self.pipeline, None, command, *words)

    def read(self, key: str) -> StoredObject | None:
        with self._reached():
            found = self.objects.get(key)
            return None if found is None else StoredObject(found[0], str(found[1]))

    def create(self, key: str, data: bytes) -> bool:
        with self._reached():
            if key in self.objects:
                return self.objects[key][0] == data
            self._write(key, data)
            return True

    def create_each(self, objects: Iterable[tuple[str, bytes]]) -> Iterator[bool]:
        return (self.create(key, data) for key, data in objects)

    def synced_at_end(self) -> AbstractContextManager[MemoryLake]:
        return nullcontext(self)

    def replace(self, key: str, data: bytes, version: str) -> bool:
        with self._reached():
            found = self.objects.get(key)
            if found is None or str(found[1]) != version:
                return found is not None and found[0] == data
            self._write(key, data)
            return True

    def put(self, key: str, data: bytes) -> None:
        with self._reached():
            self._write(key, data)

    def delete(self, keys: Iterable[str]) -> None:
        with self._reached():
            for key in list(keys):
                self.objects.pop(key, None)

    def list(self, prefix: str) -> Iterator[Item]:
        with self._reached():
            found = sorted(((k, v) for k, v in self.objects.items() if k.startswith(prefix)), key=_by_bytes)
            return iter([Item(k, len(data), pendulum.from_timestamp(time)) for k, (data, time) in found])

    def present(self, keys: Iterable[str]) -> Iterator[Item]:
        wanted = set(keys)
        return (item for item in self.list("") if item.key in wanted)

    def size(self, key: str) -> int | None:
        with self._reached():
            return len(self.objects[key][0]) if key in self.objects else None

    def begin(self, key: str) -> Begun:
        descriptor, path = tempfile.mkstemp(prefix="sluice-fake-")
        os.close(descriptor)
        return Begun(Path(path))

    def finish(self, key: str, begun: Begun) -> None:
        self.put(key, begun.path.read_bytes())
        begun.discard()

    def move(self, source: str, destination: str) -> None:
        with self._reached():
            if source in self.objects:
                self.objects[destination] = self.objects.pop(source)
            elif destination not in self.objects:
                raise FileNotFoundError(source)

    @contextmanager
    def local(self, key: str) -> Iterator[Path]:
        found = self.read(key)
        if found is None:
            raise FileNotFoundError(key)
        begun = self.begin(key)
        begun.path.write_bytes(found.data)
        try:
            yield begun.path
        finally:
            begun.discard()

    def part(self, key: str, start: int, until: int) -> bytes:
        found = self.read(key)
        if found is None:
            raise FileNotFoundError(key)
        return found.data[start:until]

    def _write(self, key: str, data: bytes) -> None:
        self._writes += 1
        self.objects[key] = (data, self._writes)
        if self.lost_answers:
            self.lost_answers -= 1
            raise LakeUnavailable(self.url, "the answer is lost")

    @contextmanager
    def _reached(self) -> Iterator[None]:
        with self._lock:
            if self.outages:
                self.outages -= 1
                raise LakeUnavailable(self.url, "an outage")
            yield


def _by_bytes(found: tuple[str, object]) -> bytes:
    return found[0].encode()


@dataclass
class FakeTopic:
    """Partitions as lists of record timestamps (milliseconds); the offset is the index. `stable`: the last
    stable offset of partitions with an open transaction."""

    uuid: str
    records: dict[int, list[int]]
    starts: dict[int, int] = field(default_factory=dict)
    stable: dict[int, int] = field(default_factory=dict)
    kept_ms: int | None = None

    @property
    def log_starts(self) -> dict[int, int]:
        return {partition: self.starts.get(partition, 0) for partition in self.records}

    @property
    def ends(self) -> dict[int, int]:
        return {
            partition: self.stable.get(partition, len(stamps)) for partition, stamps in self.records.items()
        }


@dataclass
class FakeKafka:
    """Clusters of topics, for `resolve(..., topics_of=kafka.topics_of)`; `silent` ones do not answer.

    `during` is called between the description of a topic and its look-ups.
    """

    topics: dict[tuple[str, str], FakeTopic]
    silent: set[str] = field(default_factory=set)
    groups: dict[tuple[str, str, str], dict[int, int]] = field(default_factory=dict)
    during: Callable[[], None] = lambda: None
    scanned: list[tuple[int, int]] = field(default_factory=list)

    @contextmanager
    def topics_of(self, cluster: Cluster) -> Iterator[FakeReader]:
        if cluster.cluster in self.silent:
            raise KafkaUnavailable(cluster.cluster, cluster.bootstrap or "", "it is silent")
        yield FakeReader(self, cluster.cluster)


@dataclass
class FakeReader:
    kafka: FakeKafka
    cluster: str

    def names(self) -> list[str]:
        return [topic for cluster, topic in self.kafka.topics if cluster == self.cluster]

    def describe(self, topic: str) -> TopicState:
        found = self.kafka.topics.get((self.cluster, topic))
        if found is None:
            raise UnknownTopic(self.cluster, topic)
        return TopicState(found.uuid, found.log_starts, found.ends)

    def look_up(
        self, topic: str, ends: Mapping[int, int], instants: Sequence[int]
    ) -> dict[int, PartitionLookUp]:
        self.kafka.during()
        found = self.kafka.topics[self.cluster, topic]
        return {number: self._look_up(found, number, instants) for number in ends}

    def _look_up(self, topic: FakeTopic, partition: int, instants: Sequence[int]) -> PartitionLookUp:
        result = PartitionLookUp()
        stamps = topic.records[partition]
        left = range(topic.log_starts[partition], topic.ends[partition])
        for instant in instants:
            offset = next((o for o in left if stamps[o] >= instant), NONE)
            result.offsets.append(offset)
            result.timestamps.append(-1 if offset == NONE else stamps[offset])
        return result

    def committed(self, group: str, topic: str) -> Mapping[int, int]:
        return self.kafka.groups[self.cluster, group, topic]

    def kept_ms(self, topic: str) -> int | None:
        return self.kafka.topics[self.cluster, topic].kept_ms

    def high_watermarks(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        records = self.kafka.topics[self.cluster, topic].records
        return {partition: len(records[partition]) for partition in partitions}

    def records(self, topic: str, partition: int, start: int, end: int) -> Iterator[tuple[int, int]]:
        self.kafka.scanned.append((start, end))
        stamps = self.kafka.topics[self.cluster, topic].records[partition]
        return iter([(offset, stamps[offset]) for offset in range(start, end)])
