"""Instants as a person types them, the version, and what a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pendulum
import pytest

from sluice import __version__
from sluice.cli.commands import commands
from sluice.cli.options import asked_range, read_day, read_instant, slice_range, unsettled
from sluice.errors import Busy, EndInFuture, WrongUse
from sluice.slices import SliceRange
from tests.support.page_world import pipeline

NOW = pendulum.datetime(2026, 3, 1, 18, 20, 7)
HOUR, QUARTER = timedelta(hours=1), timedelta(minutes=15)
SLUICE = Path(sys.executable).with_name("sluice")


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        ("now", HOUR, "2026-03-01T18:00:00Z"),
        ("now", QUARTER, "2026-03-01T18:15:00Z"),
        ("-24h", HOUR, "2026-02-28T18:00:00Z"),
        ("-90m", QUARTER, "2026-03-01T16:45:00Z"),
        ("-0h", HOUR, "2026-03-01T18:00:00Z"),
        ("-7d", HOUR, "2026-02-22T18:00:00Z"),
        ("today", HOUR, "2026-03-01T00:00:00Z"),
        ("yesterday", QUARTER, "2026-02-28T00:00:00Z"),
        ("2026-02-20", HOUR, "2026-02-20T00:00:00Z"),
        ("2026-02-20T10Z", HOUR, "2026-02-20T10:00:00Z"),
    ],
)
def test_an_instant(text: str, length: timedelta, expected: str):
    assert read_instant(text, NOW, length) == pendulum.parse(expected)


def test_the_day_is_that_of_utc():
    late = pendulum.datetime(2026, 3, 1, 0, 30, tz="Europe/Berlin")
    assert read_instant("today", late, HOUR) == pendulum.datetime(2026, 2, 28)


@pytest.mark.parametrize("text", ["-", "-24", "-24x", "--24h", "-1h30m", "tomorrow", "Yesterday", "-٣h"])
def test_what_is_no_instant_is_named(text: str):
    with pytest.raises(WrongUse, match="is not a"):
        read_instant(text, NOW, HOUR)


@pytest.mark.parametrize("text", ["-36500d", "-500000h"])
def test_before_1970_there_is_none(text: str):
    with pytest.raises(WrongUse, match="from 1970-01-01"):
        read_instant(text, NOW, HOUR)


SETTLE = timedelta(minutes=2)
MIDNIGHT = pendulum.datetime(2026, 3, 1)


@pytest.mark.parametrize(
    ("text", "now", "expected"),
    [
        ("last", NOW, "2026-02-28"),
        ("last", MIDNIGHT.add(minutes=2), "2026-02-28"),
        ("last", MIDNIGHT.add(minutes=1, seconds=59), "2026-02-27"),
        ("yesterday", MIDNIGHT.add(minutes=1, seconds=59), "2026-02-28"),
        ("last", pendulum.datetime(2026, 3, 1, 0, 30, tz="Europe/Berlin"), "2026-02-27"),
        ("2024-02-29", NOW, "2024-02-29"),
    ],
)
def test_a_day(text: str, now: pendulum.DateTime, expected: str):
    start = pendulum.parse(expected)
    assert read_day(text, now, SETTLE) == (start, start.add(hours=24))


@pytest.mark.parametrize("text", ["", "today", "2026-11-20T00Z", "2026-W47", "-1d", "last day", "٢٠٢٦-١١-٢٠"])
def test_what_is_no_day_is_named(text: str):
    with pytest.raises(WrongUse, match="is not a day such as"):
        read_day(text, NOW, SETTLE)


@pytest.mark.parametrize("text", ["2026-02-30", "1969-12-31", "9999-12-31"])
def test_a_day_that_no_slice_is_of(text: str):
    with pytest.raises(WrongUse, match="is not an instant|from 1970-01-01"):
        read_day(text, NOW, SETTLE)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ranges that commands look at; none goes on."""
    seen: list[str] = []

    def survey(_: object, slices: SliceRange, *__: object) -> NoReturn:
        seen.append(str(slices))
        raise Busy("that is enough")

    places = (
        "flow.steps.dry_run",
        "flow.steps.resolve_range",
        "state.survey.survey",
        "flow.verify.audit.audit",
    )
    for place in places:
        monkeypatch.setattr(f"sluice.{place}", survey)
    monkeypatch.setattr(
        "sluice.clients.airflow_rest.backfill_run.BackfillAsked",
        lambda name, *asked: survey(name, SliceRange(*asked[:2])),
    )
    monkeypatch.setattr(pendulum, "now", lambda tz=None: NOW)
    return seen


