"""`sluice init`: a pipeline file and its tables, from a sample of events."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pendulum
import typer

from sluice.cli.options import Json
from sluice.cli.output import print_json, print_line
from sluice.config.event import JSON, KINDS
from sluice.config.files import SCHEMA, pipelines_folder
from sluice.errors import WrongUse
from sluice.infer.types import REJECTED_ROWS
from sluice.init.questions import SAMPLE, InitRequest, MessageForm
from sluice.safe_text import line

if TYPE_CHECKING:
    from sluice.init.init import Report
    from sluice.init.questions import Question

NameArgument = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="The pipeline's name; else that of topic or file.")
]
Topic = Annotated[str | None, typer.Option("--topic", help="The topic that is read; sampled without --file.")]
File = Annotated[
    str | None, typer.Option("--file", help="Sample of events, one a line: plain, .gz, .zst; - is stdin.")
]
Bootstrap = Annotated[str | None, typer.Option("--bootstrap", help="Brokers, such as kafka.dc1:9092.")]
KafkaConnection = Annotated[
    str, typer.Option("--connection", help="Airflow connection of Kafka, without --bootstrap.")
]
ClickHouseConnection = Annotated[str, typer.Option("--clickhouse", help="Airflow connection of ClickHouse.")]
TypeField = Annotated[
    str | None, typer.Option("--type", metavar="FIELD", help="Field of an event's type; - is the topic.")
]
TimeOption = Annotated[
    str | None, typer.Option("--time", metavar="FIELD", help="Field of its time; - is the record's own.")
]
FormatOption = Annotated[
    str, typer.Option("--format", metavar="FORMAT", help=f"How messages are written: {', '.join(KINDS)}.")
]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", metavar="FILE", help="Schema of Avro (.avsc) or Protobuf (.proto).")
]
MessageName = Annotated[
    str | None, typer.Option("--message", metavar="NAME", help="Which message of the .proto file it is.")
]
Registry = Annotated[
    str | None,
    typer.Option("--registry", metavar="CONNECTION", help="Airflow connection of a schema registry."),
]
Database = Annotated[str | None, typer.Option("--database", help="Database of the tables; else the name.")]
LakeOption = Annotated[str | None, typer.Option("--lake", help="Root of the lake: file://… or s3://….")]
Into = Annotated[
    Path | None, typer.Option("--into", help="Folder of both files; else that of the pipelines.")
]
SampleOption = Annotated[
    int, typer.Option("--sample", min=1, max=100_000, help="Records that are read, at most.")
]
RejectedRows = Annotated[
    float,
    typer.Option(
        "--unfit", min=0.0, max=0.5, help="Share of a field's values that may not fit its column's type."
    ),
]
NotNull = Annotated[
    str | None,
    typer.Option(
        "--not-null", metavar="FIELDS", help="Fields no event lacks, as id,total; * all that the sample has."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Ask nothing: every default is taken.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the files where they are there.")]
Apply = Annotated[
    bool, typer.Option("--apply", help="Run the statements, too; alone with NAME, those of its file.")
]


def init(
    name: NameArgument = None,
    topic: Topic = None,
    file: File = None,
    bootstrap: Bootstrap = None,
    connection: KafkaConnection = "kafka_default",
    clickhouse: ClickHouseConnection = "clickhouse_default",
    kind: TypeField = None,
    time: TimeOption = None,
    format: FormatOption = JSON,
    schema: SchemaFile = None,
    message: MessageName = None,
    registry: Registry = None,
    database: Database = None,
    lake: LakeOption = None,
    into: Into = None,
    sample: SampleOption = SAMPLE,
    rejected_rows: RejectedRows = REJECTED_ROWS,
    not_null: NotNull = None,
    yes: Yes = False,
    force: Force = False,
    apply: Apply = False,
    json: Json = False,
) -> None:
    """Writes a pipeline file and its CREATE TABLE statements from a sample, and says what to type next.

    It asks at most six questions on a terminal, and overwrites nothing without --force.
    Example: sluice init shop --file orders.ndjson --yes --apply
    """
    if format not in KINDS:
        raise WrongUse(f"--format {format}: expected {', '.join(KINDS)}")
    folder = into or pipelines_folder()
    editors = SCHEMA if (folder / SCHEMA).is_file() else ""
    form = MessageForm(format, schema, message, registry)
    request = InitRequest(
        name, topic, file, bootstrap, connection, clickhouse, folder, kind, time, database, lake, sample,
        rejected_rows, force, apply, editors, form, not_null,
    )  # fmt: skip
    silent = yes or json or file == "-" or not sys.stdin.isatty()
    _print(_made(request, (lambda _: "") if silent else _ask), json)


def _made(request: InitRequest, ask: Callable[[Question], str]) -> Report:
    """Writes the files of a sample, or runs the statements of those that are there."""
    from sluice.init.init import apply_statements
    from sluice.init.init import init as make

    if request.topic is not None or request.file is not None:
        return make(request, ask, pendulum.now("UTC"))
    if request.name is None or not request.apply:
        raise WrongUse("name what to sample: `--topic T`, or `--file F` (`-` is standard input)")
    return apply_statements(request, request.name)


def _ask(question: Question) -> str:
    return str(typer.prompt(line(question.text), default=question.default, err=True))


def _near(path: Path) -> str:
    """Returns the path relative to the working folder, where it is below that."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _print(report: Report, json: bool) -> None:
    if json:
        files, commands = list(map(str, report.files)), list(report.commands)
        print_json({"report": list(report.lines), "files": files, "commands": commands, "wait": report.wait})
        return
    for text in report.lines:
        print_line(text)
    if report.files:
        print_line(f"wrote {' and '.join(map(_near, report.files))}")
    if report.wait:
        print_line(report.wait)
    if report.commands:
        print_line("next:")
    for command in report.commands:
        print(f"  {command}")
