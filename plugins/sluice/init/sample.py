"""Reads a bounded sample: of a topic from all partitions and all their time, of a file any of its lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedIOBase
from pathlib import Path
from random import Random

from sluice.clients.kafka.samples import SampledRecord, spread
from sluice.config.kafka import Cluster
from sluice.errors import WrongUse
from sluice.ship.lines import Chunk, chunks, opened, standard_input

MOST_FILE_BYTES = 256 << 20
_MOST_RECORD = 16 << 20
STDIN = "-"


@dataclass(frozen=True)
class Sample:
    """`source` says what was read, for a person. `cut`: more follows that was not read."""

    records: tuple[SampledRecord, ...]
    source: str
    cut: bool = False

    def of_topic(self, topic: str) -> Sample:
        """Returns the same as records of `topic`, into which a file will be published."""
        return replace(self, records=tuple(replace(record, topic=topic) for record in self.records))


def sample_topic(cluster: Cluster, topic: str, count: int) -> Sample:
    """Raises KafkaUnavailable, UnknownTopic, and WrongUse for a topic without records."""
    records = tuple(spread(cluster, topic, count, _MOST_RECORD))
    if not records:
        raise WrongUse(f"topic {topic} has no records: write some, or take a sample from `--file`")
    partitions = len({record.partition for record in records})
    return Sample(records, f"{len(records):,} records of topic {topic} ({partitions:,} partitions)")


def sample_file(name: str, count: int) -> Sample:
    """Returns the lines as records of no topic yet. Raises WrongUse for a file that cannot be read or is
    empty."""
    with _stream(name) as stream:
        lines, read, cut = chosen_lines(chunks(stream, name), count, MOST_FILE_BYTES)
    if not lines:
        raise WrongUse(f"{name} has no lines: expected one event in JSON a line")
    records = tuple(SampledRecord("", 0, number, 0, line, ()) for number, line in lines)
    return Sample(records, _counted(len(records), read, name), cut)


def _counted(held: int, read: int, name: str) -> str:
    return f"{held:,} lines of {name}" if held == read else f"{held:,} of the first {read:,} lines of {name}"


@contextmanager
def _stream(name: str) -> Iterator[BufferedIOBase]:
    if name == STDIN:
        yield standard_input()
    else:
        with opened(Path(name), name) as stream:
            yield stream


def chosen_lines(
    chunks: Iterable[Chunk], count: int, most_bytes: int
) -> tuple[list[tuple[int, bytes]], int, bool]:
    """Returns at most `count` (number, line), how many lines were read within `most_bytes`, and whether that
    ended it.

    Each line is chosen with the same chance (Algorithm R, J. Vitter 1985), and of the same lines always the
    same: a fixed distance would meet only some types of a producer that writes them in turn. The first and
    the last line are among them: mostly they have the first and the last time.
    """
    chance = Random(0)  # noqa: S311 (nothing is secret)
    held: list[tuple[int, bytes]] = []
    ends: list[tuple[int, bytes]] = []
    seen, size, cut = 0, 0, False
    for chunk in chunks:
        for number, line in zip(chunk.numbers, chunk.events, strict=True):
            seen += 1
            if len(held) < count:
                held.append((number, line))
            elif (position := chance.randrange(seen)) < count:
                held[position] = (number, line)
        ends = [*ends[:1], *zip(chunk.numbers, chunk.events, strict=True)]
        ends = [ends[0], ends[-1]] if ends else []
        size += sum(map(len, chunk.events))
        if size >= most_bytes:
            cut = True
            break
    return _with_ends(sorted(held), ends), seen, cut


def _with_ends(held: list[tuple[int, bytes]], ends: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Puts the first and the last line in the places of the outermost ones."""
    return held if len(held) < len(ends) else [*ends[:1], *held[1:-1], *ends[1:]] if len(held) > 1 else held
