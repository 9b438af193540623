"""Reads files that a pipeline file or its folder names: who writes those need not mean well.

A device never ends, and a pipe may wait for its writer for ever.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 1 << 20
MOST_OF_SCHEMA = 16 << 20
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_named(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Returns the bytes of a regular file, of which it has at most `most`.

    Raises OSError with a reason in words, also for what is no regular file, and for a longer one.
    """
    # No open waits: neither that of a pipe for its writer, nor that of a file which somebody has leased.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        if kind != stat.S_IFREG:
            raise OSError(errno.EINVAL, f"it is {_KINDS.get(kind, 'something else')}, not a file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(most + 1)
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20:,} MiB", str(path))
    return content


def read_named_text(path: str | Path, most: int = MOST_BYTES) -> str:
    """Returns the text of a file in UTF-8. Raises OSError as `read_named`, and for other bytes."""
    try:
        return read_named(path, most).decode()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, "it is no text in UTF-8", str(path)) from error
