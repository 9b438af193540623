"""Reads .zst files to their end, and tells one that was cut off.

zstandard's own stream reader ends in silence there: a batch that was copied half would count as whole.
"""

from __future__ import annotations

import io
from typing import BinaryIO

import zstandard

_BLOCK_BYTES = 16 << 10


class ZstdFile(io.RawIOBase):
    """The content of all frames. `readinto` raises EOFError when the last one has no end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._fed = b""  # compressed, of a frame that has not begun
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        while not self._ready and (block := self._fed or self._file.read(_BLOCK_BYTES)):
            self._feed(block)
        if not self._ready and self._frame is not None:
            raise EOFError("its last frame is cut off")
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def _feed(self, block: bytes) -> None:
        frame = self._frame or zstandard.ZstdDecompressor().decompressobj()
        self._ready = memoryview(frame.decompress(block))
        self._fed = frame.unused_data if frame.eof else b""
        self._frame = None if frame.eof else frame
