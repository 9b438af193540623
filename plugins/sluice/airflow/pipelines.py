"""Which pipeline files become DAGs, and what is wrong with the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sluice.config.files import FOLDER, pipeline_names, read
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongPipeline

BACKFILL = "_backfill"
WATCH = "_watch"
# Mapped over the clusters of a pipeline that has several, and failed for one that something is missing of.
CLUSTER_TASK = "cluster"


@dataclass(frozen=True)
class PipelineFiles:
    """`sound` are the files that make DAGs, with what they say."""

    sound: tuple[tuple[Path, Pipeline], ...]
    broken: tuple[WrongPipeline, ...]


def backfill_dag_id(pipeline: str) -> str:
    return pipeline + BACKFILL


def watch_dag_id(pipeline: str) -> str:
    return pipeline + WATCH


def find_pipelines(folder: Path = FOLDER) -> PipelineFiles:
    """Reads every pipeline file; one that is wrong is no reason to miss the others."""
    sound: list[tuple[Path, Pipeline]] = []
    broken: list[WrongPipeline] = []
    for name in pipeline_names(folder):
        path = folder / f"{name}.yaml"
        try:
            sound.append((path, _read_with_own_name(path)))
        except WrongPipeline as error:
            broken.append(error)
    return PipelineFiles(tuple(sound), tuple(broken))


def _read_with_own_name(path: Path) -> Pipeline:
    """Raises WrongPipeline also for a name that another pipeline's backfill or watch DAG has."""
    for suffix, kind in ((BACKFILL, "backfill"), (WATCH, "watch")):
        other = path.stem.removesuffix(suffix)
        if other != path.stem and path.with_stem(other).is_file():
            raise WrongPipeline(
                str(path), "(file name)", f"{path.stem} is the name of {other}'s {kind} DAG: rename the file"
            )
    try:
        return read(path)
    except OSError as error:
        raise WrongPipeline(str(path), "(file)", f"cannot be read: {error.strerror}") from error
