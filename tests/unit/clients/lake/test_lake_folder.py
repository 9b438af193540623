from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sluice.clients.lake import durable
from sluice.clients.lake.folder import FolderLake
from sluice.errors import LakeRefused, LakeUnavailable
from tests.support.lake_contract import LakeContract, keys

ACTS = {
    "read": lambda lake, key: lake.read(key),
    "part": lambda lake, key: lake.part(key, 0, 1),
    "local": lambda lake, key: lake.local(key).__enter__(),
    "size": lambda lake, key: lake.size(key),
    "present": lambda lake, key: list(lake.present([key])),
    "create": lambda lake, key: lake.create(key, b"x"),
    "create_each": lambda lake, key: list(lake.create_each([(key, b"x")])),
    "put": lambda lake, key: lake.put(key, b"x"),
    "replace": lambda lake, key: lake.replace(key, b"x", "version"),
    "delete": lambda lake, key: lake.delete([key]),
    "move away": lambda lake, key: lake.move(key, "c"),
    "move there": lambda lake, key: lake.move("other", key),
    "begin": lambda lake, key: lake.begin(key),
    "finish": lambda lake, key: lake.finish(key, lake.begin("c")),
}
FORK = multiprocessing.get_context("fork")


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


class TestFolderLake(LakeContract):
    @pytest.fixture
    def lake(self, tmp_path: Path) -> FolderLake:
        return FolderLake(tmp_path / "lake" / "demo")


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "demo")


def test_an_object_is_a_file_at_its_key(lake: FolderLake, tmp_path: Path) -> None:
    lake.put("type=a/date=2026-11-20/hour=10/x.parquet", b"x")
    assert (tmp_path / "demo/type=a/date=2026-11-20/hour=10/x.parquet").read_bytes() == b"x"
    with lake.local("type=a/date=2026-11-20/hour=10/x.parquet") as path:
        assert path.samefile(tmp_path / "demo/type=a/date=2026-11-20/hour=10/x.parquet")
    assert lake.url == f"file://{tmp_path}/demo"


plain_keys = st.lists(st.text("a0.!-~", min_size=1, max_size=3), min_size=1, max_size=3).map("/".join)


@given(st.sets(plain_keys, max_size=12), st.text("a0.!-~/", max_size=4))
def test_listing_is_that_of_a_flat_store(names: set[str], prefix: str) -> None:
    assume(not any({".", ".."} & set(name.split("/")) for name in names))
    assume(not any(one.startswith(other + "/") for one in names for other in names))
    assume(not prefix.startswith("/") and "//" not in prefix)
    assume(not {".", ".."} & set(prefix.split("/")[:-1]))
    with TemporaryDirectory() as folder:
        lake = FolderLake(Path(folder))
        for name in names:
            (lake.root / name).parent.mkdir(parents=True, exist_ok=True)
            (lake.root / name).touch()
        assert keys(lake, prefix) == sorted(name for name in names if name.startswith(prefix))


def test_looking_makes_nothing(lake: FolderLake, tmp_path: Path) -> None:
    assert lake.read("a") is None
    assert keys(lake) == []
    assert list(tmp_path.iterdir()) == []


NO_KEYS = ["", "/a", "a//b", "a/", "../a", "a/../b", "./a", ".sluice/x", "a\0b", "\ud800", "a/\udfff", "\0"]


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
@pytest.mark.parametrize("key", NO_KEYS, ids=ascii)
def test_keys_that_are_none(lake: FolderLake, key: str, act: Callable) -> None:
    lake.put("other", b"1")
    with pytest.raises(LakeRefused, match="is not a key of the lake.*correct the file that names it"):
        act(lake, key)
    assert keys(lake) == ["other"]


def test_prefixes_that_begin_no_key(lake: FolderLake) -> None:
    for prefix in ("../", "/", "a//", ".sluice/", "a\0/", "\ud800/"):
        with pytest.raises(LakeRefused, match="is not a key of the lake"):
            keys(lake, prefix)
    assert keys(lake, "\0") == keys(lake, "a/\ud800") == []


def test_folders_that_become_empty_go(lake: FolderLake, tmp_path: Path) -> None:
    lake.put("_attempts/s/a/1", b"x")
    lake.put("_attempts/s/a/2", b"x")
    lake.move("_attempts/s/a/1", "type=a/1")
    assert (tmp_path / "demo/_attempts/s/a").is_dir()
    lake.delete(["_attempts/s/a/2"])
    assert not (tmp_path / "demo/_attempts").exists()
    lake.delete(["type=a/1"])
    assert (tmp_path / "demo").is_dir()


