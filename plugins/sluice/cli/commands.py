"""The commands, each in a file of its own."""

from __future__ import annotations

import typer

from sluice.cli import accept, backfill, doctor, plan, publish, run, status, traffic, verify

commands = typer.Typer(
    help="Moves events from Kafka into a data lake and into ClickHouse, an hour at a time, exactly once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
commands.command()(publish.publish)
commands.command()(plan.plan)
commands.command()(run.run)
commands.command()(backfill.backfill)
commands.command()(status.status)
commands.command()(verify.verify)
commands.command()(traffic.traffic)
commands.command()(accept.accept)
commands.command()(doctor.doctor)
