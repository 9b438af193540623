"""Which pipeline files become DAGs, and what is wrong with the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from sluice.config.files import PIPELINES, find, pipeline_names, pipelines_folder, read
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongPipeline

BACKFILL = "_backfill"
WATCH = "_watch"
# Mapped over the clusters of a pipeline that has several, and failed for one that something is missing of.
CLUSTER_TASK = "cluster"

# The folder that the DAG file of a pipeline named, in this process. A task's process has parsed its DAG file,
# so the folder need not be in the DAG: its serialized form is the same wherever a bundle is checked out.
_named: dict[str, Path | None] = {}


@dataclass(frozen=True)
class Selection:
    """Shell patterns of pipelines' names: those of `include` without those of `exclude`. `among`: names."""

    include: Sequence[str] = ("*",)
    exclude: Sequence[str] = ()
    among: frozenset[str] | None = None

    def takes(self, name: str) -> bool:
        is_among = self.among is None or name in self.among
        return is_among and _any(name, self.include) and not _any(name, self.exclude)


def _any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


ALL = Selection()


@dataclass(frozen=True)
class PipelineFiles:
    """`sound` are the files that make DAGs, with what they say; `broken` the other pipelines, each with its
    mistake. A missing folder is one of no pipeline: its name is empty."""

    sound: tuple[tuple[Path, Pipeline], ...]
    broken: tuple[tuple[str, WrongPipeline], ...]
    no_folder: bool = False


def backfill_dag_id(pipeline: str) -> str:
    return pipeline + BACKFILL


def watch_dag_id(pipeline: str) -> str:
    return pipeline + WATCH


def pipelines_of(dag_id: str) -> frozenset[str]:
    """Returns the names that the pipeline of a DAG may have: `ads_watch` is the watch of `ads`, or a
    pipeline."""
    return frozenset({dag_id, dag_id.removesuffix(BACKFILL), dag_id.removesuffix(WATCH)})


def find_pipelines(named: Path | None = None, selection: Selection = ALL) -> PipelineFiles:
    """Reads the pipeline files; one that is wrong is no reason to miss the others. `named`: by a DAG file."""
    folder = pipelines_folder(named)
    if not folder.is_dir():
        missing = f"is not there: {PIPELINES} names the folder of the pipeline files"
        return PipelineFiles((), (("", WrongPipeline(str(folder), "(folder)", missing)),), no_folder=True)
    sound: list[tuple[Path, Pipeline]] = []
    broken: list[tuple[str, WrongPipeline]] = []
    for name in filter(selection.takes, pipeline_names(folder)):
        path = folder / f"{name}.yaml"
        try:
            sound.append((path, _read_with_own_name(path)))
        except WrongPipeline as error:
            broken.append((name, error))
    return PipelineFiles(tuple(sound), tuple(broken))


def note_folder(name: str, named: Path | None) -> None:
    """Keeps for this process's tasks which folder the DAG file of pipeline `name` named."""
    _named[name] = named


def file_of(name: str) -> Path:
    """Returns the path of the file that a task reads. Raises WrongUse where there is none."""
    return find(name, named=_named.get(name))


def read_pipeline(name: str) -> Pipeline:
    """Reads the pipeline of a task. Raises WrongUse without a file, and WrongPipeline for a mistake in it."""
    return read(file_of(name))


def _read_with_own_name(path: Path) -> Pipeline:
    """Reads a file. Raises WrongPipeline also for a name that another pipeline's backfill or watch DAG
    has."""
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


def load_task_id(table: str) -> str:
    """Returns `load.<db.table>`; a character that no task id may have becomes its code: `-20-` for a
    space."""
    return "load." + re.sub(r"[^A-Za-z0-9_.]", lambda match: f"-{ord(match[0]):x}-", table)
