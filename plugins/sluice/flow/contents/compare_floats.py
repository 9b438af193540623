"""A target's floating numbers against those that Python reads from some records of one file."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import Sql, identifier, listed, literal, render
from sluice.clients.clickhouse.tables import Column
from sluice.clients.clickhouse.types import parse
from sluice.config.pipeline import Target
from sluice.field_path import (
    FieldPaths,
    Number,
    UnreadablePayload,
    first_members,
    first_there,
    paths_of,
    read_event,
)
from sluice.flow.contents.comparable_columns import Comparison
from sluice.flow.contents.read_rows import rows_of
from sluice.flow.contents.sampling import first_rows
from sluice.flow.contents.staged_load import Stage, Staged
from sluice.flow.load.work import LoadWork
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.runtime import deeper
from sluice.slices import Unit


@dataclass(frozen=True)
class ParsedFloats:
    """The `staged` rows of a target."""

    stage: Stage
    staged: Staged
    comparison: Comparison

    def check(
        self, works: Sequence[LoadWork], rows: pa.Table | None, anomaly: Callable[[Unit], partial[Anomaly]]
    ) -> Iterator[Anomaly]:
        """Compares the records in `rows`, or else in a file of the first unit that has one of one type.

        Raises what the client raises; who reads the lake's files says which cannot be read.
        """
        target = self.staged.target
        files = [(work, file) for work in works for file in work.files if file.type is not None]
        computed = self.staged.target_table.storage.computes
        if computed or target.counted or target.rollup is not None or not files:
            return
        work, file = files[0]
        columns = [one for one in self.comparison.columns if one.name not in self.staged.later]
        try:
            sampled = first_rows(self.stage.lake, file, 0, MOST_ROWS) if rows is None else rows
            floats = float_columns(target, columns)
            identity, cluster = self.comparison.identity, work.unit.cluster
            found = misread(self.stage.client, self.staged.rows, identity, cluster, floats, sampled)
        except (OSError, pa.ArrowException):
            return
        for one in found:
            topic, partition, offset, *_ = one.record
            yield anomaly(work.unit)(
                AnomalyKind.VALUES,
                expected=f"{one.column}: {one.expected}, as it is written",
                seen=f"{one.seen}, as ClickHouse reads it",
                command="",
                advice="a reload reads it the same way: try another version or build of the server",
                topic=topic,
                partition=partition,
                offsets=(offset, offset + 1),
            )


# Floating numbers as Python reads them from some records, against what ClickHouse has read.
#
# Everything else that compares a table with the lake has ClickHouse parse both. What its parser gets wrong,
# it gets wrong twice. So of some records the numbers are parsed here, by Python's own json and float.
MOST_ROWS = 500  # of a table in a comparison
_FRACTION = re.compile(r"[.eE]")

Record = tuple[Any, ...]
Leaf = tuple[str | int, ...]


@dataclass(frozen=True)
class FloatColumn:
    """A column of floating numbers, or a JSON, which holds them at every path but the `typed` ones."""

    name: str
    paths: FieldPaths
    kind: str
    typed: frozenset[str] = frozenset()

    @property
    def value(self) -> Sql:
        name = identifier(self.name)
        return Sql(f"toString({name})") if self.kind == "JSON" else name


@dataclass(frozen=True)
class Misread:
    """The first record of which ClickHouse reads a number otherwise: topic, partition, offset, row."""

    column: str
    record: Record
    expected: str
    seen: str


def float_columns(target: Target, columns: Sequence[Column]) -> list[FloatColumn]:
    found = []
    for column in columns:
        kind = parse(column.type).stored.plain
        if column.filled and kind.name in ("Float32", "Float64", "JSON"):
            arguments = kind.named_arguments() if kind.name == "JSON" else []
            names = paths_of(column.name, target.columns)
            typed = frozenset(name for name, _ in arguments)
            found.append(FloatColumn(column.name, names, kind.name, typed))
    return found


def misread(
    client: Client,
    staged: Sql,
    identity: Sequence[str],
    cluster: str,
    columns: Sequence[FloatColumn],
    rows: pa.Table,
) -> list[Misread]:
    """Compares the first rows of a lake's file with the staged ones of its `cluster`: another may have a
    topic of the same name. Raises ArrowException, and what the client raises."""
    events = _events(rows.slice(0, MOST_ROWS), "_row" in identity)
    if not (events and columns and identity):
        return []
    keys = listed(map(identifier, identity))
    records = listed(Sql(f"({listed(map(_literal, record))})") for record in events)
    values = listed(column.value for column in columns)
    sql = render(
        "verify/floats", keys=keys, values=values, table=staged, cluster=literal(cluster), records=records
    )
    with deeper():
        return list(differing(columns, events, len(identity), client.rows(sql)))


def differing(
    columns: Sequence[FloatColumn],
    events: Mapping[Record, Mapping[str, Any]],
    keys: int,
    found: Sequence[Sequence[Any]],
) -> Iterator[Misread]:
    """Yields of each column the first number that differs. A found row is a record of `keys` parts, and a
    value of each column. Pure."""
    for number, column in enumerate(columns, start=keys):
        for row in sorted(found, key=lambda row: tuple(row[:keys])):
            record = tuple(row[:keys])
            wrong = _wrong(column, first_there(events[record], column.paths), row[number])
            if wrong is not None:
                yield Misread(column.name, record, *wrong)
                break


def _wrong(column: FloatColumn, written: Any, read: Any) -> tuple[str, str] | None:
    """Returns (expected, seen) where they are not the same number."""
    if read is None:
        return None
    if column.kind != "JSON":
        return _different(written, read, column.kind)
    leaves = dict(_leaves(json.loads(read), ()))
    for path, value in _leaves(written, ()):
        if _dotted(path) not in column.typed and path in leaves:
            wrong = _different(value, leaves[path], "Float64")
            if wrong is not None:
                return f"{_dotted(path)} = {wrong[0]}", wrong[1]
    return None


def _different(written: Any, read: Any, kind: str) -> tuple[str, str] | None:
    if not (isinstance(written, Number) and _FRACTION.search(written)):
        return None
    if isinstance(read, bool) or not isinstance(read, int | float):
        return None
    expected = float(written)
    nearest = _float32s(expected) if kind == "Float32" else {expected}
    return None if math.isinf(expected) or float(read) in nearest else (written, repr(read))


def _float32s(value: float) -> set[float]:
    """Returns the Float32 of a double, and of its neighbors: which of two is nearer the text may tell."""
    around = (math.nextafter(value, -math.inf), value, math.nextafter(value, math.inf))
    found = set()
    for one in around:
        try:
            found.add(struct.unpack("<f", struct.pack("<f", one))[0])
        except OverflowError:
            found.add(math.copysign(math.inf, one))
    return found


def _leaves(value: Any, path: Leaf) -> Iterator[tuple[Leaf, Any]]:
    """Yields (path, value) of all that is no object or array; names with points lead deeper, as in a JSON."""
    if isinstance(value, dict):
        for name, inner in first_members(value).items():
            yield from _leaves(inner, (*path, *name.split(".")))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*path, number))
    else:
        yield path, value


def _dotted(path: Leaf) -> str:
    return ".".join(part for part in path if isinstance(part, str))


def _events(rows: pa.Table, numbered: bool) -> dict[Record, Mapping[str, Any]]:
    """Returns the events by topic, partition and offset, and by `_row` where the table has it."""
    columns = rows_of(rows)
    events: dict[Record, Mapping[str, Any]] = {}
    with deeper():
        for n, payload in enumerate(columns.payloads):
            record: Record = (columns.topics[n], columns.partitions[n], columns.offsets[n])
            if numbered:
                record = (*record, (columns.numbers[n] if columns.numbers else None) or 0)
            try:
                events[record] = read_event(payload or b"")
            except UnreadablePayload:
                continue  # another check reports it
    return events


def _literal(value: Any) -> Sql:
    return literal(value) if isinstance(value, str) else Sql(str(int(value)))
