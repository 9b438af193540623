"""Decides how the server gets the lake's files: it pulls them where it can, else they are pushed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render
from sluice.clients.lake import layout
from sluice.clients.lake.base import Files, Lake
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import Conservation, Refused
from sluice.flow.load.casts.columns import LAKE, Filling
from sluice.flow.load.source.pull import PullSource, place_of
from sluice.flow.load.work import LoadWork
from sluice.flow.load.writer import Writer
from sluice.manifest import LandedFile
from sluice.slices import Slice, SliceRange, Unit, has_minutes

# The lake's rows as a SELECT for a staging INSERT: which files, which columns, which slice.

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
    used |= {"_headers"} if filling.headers else set()
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


@dataclass(frozen=True)
class Reading:
    """`place` is where the server finds the lake, or None when everything is pushed."""

    lake: Files
    place: PullSource | None

    def sources(
        self, pipeline: Pipeline, files: Sequence[FileRows], columns: Sequence[str], writer: Writer
    ) -> Iterator[Sql]:
        """Yields SELECTs of the rows of the files, each of one INSERT's worth."""
        pulled = [file for file in files if self._pulls(file.key)]
        if self.place is not None:
            yield from pulls(self.place, pulled, columns)
        pulled_keys = {file.key for file in pulled}
        rest = [(file.unit, file.key) for file in files if file.key not in pulled_keys]
        yield from sent(writer, bodies(pipeline, self.lake, rest, columns), columns)

    def _pulls(self, key: str) -> bool:
        """A file that is not there as the lake knows it is read here, and refused."""
        if self.place is None or not self.place.reads(key):
            return False
        try:
            with self.lake.local(key) if self.place.follows else nullcontext():
                return True
        except FileNotFoundError:
            return False


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


# Reads the lake's Parquet files here and makes the bodies that are sent to the server.
_BODY_BYTES = 48 * 1024 * 1024
_ROWS_AT_ONCE = 65_536
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
_ARROW: dict[str, pa.DataType] = {
    "_type": pa.string(),
    "_cluster": pa.string(),
    "_topic": pa.string(),
    "_partition": pa.int32(),
    "_offset": pa.int64(),
    "_row": pa.int32(),
    "_timestamp": pa.timestamp("ms", "UTC"),
    "_key": pa.binary(),
    "_headers": pa.list_(_HEADER),
    "_payload": pa.binary(),
    "_slice": pa.timestamp("s", "UTC"),
}


def sent(writer: Writer, streams: Iterable[bytes], columns: Sequence[str]) -> Iterator[Sql]:
    """Yields the rows of each stream, in a table of the attempt's own: the statement that loads them is too
    long to travel beside them. The table is gone when the last rows are loaded."""
    table = writer.attempt.temporary("sent")
    names = listed(map(identifier, columns))
    used = False
    for stream in streams:
        writer.run("send", render("clickhouse/drop_table", table=table))
        creation = render("load/create_sent", sent=table, definitions=definitions(columns, with_slice=True))
        writer.run("send", creation)
        writer.run("send", render("load/send_rows", sent=table, columns=names), body=stream)
        yield render("load/source_sent", sent=table, columns=names)
        used = True
    if used:
        writer.run("send", render("clickhouse/drop_table", table=table))


def bodies(
    pipeline: Pipeline, lake: Files, keys: Iterable[tuple[Unit, str]], columns: Sequence[str]
) -> Iterator[bytes]:
    """Yields Arrow streams of about 48 MiB of rows, small files together. Raises Conservation for a file
    that is missing or damaged."""
    schema = pa.schema([(name, _ARROW[name]) for name in (*columns, "_slice")])
    waiting: list[pa.RecordBatch] = []
    size = 0
    for unit, key in keys:
        for batch in _batches(pipeline, lake, unit, key, schema):
            waiting.append(batch)
            size += batch.nbytes
            if size >= _BODY_BYTES:
                yield _stream(schema, waiting)
                waiting, size = [], 0
    if waiting:
        yield _stream(schema, waiting)


def _batches(
    pipeline: Pipeline, lake: Files, unit: Unit, key: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    with ExitStack() as stack:
        try:
            path = stack.enter_context(lake.local(key))
        except FileNotFoundError as error:
            raise refusal(pipeline, unit, key, "is missing") from error
        try:
            yield from _read(path, unit, schema)
        except (pa.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())[:200]
            raise refusal(pipeline, unit, key, f"cannot be read ({reason})") from error


def _read(path: Path, unit: Unit, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    columns = [name for name in schema.names if name != "_slice"]
    with pq.ParquetFile(path) as file:
        present = [name for name in columns if name in file.schema_arrow.names]
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=present):
            start: Any = pa.scalar(int(unit.slice.start.timestamp()), pa.int64()).cast(_ARROW["_slice"])
            arrays = [_column(batch, name).cast(schema.field(name).type) for name in columns]
            yield pa.record_batch([*arrays, pa.repeat(start, batch.num_rows)], schema=schema)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array[Any]:
    """Files of messages that were no arrays have no `_row`, which is 0."""
    if name in batch.schema.names:
        return batch.column(name)
    if name == "_row":
        return pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows)
    raise pa.ArrowInvalid(f"it has no column {name}")


def _stream(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        # The server works chunk by chunk: thousands of single-row ones would take it minutes.
        writer.write_table(pa.Table.from_batches(batches, schema).combine_chunks(), _ROWS_AT_ONCE)
    return sink.getvalue().to_pybytes()
