"""Instants as a person types them: ISO 8601, `now`, `today`, `yesterday`, or `-24h`, so long before now."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pendulum

from sluice.config.types import parse_duration
from sluice.errors import WrongUse
from sluice.slices import bounded, floor, parse_instant, utc

_DAYS_AGO = {"today": 0, "yesterday": 1}
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


def read_instant(text: str, now: datetime, length: timedelta) -> pendulum.DateTime:
    """Returns the instant that `text` says, for slices of `length`.

    | text | at 2026-11-23T18:20Z, with slices of an hour |
    | --- | --- |
    | `now` | 2026-11-23T18:00Z: the end of the last complete slice |
    | `-24h` | 2026-11-22T18:00Z: so long before that |
    | `today`, `yesterday` | 2026-11-23T00:00Z, 2026-11-22T00:00Z |
    | `2026-11-20` | 2026-11-20T00:00Z |

    Raises WrongUse for anything else, and for years of which a table's `_slice` holds no hour.
    """
    if text in _DAYS_AGO:
        return bounded(utc(now).start_of("day").subtract(days=_DAYS_AGO[text]), text)
    if text.startswith("-"):
        try:
            return bounded(floor(utc(now), length) - parse_duration(text[1:]), text)
        except ValueError as error:
            raise WrongUse(f"{text[:60]!r} is not a time before now such as -24h or -7d") from error
    return parse_instant(text, now, length)


def read_day(text: str, now: datetime, settle: timedelta) -> tuple[pendulum.DateTime, pendulum.DateTime]:
    """Returns both ends of the day (UTC) that `text` says.

    | text | at 2026-11-23T18:20Z |
    | --- | --- |
    | `last` | 2026-11-22: the last day that has been over for `settle` |
    | `yesterday` | 2026-11-22, also right after midnight |
    | `2026-11-20` | 2026-11-20 |

    Raises WrongUse for anything else, and for years of which a table's `_slice` holds no hour.
    """
    if text in ("last", "yesterday"):
        over = utc(now) - settle if text == "last" else utc(now)
        start = bounded(over.start_of("day").subtract(days=1), text)
    elif _DATE.fullmatch(text):
        start = parse_instant(text, now)
    else:
        raise WrongUse(f"{text[:60]!r} is not a day such as 2026-11-20, `yesterday` or `last`")
    return start, start.add(days=1)