@pytest.mark.parametrize("command", ["plan", "run", "backfill", "status", "verify"])
def test_a_day_is_a_range(command: str, asked: list[str]):
    for day in ("last", "2026-02-20", "today"):
        with pytest.raises(Busy):
            commands([command, "adx", "--day", day], standalone_mode=False)
    assert asked == [
        "[2026-02-28T00:00Z, 2026-03-01T00:00Z)",
        "[2026-02-20T00:00Z, 2026-02-21T00:00Z)",
        "[2026-03-01T00:00Z, 2026-03-01T18:00Z)",
    ]


def test_a_backfill_of_hours_to_come_is_refused_before_airflow_is_asked(asked: list[str]):
    for end in ("2026-03-01T18:30Z", "2026-03-09T00:00Z"):
        with pytest.raises(EndInFuture, match="is not over yet"):
            commands(["backfill", "adx", "--from", "2026-03-01T00:00Z", "--to", end], standalone_mode=False)
    assert asked == []


@pytest.mark.parametrize("edges", [["--from", "-24h"], ["--to", "today"], ["--from", "-2d", "--to", "now"]])
@pytest.mark.parametrize("command", ["plan", "status", "verify", "doctor"])
def test_a_day_beside_another_range_is_refused(command: str, edges: list[str], asked: list[str]):
    with pytest.raises(WrongUse, match="--day stands for --from and --to"):
        commands([command, "adx", "--day", "last", *edges], standalone_mode=False)
    assert asked == []


@pytest.mark.parametrize("edges", [[], ["--from", "-24h"], ["--to", "now"]])
@pytest.mark.parametrize("command", ["plan", "run", "backfill"])
def test_a_range_has_to_be_named(command: str, edges: list[str], asked: list[str]):
    with pytest.raises(WrongUse, match="name the range: --from A --to B, or --day DAY"):
        commands([command, "adx", *edges], standalone_mode=False)
    assert asked == []


def test_the_version():
    ran = subprocess.run([SLUICE, "--version"], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"sluice {__version__}\n", "")


def test_a_shell_completes_commands_and_pipelines():
    def completed(words: str) -> list[str]:
        asked = {
            "_SLUICE_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        ran = subprocess.run([SLUICE], env={**os.environ, **asked}, capture_output=True, text=True)
        return ran.stdout.split()

    assert completed("sluice ver") == ["verify"]
    assert completed("sluice verify ad") == ["adx"]


def test_now_is_the_end_of_the_last_hour_that_has_settled():
    """`settle` is 5 minutes: at 18:04 records of the hour that ended at 18:00 may be on their way."""
    spec = pipeline(settle="5m")
    early, later = (pendulum.datetime(2026, 11, 23, 18, minute) for minute in (4, 5))
    assert unsettled(spec, early) == (
        "`now` is 2026-11-23T17:00Z: the slice that ended at 18:00Z settles until 18:05:00Z (`settle`)"
    )
    assert unsettled(spec, later) == ""
    assert slice_range(spec, "-2h", "now", early - spec.settle).end == early.subtract(hours=1, minutes=4)
    now = pendulum.now("UTC")
    slow = pipeline(settle="23h")
    assert asked_range(slow, "-2h", "now", None).end <= now - slow.settle
