"""The named points between the steps of resolve, land, load, verify, publish and forget: a crash there is
harmless.

Each is reached right after what its name says was done. tests/faults kills processes and servers there, and
proves that no point is missing between two different effects and that none is dead.
"""

from __future__ import annotations

from enum import StrEnum


class TableLoad(StrEnum):
    LEASED = "leased"
    CLAIMED = "claimed"
    FENCED_OFF = "fenced off"  # leftovers dropped, earlier statements and mutations killed
    CHECKED = "checked"
    FENCED = "fenced"  # this attempt's fence table is there
    STAGED = "staged"
    REVIEWED = "reviewed"  # rejected rows staged, rows landed = staged + rejected rows
    REHEARSED = "rehearsed"  # whatever could refuse the steps below has been asked
    REVOKED = "revoked"
    DELETED = "deleted"
    REJECTED = "rejected"
    MOVED = "moved"
    COUNTED = "counted"
    COMMITTED = "committed"
    DROPPED = "dropped"
    RELEASED = "released"


class Resolve(StrEnum):
    READ = "boundary log read"
    ASKED = "Kafka asked"
    STORED = "boundaries stored"
    CHECKPOINTED = "boundary checkpoint written"


class Land(StrEnum):
    CAUGHT_UP = "earlier moves finished"
    PLANNED = "reads planned"
    FILE_WRITTEN = "file written"
    FILE_HANDED_OVER = "file handed over"  # it is in the attempt
    TASK_DONE = "task done"
    READ = "records read"
    RULES_KEPT = "rules kept"
    EXPLAINED = "gaps explained"
    MERGED = "small files merged"
    OLD_MOVED = "old move finished"
    OLD_COPIED = "old manifest copied"
    COMMITTED = "manifest written"
    FILE_MOVED = "file moved"
    MOVED = "files moved"
    OLD_REMOVED = "old files removed"
    MARKED = "slice marked"
    SWEPT = "attempt removed"


class Load(StrEnum):
    """Beside the protocol's own steps."""

    PREPARED = "system tables made"
    ANNOUNCED = "new columns remembered"
    FIXED = "types of new columns fixed"
    ALTERED = "new columns added"
    EVOLVED = "new columns confirmed"
    VIEWED = "readers' view made"
    RULES_KEPT = "rules kept"
    STATEMENT = "statement done"


class Verify(StrEnum):
    """Of the tables that a comparison of contents makes."""

    LISTED = "units listed"
    STAGED = "rows staged"
    REVIEWED = "rejected rows staged"
    DROPPED = "tables dropped"


class Forget(StrEnum):
    DECIDED = "units verified"
    NOTED = "forgetting noted"
    HELD = "leases still held"
    UNMARKED = "event hours unmarked"
    DELETED = "files deleted"
    CONFIRMED = "deletion noted"


class Publish(StrEnum):
    SURVEYED = "slices surveyed"
    HOUR_MARKED = "hour marked"
    HOURS_MARKED = "hours marked"
    GATHERED = "events gathered"  # Airflow stores them when its task ends


class Erase(StrEnum):
    """Beside those of commits, moves and loads. `sluice run` reaches none of them."""

    ASKED = "entry written"
    SEARCHED = "units searched"
    REWRITTEN = "units rewritten"
    LOADED = "units loaded"
    CLEANED = "left files removed"
    RECEIPTED = "receipt written"


Point = Resolve | Land | Load | TableLoad | Verify | Publish | Forget | Erase

# Those that a run over hours reaches.
POINTS: tuple[Point, ...] = (*Resolve, *Land, *Load, *TableLoad, *Verify, *Publish)


def reached(point: Point) -> None:
    """Does nothing. It is called as `crash_points.reached(…)`, so that a test can replace it."""
