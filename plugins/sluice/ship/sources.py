"""The bytes of a file, decompressed by its name's ending."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, cast

import zstandard

from sluice.errors import WrongUse
from sluice.ship.lines import READ_BYTES

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_COMPRESSED = {".gz", ".zst"}


@contextmanager
def opened(path: Path, name: str) -> Iterator[BufferedIOBase]:
    """Yields the file at `path`; `name` is what its user calls it, and has the ending.

    Raises WrongUse when there is no such file, or it is damaged.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise WrongUse(f"{name}: {error.strerror}") from error
    with file, decompressed(file, name) as stream:
        yield stream


@contextmanager
def decompressed(file: BufferedIOBase, name: str) -> Iterator[BufferedIOBase]:
    """Raises WrongUse when the file is damaged."""
    try:
        yield _reader(file, Path(name).suffix)
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise WrongUse(f"{name} is damaged ({error}): what came before it was published") from error


def standard_input() -> BufferedIOBase:
    return cast(BufferedIOBase, sys.stdin.buffer)  # typing says BinaryIO, which has no read1


def compressed(name: str) -> bool:
    return Path(name).suffix in _COMPRESSED


def _reader(file: BufferedIOBase, suffix: str) -> BufferedIOBase:
    if suffix == ".gz":
        return gzip.open(file)
    if suffix == ".zst":
        return io.BufferedReader(ZstdFile(file), READ_BYTES)
    return file


_BLOCK_BYTES = 16 << 10


class ZstdFile(io.RawIOBase):
    """The content of all frames. `readinto` raises EOFError when the last one has no end."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._fed = b""  # compressed, of a frame that has not begun
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        while not self._ready and (block := self._fed or self._file.read(_BLOCK_BYTES)):
            self._feed(block)
        if not self._ready and self._frame is not None:
            raise EOFError("its last frame is cut off")
        size = min(len(view), len(self._ready))
        view[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def _feed(self, block: bytes) -> None:
        frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
        self._ready = memoryview(frame.decompress(block))
        self._fed = frame.unused_data if frame.eof else b""
        self._frame = None if frame.eof else frame
