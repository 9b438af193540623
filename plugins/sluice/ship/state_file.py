"""The position of a log that is followed, kept in a file of its own beside the log or elsewhere."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from sluice.clients.lake.durable import sync, write
from sluice.errors import Busy, SluiceError, WrongUse
from sluice.named_file import read_named
from sluice.ship.lines import FilePosition
from sluice.stored_json import UNREADABLE

_FORMAT = 1


class StateFile:
    """One log's position for one topic (`cluster/topic`). Writes are whole or not at all."""

    def __init__(self, path: Path, topic: str) -> None:
        self._path = path
        self._topic = topic

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps others from shipping the same log. Raises Busy when one does, WrongUse when the file cannot
        be written."""
        try:
            lock = os.open(
                f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644
            )
        except OSError as error:
            raise WrongUse(f"{self._path}: {error.strerror}; --state FILE keeps it elsewhere") from error
        try:
            self._take(lock)
            yield
        finally:
            os.close(lock)

    def _take(self, lock: int) -> None:
        """Raises Busy."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy(f"another publish follows this log already (it holds {self._path}.lock)") from error

    def read(self) -> FilePosition | None:
        """None when nothing was shipped yet. Raises WrongUse for a file that is no state of this topic, and
        SluiceError for a newer Sluice's."""
        try:
            stored = _decoded(read_named(self._path), self._path)
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as error:
            raise WrongUse(
                f"{self._path} is not the position of a log ({error}): name another file with "
                "--state, or remove it to ship the log from its start"
            ) from error
        if stored.topic != self._topic:
            raise WrongUse(
                f"{self._path} is the place for topic {stored.topic}, not {self._topic}: name another with "
                "--state"
            )
        return stored.place

    def write(self, place: FilePosition) -> None:
        """Raises WrongUse when it cannot be written."""
        content = {"format": _FORMAT, "topic": self._topic, "place": place.to_json()}
        partial = Path(f"{self._path}.partial")
        try:
            write(partial, json.dumps(content, indent=1).encode())
            os.replace(partial, self._path)
            sync(self._path.parent)
        except OSError as error:
            raise WrongUse(f"{self._path}: {error.strerror}; --state FILE keeps it elsewhere") from error


class _Format(msgspec.Struct):
    format: int


class _Stored(msgspec.Struct):
    topic: str
    place: FilePosition


_FORMAT_OF = msgspec.json.Decoder(_Format)
_STORED = msgspec.json.Decoder(_Stored)


def _decoded(content: bytes, path: Path) -> _Stored:
    version = _FORMAT_OF.decode(content).format
    if version > _FORMAT:
        raise SluiceError(f"{path} has format {version}, newer than this Sluice's {_FORMAT}: upgrade")
    return _STORED.decode(content)


SAVE_SECONDS = 1.0


@dataclass
class Bookmark:
    """The newest acknowledged place; written at most once a second, and when `save` is called."""

    state: StateFile
    place: FilePosition | None = None
    _written: FilePosition | None = None
    _when: float = field(default_factory=time.monotonic)

    def settle(self, place: FilePosition) -> None:
        self.place = place
        if time.monotonic() - self._when > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        self._when = time.monotonic()
        if self.place is not None and self.place != self._written:
            self.state.write(self.place)
            self._written = self.place
