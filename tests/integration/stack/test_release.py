"""`make release`, in a copy of the tree with a history of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from datetime import date
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from local.release import CHANGELOG, COMPOSE, LIBRARY, PINS, REFERENCE, SINCE, NotReleased, release

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
DAY = date(2026, 12, 24)
# The real ones are the suite that this test belongs to.
PASSES, FAILS = (sys.executable, "-c", ""), (sys.executable, "-c", "raise SystemExit(1)")
PARTS = ("plugins", "include", "monitoring", "spark_jobs", "pyproject.toml", "README.md", ".gitignore")
DOCUMENTS = (SINCE, REFERENCE)


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    for name in (*PARTS, PINS, COMPOSE, CHANGELOG):
        part = ROOT / name
        no_caches = shutil.ignore_patterns("__pycache__")
        shutil.copytree(part, root / name, ignore=no_caches) if part.is_dir() else shutil.copy(part, root)
    for name in DOCUMENTS:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "Test")
    git(root, "config", "user.email", "test@localhost")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "all")
    return root


def test_a_release(tree: Path):
    constraints, wheel, archive = release(tree, "9.8.7", DAY, [PASSES])
    assert (wheel.name, archive.name) == ("sluice-9.8.7-py3-none-any.whl", "sluice-9.8.7.tar.gz")
    assert constraints.name == "sluice-9.8.7-constraints.txt"
    pinned = {
        (one.name, str(one.specifier)) for one in map(Requirement, constraints.read_text().splitlines())
    }
    assert {("apache-airflow", "==3.3.2"), ("pyspark", "==4.2.0")} < pinned
    assert len(pinned) == (ROOT / PINS).read_text().count("==")
    inside = zipfile.ZipFile(wheel).read("sluice/__init__.py").decode()
    assert '__version__ = "9.8.7"' in inside
    with tarfile.open(archive) as packed:
        assert "sluice-9.8.7/pyproject.toml" in packed.getnames()
    assert "image: sluice:9.8.7\n" in (tree / COMPOSE).read_text()
    assert "## [Unreleased]\n\n## [9.8.7] - 2026-12-24\n" in (tree / CHANGELOG).read_text()
    assert set(json.loads((tree / SINCE).read_text()).values()) == {"9.8.7"}
    assert (tree / REFERENCE).read_text().count("| 9.8.7 |\n") == len(json.loads((ROOT / SINCE).read_text()))
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "describe", "--exact-match") == "v9.8.7"
    assert git(tree, "log", "-1", "--format=%s") == "Sluice 9.8.7"
    with pytest.raises(NotReleased, match=r"v9\.8\.7 is there already"):
        release(tree, "9.8.7", DAY, [PASSES])
    with pytest.raises(NotReleased, match="nothing under"):
        release(tree, "9.8.8", DAY, [PASSES])


@pytest.mark.long
def test_what_keeps_it_from_one(tree: Path):
    before = git(tree, "rev-parse", "HEAD")
    for version in ("1", "v1.0.0", "1.0", "0.0.1", "1.0.0rc1"):
        with pytest.raises(NotReleased, match=version):
            release(tree, version, DAY, [PASSES])
    with pytest.raises(NotReleased, match="mend that first"):
        release(tree, "9.8.7", DAY, [PASSES, FAILS])
    (tree / "new.txt").write_text("x")
    with pytest.raises(NotReleased, match="not committed"):
        release(tree, "9.8.7", DAY, [PASSES])
    (tree / "new.txt").unlink()
    assert (git(tree, "rev-parse", "HEAD"), git(tree, "tag"), git(tree, "status", "--porcelain")) == (
        before,
        "",
        "",
    )


@pytest.mark.long
def test_a_tag_that_fails_leaves_the_tree_and_its_history_as_they_were(tree: Path):
    before = git(tree, "rev-parse", "HEAD")
    git(tree, "config", "tag.gpgSign", "true")
    git(tree, "config", "gpg.program", "false")
    with pytest.raises(NotReleased, match="git tag"):
        release(tree, "9.8.7", DAY, [PASSES])
    assert (git(tree, "rev-parse", "HEAD"), git(tree, "tag"), git(tree, "status", "--porcelain")) == (
        before,
        "",
        "",
    )
    git(tree, "config", "tag.gpgSign", "false")
    release(tree, "9.8.7", DAY, [PASSES])
    assert git(tree, "rev-parse", "v9.8.7^{commit}", "HEAD~1").split() == [
        git(tree, "rev-parse", "HEAD"),
        before,
    ]


@pytest.mark.long
def test_a_build_that_fails_leaves_the_tree_as_it_was(tree: Path):
    broken = (tree / "pyproject.toml").read_text().replace("hatchling.build", "no.such.backend")
    (tree / "pyproject.toml").write_text(broken)
    git(tree, "commit", "-q", "-a", "-m", "broken")
    with pytest.raises(NotReleased, match="cannot be built"):
        release(tree, "9.8.7", DAY, [PASSES])
    assert git(tree, "status", "--porcelain") == git(tree, "tag") == ""
    assert "9.8.7" not in (tree / LIBRARY).read_text()
