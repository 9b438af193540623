"""The commands, each in a file of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice import __version__
from sluice.cli import (
    accept,
    airflow_files,
    backfill,
    config,
    doctor,
    erase,
    find,
    forget,
    init,
    plan,
    publish,
    rejected,
    run,
    status,
    traffic,
    verify,
)

commands = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(version_asked: bool) -> None:
    if version_asked:
        typer.echo(f"sluice {__version__}")
        raise typer.Exit


@commands.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Moves events from Kafka into a data lake and into ClickHouse, an hour at a time, exactly once."""


commands.command()(init.init)
commands.command()(publish.publish)
commands.command()(plan.plan)
commands.command()(run.run)
commands.command()(backfill.backfill)
commands.command()(status.status)
commands.command()(verify.verify)
commands.command()(traffic.traffic)
commands.command()(find.find)
commands.command()(rejected.rejected)
commands.command()(erase.erase)
commands.command()(forget.forget)
commands.command()(accept.accept)
commands.command()(doctor.doctor)
commands.add_typer(config.config, name="config")
commands.add_typer(airflow_files.airflow, name="airflow")
