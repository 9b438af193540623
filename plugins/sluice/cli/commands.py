"""The commands, each in a file of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from sluice import __version__
from sluice.cli import (
    accept,
    airflow_files,
    backfill,
    compare,
    config,
    conformance,
    doctor,
    erase,
    find,
    forget,
    init,
    marts,
    plan,
    publish,
    rejected,
    release,
    run,
    status,
    traffic,
    verify,
    watch,
)

commands = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
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


_IN_A_LINE: dict[Callable[..., None], str] = {
    init.init: "Writes a pipeline file and its tables from a sample of events.",
    publish.publish: "Sends lines of files and growing logs to Kafka, each once.",
    plan.plan: "Says what a backfill would do, and how long it takes.",
    run.run: "Resolves, lands, loads, verifies, publishes; without Airflow.",
    backfill.backfill: "Does the same through Airflow.",
    status.status: "Shows hours: landed, loaded, rejected; live with --watch.",
    verify.verify: "Checks that every count adds up; prints repairs.",
    watch.watch: "Looks for problems once, and notifies of them; without Airflow.",
    traffic.traffic: "Shows the traffic of the last 24 hours, and of those to come.",
    find.find: "Says where one record is, or why it has no row.",
    rejected.rejected: "Shows what was rejected; --retry brings it in after a fix.",
    release.release: "Lets hours into a table that a check holds.",
    erase.erase: "Takes a person out of lake and tables, and keeps it out.",
    compare.compare: "Compares a table with one that something else has loaded.",
    conformance.conformance: "Tries what a load relies on, on a ClickHouse server.",
    marts.dbt: "Writes sources for dbt: columns, event time, freshness.",
    marts.sqlmesh: "Writes external models and a signal of whole hours for SQLMesh.",
    forget.forget: "Deletes the lake's files of hours that are older than `keep`.",
    accept.accept: "Accepts a topic that was recreated.",
    doctor.doctor: "Checks Kafka, lake, Spark, ClickHouse and columns.",
}
"""What `sluice --help` says of each: a line of a terminal of 80 columns has it whole."""

for _command, _said in _IN_A_LINE.items():
    commands.command(short_help=_said)(_command)
commands.add_typer(config.config, name="config")
commands.add_typer(airflow_files.airflow, name="airflow")
