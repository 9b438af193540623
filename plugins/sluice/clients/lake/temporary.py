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
from contextlib import suppress
from pathlib import Path

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
