"""`sluice watch`: what a run of the watch DAG does, without Airflow."""

from __future__ import annotations

from typing import Annotated

import pendulum
import typer

from sluice.cli.options import Config, Json, PipelineArgument, load_pipeline
from sluice.cli.output import print_json, print_line, progress
from sluice.errors import WrongUse

Once = Annotated[bool, typer.Option("--once", help="Look once and end: cron, say, starts it again.")]


def watch(pipeline: PipelineArgument, once: Once = False, config: Config = None, json: Json = False) -> None:
    """Observes the pipeline, notifies the channels of `alarms.notify`, and prints a line for each problem.

    A channel is told of a problem once, and once more when it is over. Exit code 1 when there are problems,
    3 when a channel could not be notified: the next look tries it again.
    Example: sluice watch adx --once
    """
    from sluice.clients.lake.open import open_lake
    from sluice.watch.notify import send
    from sluice.watch.watch import watch as observe_and_notify

    spec = load_pipeline(pipeline, config)
    if not once:
        every = pendulum.duration(seconds=spec.alarms.every.total_seconds()).in_words()
        raise WrongUse(f"it looks once: add --once, and let cron start it every {every} (`alarms.every`)")
    watched = observe_and_notify(spec, open_lake(spec), pendulum.now("UTC"), send)
    if json:
        problems = [{"kind": str(p.kind), "place": p.place, "message": p.message} for p in watched.problems]
        sent = {channel: {"new": new, "over": over} for channel, (new, over) in watched.sent.items()}
        print_json(
            {"pipeline": spec.name, "problems": problems, "notified": sent, "not_notified": watched.unsent}
        )
    else:
        for problem in watched.problems:
            print_line(problem)
        for channel, (new, over) in watched.sent.items():
            progress(f"notified {channel}: {new} new, {over} over")
        progress(f"watched {watched.observation.slices}: {len(watched.problems)} problems")
    watched.refuse_unsent()
    if watched.problems:
        raise typer.Exit(1)
