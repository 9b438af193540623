"""Temporary files of an S3 lake and of forecasts, in a folder of this process's own.

A killed process removes nothing. Its folder has a lock that the kernel frees, so the next process that makes
a file removes the folders of the dead, and none of the living.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import threading
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from sluice.clients.lake.base import Begun, Lake, StoredObject

_PREFIX = "sluice-lake-"
_LOCK = "lock"


class _Own:
    """The folder of this process: a forked child makes its own."""

    lock = threading.Lock()
    process = 0
    folder = Path()

    @classmethod
    def forked(cls) -> None:
        cls.lock = threading.Lock()


# A thread of the parent that held the lock does not exist in the child.
os.register_at_fork(after_in_child=_Own.forked)


def new_file() -> Path:
    """Returns an empty file that only its owner can read. Raises OSError."""
    with _Own.lock:
        if _Own.process != os.getpid() or not _Own.folder.is_dir():
            _sweep(Path(tempfile.gettempdir()))
            _Own.folder, _Own.process = _new_folder(), os.getpid()
            atexit.register(_remove, _Own.folder, os.getpid())
        descriptor, name = tempfile.mkstemp(dir=_Own.folder)
    os.close(descriptor)
    return Path(name)


def _new_folder() -> Path:
    """Locked until this process, and those that it forks, have ended."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if (folder / _LOCK).exists():
            return folder
        os.close(descriptor)  # another process took it for a dead one's before it was locked


def _sweep(above: Path) -> None:
    """Removes the folders of this user's processes that have ended."""
    with os.scandir(above) as entries:
        folders = [entry.path for entry in entries if entry.name.startswith(_PREFIX) and _is_ours(entry)]
    for folder in folders:
        with suppress(FileNotFoundError, BlockingIOError):
            descriptor = os.open(Path(folder, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    with suppress(FileNotFoundError):
        return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()
    return False


def _remove(folder: Path, process: int) -> None:
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


# A lake that remembers what is written to it and leaves the real one alone: for `plan` and dry runs.


class Overlay:
    """As much of a lake as resolving needs: reads go through to `lake`, writes stay in memory."""

    def __init__(self, lake: Lake) -> None:
        self.url = lake.url
        self._lake = lake
        self._written: dict[str, bytes] = {}

    def read(self, key: str) -> StoredObject | None:
        if key in self._written:
            return StoredObject(self._written[key], "preview")
        return self._lake.read(key)

    def create(self, key: str, data: bytes) -> bool:
        if self.read(key) is not None:
            return False
        self._written[key] = data
        return True

    def put(self, key: str, data: bytes) -> None:
        self._written[key] = data


# A lake whose files can be read, and into which a task writes nothing: for forecasts.
class DiscardingLake:
    """As much of a lake as a landing's task needs. What is written is thrown away when it is whole."""

    def __init__(self, lake: Lake) -> None:
        self.url, self.pipeline, self.command = lake.url, lake.pipeline, lake.command
        self._lake = lake

    def local(self, key: str) -> AbstractContextManager[Path]:
        return self._lake.local(key)

    def synced_at_end(self) -> AbstractContextManager[DiscardingLake]:
        return nullcontext(self)

    def put(self, key: str, data: bytes) -> None:
        pass

    def begin(self, key: str) -> Begun:
        return Begun(new_file())

    def finish(self, key: str, begun: Begun) -> None:
        begun.discard()
