"""Event times: read as milliseconds since the epoch, a whole column at once and odd ones value by value, and
bounded by the slice of their record."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.flow.land.reject_reasons import NO_UNIT, OTHER_UNIT, TIME_NOT_UNDERSTOOD, TOO_MANY_HOURS
from sluice.flow.land.task.records import HOUR, SLICE, TIME, numbers_of, split
from sluice.slices import FIRST_MS, LAST_MS, Slice, to_ms
from sluice.time_grammar import (
    AS_WRITTEN,
    EPOCHS,
    NUMBER,
    SIZES,
    TEXT,
    Spelled,
    TimeFormat,
    offset_seconds,
    read_time,
    text_pattern,
    unsaid_format,
)

HOUR_MS = 3_600_000
_FARTHEST = 1 << 62  # ms: of no year that is taken
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Times = tuple[np.ndarray, dict[int, str]]

# Fractions of up to six and up to nine digits; with an offset, and without one. All that Arrow reads as these
# is in the grammar.
_SHAPES = tuple(pa.timestamp(unit, zone) for zone in ("UTC", None) for unit in ("us", "ns"))
_TEXT = text_pattern()
_PARTED = r"^(?P<whole>[0-9]{1,19})(?:\.(?P<fraction>[0-9]+))?$"
"""Of a number from 0 on: one below it lies in the millisecond before."""


def read_times(values: Sequence[Any], spelled: Spelled = AS_WRITTEN) -> Times:
    """Returns (int64 ms, reason by position) of texts and numbers, by sluice.time_grammar."""
    column, refused = _read(values, spelled)
    return np.clip(column, FIRST_MS - 1, LAST_MS + 1), refused


def _read(values: Sequence[Any], spelled: Spelled) -> Times:
    kinds = set(map(type, values))
    if kinds <= {str}:
        column = _texts(values, spelled)
        return (column, {}) if column is not None else _one_by_one(values, spelled)
    if str not in kinds and spelled.format != TEXT:
        column, known = _numbers(values, spelled.format)
        return column, _refused(column, known, values, spelled)
    return _one_by_one(values, spelled)


def hour_name(hour: int) -> str:
    """Formats whole hours since the epoch: `2026-11-20T10`."""
    return (_EPOCH + timedelta(hours=hour)).isoformat()[:13]


def _texts(texts: Sequence[str], spelled: Spelled) -> np.ndarray | None:
    """Returns None when not all are times, or some are spelled so that they have to be read one by one."""
    strings = pa.array(texts, pa.string())
    if spelled.format in EPOCHS:
        return _digits(strings, spelled.format)
    column = _of_one_shape(strings, spelled.zone)
    if column is None:
        column = _of_parts(strings, spelled.zone)
    return _digits(strings, None) if column is None and spelled.format is None else column


def _digits(strings: pa.Array[Any], form: str | None) -> np.ndarray | None:
    """Returns None when not all are numbers whose unit is known, or one has to be read by itself."""
    fractions = None
    if pc.any(pc.match_substring(strings, ".")).as_py():
        found = pc.extract_regex(strings, _PARTED)
        if found.null_count:
            return None
        strings, fractions = found.flatten()
    elif not pc.all(pc.match_substring_regex(strings, NUMBER)).as_py():
        return None
    try:
        numbers = strings.cast(pa.int64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    column, known = _scaled(numbers, form)
    if fractions is not None:
        known &= (numbers != 0) | ~pc.match_substring_regex(fractions, "[1-9]").to_numpy(zero_copy_only=False)
        first, end = SIZES["epoch_s"]
        seconds = form == "epoch_s" if form is not None else (numbers >= first) & (numbers < end)
        column = column + np.where(seconds, _milliseconds(fractions), 0)
    return column if form is not None or known.all() else None


def _milliseconds(fractions: pa.Array[Any]) -> np.ndarray:
    """Returns those of the digits of a second."""
    return _whole(pc.utf8_slice_codeunits(pc.utf8_rpad(fractions, 3, "0"), 0, 3))


def _of_one_shape(strings: pa.Array[Any], zone: str | None) -> np.ndarray | None:
    """Returns None when the texts are not all of one shape that Arrow knows, with a year above 0."""
    for shape in _SHAPES:
        try:
            strings.slice(0, 1).cast(shape)  # a cast of all that fails takes as long as one that does not
            stamps = strings.cast(shape).view(pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            continue
        ms = stamps // (1000 if shape.unit == "us" else 1_000_000)
        if len(ms) and ms.min() < FIRST_MS:
            return None
        return _in_zone(ms, zone) if zone and shape.tz is None else ms
    return None


def _of_parts(strings: pa.Array[Any], zone: str | None) -> np.ndarray | None:
    """Returns None when not all texts are of the grammar, or one is of a day that there is not."""
    found = pc.extract_regex(strings, _TEXT)
    if found.null_count:
        return None
    parts: dict[str, Any] = {}
    for name, texts in zip((field.name for field in found.type), found.flatten(), strict=True):
        plain = name.rstrip("12_")
        parts[plain] = pc.binary_join_element_wise(parts[plain], texts, "") if plain in parts else texts
    try:
        days = pc.binary_join_element_wise(parts["y"], parts["m"], parts["d"], "-").cast(pa.date32())
    except pa.ArrowInvalid:
        return None
    seconds = days.cast(pa.int32()).to_numpy().astype(np.int64) * 86_400 + _seconds(parts, "h", "i", "s")
    ms = seconds * 1000 + _milliseconds(parts["f"])
    sign = parts["sign"]
    away = _seconds(parts, "oh", "oi", "os") * np.where(_equal(sign, "-"), -1, 1)
    if zone:
        local = _equal(sign, "") & _equal(parts["utc"], "")
        ms = np.where(local, _in_zone(ms, zone), ms)
    ms = ms - away * 1000
    return ms if not len(ms) or ms.min() >= FIRST_MS else None


def _equal(texts: pa.Array[Any], text: str) -> np.ndarray:
    equal: np.ndarray = pc.equal(texts, pa.scalar(text)).to_numpy(zero_copy_only=False)
    return equal


def _seconds(parts: dict[str, Any], *names: str) -> np.ndarray:
    hours, minutes, seconds = (_whole(parts[name]) for name in names)
    total: np.ndarray = hours * 3600 + minutes * 60 + seconds
    return total


def _whole(digits: pa.Array[Any]) -> np.ndarray:
    """Returns the numbers, 0 where there is no digit."""
    texts = pc.if_else(pc.equal(digits, pa.scalar("")), "0", digits)
    numbers: np.ndarray = texts.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _in_zone(local_ms: np.ndarray, zone: str) -> np.ndarray:
    """Returns the instants of local times. An hour has few different seconds: each is looked up once."""
    seconds, places = np.unique(local_ms // 1000, return_inverse=True)
    offsets = np.array([_offset(zone, second) for second in seconds.tolist()], np.int64)
    instants: np.ndarray = local_ms - offsets[places] * 1000
    return instants


def _offset(zone: str, second: int) -> int:
    try:
        return offset_seconds(zone, second)
    except OverflowError:  # a year that no datetime has
        return 0


def _one_by_one(values: Sequence[Any], spelled: Spelled) -> Times:
    column = np.zeros(len(values), np.int64)
    refused: dict[int, str] = {}
    for position, value in enumerate(values):
        try:
            moment = read_time(value, spelled.format, spelled.zone)
        except OverflowError:
            column[position] = _FARTHEST
            continue
        if moment is None:
            unsaid = unsaid_format(value) if spelled.format is None else None
            refused[position] = TIME_NOT_UNDERSTOOD if unsaid is None else NO_UNIT[unsaid]
        else:
            column[position] = min(max(moment.nanoseconds // 1_000_000, -_FARTHEST), _FARTHEST)
    return column, refused


def _refused(
    column: np.ndarray, known: np.ndarray, values: Sequence[Any], spelled: Spelled
) -> dict[int, str]:
    """Reads the numbers whose unit is not known one by one, into the column."""
    left = np.flatnonzero(~known).tolist()
    times, reasons = _one_by_one([values[position] for position in left], spelled)
    column[left] = times
    return {left[position]: reason for position, reason in reasons.items()}


def _numbers(values: Sequence[float], form: str | None) -> tuple[np.ndarray, np.ndarray]:
    try:
        numbers = np.array(values)
        if numbers.dtype.kind not in "if":
            numbers = np.array(values, np.float64)
    except OverflowError:  # an integer of more than 308 digits
        numbers = np.array([min(max(value, -(10.0**300)), 10.0**300) for value in values], np.float64)
    return _scaled(numbers, form)


def _scaled(numbers: np.ndarray, form: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Returns the milliseconds of numbers, and of which the unit is known."""
    if form is not None:
        return _by_unit(numbers, EPOCHS[form]), np.ones(len(numbers), bool)
    column, known, size = np.zeros(len(numbers), np.int64), numbers == 0, np.floor(np.abs(numbers))
    for one, (first, end) in SIZES.items():
        of_unit = (size >= first) & (size < end)
        column[of_unit] = _by_unit(numbers[of_unit], EPOCHS[one])
        known |= of_unit
    return column, known


