"""An object of the lake as a file of which only the parts are read that are asked for."""

from __future__ import annotations

import io

from sluice.clients.lake.base import Parts


class RangedFile(io.RawIOBase):
    """`size`: the object's bytes. Reading raises what `Parts.part` raises."""

    def __init__(self, lake: Parts, key: str, size: int) -> None:
        self._lake, self._key, self._size = lake, key, size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        until = self._size if size < 0 else min(self._at + size, self._size)
        data = self._lake.part(self._key, self._at, until) if self._at < until else b""
        self._at += len(data)
        return data
