"""The protocol's steps, in order. `load` says at each that it is reached: tests kill it right there."""

from __future__ import annotations

from enum import StrEnum


class Step(StrEnum):
    LEASED = "leased"
    CLAIMED = "claimed"
    FENCED_OFF = "fenced off"  # leftovers dropped, earlier statements and mutations killed
    CHECKED = "checked"
    FENCED = "fenced"  # this attempt's fence table is there
    STAGED = "staged"
    REVIEWED = "reviewed"  # misfits staged, rows landed = staged + misfits
    REHEARSED = "rehearsed"  # whatever could refuse the steps below has been asked
    REVOKED = "revoked"
    DELETED = "deleted"
    REJECTED = "rejected"
    MOVED = "moved"
    COUNTED = "counted"
    COMMITTED = "committed"
    DROPPED = "dropped"
    RELEASED = "released"
