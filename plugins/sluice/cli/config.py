"""`sluice config`: what a pipeline file says, and what holds without it."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict

import typer

from sluice.cli import output
from sluice.cli.options import Config, Json, PipelineArgument, Wide, load_pipeline
from sluice.cli.output import TableColumn
from sluice.config.files import find

config = typer.Typer(help="Shows what a pipeline file sets, and their schema.", no_args_is_help=True)


@config.command()
def show(pipeline: PipelineArgument, wide: Wide = False, config: Config = None, json: Json = False) -> None:
    """Every key with its value and where that is from: a line of the file, a variable, or the default.

    Example: sluice config show adx
    """
    from sluice.config.explain import explain

    load_pipeline(pipeline, config)
    settings = explain(find(pipeline, config))
    if json:
        output.print_json([asdict(setting) for setting in settings])
    else:
        rows = [(setting.key, setting.value, setting.source) for setting in settings]
        columns = (TableColumn("key", 0), TableColumn("value", 0), TableColumn("from", 1))
        output.show(output.table_of(str(find(pipeline, config)), columns, rows), wide=wide)


@config.command()
def schema() -> None:
    """Prints the JSON Schema of pipeline files, with which editors complete keys and mark mistakes.

    Example: sluice config schema > pipeline.schema.json
    """
    from sluice.config.explain import json_schema

    print(json_text.dumps(json_schema(), indent=1))
