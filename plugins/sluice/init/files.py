"""Writes the pipeline file and the statements: both or none, whatever stops it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from sluice.errors import WrongUse


def refuse_existing(paths: Iterable[Path], force: bool) -> None:
    """Raises WrongUse for a file that is there."""
    existing = [str(path) for path in paths if os.path.lexists(path)]
    if existing and not force:
        raise WrongUse(
            f"{' and '.join(existing)}: there already; `--force` overwrites, another name does not"
        )


def write_all(texts: Mapping[Path, str], force: bool) -> None:
    """Writes every file or none: an error or an interruption restores what was there. A file appears whole.

    Raises WrongUse for a file that is there, and for a folder that cannot be written.
    """
    refuse_existing(texts, force)
    drafts = {path: path.with_name(f".{path.name}.{os.getpid()}.draft") for path in texts}
    kept = {path: path.with_name(f".{path.name}.{os.getpid()}.kept") for path in texts}
    try:
        for path in texts:
            path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritten(error) from error
    try:
        for path, text in texts.items():
            _write(drafts[path], text)
        for path in texts:
            _install(path, drafts[path], kept[path] if force else None)
    except OSError as error:
        _take_back(drafts, kept)
        raise _unwritten(error) from error
    except BaseException:
        _take_back(drafts, kept)
        raise
    for left in (*drafts.values(), *kept.values()):
        left.unlink(missing_ok=True)


def _unwritten(error: OSError) -> WrongUse:
    return WrongUse(f"{error.filename}: {error.strerror}: nothing was written")


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _install(path: Path, draft: Path, kept: Path | None) -> None:
    """Installs by a link, which fails where somebody else has made the file meanwhile."""
    if kept is not None and os.path.lexists(path):
        os.replace(path, kept)
    os.link(draft, path)


def _take_back(drafts: Mapping[Path, Path], kept: Mapping[Path, Path]) -> None:
    for path, draft in drafts.items():
        if draft.exists() and path.exists() and path.samefile(draft):
            path.unlink()
        if os.path.lexists(kept[path]):
            os.replace(kept[path], path)
        draft.unlink(missing_ok=True)
