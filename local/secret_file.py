"""A secret in a file of its own: made once, and readable by its owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

PRIVATE = 0o077  # the umask of everything in the stack: only the owner reads what it writes


def stored(path: Path) -> str:
    """The secret in the file. Of several that make it at once, all return the first one's."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        write(made, secrets.token_urlsafe(24))
        try:
            os.link(made, path)
        except FileExistsError:
            pass  # another process has made it
        finally:
            made.unlink()
    return path.read_text()


def write(path: Path, text: str) -> None:
    """A file that nobody else can read, not even before its text is in it."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
