"""`sluice dbt`: what dbt has to know of a pipeline's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.options import Config, PipelineArgument, load_pipeline
from sluice.cli.output import print_line
from sluice.config.pipeline import Target
from sluice.errors import TableMissing, WrongUse

Into = Annotated[
    Path, typer.Option("--into", metavar="DIR", help="A dbt project's folder. Default: this one.")
]


def dbt(pipeline: PipelineArgument, into: Into = Path(), config: Config = None) -> None:
    """Writes sources for dbt: tables with columns, event time and freshness, and a test that hours are whole.

    Write them again when a table or a cluster comes. A file that somebody else has written is not replaced.
    Example: sluice dbt adx --into ~/marts
    """
    from sluice.clients.clickhouse.inspect_tables import read_table
    from sluice.clients.clickhouse.shards import connect_shards
    from sluice.clients.lake.open import open_lake
    from sluice.dbt_files import MARK, SourceTable, dbt_files
    from sluice.state.boundaries.log import BoundaryLog
    from sluice.state.departed_tables import creations
    from sluice.state.units import spans

    spec = load_pipeline(pipeline, config)
    if spec.clickhouse.shards:
        raise WrongUse(f"pipeline {spec.name} loads shards: dbt would read the rows of one of them")
    if not spec.targets:
        raise WrongUse(f"pipeline {spec.name} has no tables: name them under `tables` in its file")
    if not (into / "dbt_project.yml").is_file():
        raise WrongUse(f"{into.resolve()} is no dbt project: it has no dbt_project.yml; name one by --into")
    tables = []
    with connect_shards(spec) as servers:
        client = servers[0].reached
        for target in spec.targets:
            found = read_table(client, target.database, target.name)
            if found is None:
                remedy = creations(client, spec, [target.table])[target.table]
                raise TableMissing(target.table, "there is no such table", remedy)
            columns = [(column.name, column.type) for column in found.columns if column.stored]
            tables.append(SourceTable(target.table, _what(spec.name, target), columns))
    begins = spans(spec, BoundaryLog(open_lake(spec)).read()).begins
    files = {into / name: text for name, text in dbt_files(spec, tables, begins).items()}
    for path in files:
        if path.exists() and MARK not in path.read_text(encoding="utf-8"):
            raise WrongUse(f"{path} is there, and somebody else has written it: move it away")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        same = path.exists() and path.read_text(encoding="utf-8") == text
        path.write_text(text, encoding="utf-8")
        print_line(f"{path} is {'as it was' if same else 'written'}")


def _what(pipeline: str, target: Target) -> str:
    if target.rollup is not None:
        return f"Derived by pipeline {pipeline} from each hour's rows of {target.rollup.source}."
    if target.counted:
        return f"Counts of events by hour and type, of pipeline {pipeline}."
    kinds = ", ".join(target.types) or "of all other types"
    return f"Events {kinds} of pipeline {pipeline}, each record once. `_slice` is the hour that brought it."
