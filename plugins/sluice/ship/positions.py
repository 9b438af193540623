"""A place in a log file, and how the same place is found again after the file was renamed or copied."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

import msgspec

from sluice.ship.lines import Chunk

MARK_BYTES = 256
_Marked = Annotated[int, msgspec.Meta(ge=0, le=MARK_BYTES)]
_InFile = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]  # as the system counts bytes


@dataclass(frozen=True)
class Mark:
    """The digest of the `size` bytes before a place, or behind it at the start of a file: a file with other
    bytes there is another file."""

    size: _Marked = 0
    sha256: str = ""

    @classmethod
    def of(cls, tail: bytes) -> Mark:
        return cls(len(tail), hashlib.sha256(tail).hexdigest())

    def fits(self, content: bytes) -> bool:
        return len(content) == self.size and (not self.size or Mark.of(content) == self)


@dataclass(frozen=True)
class FilePosition:
    """`offset` bytes and `line` lines of one file are shipped, as batch `batch`; both begin at 0.

    `at` is the record time (ms) of the last of them that had one, here or in the files before: a line without
    a time has it. `device` and `inode` are the file's, which a rename leaves alone. `done_ns`: all of the
    file is shipped, and the log goes on in what was changed after that time.
    """

    device: int
    inode: int
    batch: str
    offset: _InFile = 0
    line: _InFile = 0
    mark: Mark = Mark()
    at: int | None = None
    done_ns: int | None = None

    @property
    def known(self) -> bool:
        return bool(self.mark.size)

    @property
    def marked_from(self) -> int:
        """Where the mark's bytes begin."""
        return max(self.offset - self.mark.size, 0)

    def known_by(self, head: bytes) -> FilePosition:
        """Returns the same start of a file, known by what the file begins with."""
        return replace(self, mark=Mark.of(head[:MARK_BYTES]))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class LogChunk:
    """Lines of a log, the place behind them, and the last bytes before that."""

    chunk: Chunk
    place: FilePosition
    tail: bytes

    @classmethod
    def of(cls, read: bytes, place: FilePosition, tail: bytes) -> LogChunk:
        """Returns the lines in `read`, which begins at `place`, behind `tail`; only the last may lack its
        end."""
        chunk = Chunk.of(read.removesuffix(b"\n").split(b"\n"), place.line)
        tail = (tail + read[-MARK_BYTES:])[-MARK_BYTES:]
        behind = replace(place, offset=place.offset + len(read), line=chunk.last, mark=Mark.of(tail))
        return cls(chunk, behind, tail)
