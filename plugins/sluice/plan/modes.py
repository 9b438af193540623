"""Modes of a run, and which units need landing."""

from __future__ import annotations

from typing import Literal, get_args

from sluice.errors import WrongUse
from sluice.manifest import Manifest

Mode = Literal["fill", "refill", "reload", "reland"]
MODES: tuple[Mode, ...] = get_args(Mode)


def mode_of(text: str) -> Mode:
    """Raises WrongUse for what is none."""
    for mode in MODES:
        if mode == text:
            return mode
    raise WrongUse(f"mode {text!r}: expected one of {', '.join(MODES)}")


def needs_landing(manifest: Manifest | None, mode: str, token: str) -> bool:
    """Returns whether Kafka is read: `reload` needs it only for what has never landed; a `reland` of this
    token is not repeated."""
    again = mode_of(mode) == "reland"
    return manifest is None or (again and manifest.token != token)
