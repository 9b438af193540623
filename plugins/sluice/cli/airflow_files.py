"""`sluice airflow`: the files that Airflow wants of whoever installs the wheel."""

from __future__ import annotations

import re
from typing import Annotated

import typer

airflow = typer.Typer(help="Prints DAG files for an Airflow that has the wheel.", no_args_is_help=True)

_PLAIN = re.compile(r"\w[\w.-]*", re.ASCII)
_DAGS = '''\
"""Each pipeline file in the folder {folder}, beside this file, becomes three Airflow DAGs."""

from pathlib import Path

from sluice.airflow import pipeline_dags

globals().update(pipeline_dags(Path(__file__).with_name("{folder}")))
'''
_ERRORS = '''\
"""Shows as an Airflow import error that a pipeline file is wrong in the folder {folder}.

A file of its own: Airflow stops every DAG of a file that has an import error.
"""

from pathlib import Path

from sluice.airflow import raise_mistakes

raise_mistakes(Path(__file__).with_name("{folder}"))
'''


@airflow.callback()
def files() -> None:
    """Prints DAG files for an Airflow that has the wheel."""


@airflow.command()
def dags(
    folder: Annotated[
        str,
        typer.Option("--folder", metavar="NAME", help="Folder of the pipeline files, beside the DAG file."),
    ] = "pipelines",
    errors: Annotated[
        bool,
        typer.Option(
            "--errors", help="Print the file that shows as an import error that pipeline files are wrong."
        ),
    ] = False,
) -> None:
    """Prints the DAG file that makes the DAGs of all pipeline files in a folder beside it.

    Example: sluice airflow dags > dags/sluice.py
    """
    if not _PLAIN.fullmatch(folder):
        raise typer.BadParameter(f"--folder: expected the plain name of a folder, not {folder!r}.")
    print((_ERRORS if errors else _DAGS).format(folder=folder), end="")
