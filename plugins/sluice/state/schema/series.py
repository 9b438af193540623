"""When something that events have begins, and when it ends: from how many rows have it, slice by slice. Pure.

A judgement needs enough rows to mean something. What a share of the rows has is in none of n rows by chance
with `(1 - share) ** n`: at EXPECTED rows that should have it, with one in 500 million. Slices of few rows add
up until they are enough, so each change is judged in exactly one slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

EXPECTED = 20
"""Rows that should have it, where none has."""
FEWEST = 10
"""Rows that have it, for a beginning."""
COMMON, LIKELY = 0.1, 0.5
"""Shares of the rows: what fewer than COMMON have does not end; what fewer than LIKELY have ends after
STEADY slices with it."""
STEADY = 3
STRAY, _NEAR = 10, 4
"""How many times rarer something was that was there by mistake, and at most that was there at times."""
_FLICKERS = 5
"""Rows that should have it in a stretch without any, after which nothing that ends is an event."""


@dataclass(frozen=True)
class FieldSeries:
    """By slice, the oldest first: rows, those of them that have it, and how many more may have it."""

    rows: Sequence[int]
    having: Sequence[int]
    unknown: Sequence[int]


@dataclass(frozen=True)
class Turn:
    """Rows, and those that have it, in the slices before `at` and from there on."""

    at: int
    rows_before: int
    having_before: int
    rows: int
    having: int


def begins(series: FieldSeries) -> Turn | None:
    """Returns a turn where it is new, and the last slice is the first in which there are enough rows to say
    so."""
    turn = _begun(series) if series.having[-1] else None
    if turn is None or any(_begun(_until(series, end)) for end in range(2, len(series.rows))):
        return None
    return turn


def _begun(series: FieldSeries) -> Turn | None:
    """Since the first slice that has it in a share that is near today's; strays before that do not count."""
    today = _share_today(series)
    if today is None:
        return None
    pairs = zip(series.having, series.rows, strict=True)
    turn = _turn(series, next(at for at, (having, rows) in enumerate(pairs) if having * STRAY > today * rows))
    missed = turn.having / turn.rows * turn.rows_before - sum(series.unknown[: turn.at])
    return turn if missed >= EXPECTED else None


def _share_today(series: FieldSeries) -> float | None:
    """In the newest slices that have it in FEWEST rows."""
    for at in range(len(series.rows) - 1, -1, -1):
        having = sum(series.having[at:])
        if having >= FEWEST:
            return having / sum(series.rows[at:])
    return None


def recurs(series: FieldSeries, share: float) -> bool:
    """Returns whether slices had it in a share that is not far below this one."""
    pairs = zip(series.having, series.rows, strict=True)
    return sum(having for having, rows in pairs if having * _NEAR >= share * rows) >= FEWEST


def ends(series: FieldSeries) -> Turn | None:
    """Returns a turn where it is no more, and the last slice is the first in which there are enough rows to
    say so."""
    if series.having[-1]:
        return None
    last = max((at for at, having in enumerate(series.having) if having), default=-1)
    turn = _turn(series, last + 1)
    if turn.having_before < EXPECTED or not turn.rows:
        return None
    first = next(at for at, having in enumerate(series.having) if having)
    share = turn.having_before / sum(series.rows[first : turn.at])
    missed = share * turn.rows - sum(series.unknown[turn.at :])
    missed_last = share * series.rows[-1] - series.unknown[-1]
    if not missed - missed_last < EXPECTED <= missed or not _steady(series, turn, share):
        return None
    return None if longest_gap(series, turn.at, share) >= _FLICKERS else turn


def longest_gap(series: FieldSeries, until: int, share: float) -> float:
    """Of the stretches without it, between two slices that have it before `until`, the most rows that should
    have it."""
    pairs = list(zip(series.having, series.rows, strict=True))[:until]
    stretches = [
        (present, list(stretch)) for present, stretch in groupby(pairs, key=lambda pair: pair[0] > 0)
    ]
    inner = [stretch for present, stretch in stretches[1:] if not present]
    return share * max((sum(rows for _, rows in stretch) for stretch in inner), default=0)


def _steady(series: FieldSeries, turn: Turn, share: float) -> bool:
    slices = sum(having > 0 for having in series.having)
    return share >= COMMON and (share >= LIKELY or slices >= STEADY)


def _until(series: FieldSeries, end: int) -> FieldSeries:
    return FieldSeries(series.rows[:end], series.having[:end], series.unknown[:end])


def _turn(series: FieldSeries, at: int) -> Turn:
    having, rows = series.having, series.rows
    return Turn(at, sum(rows[:at]), sum(having[:at]), sum(rows[at:]), sum(having[at:]))
