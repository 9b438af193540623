"""What a topic is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sluice.clients.kafka.fetch import MissingOffsets
from sluice.clients.kafka.lookups import PartitionLookUp
from sluice.config.kafka import Cluster


class TopicOffsets(Protocol):
    @property
    def uuid(self) -> str: ...

    @property
    def log_starts(self) -> Mapping[int, int]: ...

    @property
    def ends(self) -> Mapping[int, int]: ...

    def held(self, high_watermarks: Mapping[int, int]) -> Mapping[int, int]: ...


class TopicReader(Protocol):
    """What `sluice.clients.kafka.topics.Topics` offers."""

    def describe(self, topic: str) -> TopicOffsets: ...

    def look_up(
        self, topic: str, ends: Mapping[int, int], instants: Sequence[int]
    ) -> Mapping[int, PartitionLookUp]: ...

    def records(self, topic: str, partition: int, start: int, end: int) -> Iterator[tuple[int, int]]: ...

    def high_watermarks(self, topic: str, partitions: Iterable[int]) -> Mapping[int, int]: ...

    def left(self, topic: str, partition: int, gaps: Sequence[MissingOffsets]) -> list[MissingOffsets]: ...

    def unhidden(
        self, topic: str, partition: int, gaps: Iterable[MissingOffsets]
    ) -> MissingOffsets | None: ...

    def compacted(self, topic: str) -> bool: ...

    def kept_ms(self, topic: str) -> int | None: ...


TopicsOf = Callable[[Cluster], AbstractContextManager[TopicReader]]
