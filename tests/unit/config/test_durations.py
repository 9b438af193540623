from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import BaseModel, ValidationError

from sluice.config.types import Duration, OptionalDuration, parse_duration


class Model(BaseModel):
    must: Duration = timedelta(0)
    may: OptionalDuration = None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0), ("90s", 90), ("15m", 900), ("1h", 3600), ("24h", 86_400), ("7d", 604_800), ("1d", 86_400),
        ("36500d", 36_500 * 86_400),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration(text).total_seconds() == seconds
    assert Model(must=text).must == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "1",
        1,
        90,
        1.5,
        "1.5h",
        "-1h",
        "1 h",
        "h",
        "1H",
        "1w",
        "1h30m",
        "1h\n",
        None,
        True,
        "none",
        "99999999999d",
        "36501d",
        "3153600001s",
        "9" * 5000 + "d",
        "²h",
        "١h",
    ],
)
def test_mistakes(value: object) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        parse_duration(value)
    with pytest.raises(ValidationError, match="expected a duration"):
        Model(must=value)


def test_optional_durations() -> None:
    assert Model(may="none").may is None
    assert Model(may=None).may is None
    assert Model(may="2h").may == timedelta(hours=2)
    assert Model(may=timedelta(hours=2)).may == timedelta(hours=2)
    with pytest.raises(ValidationError, match="expected a duration"):
        Model(may="never")
