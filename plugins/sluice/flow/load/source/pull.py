"""Where the server itself reads the lake's files, and how the statement names them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote as percent

from sluice.clients.clickhouse.sql import Sql, identifier, literal, render
from sluice.config.pipeline import Pipeline

_FOLDER, _BUCKET = "file://", "s3://"
# Both functions read these characters as a pattern, and know no way to quote them.
_GLOB = frozenset("{}*?,")


class PullSource(Protocol):
    """The lake as the server reaches it. `remedy` says what makes it readable there. `follows`: it may read
    another file than the lake has at a key, because it follows links, and none of one that is missing."""

    @property
    def remedy(self) -> str: ...

    @property
    def follows(self) -> bool: ...

    def reads(self, key: str) -> bool:
        """Returns whether a statement can name the file."""

    def rows(self, keys: Sequence[str], columns: Sql, slice_: Sql, structure: Sql) -> Sql:
        """Returns the SELECT of all rows of these Parquet files."""

    def content(self, key: str) -> Sql:
        """Returns the SELECT of one object's bytes."""


@dataclass(frozen=True)
class FolderSource:
    """The lake's folder, which the server sees at the same path. A missing file is skipped without a word."""

    root: str
    remedy: str = "give it the folder at the same path (below its user_files_path)"
    follows: bool = True

    def reads(self, key: str) -> bool:
        return not _GLOB & set(self.root + key)

    def rows(self, keys: Sequence[str], columns: Sql, slice_: Sql, structure: Sql) -> Sql:
        files = literal(f"{self.root}/{_one_of(keys)}")
        return render("load/source_pull", columns=columns, slice=slice_, files=files, structure=structure)

    def content(self, key: str) -> Sql:
        return render("load/read_file", file=literal(f"{self.root}/{key}"))


@dataclass(frozen=True)
class Bucket:
    """The lake's bucket, to which a named collection of the server leads. `prefix` ends with `/`.

    Its names are parts of a URL. A missing object is an error of the server.
    """

    collection: str
    prefix: str
    remedy: str = (
        "make the named collection that `named_collection` names, with the bucket's URL and a key that may "
        "read it, and grant it to the user (docs/guide/production.md)"
    )
    follows: bool = False

    def reads(self, key: str) -> bool:
        return not _GLOB & set(self.prefix + key)

    def rows(self, keys: Sequence[str], columns: Sql, slice_: Sql, structure: Sql) -> Sql:
        objects = literal(_escaped(self.prefix) + _one_of(list(map(_escaped, keys))))
        where = {"collection": identifier(self.collection), "objects": objects}
        return render("load/source_pull_s3", columns=columns, slice=slice_, structure=structure, **where)

    def content(self, key: str) -> Sql:
        named = literal(_escaped(self.prefix + key))
        return render("load/read_object", collection=identifier(self.collection), object=named)


def place_of(pipeline: Pipeline, url: str) -> PullSource | None:
    """Returns where a server finds the lake `url`; None when no setting says how it reaches the bucket."""
    if url.startswith(_FOLDER):
        return FolderSource(url.removeprefix(_FOLDER))
    collection = pipeline.clickhouse.named_collection
    if url.startswith(_BUCKET) and collection is not None:
        return Bucket(collection, url.removeprefix(_BUCKET).partition("/")[2] + "/")
    return None


def _one_of(names: Sequence[str]) -> str:
    return f"{{{','.join(names)}}}" if len(names) > 1 else names[0]


def _escaped(key: str) -> str:
    return percent(key, safe="/=")
