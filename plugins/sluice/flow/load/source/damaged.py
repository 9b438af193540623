"""Files of the lake that are not what landed, told from rows that a table refuses."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from sluice.clients.lake.base import Files
from sluice.config.pipeline import Pipeline
from sluice.errors import Conservation
from sluice.flow.load.work import LoadWork
from sluice.manifest import LandedFile
from sluice.slices import SliceRange, Unit

_CHUNK = 1 << 20


def reland(pipeline: Pipeline, unit: Unit) -> str:
    """Returns the command that writes a unit's files again."""
    slices = SliceRange(unit.slice.start, unit.slice.end)
    return pipeline.command("run", *slices.words, "--mode", "reland")


def refusal(pipeline: Pipeline, unit: Unit, key: str, why: str) -> Conservation:
    return Conservation(
        f"slice {unit}: lake file {key} of its manifest {why}: `{reland(pipeline, unit)}` writes it again"
    )


def damaged(pipeline: Pipeline, lake: Files, works: Sequence[LoadWork], reason: str) -> Conservation | None:
    """Returns what is wrong with a file that the server's `reason` names; None where it is as it landed.

    A server that pulls a file names it also when a row of it is refused. Raises what the lake raises.
    """
    for work in works:
        for file in work.files:
            if PurePosixPath(file.key).name in reason:
                wrong = _wrong(lake, file)
                if wrong is not None:
                    return refusal(pipeline, work.unit, file.key, wrong)
    return None


def _wrong(lake: Files, file: LandedFile) -> str | None:
    try:
        with lake.local(file.key) as path:
            size, digest = path.stat().st_size, _digest(path)
    except FileNotFoundError:
        return "is missing"
    if size != file.bytes:
        return f"has {size:,} bytes, and {file.bytes:,} landed"
    return None if digest == file.sha256 else "has other bytes than those that landed"


def _digest(path: Path) -> str:
    sha = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            sha.update(chunk)
    return sha.hexdigest()
