"""The stack's secrets: made once, and nobody else's to read."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from local.secret_file import stored, write


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_is_made_once_and_is_its_owners(tmp_path: Path):
    path = tmp_path / "home" / "password"
    made = stored(path)
    assert len(made) == 32
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert stored(path) == made == path.read_text()
    assert [entry.name for entry in path.parent.iterdir()] == ["password"]
    assert stored(tmp_path / "other") != made


def test_of_several_at_once_all_have_the_same(tmp_path: Path):
    for number in range(50):
        with ThreadPoolExecutor(4) as threads:
            found = set(threads.map(stored, [tmp_path / str(number)] * 4))
        assert len(found) == 1


def test_a_file_that_anybody_could_read_is_made_anew(tmp_path: Path):
    path = tmp_path / "users.xml"
    path.write_text("old")
    path.chmod(0o644)
    opened = path.open()
    write(path, "secret")
    assert (mode(path), path.read_text()) == (0o600, "secret")
    with opened:
        assert opened.read() == "old", "who had it open does not see the secret"