def test_folders_that_many_moves_empty_go_at_the_end(lake: FolderLake, tmp_path: Path) -> None:
    attempt = tmp_path / "demo/_attempts/s/a"
    lake.put("_attempts/s/a/1", b"x")
    with lake.synced_at_end() as moving:
        moving.move("_attempts/s/a/1", "type=a/1")
        assert attempt.is_dir()
    assert not attempt.parent.parent.exists()
    attempt.mkdir(parents=True)  # as a kill leaves it, before the end: the move is repeated
    with lake.synced_at_end() as moving:
        moving.move("_attempts/s/a/1", "type=a/1")
    assert not attempt.parent.parent.exists()
    assert lake.read("type=a/1").data == b"x"


def test_writers_and_tidiers_do_not_meet(lake: FolderLake) -> None:
    def write_and_remove(writer: int) -> None:
        for turn in range(100):
            source, destination = f"_attempts/s/{writer % 2}/{writer}", f"type=a/{turn % 3}/{writer}"
            lake.put(source, b"x")
            lake.move(source, destination)
            lake.delete([destination])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write_and_remove, range(8)))
    assert keys(lake) == []


def test_listing_while_folders_vanish(lake: FolderLake) -> None:
    for n in range(50):
        lake.put(f"a/{n:02d}/x", b"x")
    listing = lake.list("a/")
    assert next(listing).key == "a/00/x"
    lake.delete([f"a/{n:02d}/x" for n in range(50)])
    assert [item.key for item in listing] == []


def test_forty_thousand_files_list_fast(lake: FolderLake, tmp_path: Path) -> None:
    for folder in range(400):
        path = tmp_path / f"demo/type=a/date={folder:03d}"
        path.mkdir(parents=True)
        for n in range(100):
            (path / f"{n:02d}").touch()
    started = time.monotonic()
    listed = keys(lake, "type=a/")
    assert time.monotonic() - started < 5
    assert len(listed) == 40_000
    assert listed == sorted(listed)


def test_no_litter(lake: FolderLake, tmp_path: Path) -> None:
    lake.create("a", b"0")
    for n in range(60):
        assert lake.replace("a", str(n).encode(), lake.read("a").version)
        lake.create("a", b"never")
    for n in range(60):
        lake.create(f"b/{n}", b"x")
        lake.replace(f"b/{n}", b"y", lake.read(f"b/{n}").version)
    own = [name for name in files(tmp_path / "demo") if name.startswith(".sluice")]
    assert len(own) <= 256
    assert all(name.startswith(".sluice/locks/") for name in own)


def test_leavings_of_killed_writers_go_after_a_week(lake: FolderLake) -> None:
    begun = [lake.begin("a") for _ in range(2)]
    os.utime(begun[0].path, (time.time() - 8 * 24 * 3600,) * 2)
    [old] = [path for path in Path(begun[0].folder).iterdir() if path.samefile(begun[0].path)]
    [new] = [path for path in Path(begun[1].folder).iterdir() if path.samefile(begun[1].path)]
    lake.delete([])
    assert (old.exists(), new.exists()) == (False, True)


def overwrite_for_ever(pickled: bytes) -> None:
    lake: FolderLake = pickle.loads(pickled)
    for number in range(1_000_000):
        data = f"{number}\n".encode() * 20_000
        lake.put("put", data)
        lake.create(f"create/{number}", data)
        list(lake.create_each((f"each/{number}/{n}", data) for n in range(2)))
        begun = lake.begin("file")
        begun.path.write_bytes(data)
        lake.finish("file", begun)
        lake.move("file", f"moved/{number}")
        lake.replace("replaced", data, lake.read("replaced").version)


def test_a_killed_writer_leaves_whole_objects_or_none(lake: FolderLake) -> None:
    lake.put("replaced", b"0\n" * 20_000)
    seen = 0
    for turn in range(25):
        writer = FORK.Process(target=overwrite_for_ever, args=(pickle.dumps(lake),))
        writer.start()
        # Where in its work it dies is up to chance; that is the point.
        time.sleep(0.01 + 0.004 * turn)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        for item in list(lake.list("")):
            lines = lake.read(item.key).data.split(b"\n")
            assert len(lines) == 20_001
            assert len(set(lines[:-1])) == 1
            seen += 1
        lake.delete([item.key for item in lake.list("") if item.key != "replaced"])
    assert seen > 25
    found = lake.read("replaced")
    assert lake.replace("replaced", b"after the kills", found.version)


