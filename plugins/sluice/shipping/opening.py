"""The bytes of a file, decompressed by its name's ending."""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import zstandard

from sluice.errors import WrongUse
from sluice.shipping.lines import READ_BYTES
from sluice.shipping.zstd_file import ZstdFile

_COMPRESSED = {".gz", ".zst"}


@contextmanager
def opened(path: Path, name: str) -> Iterator[BinaryIO]:
    """The file at `path`; `name` is what its user calls it, and has the ending.

    Raises WrongUse when there is no such file, or it is damaged.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise WrongUse(f"{name}: {error.strerror}") from error
    with file, decompressed(file, name) as stream:
        yield stream


@contextmanager
def decompressed(file: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """Raises WrongUse when the file is damaged."""
    try:
        yield _reader(file, Path(name).suffix)
    except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise WrongUse(f"{name} is damaged ({error}): what came before it was published") from error


def standard_input() -> BinaryIO:
    return sys.stdin.buffer


def compressed(name: str) -> bool:
    return Path(name).suffix in _COMPRESSED


def _reader(file: BinaryIO, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        return gzip.open(file)
    if suffix == ".zst":
        return io.BufferedReader(ZstdFile(file), READ_BYTES)
    return file
