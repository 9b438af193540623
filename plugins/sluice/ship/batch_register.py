"""The lake's entry of each batch: `_shipped/<cluster>/<topic>/<batch>.json`.

Written by compare-and-set: of two who ship the same batch at once, the one that began last goes on.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import msgspec
import pendulum

from sluice.clients.lake.base import Lake, StoredObject
from sluice.clients.lake.settings import S3Settings
from sluice.errors import Fenced, SluiceError, WrongUse
from sluice.named_file import opened
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


# The batches behind a source: one file, the files of a folder, or the objects below an S3 prefix.
ID_DIGITS = 32
_BLOCK_BYTES = 1 << 20
_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".swp")


@dataclass(frozen=True)
class Batch:
    """`name` is what its user calls it; `local` gives a path to its bytes while the context lasts."""

    name: str
    local: Callable[[], AbstractContextManager[Path]]


def batches_of(source: str, settings: S3Settings | None = None) -> Sequence[Batch]:
    """In the order of their names. Raises WrongUse when there is nothing of that name."""
    batches = _objects(source, settings) if source.startswith("s3://") else _files(Path(source))
    if not batches:
        raise WrongUse(f"{source}: no file is there (hidden and unfinished ones do not count)")
    return batches


def content_id(path: Path) -> str:
    """Returns the same for the same bytes, whatever the file is called. Raises WrongUse when it cannot be
    read."""
    digest = hashlib.sha256()
    try:
        with opened(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise WrongUse(f"{path}: {error.strerror}") from error
    return digest.hexdigest()[:ID_DIGITS]


def given_id(text: str) -> str:
    """Returns an id of the user's own, which becomes an object's name. Raises WrongUse."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,126}", text):
        raise WrongUse(f"--batch: expected letters, digits, _, . and -, at most 127, not {text!r}")
    return text


def _files(path: Path) -> list[Batch]:
    if not os.path.exists(path):  # Path.exists raises OSError for a name that is too long
        raise WrongUse(f"{path}: no such file")
    if not path.is_dir():
        return [_file(path)]
    # The folder itself may be hidden; what is hidden below it is not meant.
    return [_file(file) for file in sorted(path.rglob("*")) if file.is_file() and _meant(file, path)]


def _file(path: Path) -> Batch:
    return Batch(str(path), lambda: nullcontext(path))


def _meant(path: Path, folder: Path) -> bool:
    return _finished(path.relative_to(folder).as_posix())


def _finished(name: str) -> bool:
    """As Hadoop and rsync do: what begins with `.` or `_`, or ends like a download, is not for readers."""
    return not name.endswith(_UNFINISHED) and not any(
        segment[0] in "._" for segment in name.split("/") if segment
    )


def _objects(source: str, settings: S3Settings | None) -> list[Batch]:
    """Returns the object of that name, or all below it as a folder."""
    from sluice.clients.lake.s3 import S3Lake  # boto3 takes a third of a second, which a file need not pay

    bucket, _, key = source.removeprefix("s3://").partition("/")
    if not bucket:
        raise WrongUse(f"{source}: expected s3://bucket/prefix")
    store = S3Lake(bucket, "", settings or S3Settings.from_environment())
    folder = key.rstrip("/") + "/" if key.rstrip("/") else ""
    keys = [
        item.key for item in store.list(key.rstrip("/")) if item.key == key or item.key.startswith(folder)
    ]
    names = sorted(name for name in keys if _finished(name.removeprefix(folder)))
    return [Batch(f"s3://{bucket}/{name}", partial(store.local, name)) for name in names]
