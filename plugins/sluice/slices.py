"""Slices: hours of Kafka record time, aligned to UTC, and the ranges that commands and DAGs ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import pendulum

from sluice.errors import WrongUse

HOUR = timedelta(hours=1)
FIRST_MS = -62_135_596_800_000
"""0001-01-01T00Z, as milliseconds since the epoch; LAST_MS is the end of 9999."""
LAST_MS = 253_402_300_799_999
MOST_SLICES = 100_000
"""Eleven years of hours: as many as one command, one plan or one run of the backfill DAG takes."""
_EPOCH = pendulum.from_timestamp(0)
_MOST_SHOWN = 60  # characters of what is no instant
# Kafka's times begin in 1970, and a table's `_slice DateTime` ends in February 2106.
FIRST, _END = pendulum.datetime(1970, 1, 1), pendulum.datetime(2106, 1, 1)
_BOUNDS = "expected an instant from 1970-01-01 to 2106-01-01, which Kafka and a table's `_slice` can hold"
_ID = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d)(\d\d)?Z", re.ASCII)
_DATE = r"\d{4}(-?\d\d(-?\d\d)?|-?\d{3}|-?W\d\d(-?\d)?)?"
_TIME = r"\d\d(:?\d\d(:?\d\d([.,]\d+)?)?)?(Z|[+-]\d\d(:?\d\d)?)?"
_ISO_8601 = re.compile(f"{_DATE}([T ]{_TIME})?", re.ASCII)


@dataclass(frozen=True, order=True)
class Slice:
    """`[start, start + length)` of Kafka record time; `start` is UTC and a multiple of `length`."""

    start: pendulum.DateTime
    length: timedelta = HOUR

    @property
    def end(self) -> pendulum.DateTime:
        # pendulum's own addition asks the calendar, and costs twenty times as much.
        return datetime.__add__(self.start, self.length)

    @property
    def id(self) -> str:
        """`2026-11-20T10Z`; where slices are not whole hours `2026-11-20T1015Z`."""
        at = self.start  # strftime takes four times as long, and ids are asked for by the hundred thousand
        minute = f"{at.minute:02}" if has_minutes(self.length) else ""
        return f"{at.year:04}-{at.month:02}-{at.day:02}T{at.hour:02}{minute}Z"

    @property
    def words(self) -> tuple[str, str, str, str]:
        """Returns it as a command takes it."""
        return SliceRange(self.start, self.end, self.length).words

    @classmethod
    def from_id(cls, slice_id: str, length: timedelta = HOUR) -> Slice:
        """Raises WrongUse when the text is not the id of a slice of that length."""
        start = _start_of(slice_id)
        if start is None:
            raise WrongUse(f"{_shown(slice_id)} is not a slice id such as 2026-11-20T10Z")
        slice_ = cls(start, length)
        if not FIRST <= start < _END:
            raise WrongUse(f"{_shown(slice_id)}: {_BOUNDS}")
        if slice_.id != slice_id or floor(start, length) != start:
            raise WrongUse(f"{slice_id!r} is not the id of a slice of {length}")
        return slice_

    @classmethod
    def of_folder(cls, name: str, length: timedelta) -> Slice | None:
        """Returns the slice of a folder of the lake; None for a folder that no landing has made.

        Raises WrongUse for a slice of another length.
        """
        return None if _start_of(name) is None else cls.from_id(name, length)


def words_of(slice_id: str) -> tuple[str, str, str, str]:
    """Returns the slice of that id as a command takes it, however long slices are: ranges are widened."""
    start = _start_of(slice_id)
    if start is None:
        raise WrongUse(f"{_shown(slice_id)} is not a slice id such as 2026-11-20T10Z")
    least = timedelta(minutes=1) if len(slice_id) > len("2026-11-20T10Z") else HOUR
    return SliceRange(start, datetime.__add__(start, least)).words


def has_minutes(length: timedelta) -> bool:
    """Returns whether the ids of slices of this length say the minute."""
    return bool(length % HOUR)


def _start_of(slice_id: str) -> pendulum.DateTime | None:
    match = _ID.fullmatch(slice_id)
    if match is None:
        return None
    year, month, day, hour, minute = (int(part or 0) for part in match.groups())
    try:
        return pendulum.datetime(year, month, day, hour, minute)
    except ValueError:
        return None


def utc(instant: datetime) -> pendulum.DateTime:
    """Returns the same instant as a pendulum DateTime in UTC; one without a zone is UTC."""
    return pendulum.instance(instant, tz="UTC").in_timezone("UTC")


def iso(instant: datetime | None) -> str:
    """Returns ISO 8601 in UTC, to the second; empty for None."""
    return "" if instant is None else utc(instant).isoformat(timespec="seconds")


def from_seconds(seconds: int) -> pendulum.DateTime:
    """Returns seconds since the epoch as an instant, at a tenth of the cost of `pendulum.from_timestamp`."""
    return datetime.__add__(_EPOCH, timedelta(seconds=seconds))


def from_ms(ms: int) -> pendulum.DateTime:
    """Returns Kafka's milliseconds since the epoch as an instant; outside the years 1 to 9999 the nearest.

    A record's stamp may be any number: producers write microseconds and nanoseconds, too.
    """
    seconds, rest = divmod(min(max(ms, FIRST_MS), LAST_MS), 1000)
    return pendulum.from_timestamp(seconds).replace(microsecond=rest * 1000)


def ms_text(ms: int) -> str:
    """Returns the instant, or the number itself where it is of no year from 1 to 9999."""
    return str(from_ms(ms)) if FIRST_MS <= ms <= LAST_MS else f"{ms} ms since the epoch"


def to_ms(instant: datetime) -> int:
    """Returns milliseconds since the epoch, as Kafka counts."""
    return round(utc(instant).timestamp() * 1000)


def parse_instant(text: str, now: datetime, length: timedelta = HOUR) -> pendulum.DateTime:
    """Returns an instant from a command line: ISO 8601 with a date, a slice's id, or `now`.

    `now` is the end of the last complete slice. Raises WrongUse for anything else, and for years of which a
    table's `_slice` holds no hour.
    """
    if text == "now":
        return floor(utc(now), length)
    try:
        instant = _start_of(text) or parse_iso8601(text)
    except ValueError:
        raise WrongUse(f"{_shown(text)} is not an instant such as 2026-11-20T10:00Z, nor `now`") from None
    return bounded(instant, text)


def parse_iso8601(text: str) -> pendulum.DateTime:
    """Returns the instant of ISO 8601 with a date, UTC where it names no zone. Raises ValueError for anything
    else."""
    # Beside it pendulum reads durations, ranges and more, and raises errors of any kind for some.
    parsed = pendulum.parse(text) if _ISO_8601.fullmatch(text) else None
    if not isinstance(parsed, pendulum.DateTime):
        raise ValueError(f"{_shown(text)} is no instant")
    parsed.utcoffset()  # raises ValueError for a zone that is none
    return parsed


def _shown(text: str) -> str:
    return repr(text) if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]!r}…"


def bounded(instant: datetime, text: str = "") -> pendulum.DateTime:
    """Returns the instant in UTC. Raises WrongUse, which quotes `text`, for one that no slice can be of."""
    with suppress(OverflowError):  # a zone can move an instant out of the calendar
        utc_instant = utc(instant)
        if FIRST <= utc_instant <= _END:
            return utc_instant
    raise WrongUse(f"{_shown(text or str(instant))}: {_BOUNDS}")


def floor(instant: datetime, length: timedelta) -> pendulum.DateTime:
    """Returns the last slice edge at or before `instant`."""
    seconds = int(length.total_seconds())
    return pendulum.from_timestamp(utc(instant).int_timestamp // seconds * seconds)


def ceil(instant: datetime, length: timedelta) -> pendulum.DateTime:
    """Returns the first slice edge at or after `instant`."""
    edge = floor(instant, length)
    return edge if edge == utc(instant) else edge + length


@dataclass(frozen=True)
class SliceRange:
    """Whole slices `[start, end)`; both ends are slice edges."""

    start: pendulum.DateTime
    end: pendulum.DateTime
    length: timedelta = HOUR

    @classmethod
    def widen(cls, start: datetime, end: datetime, length: timedelta = HOUR) -> SliceRange:
        """Returns the smallest range of whole slices that holds `[start, end)`.

        Raises WrongUse when the range is empty or runs backwards, or holds what no slice can be of.
        """
        for edge in (start, end):
            bounded(edge)
        if utc(end) <= utc(start):
            raise WrongUse(f"the range is empty: it ends at {utc(end)}, not after its start {utc(start)}")
        return cls(floor(start, length), ceil(end, length), length)

    def __iter__(self) -> Iterator[Slice]:
        slice_ = Slice(self.start, self.length)
        while slice_.start < self.end:
            yield slice_
            slice_ = Slice(slice_.end, self.length)

    def __len__(self) -> int:
        return int((self.end.timestamp() - self.start.timestamp()) // self.length.total_seconds())

    @property
    def words(self) -> tuple[str, str, str, str]:
        """Returns the range as a command takes it."""
        return ("--from", f"{self.start:%Y-%m-%dT%H:%MZ}", "--to", f"{self.end:%Y-%m-%dT%H:%MZ}")

    def at_most(self, most: int = MOST_SLICES) -> SliceRange:
        """Raises WrongUse when the range has more slices than that."""
        if len(self) > most:
            raise WrongUse(f"{self} has {len(self):,} slices, more than {most:,}: ask for it in parts")
        return self

    def __str__(self) -> str:
        return f"[{self.start:%Y-%m-%dT%H:%MZ}, {self.end:%Y-%m-%dT%H:%MZ})"


@dataclass(frozen=True, order=True)
class Unit:
    """The unit of completion everywhere: one slice from one Kafka cluster."""

    slice: Slice
    cluster: str

    def __str__(self) -> str:
        return f"{self.slice.id}/{self.cluster}"


def last_late(slice_: Slice, grace: timedelta) -> str:
    """Returns the last hour (`2026-11-20T10`) whose events come late with the slice: it, and those before it,
    did not wait for it."""
    return Slice(datetime.__sub__(slice_.start, grace + HOUR)).id[:13]
