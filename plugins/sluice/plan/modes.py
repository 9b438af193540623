"""Modes of a run, and which units need landing."""

from __future__ import annotations

from sluice.errors import WrongUse
from sluice.manifest import Manifest

MODES = ("fill", "reload", "reland")


def needs_landing(manifest: Manifest | None, mode: str, token: str) -> bool:
    """`reload` needs Kafka only for what has never landed; a `reland` of this token is not repeated."""
    if mode not in MODES:
        raise WrongUse(f"mode {mode!r}: expected one of {', '.join(MODES)}")
    return manifest is None or (mode == "reland" and manifest.token != token)
