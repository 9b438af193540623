"""One check of the doctor: a line, a level, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sluice.errors import SluiceError, TargetRefused, Unavailable


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Area(StrEnum):
    KAFKA = "kafka"
    LAKE = "lake"
    SPARK = "spark"
    CLICKHOUSE = "clickhouse"
    SCHEMA = "schema"
    ALARMS = "alarms"
    AIRFLOW = "airflow"


@dataclass(frozen=True)
class Check:
    """`place` is what was checked; `finding` what is so; `remedy` what to do, empty where all is well.

    `unreachable`: the server did not answer, so that nothing behind it is known.
    """

    area: Area
    place: str
    level: Level
    finding: str
    remedy: str = ""
    unreachable: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "area": str(self.area),
            "place": self.place,
            "level": str(self.level),
            "found": self.finding,
            "remedy": self.remedy,
        }


def ok(area: Area, place: str, finding: str) -> Check:
    return Check(area, place, Level.OK, finding)


def warn(area: Area, place: str, finding: str, remedy: str) -> Check:
    return Check(area, place, Level.WARN, finding, remedy)


def fail(area: Area, place: str, finding: str, remedy: str) -> Check:
    return Check(area, place, Level.FAIL, finding, remedy)


def failed(area: Area, place: str, error: SluiceError) -> Check:
    """Returns the check that an error of Sluice's stands for; every message ends with `: <what to do>`."""
    if isinstance(error, TargetRefused):
        return fail(area, error.table, error.reason, error.remedy)
    finding, _, remedy = str(error).rpartition(": ")
    return Check(area, place, Level.FAIL, finding or remedy, remedy, isinstance(error, Unavailable))


def guarded(area: Area, place: str, checks: Callable[[], Iterable[Check]]) -> list[Check]:
    """Returns the checks that `checks` yields; an error of Sluice's ends it, and is the last check."""
    yielded: list[Check] = []
    try:
        for check in checks():
            yielded.append(check)
    except SluiceError as error:
        yielded.append(failed(area, place, error))
    return yielded


def exit_code(checks: Iterable[Check]) -> int:
    """0 fit, 1 something has to be corrected, 3 something did not answer, so that it is not known."""
    bad = [check for check in checks if check.level is Level.FAIL]
    if any(check.unreachable for check in bad):
        return Unavailable.exit_code
    return 1 if bad else 0
