"""What follows from the record of a deferred landing's driver, and how several change it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pendulum
import pytest

from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.errors import SluiceError
from sluice.state.driver_record import (
    LOST_SECONDS,
    DriverEnd,
    DriverRecord,
    DriverState,
    DriverWatch,
    EndCause,
    decode,
    encode,
    may_attach,
    observe,
    state_of,
)
from sluice.state.driver_store import change_driver, leave_driver, read_driver, stop_driver, sweep_drivers

STARTED = "2026-11-20T10:00:00+00:00"
NEW = DriverRecord("d1", "work", "worker-1", STARTED)
RUNNING = NEW.renewed(7, "read 10 %")
END = DriverEnd(-9, EndCause.OWN, "a\nb")
KEY = layout.driver("ab12")


@pytest.mark.parametrize(
    ("record", "attaches"),
    [
        (None, False),
        (NEW, False),  # whoever wrote it was killed before its keeper started
        (RUNNING, True),
        (replace(RUNNING, work="other"), False),
        (RUNNING.left(), False),  # its task was cleared
        (RUNNING.stopped(), False),
        (RUNNING.ended(END), False),
    ],
)
def test_a_try_attaches_to_a_driver_that_runs_with_the_same_work(record, attaches):
    assert may_attach(record, "work") is attaches


@pytest.mark.parametrize(
    ("record", "stands_still", "state"),
    [
        (RUNNING, 0.0, DriverState.RUNNING),
        (RUNNING, LOST_SECONDS - 0.1, DriverState.RUNNING),
        (RUNNING, LOST_SECONDS, DriverState.LOST),
        (NEW, LOST_SECONDS, DriverState.LOST),
        (RUNNING.stopped(), LOST_SECONDS, DriverState.LOST),
        (RUNNING.ended(END), LOST_SECONDS, DriverState.ENDED),
        (replace(RUNNING, id="d2"), 0.0, DriverState.REPLACED),
        (None, 0.0, DriverState.REPLACED),
    ],
)
def test_the_state_of_a_driver(record, stands_still, state):
    watch = observe(None, record, 1000.0)
    assert state_of(record, "d1", watch, 1000.0 + stands_still) is state


def test_a_driver_is_lost_when_it_was_seen_to_stand_still():
    """By the watcher's own clock; a slow read does not count, and each renewal begins anew."""
    watch = observe(None, RUNNING, 10.0)
    assert observe(watch, RUNNING, 500.0) == watch == DriverWatch(1, 10.0)
    assert observe(watch, RUNNING.renewed(7, ""), 500.0) == DriverWatch(2, 500.0)
    assert state_of(RUNNING, "d1", watch, 10.0 + LOST_SECONDS - 1) is DriverState.RUNNING


@pytest.mark.parametrize("record", [NEW, RUNNING, RUNNING.stopped(), RUNNING.left().ended(END)])
def test_a_record_is_stored_as_it_is(record):
    assert decode(encode(record), "place") == record


def test_a_newer_format_keeps_what_is_known_and_other_bytes_are_named():
    assert decode(encode(NEW)[:-1] + b',"later":1}', "place") == NEW
    with pytest.raises(SluiceError, match=r"^file:///lake/k is no record of a driver .* remove it"):
        decode(b"{", "file:///lake/k")


def test_only_the_driver_that_is_meant_is_stopped_and_left(tmp_path: Path):
    lake = FolderLake(tmp_path)
    change_driver(lake, KEY, lambda _: RUNNING)
    assert not stop_driver(lake, KEY, "d2")
    assert leave_driver(lake, KEY, "d2") is None
    assert read_driver(lake, KEY) == RUNNING
    assert leave_driver(lake, KEY, "d1") == read_driver(lake, KEY) == RUNNING.left()
    assert stop_driver(lake, KEY, "d1")
    assert read_driver(lake, KEY) == RUNNING.left().stopped()


def test_an_ended_driver_stays_as_it_ended(tmp_path: Path):
    lake, ended = FolderLake(tmp_path), RUNNING.ended(END)
    change_driver(lake, KEY, lambda _: ended)
    assert not stop_driver(lake, KEY, "d1")
    assert read_driver(lake, KEY) == ended


def test_a_change_is_made_of_what_another_has_written_meanwhile(tmp_path: Path):
    lake = FolderLake(tmp_path)
    change_driver(lake, KEY, lambda _: RUNNING)
    seen: list[DriverRecord | None] = []

    def renew(record: DriverRecord | None) -> DriverRecord | None:
        if not seen:
            stop_driver(lake, KEY, "d1")
        seen.append(record)
        return record.renewed(8, "") if record is not None and not record.stop else None

    assert change_driver(lake, KEY, renew) is None
    assert seen == [RUNNING, RUNNING.stopped()]
    assert read_driver(lake, KEY) == RUNNING.stopped()


def test_records_of_a_week_ago_go(tmp_path: Path):
    lake, now = FolderLake(tmp_path), pendulum.now("UTC")
    change_driver(lake, KEY, lambda _: RUNNING)
    sweep_drivers(lake, now.add(days=6))
    assert read_driver(lake, KEY) == RUNNING
    sweep_drivers(lake, now.add(days=8))
    assert read_driver(lake, KEY) is None
