"""The mutants that no test can tell from the original, each with the reason: `equal.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.mutants.mutate import Key

LIST = Path(__file__).with_name("equal.toml")


def equal() -> dict[Key, str]:
    """Reasons by the key of a mutant."""
    listed = tomllib.loads(LIST.read_text())
    return {
        (room, one["in"], change): one["because"]
        for room, entries in listed.items()
        for one in entries
        for change in one["changes"]
    }
