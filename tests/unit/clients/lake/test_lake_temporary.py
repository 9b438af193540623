"""Temporary files of the S3 lake: none of the dead stay, none of the living go."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sluice.clients.lake import temporary

ROOT = Path(__file__).parents[4]
HOLDING = """
import sys
from sluice.clients.lake import temporary
path = temporary.new_file()
path.write_bytes(b"x" * 1000)
print(path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TMPDIR, of this process and of those that it starts; what was made elsewhere is forgotten."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(temporary._Own, "process", 0)
    return tmp_path


FORECAST = HOLDING.replace("temporary.new_file()", "DiscardingLake(MemoryLake()).begin('key').path").replace(
    "import sys",
    "import sys\nfrom sluice.clients.lake.temporary import DiscardingLake\n"
    "from tests.support.fakes import MemoryLake",
)


def start(folder: Path, script: str = HOLDING) -> tuple[subprocess.Popen[str], Path]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'plugins'}:{ROOT}", "TMPDIR": str(folder)}
    words = [sys.executable, "-c", script]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(words, env=environment, text=True, **pipes)
    return process, Path(process.stdout.readline().strip())


@pytest.mark.parametrize("script", [HOLDING, FORECAST], ids=["S3", "forecast"])
def test_files_of_a_killed_process_are_removed_by_the_next(folder: Path, script: str):
    killed, left = start(folder, script)
    with killed:
        killed.kill()
    living, kept = start(folder)
    with living:
        own = temporary.new_file()
        assert (left.exists(), kept.read_bytes(), own.read_bytes()) == (False, b"x" * 1000, b"")
        assert {path.parent for path in (kept, own)} == set(folder.iterdir())
        living.communicate("")
    assert not kept.exists()


def test_a_forked_child_has_a_folder_of_its_own(folder: Path):
    own = temporary.new_file()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        theirs = pool.apply(temporary.new_file)
    assert theirs.parent != own.parent
    assert temporary.new_file().parent == own.parent and own.exists()


def test_what_is_no_processs_folder_stays(folder: Path):
    """Another's file of that name, a folder without a lock, and a link to elsewhere."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").touch()
    (folder / "sluice-lake-file").touch()
    (folder / "sluice-lake-new").mkdir()
    (folder / "sluice-lake-link").symlink_to(elsewhere)
    before = set(folder.rglob("*"))
    own = temporary.new_file()
    assert before < set(folder.rglob("*"))
    assert own.stat().st_mode & 0o777 == 0o600 and own.parent.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_was_tidied_away_is_made_again():
    own = temporary.new_file()
    temporary._remove(own.parent, os.getpid())
    assert temporary.new_file().exists() and not own.exists()
