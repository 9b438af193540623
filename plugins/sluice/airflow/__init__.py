"""DAGs, tasks and operators: the only room that imports Airflow. This file imports it when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import DAG


def pipeline_dags(
    folder: str | PathLike[str] | None = None,
    *,
    include: Sequence[str] = ("*",),
    exclude: Sequence[str] = (),
) -> dict[str, DAG]:
    """Makes `<name>`, `<name>_backfill` and `<name>_watch` of each pipeline file, by their ids.

    A file with a mistake makes none, and keeps no other from its own: `raise_mistakes`, in a DAG file beside,
    shows it as an import error.

    Args:
        folder: Of the pipeline files. SLUICE_PIPELINES, where it is set, is taken instead; without both it is
            include/pipelines of the project.
        include: Shell patterns of the names of pipelines that are taken.
        exclude: Patterns of those that are left out, although `include` takes them.

    Raises:
        WrongUse: The folder is not there, or there are two copies of Sluice.
    """
    from sluice.airflow import dags
    from sluice.airflow.copies import refuse_second_copy
    from sluice.airflow.pipelines import Selection

    refuse_second_copy()
    return dags.pipeline_dags(_path(folder), Selection(_patterns(include), _patterns(exclude)))


def raise_mistakes(
    folder: str | PathLike[str] | None = None,
    *,
    include: Sequence[str] = ("*",),
    exclude: Sequence[str] = (),
) -> None:
    """Raises how many pipeline files `pipeline_dags` leaves out because they are wrong.

    It goes into a DAG file of its own: Airflow stops every DAG of a file that has an import error. And it
    shows the error of a file without DAGs to everybody, so that what is wrong, and where, is told on the
    page, which knows who may edit a pipeline.
    """
    from sluice.airflow.pipelines import Selection, find_pipelines
    from sluice.errors import WrongUse

    if broken := find_pipelines(_path(folder), Selection(_patterns(include), _patterns(exclude))).broken:
        count = len({error.public for _, error in broken})
        files = "1 pipeline file is" if count == 1 else f"{count:,} pipeline files are"
        raise WrongUse(f"{files} wrong: see Sluice's page, or `sluice config show NAME` where the files are")


def _path(folder: str | PathLike[str] | None) -> Path | None:
    return None if folder is None else Path(folder)


def _patterns(patterns: Sequence[str]) -> Sequence[str]:
    """Returns a text as one pattern: as a sequence it would be one for each letter."""
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)
