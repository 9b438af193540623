"""Hands out what was fetched into .deps, and only as it was pinned.

Nobody else names a folder there. Each is compared with local/fetched.sha256 (`make pins` writes it), file by
file, whenever it is asked for: a file that differs, lacks or is too many refuses the whole folder. A folder
whose files have the sizes, times and inodes of the last comparison is not read again.
"""

import hashlib
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from local import versions

LOCK = Path(__file__).with_name("fetched.sha256")
_CLOCK_SECONDS = 1.0  # two changes of a file within a tick of the file system's clock have one time
_NOTHING, _SPECIAL = "no file", "no regular file"


class NotAsPinned(Exception):
    """What was fetched is not there, or not what was pinned; the message says what to do."""


def spark_jars() -> Path:
    return require(versions.SPARK_JARS_DIR)


def broker_jars() -> Path:
    return require(versions.KAFKA_JARS_DIR)


def clickhouse_library() -> Path:
    return require(versions.CHDB_DIR) / versions.CHDB_LIBRARY


def require_all() -> None:
    for ask in (broker_jars, clickhouse_library, spark_jars):
        ask()


def require(folder: Path, again: str = "run make setup") -> Path:
    """Returns the folder, which has exactly the pinned files. Raises NotAsPinned. `again`: what brings it."""
    if not folder.exists():
        raise NotAsPinned(f"{folder.name} is not fetched yet: {again}")
    stamp, before = folder.with_name(f"{folder.name}.checked"), _state(folder)
    with suppress(OSError):
        if stamp.read_text() == before:
            return folder
    compare(folder, f"nothing was replaced; remove {folder} and {again}")
    if _state(folder) == before and _newest(folder) < time.time() - _CLOCK_SECONDS:
        with suppress(OSError):  # a folder that is only read is compared each time
            _write(stamp, before)
    return folder


def compare(folder: Path, remedy: str) -> None:
    """Reads every file. Raises NotAsPinned with the first that differs, what was pinned, and the remedy."""
    pinned = pins(folder)
    if not pinned:
        raise NotAsPinned(f"{LOCK} has no hash of {folder.name}: run make pins")
    found = digests(folder)
    for name in sorted(pinned.keys() | found.keys()):
        expected, actual = pinned.get(name, _NOTHING), found.get(name, _NOTHING)
        if expected != actual:
            path = folder / name
            raise NotAsPinned(
                f"{path} is not what was pinned: expected SHA-256 {expected}, found {actual}; {remedy}"
            )


def pins(folder: Path) -> dict[str, str]:
    """Returns the SHA-256 of each file of a folder, by its path there: as locked, or as it was built here."""
    return _pins(LOCK, folder.name) or _pins(_note(folder), folder.name)


def note(built: Path, folder: Path) -> None:
    """Pins what was built for `folder`: its sources are pinned, and no two compilers build alike."""
    _write(_note(folder), "".join(f"{line}\n" for line in lines_of(digests(built), folder.name)))


def digests(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): _digest(path) for path in _files(folder)}


def lines_of(found: Mapping[str, str], folder: str) -> list[str]:
    """Returns a folder's lines of the lock: `sha256sum` reads them, too."""
    return [f"{digest}  {folder}/{name}" for name, digest in sorted(found.items())]


def _note(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.sha256")


def _pins(lock: Path, folder: str) -> dict[str, str]:
    text = lock.read_text() if lock.exists() else ""
    lines = [line.split("  ", 1) for line in text.splitlines()]
    return {path.split("/", 1)[1]: digest for digest, path in lines if path.startswith(f"{folder}/")}


def _digest(path: Path) -> str:
    if not stat.S_ISREG(path.lstat().st_mode):
        return _SPECIAL
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def _state(folder: Path) -> str:
    """Returns what changes whenever a file, or what is pinned of it, does. No program can set a ctime."""
    facts = [(path, path.lstat()) for path in _files(folder)]
    of_files = [f"{p} {s.st_dev} {s.st_ino} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns}" for p, s in facts]
    return "\n".join([*of_files, *lines_of(pins(folder), folder.name)])


def _newest(folder: Path) -> float:
    return max((path.lstat().st_ctime for path in _files(folder)), default=0.0)


def _write(stamp: Path, text: str) -> None:
    partial = stamp.with_name(f"{stamp.name}.{time.monotonic_ns()}")
    partial.write_text(text)
    partial.replace(stamp)
