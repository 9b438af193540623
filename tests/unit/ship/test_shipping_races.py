"""A log is rotated right before any one of the follower's looks at its folder: no line is lost."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from itertools import count, product
from pathlib import Path

import pytest

from sluice.ship.follow import StateFile
from sluice.ship.log_file import FilePosition, LogFile
from tests.support.following import World
from tests.support.long_form import per_commit

LOOKS = ((os, "stat"), (os, "open"), (os, "listdir"), (os, "fstat"), (os, "pread"), (io, "open"))


class Looks:
    """Counts the calls by which a process looks at files; `act` comes right before call number `at`."""

    def __init__(self, patch: pytest.MonkeyPatch, at: int, act: Callable[[], object]) -> None:
        self.seen, self._at, self._act = 0, at, act
        for module, name in LOOKS:
            patch.setattr(module, name, self._counted(getattr(module, name)))

    def _counted(self, usual: Callable) -> Callable:
        def call(*arguments, **options):
            self.seen += 1
            if self.seen == self._at:
                self._act()
            return usual(*arguments, **options)

        return call


class Writer:
    """What it writes later is a second younger: the clocks of file systems are coarse."""

    def __init__(self, world: World) -> None:
        self._world, self._at = world, count(1_000_000)

    def line(self, text: str) -> None:
        self._world.write(text)()
        self._stamp(self._world.log)

    def shift(self) -> None:
        """Each older file's number grows by one."""
        older = self._world.folder.glob("app.log.[0-9]*")
        for path in sorted(older, key=lambda path: -int(path.suffix[1:])):
            path.rename(path.with_suffix(f".{int(path.suffix[1:]) + 1}"))

    def rename(self) -> None:
        self.shift()
        self._world.log.rename(self._world.folder / "app.log.1")

    def copy_and_truncate(self) -> None:
        self.shift()
        shutil.copy(self._world.log, self._world.folder / "app.log.1")
        self._stamp(self._world.folder / "app.log.1")
        os.truncate(self._world.log, 0)

    def _stamp(self, path: Path) -> None:
        at = next(self._at)
        os.utime(path, (at, at))


@pytest.mark.parametrize(
    ("how", "goes_on"), per_commit(product(["copy_and_truncate", "rename"], [True, False]))
)
def test_a_rotation_right_before_any_look(tmp_path: Path, how: str, goes_on: bool):
    """The log was rotated twice while nobody followed it, and is once more while its rests are looked for.
    `goes_on`: there is a new log at once."""
    at, acted = 0, True
    while acted:
        at += 1
        (folder := tmp_path / str(at)).mkdir()
        acted = rotated_at(at, World(folder), how, goes_on)
    assert at > 80


def rotated_at(at: int, world: World, how: str, goes_on: bool) -> bool:
    """Whether there was a look number `at`."""
    writer = Writer(world)

    def go_on() -> None:
        writer.line("e")

    def rotate() -> None:
        getattr(writer, how)()
        if goes_on:
            go_on()

    world.follow(lambda: writer.line("a"))
    for text in "bc":
        writer.line(text)
        getattr(writer, how)()
    writer.line("d")
    with pytest.MonkeyPatch.context() as patch:
        looks = Looks(patch, at, rotate)
        follower = world.follow(*([] if goes_on else [go_on]))
    gaps = follower.gaps + world.follow().gaps  # what was rotated at the very end
    acted = looks.seen >= at
    expected = list("abcde" if acted or not goes_on else "abcd")
    assert (world.once, gaps, world.headers_tell()) == (expected, 0, True), at
    return acted


@pytest.mark.parametrize("known", [True, False])
def test_a_log_that_comes_and_goes_while_there_is_none(world: World, known: bool):
    """There is none at one look, and at the next one it has been rotated already. `known`: one was followed
    before."""

    def twice() -> None:
        world.write("b")()
        world.log.rename(world.folder / "app.log.1")
        world.write("c")()

    if known:
        world.follow(world.write("a"))
        world.log.rename(world.folder / "app.log.2")
    follower = world.follow(twice)
    assert (world.events, follower.gaps) == (["a", "b", "c"] if known else ["b", "c"], 0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Dies(BaseException):
    pass


def test_an_empty_log_that_is_written_before_its_place_is_saved(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    """The broker is slow to acknowledge what came before, and the process dies right after the save: what was
    written meanwhile is older than the saved place."""
    usual = StateFile.write

    def write(state: StateFile, place: FilePosition) -> None:
        if not (world.folder / "app.log.2").exists():
            assert not place.known
            world.write("b")()
            world.log.rename(world.folder / "app.log.2")
            os.utime(world.folder / "app.log.2", ns=(0, world.log.parent.stat().st_mtime_ns - 10**9))
            usual(state, place)
            raise Dies
        usual(state, place)

    world.log.touch()
    monkeypatch.setattr(StateFile, "write", write)
    with pytest.raises(Dies):
        world.follow()
    monkeypatch.setattr(StateFile, "write", usual)
    world.write("c")()
    follower = world.follow()
    assert (world.events, follower.gaps) == (["b", "c"], 0)


def test_a_log_that_is_truncated_between_a_look_and_the_read(world: World, monkeypatch: pytest.MonkeyPatch):
    """It has grown beyond the place again by then: what lies there is not what follows."""
    usual = LogFile.read

    def read(log: LogFile):
        if log.place.offset == 2:
            monkeypatch.setattr(LogFile, "read", usual)
            shutil.copy(world.log, world.folder / "app.log.1")
            os.truncate(world.log, 0)
            world.write("cccc", "dddd")()
        return usual(log)

    monkeypatch.setattr(LogFile, "read", read)
    follower = world.follow(world.write("a"), world.write("b"))
    assert (world.events, follower.gaps) == (["a", "b", "cccc", "dddd"], 0)
