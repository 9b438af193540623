"""Somebody exchanges a folder of the lake for a link, again and again: no step of any call leads out."""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.errors import LakeRefused, LakeUnavailable
from tests.support.long_form import per_commit

SECONDS, PATIENCE = 0.5, 20
_LIBC = ctypes.CDLL(None, use_errno=True)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
INSIDE, SECRET = b"of the lake", b"precious"


def exchange(one: Path, other: Path) -> None:
    """Source: renameat2(2), Linux 3.15 or newer."""
    names = os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE
    assert _LIBC.renameat2(_AT_FDCWD, *names) == 0, os.strerror(ctypes.get_errno())


def state(folder: Path) -> dict[str, tuple[int, str]]:
    """Returns everything below a folder, with modes, sizes and contents."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mode,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    made = FolderLake(tmp_path / "lake" / "demo")
    for key in ("a/b/x", "a/b/y", "top", "c/d/z"):
        made.put(key, INSIDE)
    made.replace("top", INSIDE + b"!", made.read("top").version)  # makes the folder of locks
    return made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Has whatever a key of the lake names, below each of its folders."""
    made = tmp_path / "outside"
    for name in ("x", "y", "b/x", "b/y", "writing/old", "locks/old"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_bytes(SECRET)
        os.utime(made / name, (0, 0))
    for name in ("empty", "b/empty"):
        (made / name).mkdir()
    return made


@pytest.fixture(params=["a", "a/b", ".sluice", ".sluice/writing", ".sluice/locks"])
def attacked(request: pytest.FixtureRequest, lake: FolderLake, outside: Path) -> Iterator[Callable]:
    """Yields what says how often the folder was exchanged."""
    folder, link, over, times = lake.root / request.param, outside.parent / "link", threading.Event(), [0]
    link.symlink_to(outside)

    def attack() -> None:
        while not over.is_set():
            exchange(folder, link)
            exchange(folder, link)
            times[0] += 1

    attacker = threading.Thread(target=attack)
    attacker.start()
    yield lambda: times[0]
    over.set()
    attacker.join()


def finish(lake: FolderLake) -> None:
    begun = lake.begin("a/b/begun")
    try:
        pq.write_table(pa.table({"a": [1]}), begun.path)
        lake.finish("a/b/begun", begun)
    finally:
        begun.discard()


def read(lake: FolderLake) -> None:
    stored = lake.read("a/b/x")
    assert stored is None or stored.data != SECRET


def part(lake: FolderLake) -> None:
    assert lake.part("a/b/x", 0, 100) != SECRET


def local(lake: FolderLake) -> None:
    with lake.local("a/b/x") as path:
        assert path.read_bytes() != SECRET


def sized(lake: FolderLake) -> None:
    assert lake.size("a/b/x") != len(SECRET)
    assert all(item.size != len(SECRET) for item in lake.present(["a/b/x", "a/b/y"]))


def listed(lake: FolderLake) -> None:
    for prefix in ("", "a/", "a/b/", "a/b/x"):
        with suppress(LakeRefused):
            assert all(item.size != len(SECRET) for item in lake.list(prefix))


def moved(lake: FolderLake) -> None:
    for old, new in (("a/b/x", "a/b/moved"), ("a/b/moved", "a/b/x"), ("c/d/z", "a/b/z"), ("a/b/z", "c/d/z")):
        with suppress(LakeRefused, FileNotFoundError):
            lake.move(old, new)


def together(lake: FolderLake) -> None:
    with lake.synced_at_end() as many:
        for number in range(3):
            many.put(f"a/b/n{number}", b"new")
        moved(many)


ACTS = {
    "read": read,
    "part": part,
    "local": local,
    "size": sized,
    "list": listed,
    "put": lambda lake: lake.put("a/b/x", INSIDE),
    "create": lambda lake: lake.create(f"a/b/{time.monotonic_ns()}/x", b"new"),
    "create_each": lambda lake: list(lake.create_each((f"a/b/{n}", b"new") for n in range(3))),
    "replace": lambda lake: lake.replace("a/b/x", INSIDE, hashlib.sha256(INSIDE).hexdigest()),
    "delete": lambda lake: lake.delete(["a/b/y", "a/b/empty/none", "a/empty/none"]),
    "move": moved,
    "finish": finish,
    "together": together,
}


@pytest.mark.parametrize("act", per_commit(ACTS.values(), 4), ids=ACTS)
def test_nothing_outside_is_read_written_or_deleted(
    act: Callable, lake: FolderLake, outside: Path, attacked: Callable[[], int]
):
    before, begun, done = state(outside), time.monotonic(), 0
    while (passed := time.monotonic() - begun) < SECONDS or (passed < PATIENCE and not done):
        with suppress(LakeRefused, LakeUnavailable, FileNotFoundError):
            act(lake)
            done += 1
    assert attacked() > 100
    assert done > 0
    assert state(outside) == before
