"""What to do next with a log that is followed: pure, as `tail -F` decides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TailStep(StrEnum):
    READ = "read on"
    WAIT = "wait"
    LEAVE = "leave the file that was renamed for the new one"
    BEGIN_AGAIN = "begin again: the file was truncated"


@dataclass(frozen=True)
class TailedFile:
    """The open file. `seen` bytes of it have been read (up to `offset` they are shipped).

    `fits`: the bytes before `offset` are those that were shipped. `still` is how long, in seconds, it has
    not grown.
    """

    file: tuple[int, int]
    size: int
    seen: int
    offset: int
    fits: bool
    still: float


def decide(ours: TailedFile, current: tuple[int, int] | None, patience: float) -> TailStep:
    """`current` is the file (device and inode) that has the name now; None when none has.

    A writer goes on for a while with a file that was renamed, until it opens the new one: so it is left only
    after it has been still for `patience` seconds.
    """
    if ours.size < ours.offset or not ours.fits:
        return TailStep.BEGIN_AGAIN
    if ours.size != ours.seen:
        return TailStep.READ
    if current is None or current == ours.file or ours.still < patience:
        return TailStep.WAIT
    return TailStep.LEAVE
