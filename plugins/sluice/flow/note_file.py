"""Keeps the text of a run's pipeline file in the lake."""

from __future__ import annotations

from pathlib import Path

import pendulum

from sluice.clients.lake.open import open_lake
from sluice.config.file_text import file_text
from sluice.config.pipeline import Pipeline
from sluice.state.file_versions import note_version


def note_file(pipeline: Pipeline, path: Path) -> None:
    """Writes nothing while the file at `path` and Sluice are those of the run before."""
    note_version(open_lake(pipeline), file_text(path), pendulum.now("UTC"))
