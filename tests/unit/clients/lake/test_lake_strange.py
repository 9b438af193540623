"""An object of a folder lake is a regular file in real folders: nothing else is read, written or deleted."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.clients.lake import base, folder
from sluice.clients.lake.folder import FolderLake
from sluice.errors import LakeRefused
from tests.support.lake_contract import keys

KEY = "a/b"
KINDS = ("a device", "a pipe", "a link", "a dangling link", "a folder", "a socket")
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir()
    (made / "b").write_bytes(b"precious")
    (made / "b").chmod(0o640)
    return made


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    made = FolderLake(tmp_path / "demo")
    made.put("a/other", b"1")
    return made


def strange(path: Path, kind: str, outside: Path) -> None:
    match kind:
        case "a device":
            path.symlink_to("/dev/zero")
        case "a pipe":
            os.mkfifo(path)
        case "a link":
            path.symlink_to(outside / "b")
        case "a dangling link":
            path.symlink_to(outside / "none")
        case "a folder":
            path.mkdir()
        case "a socket":
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(path))


def replace(lake: FolderLake) -> object:
    return lake.replace(KEY, b"new", "some version")


@each_kind
@pytest.mark.parametrize(
    "act",
    [
        lambda lake: lake.read(KEY),
        lambda lake: lake.create(KEY, b"new"),
        replace,
        lambda lake: list(lake.create_each([(KEY, b"new")])),
    ],
    ids=["read", "create", "replace", "create_each"],
)
def test_a_strange_object_is_refused(kind: str, act: Callable, lake: FolderLake, outside: Path):
    strange(lake.root / KEY, kind, outside)
    with pytest.raises(LakeRefused, match=r"a/b\).*(it is a|no such device).*move it away"):
        act(lake)


@each_kind
def test_a_strange_object_is_none_and_is_replaced(kind: str, lake: FolderLake, outside: Path):
    strange(lake.root / KEY, kind, outside)
    assert lake.size(KEY) is None
    assert list(lake.present([KEY])) == []
    assert keys(lake) == ["a/other"]
    with suppress(LakeRefused):  # a folder cannot be replaced
        lake.put(KEY, b"new")
        assert lake.read(KEY).data == b"new"
    assert (outside / "b").read_bytes() == b"precious"
    assert not (outside / "none").exists()


ACTS = {
    "read": lambda lake: lake.read(KEY),
    "part": lambda lake: lake.part(KEY, 0, 4),
    "local": lambda lake: lake.local(KEY).__enter__(),
    "size": lambda lake: lake.size(KEY),
    "present": lambda lake: list(lake.present([KEY])),
    "list": lambda lake: list(lake.list("a/")),
    "create": lambda lake: lake.create("a/new", b"x"),
    "put": lambda lake: lake.put(KEY, b"x"),
    "replace": replace,
    "delete": lambda lake: lake.delete([KEY]),
    "move away": lambda lake: lake.move(KEY, "c"),
    "move there": lambda lake: lake.move("top", KEY),
    "finish": lambda lake: lake.finish(KEY, lake.begin("c")),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_no_way_leads_out_of_the_lake(act: Callable, tmp_path: Path, outside: Path):
    lake = FolderLake(tmp_path / "demo")
    lake.put("top", b"top")
    (lake.root / "a").symlink_to(outside)
    with pytest.raises(LakeRefused, match=r"demo/a\) refuses \(it is a link, not a folder\)"):
        act(lake)
    assert [path.name for path in outside.iterdir()] == ["b"]
    assert (outside / "b").read_bytes() == b"precious"
    assert keys(lake) == ["top"]


@pytest.mark.parametrize("name", [".sluice", ".sluice/writing", ".sluice/locks"])
def test_its_own_folder_is_no_link(name: str, tmp_path: Path, outside: Path):
    lake = FolderLake(tmp_path / "demo")
    (lake.root / name).parent.mkdir(parents=True)
    (lake.root / name).symlink_to(outside)
    os.utime(outside / "b", (0, 0))
    (lake.root / "x").write_bytes(b"x")
    with pytest.raises(LakeRefused, match="it is a link, not a folder"):
        lake.replace("x", b"y", lake.read("x").version)
    with suppress(LakeRefused):
        lake.delete(["x"])
    assert (outside / "b").read_bytes() == b"precious"
    assert [path.name for path in outside.iterdir()] == ["b"]


def test_a_lock_is_no_link(tmp_path: Path, outside: Path):
    lake = FolderLake(tmp_path / "demo")
    lake.put("x", b"x")
    locks = lake.root / ".sluice/locks"
    locks.mkdir()
    for number in range(256):
        (locks / f"{number:02x}").symlink_to(outside / "b")
    with pytest.raises(LakeRefused, match="it is a link, not a file"):
        lake.replace("x", b"y", lake.read("x").version)
    assert (outside / "b").stat().st_mode & 0o777 == 0o640


def test_links_that_meet_each_other_are_not_followed(lake: FolderLake):
    for name in ("a", "a/c"):
        (lake.root / name).mkdir(exist_ok=True)
        for number in range(30):
            (lake.root / name / f"again{number}").symlink_to(lake.root)
    assert keys(lake) == ["a/other"]


def test_a_name_that_is_no_text_is_no_key(lake: FolderLake):
    os.close(os.open(os.fsencode(lake.root) + b"/a/\xff", os.O_CREAT))
    os.mkdir(os.fsencode(lake.root) + b"/\xfe")
    lake.put("a/é", b"1")
    assert keys(lake) == ["a/other", "a/é"]


def test_folders_deeper_than_python_recurses(lake: FolderLake):
    path = lake.root
    for _ in range(1500):
        path /= "d"
        path.mkdir()
    (path / "x").touch()
    assert keys(lake) == ["a/other", "d/" * 1500 + "x"]
    lake.delete(["d/" * 1500 + "x"])  # pytest removes no such tree
    assert not (lake.root / "d").exists()


def test_what_is_read_as_a_whole_has_a_bound(lake: FolderLake, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(folder, "MOST_READ", 1 << 20)
    lake.put("b", b"x" * (1 << 20))
    assert len(lake.read("b").data) == 1 << 20
    lake.put("b", b"x" * ((1 << 20) + 1))
    with pytest.raises(LakeRefused, match="it has more than 1 mib.*" + base.TOO_LONG):
        lake.read("b")
