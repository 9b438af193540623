"""Archives of Java's classes: made once for a Java and its jars, and never half."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from local import class_data
from local.java import java
from local.progress import CommandFailed
from sluice.flow.land import spark_needs


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    found = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for jar in found:
        jar.write_bytes(b"jar")
    return found


def writes(made: list[str], text: str) -> Callable[[Path], None]:
    def make(archive: Path) -> None:
        made.append(text)
        archive.write_text(text)

    return make


def test_an_archive_is_made_once_for_the_same_jars(tmp_path: Path, jars: list[Path]):
    archive, made = tmp_path / "class-data" / "x.jsa", []
    class_data.provide(archive, jars, writes(made, "one"))
    class_data.provide(archive, jars[::-1], writes(made, "two"))
    assert (archive.read_text(), made) == ("one", ["one"])
    jars[1].write_bytes(b"another")
    class_data.provide(archive, jars, writes(made, "three"))
    assert (archive.read_text(), made) == ("three", ["one", "three"])


def test_one_that_was_removed_is_made_again(tmp_path: Path, jars: list[Path]):
    archive, made = tmp_path / "x.jsa", []
    class_data.provide(archive, jars, writes(made, "one"))
    archive.unlink()
    class_data.provide(archive, jars, writes(made, "two"))
    assert archive.read_text() == "two"


def test_one_that_cannot_be_made_leaves_none_and_says_so(tmp_path: Path, jars: list[Path], capsys):
    archive, made = tmp_path / "x.jsa", []
    class_data.provide(archive, jars, writes(made, "old"))
    jars[0].unlink()

    def fails(part: Path) -> None:
        part.write_text("half of it")
        raise CommandFailed("no room")

    class_data.provide(archive, jars[1:], fails)
    assert not archive.exists()
    assert "no archive of classes, so that JVMs start more slowly: no room" in capsys.readouterr().out
    class_data.provide(archive, jars[1:], writes(made, "new"))
    assert archive.read_text() == "new"


def test_a_jvm_is_given_an_archive_that_is_there(tmp_path: Path):
    archive = tmp_path / "x.jsa"
    assert spark_needs.class_data(archive) == ()
    archive.write_bytes(b"")
    assert f"-XX:SharedArchiveFile={archive}" in spark_needs.class_data(archive)


def test_a_jvm_passes_over_an_archive_of_other_classes_without_a_word(tmp_path: Path):
    archive = tmp_path / "x.jsa"
    archive.write_bytes(b"an archive of another Java")
    said = subprocess.run(
        [java(), *spark_needs.class_data(archive), "-Xint", "-version"], capture_output=True, text=True
    )
    assert (said.returncode, said.stdout) == (0, "")
    assert all(line.startswith("OpenJDK") or "version" in line for line in said.stderr.splitlines())
