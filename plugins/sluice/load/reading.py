"""Decides how the server gets the lake's files: it pulls them where it can, else they are pushed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluice.clickhouse.client import Client
from sluice.clickhouse.errors import ServerError
from sluice.errors import Refused
from sluice.lake import layout
from sluice.lake.base import Lake
from sluice.load.push import bodies
from sluice.load.source import Source, pullable, pulls, pushed
from sluice.load.sql import literal, render
from sluice.pipeline import Pipeline
from sluice.slices import Unit

_FOLDER = "file://"


@dataclass(frozen=True)
class Reading:
    """`root` is the folder that the server sees too, or None when everything is pushed."""

    lake: Lake
    root: str | None

    def sources(self, keys: Sequence[tuple[Unit, str]], columns: Sequence[str]) -> Iterator[Source]:
        """The rows of the files, one INSERT's worth after another."""
        pulled = [pair for pair in keys if self.root is not None and pullable(self.root, pair[1])]
        if self.root is not None:
            yield from pulls(self.root, pulled, columns)
        known = set(pulled)
        rest = [pair for pair in keys if pair not in known]
        for body in bodies(self.lake, rest, columns):
            yield pushed(columns, body)


def choose_reading(client: Client, pipeline: Pipeline, lake: Lake, unit: Unit) -> Reading:
    """`auto` looks whether the server reads the very manifest of `unit` that the lake has.

    Raises Refused when the pipeline file says `read: pull` and the server cannot.
    """
    wish = pipeline.clickhouse.read
    if wish == "push":
        return Reading(lake, None)
    root = lake.url.removeprefix(_FOLDER) if lake.url.startswith(_FOLDER) else None
    if root is not None and _sees(client, lake, root, unit):
        return Reading(lake, root)
    if wish == "pull":
        raise Refused(
            f"`read: pull`: ClickHouse {client.address} cannot read the lake {lake.url}: give it the folder "
            "at the same path (below its user_files_path), or set `read: push`"
        )
    return Reading(lake, None)


def _sees(client: Client, lake: Lake, root: str, unit: Unit) -> bool:
    key = layout.manifest(unit.slice.id, unit.cluster)
    stored = lake.read(key)
    if stored is None or not pullable(root, key):
        return False
    try:
        found = client.rows(render("read_file", file=literal(f"{root}/{key}")))
    except ServerError:
        # Whatever keeps the server from the file, pushing needs nothing of it.
        return False
    return [row[0] for row in found] == [stored.data.decode()]