class Traced:
    """What becomes durable and what becomes visible, in the order in which it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[str] = []
        for module, name in ((os, "fsync"), (os, "link"), (os, "replace"), (durable, "sync_file_system")):
            monkeypatch.setattr(module, name, self._noting(name, getattr(module, name)))

    def _noting(self, name: str, act):
        def noting(*arguments, **more):
            self.steps.append(name)
            return act(*arguments, **more)

        return noting


def test_bytes_are_safe_before_the_first_object_is_visible(
    lake: FolderLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.put("a/folder", b"is there")
    traced = Traced(monkeypatch)
    assert all(lake.create_each((f"a/{n}", b"x") for n in range(1000)))
    first = traced.steps.index("link")
    assert "sync_file_system" in traced.steps[:first]
    assert traced.steps.count("sync_file_system") == 2
    assert traced.steps[-1] == "sync_file_system"
    assert traced.steps.count("link") == 1000


def test_few_writes_do_not_wait_for_the_file_system(
    lake: FolderLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced = Traced(monkeypatch)
    with lake.synced_at_end() as many:
        many.put("a", b"x")
        many.create("b", b"x")
    assert all(lake.create_each([("c", b"x")]))
    assert "sync_file_system" not in traced.steps
    # Each object's bytes before it, and its folder after it.
    for step in ("replace", "link"):
        place = traced.steps.index(step)
        assert traced.steps[place - 1] == traced.steps[place + 1] == "fsync"


def test_many_writes_are_synced_once_and_not_after_a_failure(
    lake: FolderLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_all(most: int) -> None:
        with lake.synced_at_end() as many:
            for number in range(100):
                many.put(f"a/{number}", str(1 // (most - number)).encode())

    traced = Traced(monkeypatch)
    write_all(100)
    assert traced.steps.count("sync_file_system") == 1 and traced.steps[-1] == "sync_file_system"
    with pytest.raises(ZeroDivisionError):
        write_all(99)
    assert traced.steps.count("sync_file_system") == 1


def test_a_file_system_that_cannot_be_synced_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    durable.sync_file_system(tmp_path)
    monkeypatch.setattr(durable.os, "open", lambda *_: -1)  # no file descriptor: the call itself says so
    monkeypatch.setattr(durable.os, "close", lambda _: None)
    with pytest.raises(OSError, match="Bad file descriptor"):
        durable.sync_file_system(tmp_path)


def hold_lock(path: Path, holding) -> None:
    with durable.locked(path):
        holding.set()
        signal.pause()


def test_a_killed_holder_frees_its_lock_and_a_stopped_one_is_named(
    lake: FolderLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "_LOCK_PATIENCE_SECONDS", 0.05)
    lake.create("a", b"1")
    version = lake.read("a").version
    assert lake.replace("a", b"2", version)
    [lock] = (tmp_path / "demo/.sluice/locks").iterdir()
    holding = FORK.Event()
    holder = FORK.Process(target=hold_lock, args=(lock, holding))
    holder.start()
    assert holding.wait(10)
    with pytest.raises(LakeUnavailable, match="a stopped process holds its lock"):
        lake.replace("a", b"3", lake.read("a").version)
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    assert lake.replace("a", b"3", lake.read("a").version)


def test_a_full_disk_is_explained() -> None:
    full = FolderLake(Path("/dev/full/demo"))
    with pytest.raises(LakeRefused, match="a file is where a folder has to be"):
        full.put("a", b"x")
    with (
        pytest.raises(LakeRefused, match=r"no space left on device.*make room on its disk") as raised,
        durable.explained("file:///lake"),
    ):
        durable.write(Path("/dev/full"), b"x")
    assert not raised.value.retryable


@pytest.mark.parametrize(
    ("number", "error", "text"),
    [
        (errno.EACCES, LakeRefused, "the right to read and write"),
        (errno.EROFS, LakeRefused, "mount its disk for writing"),
        (errno.EDQUOT, LakeRefused, "quota"),
        (errno.EIO, LakeUnavailable, "does not answer"),
        (errno.ESTALE, LakeUnavailable, "does not answer"),
    ],
)
def test_failures_of_the_disk(number: int, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as raised, durable.explained("file:///lake"):
        raise OSError(number, os.strerror(number), "/lake/a")
    assert "/lake/a" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_name_too_long_is_explained(lake: FolderLake) -> None:
    with pytest.raises(LakeRefused, match="255 bytes"):
        lake.put("type=" + "x" * 300 + "/a", b"x")
