"""What was fetched is compared with its pinned SHA-256 wherever it comes from, each time it is used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from local import fetch, fetched, versions
from local.cluster import s3_server
from local.versions import ROOT
from sluice.flow.land import submit

SHORT = bytes(16)
OF_SHORT = "374708fff7719dd5979ec875d56cd2286f6d3cf7ec317a3b25632aab28ec37bb"  # as sha256sum says
# The texts "one\n" and "two\n", likewise.
ONE = "2c8b08da5ce60398e1f19af0e5dccc744df274b826abe585eaba68c525434806"
TWO = "27dd8ed44a83ff94d557f9fd0412ed5a8cbca69ea04922d88c01184a07300a5a"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a folder of two files belongs, which are pinned; it is not there yet."""
    (tmp_path / "lock").write_text(f"{ONE}  parts-1/one.jar\n{TWO}  parts-1/two.jar\n{ONE}  parts-10/x.jar\n")
    monkeypatch.setattr(fetched, "LOCK", tmp_path / "lock")
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "deps").mkdir()
    return tmp_path / "deps" / "parts-1"


def bring(into: Path, two: bytes = b"two\n") -> None:
    into.mkdir(parents=True)
    (into / "one.jar").write_bytes(b"one\n")
    (into / "two.jar").write_bytes(two)


def nobody(into: Path) -> None:
    raise AssertionError(f"fetched again into {into}")


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(fetched.NotAsPinned) as refused:
        act()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_the_registry_gives_other_bytes_than_were_pinned(folder: Path):
    said = refusal(lambda: fetch.provide(folder, lambda into: bring(into, SHORT)))
    assert f"two.jar is not what was pinned: expected SHA-256 {TWO}, found {OF_SHORT}; it was" in said
    assert list(folder.parent.iterdir()) == [] and not fetch.cache_folder().exists()


def test_a_damaged_file_in_the_cache(folder: Path):
    cached = fetch.cache_folder() / folder.name
    bring(cached, SHORT)
    assert refusal(lambda: fetch.provide(folder, nobody)) == (
        f"{cached}/two.jar is not what was pinned: expected SHA-256 {TWO}, found {OF_SHORT}; "
        f"remove {cached} and run make setup: it is fetched anew"
    )
    assert not folder.exists() and (cached / "two.jar").read_bytes() == SHORT
    shutil.rmtree(cached)
    assert fetch.provide(folder, bring) == folder
    assert (folder / "two.jar").read_bytes() == (cached / "two.jar").read_bytes() == b"two\n"


def test_a_damaged_file_in_the_checkout_is_refused_and_not_replaced(folder: Path):
    fetch.provide(folder, bring)
    (folder / "two.jar").write_bytes(SHORT)
    for act in (lambda: fetch.provide(folder, nobody), lambda: fetched.require(folder)):
        assert refusal(act) == (
            f"{folder}/two.jar is not what was pinned: expected SHA-256 {TWO}, found {OF_SHORT}; "
            f"nothing was replaced; remove {folder} and run make setup"
        )
    assert (folder / "two.jar").read_bytes() == SHORT


def test_what_changes_after_it_was_compared_is_noticed(folder: Path):
    """With the size and the time that it had; and what is unchanged is not read again."""
    bring(folder)
    path, old = folder / "two.jar", 1_700_000_000
    digested: list[Path] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetched, "_CLOCK_SECONDS", -60)  # as if the files were older
        fetched.require(folder)
        patch.setattr(fetched, "_digest", lambda path: digested.append(path) or "")
        fetched.require(folder)
        assert digested == []
    before = path.stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the file system's clock ticks
        path.write_bytes(b"TWO\n")
        os.utime(path, (old, before.st_mtime))
    assert (path.stat().st_size, path.stat().st_ino) == (before.st_size, before.st_ino)
    assert str(path) in refusal(lambda: fetched.require(folder))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "one.jar").unlink(), f"one.jar .* {ONE}, found no file;"),
        (lambda folder: (folder / "zzz.jar").write_bytes(SHORT), f"zzz.jar .* no file, found {OF_SHORT};"),
        (lambda folder: (folder / "zzz.jar").symlink_to("one.jar"), "zzz.jar .* found no regular file;"),
    ],
    ids=["one lacks", "one too many, which a class path would take", "a link"],
)
def test_a_folder_has_exactly_the_pinned_files(folder: Path, change: Callable[[Path], object], said: str):
    bring(folder)
    change(folder)
    assert re.search(said, refusal(lambda: fetched.require(folder)))


