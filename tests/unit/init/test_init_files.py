"""Both files or none, whatever stops it; and no file that was there is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluice.errors import WrongUse
from sluice.init.init import statements_in, write_all


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def both(folder: Path) -> dict[Path, str]:
    return {folder / "a.yaml": "kafka\n", folder / "a.sql": "CREATE\n"}


def test_both_are_written_and_nothing_beside_them(tmp_path: Path):
    folder = tmp_path / "new"
    write_all(both(folder), force=False)
    assert content(folder) == {"a.yaml": "kafka\n", "a.sql": "CREATE\n"}


@pytest.mark.parametrize("there", ["a.yaml", "a.sql"])
def test_what_is_there_is_overwritten_only_by_force(there: str, tmp_path: Path):
    (tmp_path / there).write_text("mine")
    with pytest.raises(WrongUse, match=f"{there}: there already; `--force`"):
        write_all(both(tmp_path), force=False)
    assert content(tmp_path) == {there: "mine"}
    write_all(both(tmp_path), force=True)
    assert content(tmp_path) == {"a.yaml": "kafka\n", "a.sql": "CREATE\n"}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(28, "No space left on device", "x")])
@pytest.mark.parametrize("call", range(6))
def test_whatever_stops_it_all_is_as_before(call: int, stop, force: bool, tmp_path: Path, monkeypatch):
    """At each of its calls of the system, before it and after it."""
    before = {"a.yaml": "mine", "a.sql": "mine, too"} if force else {}
    for name, text in before.items():
        (tmp_path / name).write_text(text)
    made = {"count": 0}

    def stopping(original):
        def called(*arguments):
            number, made["count"] = made["count"], made["count"] + 1
            if number == call // 2 and call % 2 == 0:
                raise stop
            original(*arguments)
            if number == call // 2:
                raise stop

        return called

    monkeypatch.setattr(os, "link", stopping(os.link))
    if force:
        original = os.replace

        def replace(*arguments):
            return original(*arguments) if "kept" in str(arguments[0]) else stopped(*arguments)

        stopped = stopping(os.replace)
        monkeypatch.setattr(os, "replace", replace)
    reached = call < (6 if force else 4)
    expected = (WrongUse if isinstance(stop, OSError) else KeyboardInterrupt) if reached else None
    if expected is None:
        write_all(both(tmp_path), force)
        assert content(tmp_path) == {"a.yaml": "kafka\n", "a.sql": "CREATE\n"}
        return
    with pytest.raises(expected):
        write_all(both(tmp_path), force)
    assert content(tmp_path) == before


@pytest.mark.parametrize("file", ["a.yaml", "a.sql"])
def test_a_link_to_nothing_is_there_too(file: str, tmp_path: Path, monkeypatch):
    """`--force` replaces the link itself; what stops it puts the link back."""
    link = tmp_path / file
    link.symlink_to(tmp_path / "gone")
    with pytest.raises(WrongUse, match=f"{file}: there already; `--force`"):
        write_all(both(tmp_path), force=False)

    def refuse(*_):
        raise OSError(28, "No space left on device", "x")

    with monkeypatch.context() as full:
        full.setattr(os, "link", refuse)
        with pytest.raises(WrongUse, match="nothing was written"):
            write_all(both(tmp_path), force=True)
    assert [path.name for path in tmp_path.iterdir()] == [file] and link.is_symlink()
    write_all(both(tmp_path), force=True)
    assert content(tmp_path) == {"a.yaml": "kafka\n", "a.sql": "CREATE\n"} and not link.is_symlink()


def test_a_file_that_another_makes_meanwhile_stays(tmp_path: Path, monkeypatch):
    original = os.link

    def raced(source, target):
        Path(target).write_text("another's")
        original(source, target)

    monkeypatch.setattr(os, "link", raced)
    with pytest.raises(WrongUse, match="nothing was written"):
        write_all(both(tmp_path), force=False)
    assert content(tmp_path) == {"a.yaml": "another's"}


def test_a_folder_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WrongUse, match="nothing was written"):
        write_all(both(tmp_path / "file" / "x"), force=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("-- a;\n", []),
        ("A;\nB", ["A", "B"]),
        ("A 'x;y' `p;q` \"r;s\";B;", ["A 'x;y' `p;q` \"r;s\"", "B"]),
        ("A 'it''s; \\'; \\\\';B", ["A 'it''s; \\'; \\\\'", "B"]),
        ("/* ; */ A -- ;\n ;;", ["A"]),
        ("A `--x` '--y' '/*'; B", ["A `--x` '--y' '/*'", "B"]),
    ],
)
def test_statements_end_where_the_server_ends_them(text: str, expected: list[str]):
    assert statements_in(text) == expected
