"""Event times: read as milliseconds since the epoch, a whole column at once and odd ones value by value, and
bounded by the slice of their record."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.flow.land.reject_reasons import TIME_NOT_UNDERSTOOD, TOO_MANY_HOURS, Rejected
from sluice.flow.land.task.records import HOUR, SLICE, TIME, numbers_of, split
from sluice.slices import FIRST_MS, LAST_MS, Slice, to_ms

HOUR_MS = 3_600_000
_OUTSIDE = LAST_MS + 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Times = tuple[np.ndarray, dict[int, str]]
TimeReader = Callable[[Sequence[Any]], Times]
"""Of a column of values, which are of the type that the format asks for."""

# Python takes any character for the T, so that 2026-11-20510:00 would be ten o'clock.
_DAY_FIRST = re.compile(r"\d{4}-\d\d-\d\d[0-9A-SU-Za-su-z]", re.ASCII)
# Fractions of up to six and up to nine digits; with a zone, and without one, which is UTC.
_SHAPES = tuple(pa.timestamp(unit, zone) for zone in ("UTC", None) for unit in ("us", "ns"))


def iso8601(texts: Sequence[str]) -> Times:
    """Returns (int64 ms, reason by position). Zones may differ; a time without one is UTC."""
    column = _iso8601_column(texts)
    return (column, {}) if column is not None else _one_by_one(texts, _iso8601_value)


def epoch_s(numbers: Sequence[float]) -> Times:
    """Parses as `iso8601` does, seconds since the epoch with any fraction."""
    return _numbers(numbers, 1000)


def epoch_ms(numbers: Sequence[float]) -> Times:
    return _numbers(numbers, 1)


READERS: dict[str, TimeReader] = {"iso8601": iso8601, "epoch_s": epoch_s, "epoch_ms": epoch_ms}


def hour_name(hour: int) -> str:
    """Formats whole hours since the epoch: `2026-11-20T10`."""
    return (_EPOCH + timedelta(hours=hour)).isoformat()[:13]


def _iso8601_column(texts: Sequence[str]) -> np.ndarray | None:
    """Returns None when the texts are not all of one shape that Arrow knows, with a year above 0."""
    strings = pa.array(texts, pa.string())
    for shape in _SHAPES:
        try:
            stamps = strings.cast(shape).view(pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            continue
        ms = stamps // (1000 if shape.unit == "us" else 1_000_000)
        return ms if not len(ms) or ms.min() >= FIRST_MS else None
    return None


def _iso8601_value(text: str) -> int:
    if _DAY_FIRST.match(text):
        raise Rejected(TIME_NOT_UNDERSTOOD)
    try:
        instant = datetime.fromisoformat(f"{text[:-1]}Z" if text.endswith("z") else text)
        if instant.tzinfo is None:
            instant = instant.replace(tzinfo=UTC)
        since = instant - _EPOCH
    except OverflowError:
        return _OUTSIDE
    except ValueError:
        raise Rejected(TIME_NOT_UNDERSTOOD) from None
    return since // timedelta(milliseconds=1)


def _one_by_one(texts: Sequence[str], read: Callable[[str], int]) -> Times:
    column = np.zeros(len(texts), np.int64)
    refused: dict[int, str] = {}
    for position, text in enumerate(texts):
        try:
            column[position] = read(text)
        except Rejected as verdict:
            refused[position] = verdict.reason
    return column, refused


def _numbers(numbers: Sequence[float], per_unit: int) -> Times:
    try:
        column = np.array(numbers, np.float64)
    except OverflowError:  # an integer of more than 308 digits
        column = np.array([min(max(number, FIRST_MS * 10), LAST_MS * 10) for number in numbers], np.float64)
    whole = np.floor(column)
    # Microseconds first: 1700000000.123 is stored a little below itself. Of the fraction alone: microseconds
    # since 1970 are beyond a double's 53 bits from the year 2255 on.
    fraction = np.floor(np.round((column - whole) * (per_unit * 1000)) / 1000)
    ms = whole * per_unit + fraction
    return np.clip(ms, FIRST_MS - 1, _OUTSIDE).astype(np.int64), {}


def event_bounds(
    slices: Sequence[Slice], max_early: timedelta | None, max_late: timedelta | None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns by slice the earliest and the latest event time that its records may have, in ms, both
    included."""
    early = [FIRST_MS if max_late is None else to_ms(slice_.start - max_late) for slice_ in slices]
    late = [LAST_MS if max_early is None else to_ms(slice_.end + max_early) for slice_ in slices]
    return np.array(early, np.int64), np.array(late, np.int64)


# Bounds the event hours of a slice that are far from it: each is a file for each type.
NEAR = timedelta(days=31)
MOST = 1_000


class TimeBounds:
    """The stage that rejects events of too many hours far from their slice; one per task.

    On a side where `max_early` or `max_late` is set, that is the bound, and no hour is far. On another, it
    takes all event hours that are near the slice, and the first MOST others of each.
    """

    def __init__(
        self, slices: Sequence[Slice], max_early: timedelta | None, max_late: timedelta | None
    ) -> None:
        self._earliest, self._latest = event_bounds(slices, max_early, max_late)
        early, late = (NEAR if limit is None else None for limit in (max_early, max_late))
        self._first, self._last = event_bounds(slices, early, late)
        self._admitted: dict[int, set[int]] = {}

    def outside(self, slices: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Returns which times are before `max_late` or after `max_early` of their slices."""
        outside: np.ndarray = (times < self._earliest[slices]) | (times > self._latest[slices])
        return outside

    def may_have(self, hour: int) -> bool:
        """Returns whether events of an hour since the epoch may be far from the first slice."""
        first, last = int(self._first[0]), int(self._last[0])
        return hour * HOUR_MS < first or (hour + 1) * HOUR_MS > last + 1

    def split(self, rows: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        slices, times = numbers_of(rows, SLICE), numbers_of(rows, TIME)
        far = (times < self._first[slices]) | (times > self._last[slices])
        reasons: dict[int, str] = {}
        if far.any():
            hours = numbers_of(rows, HOUR)
            for row in np.flatnonzero(far).tolist():
                if not self._admits(int(slices[row]), int(hours[row])):
                    reasons[row] = TOO_MANY_HOURS
        return split(rows, reasons)

    def _admits(self, slice_number: int, hour: int) -> bool:
        admitted = self._admitted.setdefault(slice_number, set())
        if hour not in admitted and len(admitted) < MOST:
            admitted.add(hour)
        return hour in admitted
