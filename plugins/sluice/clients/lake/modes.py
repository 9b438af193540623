"""Who may read the files of a lake in a folder: the mode of the folder decides, and no umask does."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
