"""The batches behind a source: one file, the files of a folder, or the objects below an S3 prefix."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sluice.clients.lake.settings import S3Settings
from sluice.errors import WrongUse

ID_DIGITS = 32
_BLOCK_BYTES = 1 << 20
_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".swp")


@dataclass(frozen=True)
class Batch:
    """`name` is what its user calls it; `local` gives a path to its bytes while the context lasts."""

    name: str
    local: Callable[[], AbstractContextManager[Path]]


def batches_of(source: str, settings: S3Settings | None = None) -> Sequence[Batch]:
    """In the order of their names. Raises WrongUse when there is nothing of that name."""
    batches = _objects(source, settings) if source.startswith("s3://") else _files(Path(source))
    if not batches:
        raise WrongUse(f"{source}: no file is there (hidden and unfinished ones do not count)")
    return batches


def content_id(path: Path) -> str:
    """Returns the same for the same bytes, whatever the file is called. Raises WrongUse when it cannot be
    read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise WrongUse(f"{path}: {error.strerror}") from error
    return digest.hexdigest()[:ID_DIGITS]


def given_id(text: str) -> str:
    """Returns an id of the user's own, which becomes an object's name. Raises WrongUse."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,126}", text):
        raise WrongUse(f"--batch: expected letters, digits, _, . and -, at most 127, not {text!r}")
    return text


def _files(path: Path) -> list[Batch]:
    if not os.path.exists(path):  # Path.exists raises OSError for a name that is too long
        raise WrongUse(f"{path}: no such file")
    if not path.is_dir():
        return [_file(path)]
    # The folder itself may be hidden; what is hidden below it is not meant.
    return [_file(file) for file in sorted(path.rglob("*")) if file.is_file() and _meant(file, path)]


def _file(path: Path) -> Batch:
    return Batch(str(path), lambda: nullcontext(path))


def _meant(path: Path, folder: Path) -> bool:
    return _finished(path.relative_to(folder).as_posix())


def _finished(name: str) -> bool:
    """As Hadoop and rsync do: what begins with `.` or `_`, or ends like a download, is not for readers."""
    return not name.endswith(_UNFINISHED) and not any(
        segment[0] in "._" for segment in name.split("/") if segment
    )


def _objects(source: str, settings: S3Settings | None) -> list[Batch]:
    """Returns the object of that name, or all below it as a folder."""
    from sluice.clients.lake.s3 import S3Lake  # boto3 takes a third of a second, which a file need not pay

    bucket, _, key = source.removeprefix("s3://").partition("/")
    if not bucket:
        raise WrongUse(f"{source}: expected s3://bucket/prefix")
    store = S3Lake(bucket, "", settings or S3Settings.from_environment())
    folder = key.rstrip("/") + "/" if key.rstrip("/") else ""
    keys = [
        item.key for item in store.list(key.rstrip("/")) if item.key == key or item.key.startswith(folder)
    ]
    names = sorted(name for name in keys if _finished(name.removeprefix(folder)))
    return [Batch(f"s3://{bucket}/{name}", partial(store.local, name)) for name in names]