def test_what_nobody_pinned_is_not_used(folder: Path):
    bring(folder.with_name("parts-2"))
    assert refusal(lambda: fetched.require(folder.with_name("parts-2"))).endswith(": run make pins")
    assert refusal(lambda: fetched.require(folder)) == "parts-1 is not fetched yet: run make setup"


def test_pins_are_of_the_parts_and_those_of_the_library_are_the_same():
    lines = dict(reversed(line.split("  ")) for line in fetched.LOCK.read_text().splitlines())
    assert {path.split("/")[0] for path in lines} == {target.name for target, _ in fetch.PARTS.values()}
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in lines.values())
    spark = {path: digest for path, digest in lines.items() if path.startswith("spark-")}
    published = [line.split() for line in submit.PUBLISHED.split("\n") if line]
    assert spark == {f"{versions.SPARK_JARS_DIR.name}/{name}.jar": digest for digest, name in published}
    assert len(spark) == len(versions.SPARK_KAFKA_JARS)


def test_what_is_in_this_checkout_is_as_pinned():
    checked = subprocess.run(
        ["sha256sum", "--check", "--quiet", "--ignore-missing", fetched.LOCK],
        cwd=versions.FETCHED,
        capture_output=True,
        text=True,
    )
    assert (checked.returncode, checked.stdout) == (0, "")
    fetched.require_all()


def test_nobody_names_a_fetched_folder_but_who_compares_it():
    names = re.compile(r"\b(KAFKA_JARS_DIR|SPARK_JARS_DIR|CHDB_DIR|CHDB_LIBRARY|AXE_DIR|AXE_SCRIPT)\b")
    may = {ROOT / "local" / f"{name}.py" for name in ("versions", "fetch", "fetched")}
    tops = ("local", "benchmarks", "dags", "plugins")
    others = {path for top in tops for path in (ROOT / top).rglob("*.py")} - may
    assert [path for path in others if names.search(path.read_text())] == []


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose library and broker are damaged, and whose jars of Spark are as they should be."""
    root = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "local", root / "local", ignore=shutil.ignore_patterns("__pycache__"))
    for source in (versions.SPARK_JARS_DIR, versions.KAFKA_JARS_DIR):
        shutil.copytree(source, root / ".deps" / source.name)
    (root / ".deps" / versions.CHDB_DIR.name).mkdir()
    for of, name in ((versions.KAFKA_JARS_DIR, "kafka-clients-4.2.0.jar"), (versions.CHDB_DIR, "libchdb.so")):
        (root / ".deps" / of.name / name).write_bytes(SHORT)
    return root


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["local.kafka_broker", "--data", "kafka"], "kafka-clients-4.2.0.jar"),
        (["local.clickhouse_server", "--data", "clickhouse"], "libchdb.so"),
        (["local.stack", "up"], "kafka-clients-4.2.0.jar"),
        (["local.fetch", "clickhouse"], "libchdb.so"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_nothing_starts_with_a_damaged_file(checkout: Path, tmp_path: Path, words: list[str], file: str):
    environment = {**os.environ, "PYTHONPATH": str(checkout), "SLUICE_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", *words]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    [line] = done.stderr.splitlines()
    assert f"{file} is not what was pinned: expected SHA-256 " in line
    assert f"found {OF_SHORT}; nothing was replaced; remove {checkout}/.deps/" in line


GO = """\
#!/bin/sh
case $1 in
install) mkdir -p "$GOBIN" && echo one >"$GOBIN/versitygw" ;;
version) printf '%s: go1\\n\\tpath\\tx\\n\\tmod\\tgithub.com/versity/versitygw\\tv1\\th1:theirs=\\n' "$3" ;;
esac
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Go that builds four bytes; returns where the program belongs."""
    (tmp_path / "go").write_text(GO)
    (tmp_path / "go").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(s3_server, "FETCHED", tmp_path)
    monkeypatch.setattr(s3_server, "_FOLDER", tmp_path / "versitygw-v1.8.0")
    return tmp_path / "versitygw-v1.8.0" / "versitygw"


def test_of_what_is_built_here_the_sources_are_pinned_and_then_the_program(
    go: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(s3_server.CannotBuild, match=r"v1\.8\.0 are h1:theirs=, not h1:au\+wI"):
        s3_server.program()
    assert not go.exists()
    monkeypatch.setattr(s3_server, "SOURCES", "h1:theirs=")
    assert s3_server.program() == s3_server.program() == str(go)
    go.write_bytes(SHORT)
    said = refusal(s3_server.program)
    assert f"expected SHA-256 {ONE}, found {OF_SHORT}; nothing was replaced" in said
