"""`sluice publish`: newline-delimited events into Kafka."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice.cli.options import Config, Json, Name, load_pipeline
from sluice.cli.output import print_facts, print_json, progress
from sluice.durations import parse_duration
from sluice.errors import WrongUse

Source = Annotated[str, typer.Argument(metavar="[FILE|-]", help="Plain, .gz or .zst; - is stdin.")]
Topic = Annotated[str | None, typer.Option("--topic", help="Needed when the pipeline has several.")]
Lag = Annotated[str | None, typer.Option("--lag", help="Record time = event time + this, such as 5m.")]


def publish(
    pipeline: Name,
    source: Source = "-",
    topic: Topic = None,
    lag: Lag = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Publishes newline-delimited events into the pipeline's topic; record time is the event's time.

    Topics that do not exist are made, with unlimited retention. Example: sluice publish adx events.ndjson.gz
    """
    from dataclasses import asdict

    from sluice import publish as publishing

    spec = load_pipeline(pipeline, config)
    try:
        delay = None if lag is None else parse_duration(lag)
    except ValueError as error:
        raise WrongUse(f"--lag: {error}") from error
    result = publishing.publish(spec, source, topic=topic, lag=delay, on_progress=progress)
    if json:
        print_json(asdict(result))
    else:
        print_facts(asdict(result))
