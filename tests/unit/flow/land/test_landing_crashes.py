"""A landing that is killed between any two of its steps, and one that races another, end the same way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import pendulum
import pytest

from sluice.clients.lake.base import Item
from sluice.errors import Conservation
from sluice.flow.land.commit import commit_again
from sluice.slices import Unit
from sluice.state.file_moves import finish_moves, move
from sluice.state.manifests import read_manifest, read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline, rows_in
from tests.support.long_form import per_commit

BIDS = ("dc1", "bids")
ENOUGH = 1000
STEPS = ("create", "replace", "put", "delete", "finish", "move")
SPEC = pipeline()
UNITS = [Unit(piece, "dc1") for piece in hours(2)]


class FreshLake(MemoryLake):
    """Its objects were written just now: attempts of others are not old."""

    def list(self, prefix: str) -> Iterator[Item]:
        return (replace(item, modified=pendulum.now("UTC")) for item in super().list(prefix))


class Killed(BaseException):
    """Not an Exception, as a kill is none: nothing may clean up after it."""


class Mortal:
    """A lake whose user is killed before its step number `last`; deletes are one step a key."""

    def __init__(self, lake: MemoryLake, last: int) -> None:
        self._lake, self.left, self._lock = lake, last, threading.Lock()

    def __getattr__(self, name: str) -> object:
        if name == "create_each":
            return lambda objects: (self.create(key, data) for key, data in objects)
        if name == "synced_at_end":
            return lambda: nullcontext(self)
        found = getattr(self._lake, name)
        return self._dying(name, found) if name in STEPS else found

    def _dying(self, name: str, act):
        def step(*arguments):
            if name == "delete":
                for key in list(arguments[0]):
                    self._live()
                    act([key])
                return None
            self._live()
            return act(*arguments)

        return step

    def _live(self) -> None:
        with self._lock:
            if self.left == 0:
                raise Killed
            self.left -= 1


def world() -> World:
    log = [event(("click", "bid")[m % 2], m) for m in range(0, 120, 7)]
    return World({BIDS: [[*log, (b"oops", log[-1][1])], [event("click", 100)]]})


def visible(lake: MemoryLake) -> tuple:
    """What a reader sees: rows by folder, the keys outside the attempts, and the marks of completion."""
    manifests = list(read_manifests(lake, UNITS).values())
    keys = [key for key in lake.objects if not key.startswith(("_attempts/", "_boundaries/"))]
    marks = [lake.objects[f"_slices/{m.slice}/dc1/_SUCCESS"][0].decode() == m.id for m in manifests]
    return rows_in(lake, manifests), sorted(keys), marks, [m.generation for m in manifests]


@pytest.fixture(params=["together", "by partition, then merged"])
def way(request, monkeypatch) -> None:
    """Small slices are read together; larger ones partition by partition, and their small files merged."""
    if request.param != "together":
        monkeypatch.setattr("sluice.flow.land.read.together", lambda run, **_: [run])


def prepared(with_first: bool) -> MemoryLake:
    lake, kafka = FreshLake(), world()
    kafka.resolve(SPEC, lake, hours(2))
    if with_first:
        kafka.land(SPEC, lake, hours(2))
    return lake


@pytest.mark.parametrize(
    ("mode", "with_first"), per_commit([("reland", True), ("reland", False), ("fill", False)])
)
@pytest.mark.usefixtures("way")
def test_killed_before_any_step_and_repeated(mode: str, with_first: bool):
    whole = prepared(with_first)
    counting = Mortal(whole, ENOUGH)
    world().land(SPEC, counting, hours(2), mode, "one")
    expected, kills = visible(whole), 0
    while True:
        lake = prepared(with_first)
        try:
            world().land(SPEC, Mortal(lake, kills), hours(2), mode, "one")
            break
        except Killed:
            kills += 1
        world().land(SPEC, lake, hours(2), mode, "one")
        assert visible(lake) == expected, f"killed before step {kills - 1}"
    assert kills == ENOUGH - counting.left >= 14  # five files written and moved, manifests, marks
    assert visible(lake) == expected
    assert not [key for key in lake.objects if key.startswith("_attempts/")]


@pytest.mark.parametrize("killed_before", per_commit(range(14), 4))
def test_killed_and_then_relanded_shows_one_generation(killed_before: int):
    lake = prepared(with_first=False)
    with pytest.raises(Killed):
        world().land(SPEC, Mortal(lake, killed_before), hours(2))
    world().land(SPEC, lake, hours(2), "reland", "one")
    manifests = list(read_manifests(lake, UNITS).values())
    named = {f.key for m in manifests for f in (*m.files, *m.rejected)}
    assert {
        key for key in lake.objects if key.endswith(".parquet") and not key.startswith("_attempts/")
    } == named
    assert len(rows_in(lake, manifests)) == 19


@pytest.mark.parametrize("modes", [("fill", "fill"), ("fill", "reland"), ("reland", "reland")])
def test_two_at_once(modes: tuple[str, str]):
    for _ in range(10):
        lake, kafka = prepared(with_first=False), world()
        threads = [
            threading.Thread(target=kafka.land, args=(SPEC, lake, hours(2), mode, f"token {number}"))
            for number, mode in enumerate(modes)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        manifests = list(read_manifests(lake, UNITS).values())
        named = {f.key for m in manifests for f in (*m.files, *m.rejected)}
        assert {key for key in lake.objects if key.endswith(".parquet")} == named
        assert len(rows_in(lake, manifests)) == 19
        assert all(visible(lake)[2])


def test_a_lost_answer_to_the_manifest_is_not_a_lost_race():
    lake, kafka = prepared(with_first=False), world()
    real = lake.create

    def create_and_refuse(key: str, data: bytes) -> bool:
        real(key, data)
        return real(key, data)

    lake.create = create_and_refuse
    assert len(kafka.land(SPEC, lake, hours(2)).landed) == 2
    assert len(visible(lake)[0]) == 19


def test_a_mover_that_wakes_up_after_a_reland_finds_nothing_to_do():
    lake, kafka = prepared(with_first=True), world()
    late = list(read_manifests(lake, UNITS).values())
    kafka.land(SPEC, lake, hours(2), "reland", "one")
    before = dict(lake.objects)
    for manifest in late:
        lake.objects.pop(f"_slices/{manifest.slice}/dc1/_SUCCESS")
    move(lake, late)
    assert {k: v for k, v in lake.objects.items() if "_SUCCESS" not in k} == {
        k: v for k, v in before.items() if "_SUCCESS" not in k
    }
    finish_moves(lake, UNITS)
    assert all(visible(lake)[2])


def test_a_deleted_file_is_named():
    lake = prepared(with_first=True)
    manifest = read_manifest(lake, UNITS[0])
    lake.delete([manifest.files[0].key, f"_slices/{manifest.slice}/dc1/_SUCCESS"])
    with pytest.raises(Conservation, match=manifest.files[0].key):
        finish_moves(lake, UNITS)


def test_a_reland_that_meets_its_own_token_keeps_what_is_there():
    lake = prepared(with_first=True)
    old = read_manifest(lake, UNITS[0])

    def draft(generation: int):
        raise AssertionError

    def same_token(generation: int):
        return old if generation == 1 else draft(generation)

    assert commit_again(lake, same_token) == old


@pytest.fixture(autouse=True)
def temporary_files_of_its_own(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
