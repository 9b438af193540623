"""Files of a lake in a folder have modes of their own: the folder's mode decides, whatever the umask is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sluice.clients.lake.folder import FolderLake

ROWS = (
    "type=a/date=2026-11-20/hour=10/x.parquet",
    "type=a/date=2026-11-20/hour=10/_SUCCESS",
    "_rejected/date=2026-11-20/hour=10/r.parquet",
    "_counts/date=2026-11-20/hour=10/c.parquet",
)
STATE = ("_erased/salt.json", "_slices/2026-11-20T10Z/dc1.json", "_rules/00aa.json", "type=a/note.json")
# The folder's mode: that of folders in it, of rows, of the rest and of the folder of what is being written.
EXPECTED = {
    None: (0o700, 0o600, 0o600, 0o700),
    0o700: (0o700, 0o600, 0o600, 0o700),
    0o750: (0o750, 0o640, 0o600, 0o700),
    0o2750: (0o2750, 0o640, 0o600, 0o700),
    0o755: (0o755, 0o644, 0o600, 0o700),
    0o770: (0o770, 0o660, 0o660, 0o770),
    0o2770: (0o2770, 0o660, 0o660, 0o2770),
    0o2775: (0o2775, 0o664, 0o660, 0o2770),
    0o777: (0o700, 0o600, 0o600, 0o700),
    0o1777: (0o700, 0o600, 0o600, 0o700),
}


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def fill(lake: FolderLake) -> None:
    """Writes each key in every way that there is."""
    for key in (*ROWS, *STATE):
        folder, _, name = key.rpartition("/")
        begun = lake.begin(f"{folder}/1/{name}")
        begun.path.write_bytes(b"x")
        lake.finish(f"{folder}/1/{name}", begun)
        assert lake.create(f"{folder}/2/{name}", b"x")
        assert all(lake.create_each([(f"{folder}/{n}/{name}", b"x") for n in (3, 4)]))
        lake.put(f"{folder}/5/{name}", b"x")
        assert lake.replace(f"{folder}/5/{name}", b"y", lake.read(f"{folder}/5/{name}").version)
        with lake.synced_at_end() as together:
            together.put(f"{folder}/6/{name}", b"x")
            together.move(f"{folder}/4/{name}", f"{folder}/moved/{name}")
        lake.create(key, b"x")


@pytest.mark.parametrize("made", EXPECTED, ids=lambda one: str(one and oct(one)))
def test_the_folders_mode_decides(made: int | None, umask: int, tmp_path: Path) -> None:
    root = tmp_path / "lake"
    if made is not None:
        root.mkdir()
        root.chmod(made)
    fill(FolderLake(root / "demo"))
    folders, rows, state, own = EXPECTED[made]
    files = [path for path in (root / "demo").rglob("*") if path.is_file() and ".sluice" not in path.parts]
    assert len(files) == 7 * len(ROWS + STATE)
    for path in files:
        for_readers = path.suffix == ".parquet" or path.name == "_SUCCESS"
        assert mode(path) == (rows if for_readers else state), path
    for path in (root / "demo", *(root / "demo").rglob("*")):
        if path.is_dir():
            assert mode(path) == (own if ".sluice" in path.parts else folders), path
    for path in (root / "demo/.sluice/locks").iterdir():
        assert mode(path) == own & 0o666


def test_the_pipelines_own_folder_goes_before_the_lakes(umask: int, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo").chmod(0o750)
    tmp_path.chmod(0o755)
    lake = FolderLake(tmp_path / "demo")
    lake.create("type=a/x.parquet", b"x")
    lake.create("_erased/salt.json", b"x")
    assert mode(tmp_path / "demo/type=a/x.parquet") == 0o640
    assert mode(tmp_path / "demo/_erased/salt.json") == 0o600


def test_while_rows_are_written_only_their_owner_sees_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    begun = FolderLake(tmp_path / "demo").begin("type=a/x.parquet")
    assert mode(Path(begun.folder)) == mode(Path(begun.folder).parent) == 0o700
