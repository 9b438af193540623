"""Instants as a person types them, the version, and what a shell completes."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pendulum
import pytest

from sluice import __version__
from sluice.cli.instants import read_instant
from sluice.errors import WrongUse

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
