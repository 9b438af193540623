"""Writes a `sluice` command exactly as a shell takes it: every one that is printed is made here."""

from __future__ import annotations

import shlex
from pathlib import Path


def command_line(pipeline: str, config: Path | None, command: str, *words: str) -> str:
    """`config`: the pipeline's file, where its name alone does not find it."""
    elsewhere = ["--config", str(config)] if config else []
    return shlex.join(["sluice", command, pipeline, *elsewhere, *words])
