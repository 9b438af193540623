"""A log that grows, is rotated and truncated, under a follower that is stopped and started again."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
import zstandard

from sluice.errors import Busy, SluiceError, WrongUse
from sluice.ship.follow import StateFile
from sluice.ship.log_file import FilePosition, TailedFile, decide
from sluice.ship.publish import ShipOrder, publish
from tests.support.fake_publisher import FakePublisher
from tests.support.following import Act, World
from tests.support.landing_world import pipeline
from tests.support.long_form import per_commit


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


OURS, OTHER = (1, 10), (1, 11)


READ, WAIT = "read on", "wait"
LEAVE = "leave the file that was renamed for the new one"
BEGIN_AGAIN = "begin again: the file was truncated"


@pytest.mark.parametrize(
    ("size", "seen", "offset", "fits", "still", "there", "step"),
    [
        (10, 5, 5, True, 0, OURS, READ),
        (10, 10, 8, True, 9, OURS, WAIT),  # a line without an end waits
        (10, 10, 10, True, 99, None, WAIT),  # renamed, and the new one is not there yet
        (10, 10, 10, True, 4.9, OTHER, WAIT),  # the writer may still write to the renamed one
        (10, 10, 10, True, 5, OTHER, LEAVE),
        (12, 10, 10, True, 99, OTHER, READ),
        (9, 10, 10, True, 0, OURS, BEGIN_AGAIN),
        (9, 10, 8, True, 0, OURS, READ),  # only the waiting line was taken back
        (99, 10, 10, False, 0, OURS, BEGIN_AGAIN),  # truncated, and grown since
    ],
)
def test_what_to_do_next(size, seen, offset, fits, still, there, step):
    assert decide(TailedFile(OURS, size, seen, offset, fits, still), there, 5) == step


def test_a_log_that_appears_later_and_grows(world: World):
    world.follow(world.write("a", "b"), world.write("c", end=""), world.write("c", "", "d", end="\n"))
    assert world.events == ["a", "b", "cc", "d"]
    assert [header.split(b":")[1] for header, _ in world.topic.taken] == [b"1", b"2", b"3", b"5"]
    assert len({header.split(b":")[0] for header, _ in world.topic.taken}) == 1


def test_a_log_whose_folder_appears_later(tmp_path: Path):
    world = World(tmp_path / "later", state=tmp_path / "state.json")
    follower = world.follow(world.folder.mkdir, world.write("a"), world.write("b"))
    assert (world.events, follower.gaps) == (["a", "b"], 0)


def test_a_pipe_is_no_log(world: World):
    os.mkfifo(world.log)
    says = re.escape(f"--follow is for a log file that grows, not for {world.log}")
    with pytest.raises(WrongUse, match=says):
        publish(pipeline(), ShipOrder(str(world.log), follow=True))
    writer = os.open(world.log, os.O_RDWR)
    with pytest.raises(WrongUse, match=says):
        world.follow()
    os.close(writer)
    with pytest.raises(WrongUse, match=says):
        world.follow()


def test_a_line_without_an_end_waits_also_over_a_restart(world: World):
    world.follow(world.write("a", "half", end=""))
    assert world.events == ["a"]
    world.follow(world.write("-whole"))
    assert world.events == ["a", "half-whole"]
    assert dict(world.topic.taken) and world.headers_tell()


def test_rotation_by_rename(world: World):
    def rename():
        world.log.rename(world.folder / "app.log.1")

    def late():
        with (world.folder / "app.log.1").open("a") as file:
            file.write("late\nlast line without an end")

    world.follow(world.write("a"), rename, late, world.write("b"), world.write("c"))
    assert world.events == ["a", "late", "last line without an end", "b", "c"]
    assert len({header.split(b":")[0] for header, _ in world.topic.taken}) == 2


def test_rotation_by_copy_and_truncation(world: World):
    def rotate():
        world.write("not seen yet")()
        shutil.copy(world.log, world.folder / "app.log.1")
        os.truncate(world.log, 0)

    follower = world.follow(world.write("a"), rotate, world.write("b"))
    assert (world.events, follower.gaps) == (["a", "not seen yet", "b"], 0)


def test_rotation_by_copy_and_truncation_twice_between_two_looks(world: World):
    def rotate_twice():
        for number in (2, 1):
            world.write(f"not seen yet {number}")()
            copy = world.folder / f"app.log.{number}"
            shutil.copy(world.log, copy)
            os.utime(copy, ns=(0, copy.stat().st_mtime_ns - number))
            os.truncate(world.log, 0)

    follower = world.follow(world.write("a"), rotate_twice, world.write("b"))
    assert (world.events, follower.gaps) == (["a", "not seen yet 2", "not seen yet 1", "b"], 0)


def test_rotation_by_copy_and_then_by_rename_between_two_looks(world: World):
    """The file that was followed is there under another name, with other lines in it."""

    def rotate_twice():
        world.write("not seen yet 2")()
        shutil.copy(world.log, world.folder / "app.log.2")
        os.truncate(world.log, 0)
        world.write("not seen yet 1")()
        second = (world.folder / "app.log.2").stat().st_mtime_ns
        os.utime(world.log, ns=(0, second + 1))
        world.log.rename(world.folder / "app.log.1")

    follower = world.follow(world.write("a"), rotate_twice, world.write("b"))
    assert (world.events, follower.gaps) == (["a", "not seen yet 2", "not seen yet 1", "b"], 0)


def test_a_truncation(world: World):
    follower = world.follow(world.write("aaaa"), lambda: os.truncate(world.log, 0), world.write("b"))
    assert (world.events, follower.gaps) == (["aaaa", "b"], 0)
    assert world.headers_tell()
    assert any("was truncated at byte 5" in line for line in world.said)


def test_a_truncation_that_has_grown_beyond_the_place(world: World):
    def replace():
        with world.log.open("w") as file:
            file.write("".join(f"new {n}\n" for n in range(100)))

    world.follow(world.write("a", "b"), replace)
    assert world.events == ["a", "b", *(f"new {n}" for n in range(100))]
    assert world.headers_tell()


@pytest.mark.parametrize("how", ["rename", "copytruncate"])
def test_an_empty_log_that_was_noted_is_found_again(world: World, how: str):
    world.follow(world.write(end=""))
    world.write("a", "b")()
    if how == "rename":
        world.log.rename(world.folder / "app.log.1")
    else:
        shutil.copy(world.log, world.folder / "app.log.1")
        os.truncate(world.log, 0)
    world.write("c")()
    follower = world.follow()
    assert (world.events, follower.gaps) == (["a", "b", "c"], 0)


def test_a_log_that_is_truncated_before_its_first_line_is_read(world: World, monkeypatch: pytest.MonkeyPatch):
    """Right after its place is saved for the first time."""
    world.write("a", "b")()
    usual = StateFile.write

    def write(state: StateFile, place: FilePosition) -> None:
        usual(state, place)
        monkeypatch.setattr(StateFile, "write", usual)
        shutil.copy(world.log, world.folder / "app.log.1")
        os.truncate(world.log, 0)
        world.write("c")()

    monkeypatch.setattr(StateFile, "write", write)
    follower = world.follow()
    assert (world.events, follower.gaps) == (["a", "b", "c"], 0)


def move(folder: Path, pack=None, suffix: str = "") -> None:
    """As logrotate: app.log.1 becomes app.log.2, the log becomes app.log.1."""
    for number in (2, 1):
        for old in folder.glob(f"app.log.{number}*"):
            old.rename(folder / old.name.replace(f".{number}", f".{number + 1}"))
    (folder / "app.log").rename(folder / "app.log.1")
    if pack:
        packed = folder / f"app.log.1{suffix}"
        packed.write_bytes(pack((folder / "app.log.1").read_bytes()))
        os.utime(packed, ns=(0, (folder / "app.log.1").stat().st_mtime_ns))
        (folder / "app.log.1").unlink()


@pytest.mark.parametrize(
    ("pack", "suffix"), [(None, ""), (gzip.compress, ".gz"), (zstandard.compress, ".zst")]
)
def test_rotations_while_nobody_follows(world: World, pack, suffix: str):
    """The rest of the file that was followed, whole files after it, then the log itself."""
    world.follow(world.write("a"))
    stamps = iter(range(1_000, 9_000, 1_000))
    for line in ("rest of the first", "second", "third"):
        world.write(line)()
        os.utime(world.log, (0, next(stamps)))
        move(world.folder, pack, suffix)
    world.write("fourth")()
    (world.folder / "app.log.old-config").write_text("not a log\n")
    follower = world.follow()
    assert world.events == ["a", "rest of the first", "second", "third", "fourth"]
    assert (follower.gaps, world.headers_tell()) == (0, True)


def test_several_rotations_between_two_looks(world: World):
    def rotate_twice():
        for line, at in (("b", 1_000), ("c", 2_000)):
            world.write(line)()
            os.utime(world.log, (0, at))
            move(world.folder)
        world.write("d")()

    world.follow(world.write("a"), rotate_twice)
    assert world.events == ["a", "b", "c", "d"]


def test_a_rest_that_is_gone_is_told_and_counted(world: World):
    world.follow(world.write("a"))
    world.log.unlink()
    world.write("b")()
    follower = world.follow()
    assert (world.events, follower.gaps) == (["a", "b"], 1)
    assert any("what followed byte 2" in line and "is not found" in line for line in world.said)


def test_a_log_that_was_copied_to_another_disk_goes_on(world: World):
    world.follow(world.write("a"))
    shutil.copy(world.log, world.folder / "copy")
    (world.folder / "copy").rename(world.log)
    follower = world.follow(world.write("b"))
    assert (world.events, follower.gaps) == (["a", "b"], 0)


def story(world: World) -> Iterator[Act]:
    def rename():
        world.log.rename(world.folder / "app.log.1")

    def copy_and_truncate():
        shutil.copy(world.log, world.folder / "app.log.2")
        os.truncate(world.log, 0)

    def lines(name: str) -> Act:
        return world.write(f"{name}1", f"{name}2", "", f"{name}3")

    return iter([lines("a"), lines("b"), rename, lines("c"), copy_and_truncate, lines("d"), lines("e")])


@pytest.mark.parametrize("unseen", per_commit([3, 0, 9]))
def test_nothing_is_lost_wherever_it_is_killed(tmp_path: Path, unseen: int):
    """Killed after every single call; then so many of the writer's acts are not seen by anybody, until it is
    started again: each line is there, and a second copy of one has the same batch and line in its header."""
    expected = sorted(f"{name}{n}" for name in "abcde" for n in (1, 2, 3))
    kill_at, killed, twice = 0, True, 0
    while killed:
        kill_at += 1
        (folder := tmp_path / str(kill_at)).mkdir()
        world = World(folder, FakePublisher(serves_at_once=2))
        acts = story(world)
        world.follow(next(acts))
        world.topic.kill_at = world.topic.calls + kill_at
        world.follow(rest=acts)
        killed = world.topic.calls >= world.topic.kill_at
        world.topic.restart()
        for act in islice(acts, unseen):
            act()
        follower = world.follow(rest=acts)
        assert (sorted(world.once), follower.gaps) == (expected, 0), kill_at
        assert world.headers_tell(), kill_at
        twice += len(world.topic.taken) > len(expected)
    assert kill_at > 40
    assert twice > 0  # else nothing was learnt about the second copies


def test_only_one_follows_a_log(world: World):
    state = StateFile(world.folder / "state.json", "dc1/clicks")
    with state.held(), pytest.raises(Busy, match="follows this log already"):
        world.follow()


def test_an_output_that_is_full_is_no_other_follower(world: World):
    state = StateFile(world.folder / "state.json", "dc1/clicks")
    with pytest.raises(BlockingIOError, match="the output is full"), state.held():
        raise BlockingIOError("the output is full")
    with state.held(), pytest.raises(Busy, match="follows this log already"):
        world.follow()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "not the position"),
        (b"[]", "not the position"),
        (b'{"topic": "dc1/clicks"}', "not the position"),
        (b'{"topic": "dc1/clicks\xff"}', "not the position"),
        (b'{"format": 1, "more": ' + b"[" * 100_000, "not the position"),
    ],
)
def test_a_state_file_that_is_none(world: World, content: bytes, expected: str):
    (world.folder / "state.json").write_bytes(content)
    with pytest.raises(WrongUse, match=expected):
        world.follow()


@pytest.mark.parametrize(
    "changed",
    [
        *({"offset": "2"}, {"offset": None}, {"offset": 2.5}, {"offset": -1}, {"offset": 1 << 63}),
        *({"line": "1"}, {"batch": 7}, {"inode": "9"}, {"device": None}, {"at": "1000"}, {"done_ns": True}),
        *(
            {"mark": None},
            {"mark": {"size": "2"}},
            {"mark": {"size": 257}},
            {"mark": {"size": 2, "sha256": 7}},
        ),
    ],
    ids=str,
)
def test_a_place_with_a_value_of_another_type_is_none(world: World, changed: dict[str, object]):
    world.follow(world.write("a"))
    path = world.folder / "state.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"place": content["place"] | changed}))
    with pytest.raises(WrongUse, match=r"state\.json is not the position of a log \(.*\): name another file"):
        world.follow(world.write("b"))
    assert world.events == ["a"]


def test_a_newer_state_file_is_kept(world: World):
    world.follow(world.write("a"))
    path = world.folder / "state.json"
    newer = json.dumps(json.loads(path.read_text()) | {"format": 2, "place": ["of another shape"]})
    path.write_text(newer)
    with pytest.raises(SluiceError, match=r"state\.json has format 2, newer than this Sluice's 1: upgrade"):
        world.follow(world.write("b"))
    assert (world.events, path.read_text()) == (["a"], newer)


def test_the_state_of_another_topic_is_refused(world: World):
    world.follow(world.write("a"))
    path = world.folder / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"topic": "dc2/clicks"}))
    with pytest.raises(WrongUse, match="for topic dc2/clicks"):
        world.follow()


def test_a_pipe_or_a_link_where_the_state_is(world: World):
    state = StateFile(world.folder / "state.json", "dc1/clicks")
    os.mkfifo(world.folder / "state.json")
    with pytest.raises(WrongUse, match="it is a pipe, not a file"):
        state.read()
    (world.folder / "state.json").unlink()
    (world.folder / "state.json").symlink_to("/dev/zero")
    with pytest.raises(WrongUse, match="it is a device, not a file"):
        state.read()
    (world.folder / "state.json.lock").symlink_to(world.folder / "elsewhere")
    with pytest.raises(WrongUse, match="--state FILE keeps it elsewhere"), state.held():
        pass
    assert not (world.folder / "elsewhere").exists()
