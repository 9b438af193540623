"""A remake that is killed between any two of its steps, and one that races others, end the same way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from sluice.errors import NotAllLanded, Relanded
from sluice.flow.land import remake as lake_source
from sluice.flow.land.commit import commit_remade
from sluice.slices import Unit
from sluice.state.file_moves import move
from sluice.state.manifests import read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landed_contents import contents
from tests.support.landing_world import World, event, hours, pipeline, rows_in
from tests.support.long_form import per_commit
from tests.unit.flow.land.test_landing_crashes import ENOUGH, FreshLake, Killed, Mortal, visible

BEFORE = pipeline(event={"type": {"field": "nothing"}, "time": {"field": "at"}})
AFTER = pipeline()
UNITS = [Unit(piece, "dc1") for piece in hours(2)]
BIDS, WINS = ("dc1", "bids"), ("dc1", "wins")


def world() -> World:
    log = [event(("click", "bid")[m % 2], m) for m in range(0, 120, 7)]
    return World({BIDS: [[*log, (b"oops", log[-1][1])], [event("click", 100)]], WINS: [[event("win", 20)]]})


def prepared() -> tuple[World, MemoryLake]:
    """All is landed, by a wrong rule: it is rejected."""
    lake, kafka = FreshLake(), world()
    kafka.resolve(BEFORE, lake, hours(2))
    kafka.land(BEFORE, lake, hours(2))
    assert not rows_in(lake, list(read_manifests(lake, UNITS).values()))
    return kafka, lake


@pytest.mark.parametrize("kept", per_commit(["together", "merged on their own"]))
def test_killed_before_any_step_and_repeated(kept: str, monkeypatch):
    if kept != "together":
        monkeypatch.setattr("sluice.flow.land.read.together", lambda run, **_: [run])
    kafka, whole = prepared()
    counting = Mortal(whole, ENOUGH)
    kafka.land(AFTER, counting, hours(2), "remake", "one")
    expected, kills = visible(whole), 0
    assert len(expected[0]) == 19
    while True:
        kafka, lake = prepared()
        try:
            kafka.land(AFTER, Mortal(lake, kills), hours(2), "remake", "one")
            break
        except Killed:
            kills += 1
        kafka.land(AFTER, lake, hours(2), "remake", "one")
        assert visible(lake) == expected, f"killed before step {kills - 1}"
    assert kills == ENOUGH - counting.left >= 14
    assert visible(lake) == expected
    assert not [key for key in lake.objects if key.startswith("_attempts/")]


@pytest.mark.parametrize("killed_before", per_commit(range(0, 30, 2), 3))
@pytest.mark.parametrize("then", ["fill", "reland"])
def test_killed_and_then_another_mode_shows_one_generation(killed_before: int, then: str):
    kafka, lake = prepared()
    with suppress(Killed):
        kafka.land(AFTER, Mortal(lake, killed_before), hours(2), "remake", "one")
    kafka.land(AFTER, lake, hours(2), then, "two")
    manifests = list(read_manifests(lake, UNITS).values())
    named = {f.key for m in manifests for f in (*m.files, *m.rejected)}
    assert {k for k in lake.objects if k.endswith(".parquet") and not k.startswith("_attempts/")} == named
    assert all(visible(lake)[2])
    for manifest in manifests:
        assert sum(f.rows for f in (*manifest.files, *manifest.rejected)) == manifest.read


@pytest.mark.parametrize("modes", [("remake", "reland"), ("remake", "remake"), ("remake", "fill")])
def test_two_at_once(modes: tuple[str, str]):
    for _ in range(3):
        kafka, lake = prepared()
        land = partial(kafka.land, AFTER, lake, hours(2))
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(land, mode, f"token {number}") for number, mode in enumerate(modes)]
        errors = [one.exception() for one in both if one.exception()]
        # What it read was replaced meanwhile: all of it, or one of the two hours.
        assert all(isinstance(error, Relanded | NotAllLanded) and error.retryable for error in errors), errors
        # A reland keeps the wrong rule: where it came first, the remake is run again.
        kafka.land(AFTER, lake, hours(2), "remake" if "reland" in modes else "fill", "last")
        manifests = list(read_manifests(lake, UNITS).values())
        named = {f.key for m in manifests for f in (*m.files, *m.rejected)}
        assert {key for key in lake.objects if key.endswith(".parquet")} == named
        assert len(rows_in(lake, manifests)) == 19
        assert all(visible(lake)[2])


def test_what_was_landed_again_meanwhile_is_not_replaced(monkeypatch):
    """The other run brings a topic that the remake has not read: it must not be lost."""
    kafka, lake = prepared()
    wider = pipeline(kafka=[{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids", "wins"]}])
    kafka.resolve(wider, lake, hours(2))

    def overtaken(*arguments):
        monkeypatch.undo()
        kafka.land(wider, lake, hours(1), "reland", "wider")
        return commit_remade(*arguments)

    monkeypatch.setattr(lake_source, "commit_remade", overtaken)
    with pytest.raises(Relanded, match="2026-01-01T00Z/dc1 was landed again while made again"):
        kafka.land(AFTER, lake, hours(2), "remake", "one")
    assert [row for row in contents(lake, UNITS)[str(UNITS[0])][0] if "('_topic', 'wins')" in row]
    assert [m.generation for m in read_manifests(lake, UNITS).values()] == [2, 2]
    kafka.land(wider, lake, hours(2), "remake", "one")
    assert [row for row in contents(lake, UNITS)[str(UNITS[0])][0] if "win" in row[0]]
    assert [m.generation for m in read_manifests(lake, UNITS).values()] == [3, 2]
    assert not [key for key in lake.objects if key.startswith("_attempts/")]


def test_files_that_a_reland_removes_while_they_are_read_are_no_damage(monkeypatch):
    kafka, lake = prepared()
    real = MemoryLake.local

    def local(self: MemoryLake, key: str):
        monkeypatch.setattr(MemoryLake, "local", real)
        kafka.land(AFTER, lake, hours(2), "reland", "other")
        return real(self, key)

    monkeypatch.setattr(MemoryLake, "local", local)
    with pytest.raises(Relanded, match="00Z/dc1 and 1 more were landed again"):
        kafka.land(AFTER, lake, hours(2), "remake", "one")
    assert sum(len(rows) for rows, _ in contents(lake, UNITS).values()) == 20


def test_an_answer_that_was_lost_is_no_lost_race():
    kafka, lake = prepared()
    real = lake.replace

    def replace_and_refuse(key: str, data: bytes, version: str) -> bool:
        found = real(key, data, version)
        return found and not key.endswith("/manifest.json")

    lake.replace = replace_and_refuse
    kafka.land(AFTER, lake, hours(2), "remake", "one")
    assert len(visible(lake)[0]) == 19
    assert all(visible(lake)[2])


def test_a_remake_that_wakes_up_late_finds_nothing_to_do():
    kafka, lake = prepared()
    kafka.land(AFTER, lake, hours(2), "remake", "one")
    late = list(read_manifests(lake, UNITS).values())
    kafka.land(AFTER, lake, hours(2), "reland", "two")
    before = dict(lake.objects)
    for manifest in late:
        lake.objects.pop(f"_slices/{manifest.slice}/dc1/_SUCCESS")
    move(lake, late)
    marks = partial(filter, lambda item: "_SUCCESS" not in item[0])
    assert dict(marks(lake.objects.items())) == dict(marks(before.items()))


@pytest.fixture(autouse=True)
def temporary_files_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
