"""Opens files that others name or write: a pipeline file's, and the lake's.

A device never ends, a pipe may wait for its writer for ever, and a link may lead anywhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_BYTES = 1 << 20
MOST_OF_SCHEMA = 16 << 20
_CHUNK = 1 << 20
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


class NotAFile(OSError):
    """Another thing than a regular file has the name of one. Its `strerror` says in words what it is."""

    def __init__(self, mode: int, path: str | Path, wanted: str = "file") -> None:
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        super().__init__(errno.EINVAL, f"it is {kind}, not a {wanted}", str(path))


@contextmanager
def opened(path: str | Path, links: bool = True, folder: int | None = None) -> Iterator[int]:
    """Yields the descriptor of a regular file (in the open `folder`) that is open for reading; with `links`,
    also behind a link.

    Raises NotAFile, and OSError as `os.open`.
    """
    # No open waits: neither that of a pipe for its writer, nor that of a file which somebody has leased.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(path, flags if links else flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP and not links:
            raise NotAFile(stat.S_IFLNK, path) from error
        if error.errno == errno.ENXIO:
            raise NotAFile(os.stat(path, dir_fd=folder).st_mode, path) from error
        raise
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise NotAFile(mode, path)
        yield descriptor
    finally:
        os.close(descriptor)


def read_named(
    path: str | Path, most: int = MOST_BYTES, links: bool = True, folder: int | None = None
) -> bytes:
    """Returns the bytes of a regular file (in the open `folder`), of which it has at most `most`.

    Raises OSError with a reason in words, also for what is no regular file, and for a longer one.
    """
    parts, left = [], most + 1
    with opened(path, links, folder) as descriptor:
        while left and (part := os.read(descriptor, min(left, _CHUNK))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20:,} MiB", str(path))
    return b"".join(parts)


def read_named_text(path: str | Path, most: int = MOST_BYTES) -> str:
    """Returns the text of a file in UTF-8. Raises OSError as `read_named`, and for other bytes."""
    try:
        return read_named(path, most).decode()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, "it is no text in UTF-8", str(path)) from error
