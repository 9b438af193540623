"""The lake's entry of each batch: `_shipped/<cluster>/<topic>/<batch>.json`.

Written by compare-and-set: of two who ship the same batch at once, the one that began last goes on.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import msgspec
import pendulum

from sluice.clients.lake.base import Lake, StoredObject
from sluice.errors import Fenced, SluiceError
from sluice.stored_json import decode_stored

FOLDER = "_shipped"
VERSION = 1
"""Of an entry, which says so from the second one on."""
_TRIES = 10


@dataclass(frozen=True)
class RegisterEntry:
    """`line`: Kafka has acknowledged every line up to it. `partitions`: what the newest attempt shipped.

    `topic_id` is the topic's own: one that was recreated has not got the batch.
    """

    batch: str
    source: str
    topic_id: str
    attempt: str
    done: bool = False
    line: int = 0
    began: str = ""
    changed: str = ""
    partitions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def encode(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def decode(cls, encoded: bytes, place: str) -> RegisterEntry:
        """Raises SluiceError naming `place` when the bytes are no entry, or a newer Sluice's."""

        def damage(error: Exception) -> str:
            return (
                f"{place} is no entry of a shipped batch ({error}): restore it from a backup; without it the "
                "batch is shipped again from its first line"
            )

        version = decode_stored(_FORMAT, encoded, damage).version
        if version > VERSION:
            raise SluiceError(f"{place} has format {version}, newer than this Sluice's {VERSION}: upgrade")
        return decode_stored(_ENTRY, encoded, damage)


class _Format(msgspec.Struct):
    version: int = VERSION


_FORMAT = msgspec.json.Decoder(_Format)
_ENTRY = msgspec.json.Decoder(RegisterEntry)


@dataclass(frozen=True)
class Begin:
    """Ship the lines after `line`; None: all of it is in Kafka already."""

    line: int | None


def decide(earlier: RegisterEntry | None, topic_id: str, again: bool) -> Begin:
    """Returns what to do with a batch; `earlier` is its entry in the register, None where it has none."""
    if earlier is None or again or earlier.topic_id != topic_id:
        return Begin(0)
    return Begin(None if earlier.done else earlier.line)


class Register:
    """The entries of one topic. Methods raise LakeUnavailable, and SluiceError for an entry that is none."""

    def __init__(self, lake: Lake, cluster: str, topic: str, topic_id: str) -> None:
        self._lake = lake
        self._folder = f"{FOLDER}/{cluster}/{topic}"
        self._topic_id = topic_id

    def begin(self, batch: str, source: str, again: bool) -> tuple[Begin, Claim | None]:
        """Claims the batch for this attempt, unless there is nothing left of it to ship."""
        key = f"{self._folder}/{batch}.json"
        for _ in range(_TRIES):
            stored = self._lake.read(key)
            earlier = None if stored is None else _decoded(self._lake, key, stored)
            begin = decide(earlier, self._topic_id, again)
            if begin.line is None:
                return begin, None
            now = pendulum.now("UTC").isoformat()
            entry = RegisterEntry(
                batch, source, self._topic_id, uuid.uuid4().hex, False, begin.line, now, now
            )
            if self._put(key, entry, stored):
                return begin, Claim(self._lake, key, entry)
        raise Fenced(f"others take batch {batch} as often as this one does: publish it from one place only")

    def _put(self, key: str, entry: RegisterEntry, stored: StoredObject | None) -> bool:
        if stored is None:
            return self._lake.create(key, entry.encode())
        return self._lake.replace(key, entry.encode(), stored.version)


def _decoded(lake: Lake, key: str, stored: StoredObject) -> RegisterEntry:
    return RegisterEntry.decode(stored.data, f"{lake.url}/{key}")


class Claim:
    """One attempt's hold of one batch."""

    def __init__(self, lake: Lake, key: str, entry: RegisterEntry) -> None:
        self._lake = lake
        self._key = key
        self.entry = entry

    def save(self, line: int, partitions: Mapping[str, Mapping[str, int]], done: bool = False) -> None:
        """Notes how far it is. Raises Fenced when another publish has taken the batch over."""
        now = pendulum.now("UTC").isoformat()
        entry = replace(self.entry, line=line, partitions=partitions, done=done, changed=now)
        stored = self._lake.read(self._key)
        held = stored is not None and _decoded(self._lake, self._key, stored).attempt == entry.attempt
        if stored is None or not held or not self._lake.replace(self._key, entry.encode(), stored.version):
            raise Fenced(
                f"another publish has taken over batch {entry.batch} ({entry.source}): this one stops; "
                "what both have sent has the same batch and line in its header"
            )
        self.entry = entry
