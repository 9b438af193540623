"""`sluice dbt` and `sluice sqlmesh`: what they have to know of a pipeline's tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.options import Config, PipelineArgument, load_pipeline
from sluice.cli.output import print_line
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import TableMissing, WrongUse

if TYPE_CHECKING:
    from sluice.mart_sources import MartSource

Into = Annotated[Path, typer.Option("--into", metavar="DIR", help="The project's folder. Default: this one.")]


def dbt(pipeline: PipelineArgument, into: Into = Path(), config: Config = None) -> None:
    """Writes sources for dbt: tables with columns, event time and freshness, and a test that hours are whole.

    Write them again when a table or a cluster comes. A file that somebody else has written is not replaced.
    Example: sluice dbt adx --into ~/marts
    """
    from sluice.dbt_files import dbt_files

    spec = load_pipeline(pipeline, config)
    _refuse_shards(spec, "dbt")
    if not (into / "dbt_project.yml").is_file():
        raise WrongUse(f"{into.resolve()} is no dbt project: it has no dbt_project.yml; name one by --into")
    _write(into, dbt_files(spec, _sources(spec)))


def sqlmesh(pipeline: PipelineArgument, into: Into = Path(), config: Config = None) -> None:
    """Writes external models for SQLMesh, with columns, and a signal that lets a model read whole hours only.

    Write them again when a table or a cluster comes, then plan. A file that somebody else has written is not
    replaced. Example: sluice sqlmesh adx --into ~/marts
    """
    from sluice.sqlmesh_files import sqlmesh_files

    spec = load_pipeline(pipeline, config)
    _refuse_shards(spec, "SQLMesh")
    if not any((into / f"config.{ending}").is_file() for ending in ("yaml", "yml", "py")):
        raise WrongUse(f"{into.resolve()} is no SQLMesh project: it has no config.yaml; name one by --into")
    _write(into, sqlmesh_files(spec, _sources(spec)))


def _refuse_shards(spec: Pipeline, tool: str) -> None:
    if spec.clickhouse.shards:
        raise WrongUse(f"pipeline {spec.name} loads shards: {tool} would read the rows of one of them")
    if not spec.targets:
        raise WrongUse(f"pipeline {spec.name} has no tables: name them under `tables` in its file")


def _sources(spec: Pipeline) -> list[MartSource]:
    from sluice.clients.clickhouse.inspect_tables import read_table
    from sluice.clients.clickhouse.shards import connect_shards
    from sluice.clients.lake.open import open_lake
    from sluice.mart_sources import MartSource, whole_hours
    from sluice.state.boundaries.log import BoundaryLog
    from sluice.state.departed_tables import creations
    from sluice.state.units import spans

    begins = spans(spec, BoundaryLog(open_lake(spec)).read()).begins
    sources = []
    with connect_shards(spec) as servers:
        client = servers[0].reached
        for target in spec.targets:
            found = read_table(client, target.database, target.name)
            if found is None:
                remedy = creations(client, spec, [target.table])[target.table]
                raise TableMissing(target.table, "there is no such table", remedy)
            columns = [(column.name, column.type) for column in found.columns if column.stored]
            hours = whole_hours(target.table, begins)
            sources.append(MartSource(target.table, _what(spec.name, target), columns, hours))
    return sources


def _write(into: Path, files: Mapping[str, str]) -> None:
    """Writes the files. Raises WrongUse for one whose first line says that somebody else has written it."""
    before = {into / name: _text(into / name) for name in files}
    for (path, old), new in zip(before.items(), files.values(), strict=True):
        if old is not None and old.partition("\n")[0] != new.partition("\n")[0]:
            raise WrongUse(f"{path} is there, and somebody else has written it: move it away")
    for (path, old), new in zip(before.items(), files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(new, encoding="utf-8")
        print_line(f"{path} is {'as it was' if old == new else 'written'}")


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _what(pipeline: str, target: Target) -> str:
    if target.rollup is not None:
        return f"Derived by pipeline {pipeline} from each hour's rows of {target.rollup.source}."
    if target.counted:
        return f"Counts of events by hour and type, of pipeline {pipeline}."
    kinds = ", ".join(target.types) or "of all other types"
    return f"Events {kinds} of pipeline {pipeline}, each record once. `_slice` is the hour that brought it."
