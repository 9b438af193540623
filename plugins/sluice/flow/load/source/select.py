"""The lake's rows as a SELECT for a staging INSERT: which files, which columns, which slice. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render
from sluice.clients.lake.base import Files
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import Conservation
from sluice.flow.load.casts.columns import LAKE, Filling
from sluice.flow.load.source.pull import PullSource
from sluice.flow.load.work import LoadWork
from sluice.manifest import LandedFile
from sluice.slices import Slice, SliceRange, Unit, has_minutes

FILES_PER_STATEMENT = 4000
# Files of fewer rows, on average, are gathered: 2,000 of 143 each took 1.9 s to stage, and gathered 0.9 s.
_SMALL_ROWS = 8192


class FileRows(NamedTuple):
    """A file of the lake, and the rows that its manifest counts in it."""

    unit: Unit
    key: str
    rows: int


def files_of(works: Iterable[LoadWork]) -> list[FileRows]:
    return [FileRows(work.unit, file.key, file.rows) for work in works for file in work.files]


def needed(filling: Filling, filtered: bool, placed: bool = False) -> tuple[str, ...]:
    """Returns the lake's columns that the target's rows are made of; `placed`: their partition decides the
    shard."""
    used = {"_cluster", *filling.columns} | ({"_payload"} if filling.stages else set())
    used |= {"_partition"} if placed else set()
    return tuple(name for name in LAKE if name in used or (filtered and name == "_type"))


def overflowing(works: Iterable[LoadWork]) -> bool:
    """Returns whether a file holds several types, so that its rows have to be chosen by type."""
    return any(file.type is None for work in works for file in work.files)


def routed(pipeline: Pipeline, target: Target, works: Sequence[LoadWork]) -> Sql:
    """Returns the condition on `_type` that says what `Pipeline.routed` says, or what the routes of `works`
    say, which are the same."""
    routes = works[0].routes
    if target.counted:
        return Sql("1")
    if routes is not None:
        return Sql(f"_type IN ({listed(map(literal, routes))})" if routes else "0")
    if not target.catch_all:
        return Sql(f"_type IN ({listed(map(literal, target.types))})")
    others = sorted(set(pipeline.types) - set(target.types))
    return Sql(f"_type NOT IN ({listed(map(literal, others))})" if others else "1")


def filled(filling: Filling, columns: Sequence[str], source: Sql, routed: Sql) -> Sql:
    """Returns the rows with all that the filling names."""
    names = listed(map(identifier, ["_slice", *columns]))
    rows = render("load/parse_rows", columns=names, source=source, routed=routed)
    rows = render("load/keep_behind", rows=rows) if filling.lengthy else rows
    for stage in filling.stages:
        rows = render("load/name_expressions", named=listed(stage), rows=rows)
    return rows


def rejected_rows(filling: Filling, rows: Sql) -> Sql:
    """Returns those of the rows of which a value does not fit, with all that says which."""
    unfit_rows = render("load/unfit_rows", rows=rows, unfit=filling.unfit)
    return with_places(filling, unfit_rows)


def with_places(filling: Filling, rows: Sql) -> Sql:
    if not filling.places:
        return rows
    return render("load/name_expressions", named=listed(filling.places), rows=rows)


def structure(columns: Sequence[str], with_slice: bool) -> Sql:
    return literal(definitions(columns, with_slice))


def definitions(columns: Sequence[str], with_slice: bool) -> Sql:
    kinds = [f"{name} {LAKE[name]}" for name in columns]
    return listed([*kinds, *(["_slice DateTime('UTC')"] if with_slice else [])])


def pull(pull_source: PullSource, files: Sequence[FileRows], columns: Sequence[str]) -> Sql:
    """Returns the files, read by the server where it finds them."""
    slices = {file.unit.slice for file in files}
    slice_ = _slice_of(*slices) if len(slices) == 1 else _slice_in_name(files[0].unit.slice)
    names = listed(map(identifier, columns))
    rows = pull_source.rows([file.key for file in files], names, slice_, structure(columns, with_slice=False))
    small = len(files) > 1 and sum(file.rows for file in files) < _SMALL_ROWS * len(files)
    return render("load/source_gathered", source=rows) if small else rows


def pulls(pull_source: PullSource, files: Sequence[FileRows], columns: Sequence[str]) -> Iterable[Sql]:
    for start in range(0, len(files), FILES_PER_STATEMENT):
        yield pull(pull_source, files[start : start + FILES_PER_STATEMENT], columns)


def _slice_of(slice_: Slice) -> Sql:
    return Sql(f"toDateTime({int(slice_.start.timestamp())}, 'UTC')")


def _slice_in_name(slice_: Slice) -> Sql:
    minute = "%i" if has_minutes(slice_.length) else ""  # ClickHouse's %M is the name of the month
    pattern = f"%Y-%m-%dT%H{minute}Z"
    return Sql(f"parseDateTime(substring(_file, 1, position(_file, 'Z')), '{pattern}', 'UTC')")


# Files of the lake that are not what landed, told from rows that a table refuses.
_CHUNK = 1 << 20


def reland(pipeline: Pipeline, unit: Unit) -> str:
    """Returns the command that writes a unit's files again."""
    slices = SliceRange(unit.slice.start, unit.slice.end)
    return pipeline.command("run", *slices.words, "--mode", "reland")


def refusal(pipeline: Pipeline, unit: Unit, key: str, why: str) -> Conservation:
    return Conservation(
        f"slice {unit}: lake file {key} of its manifest {why}: `{reland(pipeline, unit)}` writes it again"
    )


def damaged(pipeline: Pipeline, lake: Files, works: Sequence[LoadWork], reason: str) -> Conservation | None:
    """Returns what is wrong with a file that the server's `reason` names; None where it is as it landed.

    A server that pulls a file names it also when a row of it is refused. Raises what the lake raises.
    """
    for work in works:
        for file in work.files:
            if PurePosixPath(file.key).name in reason:
                wrong = _wrong(lake, file)
                if wrong is not None:
                    return refusal(pipeline, work.unit, file.key, wrong)
    return None


def _wrong(lake: Files, file: LandedFile) -> str | None:
    try:
        with lake.local(file.key) as path:
            size, digest = path.stat().st_size, _digest(path)
    except FileNotFoundError:
        return "is missing"
    if size != file.bytes:
        return f"has {size:,} bytes, and {file.bytes:,} landed"
    return None if digest == file.sha256 else "has other bytes than those that landed"


def _digest(path: Path) -> str:
    sha = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            sha.update(chunk)
    return sha.hexdigest()
