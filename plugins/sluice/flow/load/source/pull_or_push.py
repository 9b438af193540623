"""Decides how the server gets the lake's files: it pulls them where it can, else they are pushed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.sql import Sql
from sluice.clients.lake import layout
from sluice.clients.lake.base import Files, Lake
from sluice.config.pipeline import Pipeline
from sluice.errors import Refused
from sluice.flow.load.source.pull import PullSource, place_of
from sluice.flow.load.source.push import bodies, sent
from sluice.flow.load.source.select import FileRows, pulls
from sluice.flow.load.writer import Writer
from sluice.slices import Unit


@dataclass(frozen=True)
class Reading:
    """`place` is where the server finds the lake, or None when everything is pushed."""

    lake: Files
    place: PullSource | None

    def sources(
        self, pipeline: Pipeline, files: Sequence[FileRows], columns: Sequence[str], writer: Writer
    ) -> Iterator[Sql]:
        """Yields SELECTs of the rows of the files, each of one INSERT's worth."""
        pulled = [file for file in files if self.place is not None and self.place.reads(file.key)]
        if self.place is not None:
            yield from pulls(self.place, pulled, columns)
        pulled_keys = {file.key for file in pulled}
        rest = [(file.unit, file.key) for file in files if file.key not in pulled_keys]
        yield from sent(writer, bodies(pipeline, self.lake, rest, columns), columns)


def choose_reading(client: Client, pipeline: Pipeline, lake: Lake, unit: Unit) -> Reading:
    """Probes, for `auto`, whether the server reads the very manifest of `unit` that the lake has.

    Raises, when the pipeline file says `read: pull`, Refused where the server cannot, and a retryable
    ServerError as it is.
    """
    wish = pipeline.clickhouse.read
    if wish == "push":
        return Reading(lake, None)
    pull_source = place_of(pipeline, lake.url)
    if pull_source is not None and _sees(client, lake, pull_source, unit, must=wish == "pull"):
        return Reading(lake, pull_source)
    if wish == "pull":
        remedy = (
            "name its named collection in `named_collection`" if pull_source is None else pull_source.remedy
        )
        raise Refused(
            f"`read: pull`: ClickHouse {client.address} cannot read the lake {lake.url}: {remedy}, or set "
            "`read: push`"
        )
    return Reading(lake, None)


def _sees(client: Client, lake: Lake, pull_source: PullSource, unit: Unit, must: bool) -> bool:
    key = layout.manifest(unit.slice.id, unit.cluster)
    stored = lake.read(key)
    if stored is None or not pull_source.reads(key):
        return False
    try:
        rows = client.rows(pull_source.content(key))
    except ServerError as error:
        if must and error.retryable:
            raise
        return False  # whatever keeps the server from the file, pushing needs nothing of it
    return [row[0] for row in rows] == [stored.data.decode()]
