"""File operations that leave whole files or none, whatever kills the process, and survive a power cut."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sluice.clients.lake.base import TOO_LONG
from sluice.errors import LakeRefused, LakeUnavailable
from sluice.named_file import NotAFile

_LIBC = ctypes.CDLL(None, use_errno=True)
_LOCK_PATIENCE_SECONDS = 15.0
_LOCK_POLL_SECONDS = 0.005
_REMEDIES = {
    errno.ENOSPC: "make room on its disk",
    errno.EDQUOT: "raise the quota of the user that Sluice runs as",
    errno.EACCES: "give the user that Sluice runs as the right to read and write there",
    errno.EPERM: "give the user that Sluice runs as the right to read and write there",
    errno.EROFS: "mount its disk for writing",
    errno.ENAMETOOLONG: "a name may have 255 bytes: shorten the name of the pipeline or the type",
    errno.ENOTDIR: "a file is where a folder has to be: move it away, or choose another root",
    errno.EISDIR: "a folder is where a file has to be: move it away, or choose another root",
    errno.EXDEV: "the lake's folders have to be on one file system",
    errno.EFBIG: TOO_LONG,
}
_NOT_OURS = "a lake has files in folders, and no links, pipes or devices: move it away"


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Raises LakeRefused for permanent failures of the disk, LakeUnavailable for retryable ones.

    FileNotFoundError passes: it is an answer, not a failure.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        location = f"{url} ({error.filename})" if error.filename else url
        reason = (error.strerror or str(error)).lower()
        if isinstance(error, NotAFile):
            raise LakeRefused(location, reason, _NOT_OURS) from error
        if error.errno in _REMEDIES:
            raise LakeRefused(location, reason, _REMEDIES[error.errno]) from error
        raise LakeUnavailable(location, reason) from error


def sync(path: str | Path) -> None:
    """Makes a file's bytes, or a folder's entries, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write(
    path: str | Path, data: bytes, synced: bool = True, mode: int = 0o600, folder: int | None = None
) -> None:
    """Writes a file (in the open `folder`) whose mode no umask changes."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o600, dir_fd=folder), "wb", buffering=0) as file:
        own_mode(file.fileno(), mode)
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        if synced:
            os.fsync(file.fileno())


class Syncs:
    """How many writes become durable: the first few by themselves, all that follow by one sync of their file
    system. On ext4 a file and its new folders took 1.3 ms with syncs of their own, of which the one sync for
    8,760 of them left 0.2 ms; but it also waits for what others have written there.
    """

    _BY_THEMSELVES = 64

    def __init__(self) -> None:
        self._writes = 0

    @classmethod
    @contextmanager
    def of(cls, folder: str | Path) -> Iterator[Syncs]:
        """Everything written inside, below `folder`, is durable when the context ends without an error."""
        syncs = cls()
        yield syncs
        if syncs._writes > cls._BY_THEMSELVES:
            sync_file_system(folder)

    def due(self) -> bool:
        """Returns whether the next write has to be made durable by itself."""
        self._writes += 1
        return self._writes <= self._BY_THEMSELVES


def sync_file_system(folder: str | Path) -> None:
    """Makes all that was written to the file system of `folder` survive a power cut, by whoever it was.

    Raises OSError when something of it could not be written. Source: syncfs(2), Linux 5.8 or newer.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if _LIBC.syncfs(descriptor):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(descriptor)


def make_folder(path: str, mode: int, synced: bool = True) -> None:
    """Like `mkdir -p`, with a mode that no umask changes; each new folder's own entry survives a power cut,
    unless it need not (`synced`)."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        above = os.path.dirname(path)
        if not above:
            raise
        make_folder(above, mode, synced)
        make_folder(path, mode, synced)
    else:
        with suppress(FileNotFoundError):
            os.chmod(path, mode)
        if synced:
            sync(os.path.dirname(path))


@contextmanager
def locked(path: str | Path, mode: int = 0o600, folder: int | None = None) -> Iterator[None]:
    """Holds the lock file `path` (in the open `folder`) alone, among threads and processes; the end of a
    process frees it. The file's folder is there.

    Raises TimeoutError when another process holds it for 15 seconds: one that is stopped may still write.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, mode, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotAFile(stat.S_IFLNK, path) from error
        raise
    try:
        own_mode(descriptor, mode)
        deadline = time.monotonic() + _LOCK_PATIENCE_SECONDS
        while not _try_lock(descriptor):
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, "a stopped process holds its lock", str(path))
            time.sleep(_LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# Who may read the files of a lake in a folder: the mode of the folder decides, and no umask does.
_PRIVATE = 0o700
_ROWS = (".parquet", "/_SUCCESS")


@dataclass(frozen=True)
class Modes:
    """`folder` is the mode of the lake's folder, and of those in it.

    Files of rows are for whom that mode lets in: readers of the lake. All other files are for who writes to
    the lake: the list of erasures has a salt and digests, and manifests have texts of events.
    """

    folder: int

    @classmethod
    def of(cls, root: Path) -> Modes:
        """Reads the mode of the nearest folder that is there, of the pipeline's and the lake's. One to which
        everybody may write, and one that is still to be made, count as their owner's alone."""
        for folder in (root, root.parent):
            for mode in _mode(folder):
                return cls(_PRIVATE if mode & stat.S_IWOTH else mode & (0o777 | stat.S_ISGID))
        return cls(_PRIVATE)

    @property
    def private(self) -> int:
        """The mode of files and folders that are none of a reader's."""
        return self.folder & ~stat.S_IRWXO if self.folder & stat.S_IWGRP else self.folder & _PRIVATE

    def file(self, key: str) -> int:
        """Returns the mode of the object at `key`."""
        return (self.folder if key.endswith(_ROWS) else self.private) & 0o666


def _mode(folder: Path) -> Iterator[int]:
    try:
        yield stat.S_IMODE(os.stat(folder).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return


def own_mode(descriptor: int, mode: int) -> None:
    """Sets the mode of a file that is open, if it is this user's."""
    if os.fstat(descriptor).st_uid == os.geteuid():
        os.fchmod(descriptor, mode)
