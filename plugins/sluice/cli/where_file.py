"""Reads `--where-file` of `sluice erase`: what is on no command line is in no `ps` and no shell's history."""

from __future__ import annotations

import sys
from typing import IO, cast

from sluice.errors import WrongUse

_MOST_BYTES = 1 << 20


def read_where_file(name: str | None) -> bytes | None:
    """Returns the bytes of the file, or of standard input for `-`. Raises WrongUse.

    An error does not repeat the name: who forgets that it is a file's types a value there.
    """
    if name is None:
        return None
    try:
        if name == "-":
            content = _bounded(cast(IO[bytes], sys.stdin.buffer))
        else:
            with open(name, "rb") as file:
                content = _bounded(file)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no name of a file"
        raise WrongUse(
            f"--where-file cannot be read: {why}: it names a file with a line PATH=VALUE for each value, or "
            "- for standard input"
        ) from None
    if len(content) > _MOST_BYTES:
        raise WrongUse(f"--where-file: more than {_MOST_BYTES:,} bytes: erase them in parts")
    return content


def _bounded(file: IO[bytes]) -> bytes:
    return file.read(_MOST_BYTES + 1)
