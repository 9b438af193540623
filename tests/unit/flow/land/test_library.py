"""The archive of the library that travels to Spark's workers."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sluice.errors import WrongUse
from sluice.flow.land import submit as submit_archive
from sluice.flow.land.submit import archive, archive_file


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package as it lies about: in some order, with what Python and its user leave there."""
    for name in (
        "b.py",
        "__init__.py",
        "a/z.py",
        "a/__init__.py",
        "_shipped/x.py",
        "__pycache__/b.py",
        "n.txt",
    ):
        path = tmp_path / "small" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"NAME = {name!r}\n")
    return tmp_path / "small"


def names(content: bytes, folder: Path) -> list[str]:
    (folder / "found.zip").write_bytes(content)
    with zipfile.ZipFile(folder / "found.zip") as bundle:
        return bundle.namelist()


def test_the_same_sources_give_the_same_bytes(package: Path, tmp_path: Path):
    first = archive(package)
    assert names(first, tmp_path) == [
        "small/__init__.py",
        "small/a/__init__.py",
        "small/a/z.py",
        "small/b.py",
    ]
    for path in package.rglob("*"):
        os.utime(path, (1, 1))
    (package / "b.py").chmod(0o600)
    assert archive(package) == first
    (package / "b.py").write_text("NAME = 'other'\n")
    assert archive(package) != first


def test_a_python_that_has_only_the_archive_lands_with_it(tmp_path: Path):
    """As on a worker: -S hides the editable install, and the packages are named one by one."""
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    path = archive_file(tmp_path / "archives")
    code = "import sluice.flow.land.task.task as t, sluice.flow.land.merge; print(t.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": f"{path}:{packages}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(str(path)), done.stderr


def test_a_file_that_its_content_names(tmp_path: Path, monkeypatch):
    folder = tmp_path / "archives"
    first = archive_file(folder)
    assert (archive_file(folder), [path.name for path in folder.iterdir()]) == (first, [first.name])
    assert folder.stat().st_mode & 0o777 == 0o700
    first.write_bytes(b"spoilt")
    assert archive_file(folder).read_bytes() == archive()
    monkeypatch.setattr(submit_archive, "archive", lambda: b"another version")
    assert archive_file(folder) != first


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path):
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(WrongUse, match="not this user's alone"):
        archive_file(open_to_all)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(WrongUse, match="not this user's alone"):
        archive_file(tmp_path / "link")
    (tmp_path / "file").touch()
    with pytest.raises(WrongUse, match="not this user's alone"):
        archive_file(tmp_path / "file")
