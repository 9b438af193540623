"""Times that are all decades away are numbers in another unit than `event.time.format` says. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sluice.config.event import TimeSource

_FAR_MS = 20 * 366 * 86_400_000
_MS = {"epoch_s": 1000.0, "epoch_ms": 1.0}
_UNITS = (
    ("seconds", 1000.0, "epoch_s"),
    ("milliseconds", 1.0, "epoch_ms"),
    ("microseconds", 1e-3, ""),
    ("nanoseconds", 1e-6, ""),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class NumberSpan:
    """The lowest and the highest number of a time field; None before there was one."""

    low: float | None = None
    high: float | None = None

    def take(self, numbers: Iterable[object]) -> None:
        for number in numbers:
            if isinstance(number, (int, float)):
                self.low = number if self.low is None else min(self.low, number)
                self.high = number if self.high is None else max(self.high, number)


def far_times(time: TimeSource, span: NumberSpan, now_ms: int) -> str:
    """Says that all times are decades away, what the numbers probably are, and which format reads those.

    Empty where some time is not, and where the field has no numbers.
    """
    per = _MS.get(time.format)
    if per is None or span.low is None or span.high is None:
        return ""
    if (
        _near(span.high * per, now_ms)
        or _near(span.low * per, now_ms)
        or span.low * per < now_ms < span.high * per
    ):
        return ""
    days = " to ".join(dict.fromkeys((_day(span.low * per), _day(span.high * per))))
    said = f"all times of the field {time.field} ({time.format}) are decades away: {days}"
    for unit, ms, name in _UNITS:
        if _near(span.low * ms, now_ms) and _near(span.high * ms, now_ms):
            remedy = (
                f"set `format: {name}` under `event.time`" if name else "no format reads those: convert them"
            )
            return f"{said}; they are probably {unit}: {remedy}"
    return f"{said}; compare `event.time` in the pipeline file with an event"


def far_instants(time: TimeSource, low_ms: int, high_ms: int, now_ms: int) -> str:
    """Says it of instants that were made of the field's numbers."""
    per = _MS.get(time.format, 1.0)
    return far_times(time, NumberSpan(low_ms / per, high_ms / per), now_ms)


def _near(ms: float, now_ms: int) -> bool:
    return abs(ms - now_ms) <= _FAR_MS


def _day(ms: float) -> str:
    try:
        return f"{_EPOCH + timedelta(milliseconds=ms):%Y-%m-%d}"
    except OverflowError:
        return "after the year 9999" if ms > 0 else "before the year 1"