def _by_unit(numbers: np.ndarray, digits: int) -> np.ndarray:
    if numbers.dtype.kind == "i":
        bounded = np.clip(numbers, -_FARTHEST // 1000, _FARTHEST // 1000) if digits < 3 else numbers
        whole: np.ndarray = bounded * 10 ** (3 - digits) if digits <= 3 else bounded // 10 ** (digits - 3)
        return whole
    # A double is the number that it is the nearest one to: from the double of a millisecond on it is in that.
    numbers = np.clip(numbers, -_FARTHEST, _FARTHEST)
    per, of = 10.0 ** max(0, 3 - digits), 10.0 ** max(0, digits - 3)
    ms = np.round(numbers * per / of)
    ms -= ms * of / per > numbers
    return np.clip(ms, -_FARTHEST, _FARTHEST).astype(np.int64)


# Numbers in another unit than the format says. Of those that lie decades from their record by the format, and
# near it in another unit, none is meant as it is.
_DECADES_MS = 20 * 366 * 86_400_000


def other_units(times: np.ndarray, around: np.ndarray, form: TimeFormat | None) -> dict[int, str]:
    """Returns the reason of each such time; `around` are instants in ms near their records."""
    if form is None or form not in EPOCHS:
        return {}
    far = np.flatnonzero(np.abs(times - around) > _DECADES_MS)
    reasons: dict[int, str] = {}
    if not len(far):
        return reasons
    counted = times[far].astype(np.float64) / 10.0 ** (3 - EPOCHS[form])
    for other, digits in EPOCHS.items():
        near = np.abs(counted * 10.0 ** (3 - digits) - around[far]) <= _DECADES_MS
        reasons |= dict.fromkeys(far[near].tolist(), OTHER_UNIT[other])
    return reasons


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
        self.starts = np.array([to_ms(slice_.start) for slice_ in slices], np.int64)
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
