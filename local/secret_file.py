"""A secret in a file of its own: made once, and readable by its owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

PRIVATE = 0o077  # the umask of everything in the stack: only the owner reads what it writes


def stored(path: Path) -> str:
    """Returns the secret in the file. Where several processes make it at once, all return the first one's."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        write(partial, secrets.token_urlsafe(24))
        try:
            os.link(partial, path)
        except FileExistsError:
            pass  # another process has made it
        finally:
            partial.unlink()
    return path.read_text()


def write(path: Path, text: str) -> None:
    """Writes a file that only its owner can read, from the moment it exists."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
