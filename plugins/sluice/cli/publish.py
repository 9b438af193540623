"""`sluice publish`: newline-delimited events into Kafka."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.options import Config, Json, PipelineArgument, Wide, load_pipeline
from sluice.cli.output import TableColumn, print_facts, print_json, progress, show, table_of
from sluice.config.types import parse_duration
from sluice.errors import WrongUse

if TYPE_CHECKING:
    from sluice.ship.shipment import ShipReport

_TABLES = ("partitions", "batches")
_PARTITIONS = ("partition", "records", "first offset", "last offset")
_BATCHES = (
    TableColumn("source", 0),
    TableColumn("batch", 4),
    TableColumn("state", 1),
    TableColumn("lines", 2),
    TableColumn("shipped before", 3),
)

SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="[FILE|-|FOLDER|s3://…]", help="Plain, .gz or .zst files; - is stdin. Files are batches."
    ),
]
TopicOption = Annotated[str | None, typer.Option("--topic", help="Needed when the pipeline has several.")]
LagOption = Annotated[str | None, typer.Option("--lag", help="Record time = event time + this, such as 5m.")]
Follow = Annotated[bool, typer.Option("--follow", help="Go on with a file that grows, until Ctrl-C.")]
StateOption = Annotated[
    Path | None, typer.Option("--state", help="Where --follow keeps its place; else beside it.")
]
KeyOption = Annotated[
    str | None, typer.Option("--key", metavar="FIELD", help="The field that becomes the key.")
]
BatchId = Annotated[str | None, typer.Option("--batch", help="The batch's id; else a hash of the content.")]
Again = Annotated[bool, typer.Option("--again", help="Ship what is known to be shipped, too.")]


def publish(
    pipeline: PipelineArgument,
    source: SourceArgument = "-",
    topic: TopicOption = None,
    key: KeyOption = None,
    lag: LagOption = None,
    follow: Follow = False,
    state: StateOption = None,
    batch: BatchId = None,
    again: Again = False,
    wide: Wide = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Publishes newline-delimited events into the pipeline's topic; record time is the event's time.

    Of an array it is the latest of its events'. Topics that do not exist are made, with unlimited retention.
    A file whose content was shipped before is not shipped twice; one that was cut short goes on. Example:
    sluice publish adx events.ndjson.gz
    """
    from sluice.ship.publish import ShipOrder
    from sluice.ship.publish import publish as ship
    from sluice.ship.shipment import ShipmentEnd

    spec = load_pipeline(pipeline, config)
    try:
        delay = timedelta() if lag is None else parse_duration(lag)
    except ValueError as error:
        raise WrongUse(f"--lag: {error}") from error
    order = ShipOrder(source, topic, delay, key, batch, again, follow, state)
    report = ship(spec, order, on_progress=progress, on_report=lambda shipped: _print(shipped, json, wide))
    if report.end is ShipmentEnd.INTERRUPTED:
        raise KeyboardInterrupt


def _print(report: ShipReport, json: bool, wide: bool) -> None:
    facts = asdict(report)
    if json:
        print_json(facts)
        return
    print_facts({name: value for name, value in facts.items() if name not in _TABLES})
    rows = [
        (number, partition.records, partition.first, partition.last)
        for number, partition in report.partitions.items()
    ]
    show(table_of("acknowledged", _PARTITIONS, rows), wide=wide)
    if report.batches:
        shipped = [(b.source, b.batch or "-", str(b.state), b.line, b.resumed_after) for b in report.batches]
        show(table_of("batches", _BATCHES, shipped), wide=wide)
