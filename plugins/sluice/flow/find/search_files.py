"""Finds rows in a unit's files: footers first, then only the row groups that can hold them."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.clients.lake.base import Lake, Parts
from sluice.concurrency import each_if_slow
from sluice.config.mask import KEY
from sluice.errors import WrongUse
from sluice.field_path import (
    UnreadablePayload,
    all_fields,
    checked_path,
    header_of,
    names_of,
    read_event,
    text_of,
)
from sluice.flow.find.outcome import LakeRow, RecordPlace
from sluice.manifest import LandedFile, Manifest
from sluice.mask.mask_rules import MaskRules, hashes_of

# Finds rows by their record's key, or by the value of a field.

_ESCAPE = "\\"


@dataclass(frozen=True)
class RowMatch:
    """A record's `key`, or a field of its event: the dotted path, and the value as text. `hashes`: what a
    mask may have made of it."""

    key: bytes | None = None
    path: tuple[str, ...] = ()
    value: str = ""
    hashes: tuple[bytes, ...] = ()

    @property
    def column(self) -> str:
        """Which of a file's columns has to be read."""
        if self.key is not None:
            return "_key"
        return "_payload" if header_of(self.path) is None else "_headers"

    def positions(self, rows: pa.Table) -> np.ndarray:
        """Returns the rows that match, ascending. To be called where the stack is deep enough:
        sluice.runtime.deeper."""
        if self.key is not None:
            return _true(pc.is_in(rows["_key"], value_set=pa.array([self.key, *self.hashes], pa.binary())))
        if (header := header_of(self.path)) is not None:
            values = {self.value.encode(), *self.hashes}
            return np.flatnonzero(
                [_has_header(pairs, header, values) for pairs in rows["_headers"].to_pylist()]
            )
        payloads = rows["_payload"].cast(pa.binary())
        # Where the value does not stand as it is, it may stand there with escapes.
        likely = pc.or_(_has(payloads, self.value), _has(payloads, _ESCAPE))
        texts = {self.value, *(text.decode() for text in self.hashes)}
        for text in texts - {self.value}:
            likely = pc.or_(likely, _has(payloads, text))
        matching = [n for n in _true(likely).tolist() if self._matches(payloads[n].as_py(), texts)]
        return np.array(matching, np.int64)

    def _matches(self, payload: bytes, values: Collection[str]) -> bool:
        try:
            return any(text_of(value) in values for value in all_fields(read_event(payload), self.path))
        except UnreadablePayload:
            return False


def _has_header(pairs: Sequence[Any] | None, name: str, values: Collection[bytes]) -> bool:
    return any(pair["key"] == name and pair["value"] in values for pair in pairs or ())


def read_match(key: str | None, field: str | None) -> RowMatch:
    """Returns what `--key K` or `--field user.id=7` asks for. Raises WrongUse."""
    if (key is None) is (field is None):
        raise WrongUse("name one of TOPIC:PARTITION:OFFSET, --key and --field")
    if key is not None:
        return RowMatch(key=key.encode(errors="surrogateescape"))
    if any("\ud800" <= character <= "\udfff" for character in field or ""):
        raise WrongUse("--field: what was typed is not UTF-8, and an event's text is")
    path, sign, value = (field or "").partition("=")
    try:
        names = names_of(checked_path(path))
    except ValueError as error:
        raise WrongUse(f"--field: {error}") from error
    if not sign or not all(names):
        raise WrongUse(f"--field {(field or '')[:60]!r}: expected PATH=VALUE such as user.id=7")
    return RowMatch(path=names, value=value)


def with_hashes(match: RowMatch, rules: MaskRules | None) -> RowMatch:
    """Returns the match with what a mask makes of its value, with each of its keys."""
    if match.key is not None:
        return replace(match, hashes=tuple(hashes_of(rules, KEY, match.key)))
    return replace(match, hashes=tuple(hashes_of(rules, ".".join(match.path), match.value.encode())))


def _has(payloads: Any, text: str) -> Any:
    return pc.fill_null(pc.match_substring(payloads, text), False)


def _true(mask: Any) -> np.ndarray:
    positions: np.ndarray = np.flatnonzero(pc.fill_null(mask, False).to_numpy())
    return positions


_PLACE = ("_topic", "_partition", "_offset")
_TOGETHER = 16  # files that are asked side by side, where the lake is slow
_STAMP = "_timestamp"
_DETAILS = (*_PLACE, "_cluster", "_type", "_reason", "_event_time", _STAMP, "_row")


@dataclass
class FileSearch:
    """Searches the files of one unit. `unreadable` says which of them are missing or damaged."""

    lake: Lake
    manifest: Manifest
    unreadable: list[str] = field(default_factory=list)

    def at(self, place: RecordPlace) -> list[LakeRow]:
        """Returns the rows of one record. Where a record is one row, the search ends with it."""
        files, lake_rows = self._largest_first(), list[LakeRow]()
        for start in range(0, len(files), _TOGETHER):
            together = files[start : start + _TOGETHER]
            lake_rows += chain.from_iterable(each_if_slow(lambda file: self._rows(file, place), together))
            if lake_rows and self.manifest.rows is None:
                break
        return lake_rows

    def matching(self, file: LandedFile, match: RowMatch, most: int) -> list[LakeRow]:
        """Returns the first `most` rows of a file that match; a row group at a time is in memory."""
        return self._read(file, lambda parquet: _matching(parquet, file, match, most))

    def _largest_first(self) -> list[LandedFile]:
        return sorted((*self.manifest.held_events, *self.manifest.held_rejected), key=lambda file: -file.rows)

    def _rows(self, file: LandedFile, place: RecordPlace) -> list[LakeRow]:
        return self._read(file, lambda parquet: _of_record(parquet, file, place))

    def _read(self, file: LandedFile, rows: Callable[[pq.ParquetFile], list[LakeRow]]) -> list[LakeRow]:
        """Returns nothing of a file that is missing or damaged. One that was not moved yet is in its
        attempt."""
        reason = "it is missing"
        for key in dict.fromkeys((file.key, file.attempt_key)):
            try:
                with RangedFile(self.lake, key, file.bytes) as raw, pa.PythonFile(raw, "r") as opened:
                    return rows(pq.ParquetFile(opened))
            except FileNotFoundError:
                continue
            except (OSError, pa.ArrowException) as error:
                reason = " ".join(str(error).split())[:200] or type(error).__name__
                break
        self.unreadable.append(f"{file.key}: {reason}")
        return []


def _matching(parquet: pq.ParquetFile, file: LandedFile, match: RowMatch, most: int) -> list[LakeRow]:
    lake_rows: list[LakeRow] = []
    for number in range(parquet.num_row_groups):
        if len(lake_rows) == most:
            break
        rows = parquet.read_row_group(number, columns=[match.column])
        lake_rows += _details(parquet, file, number, match.positions(rows)[: most - len(lake_rows)])
    return lake_rows


def _of_record(parquet: pq.ParquetFile, file: LandedFile, place: RecordPlace) -> list[LakeRow]:
    lake_rows: list[LakeRow] = []
    for number in row_groups(parquet.metadata, place):
        places = parquet.read_row_group(number, columns=list(_PLACE))
        lake_rows += _details(parquet, file, number, _positions(places, place))
    return lake_rows


def row_groups(metadata: pq.FileMetaData, place: RecordPlace) -> list[int]:
    """Returns the row groups whose statistics do not rule the record out. Pure."""
    sought = dict(zip(_PLACE, (place.topic, place.partition, place.offset), strict=True))
    return [
        number
        for number in range(metadata.num_row_groups)
        if all(_may_hold(metadata.row_group(number), name, value) for name, value in sought.items())
    ]


def _may_hold(group: pq.RowGroupMetaData, name: str, value: Any) -> bool:
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == name:
            statistics = column.statistics
            return (
                statistics is None or not statistics.has_min_max or statistics.min <= value <= statistics.max
            )
    return True


def _positions(places: pa.Table, place: RecordPlace) -> np.ndarray:
    sought = (place.topic, place.partition, place.offset)
    same = np.ones(places.num_rows, bool)
    for name, value in zip(_PLACE, sought, strict=True):
        same &= pc.equal(places[name], pa.scalar(value, places[name].type)).to_numpy()
    return np.flatnonzero(same)


def _details(parquet: pq.ParquetFile, file: LandedFile, group: int, positions: np.ndarray) -> list[LakeRow]:
    if not len(positions):
        return []
    names = [name for name in _DETAILS if name in parquet.schema_arrow.names]
    table = parquet.read_row_group(group, columns=names).take(pa.array(positions, pa.int64()))
    # A record's own time may be any number, also one that no datetime holds.
    stamps = table[_STAMP].cast(pa.int64())
    table = table.set_column(table.column_names.index(_STAMP), _STAMP, stamps)
    return [
        _row(file, group, int(position), row)
        for position, row in zip(positions, table.to_pylist(), strict=True)
    ]


def _row(file: LandedFile, group: int, position: int, row: dict[str, Any]) -> LakeRow:
    return LakeRow(
        place=RecordPlace(row["_cluster"], row["_topic"], row["_partition"], row["_offset"]),
        file=file.key,
        row_group=group,
        row=position,
        type=row.get("_type"),
        reason=row.get("_reason"),
        event_time=row.get("_event_time"),
        stamp=row[_STAMP],
        number=row.get("_row"),
    )


# An object of the lake as a file of which only the parts are read that are asked for.
class RangedFile(io.RawIOBase):
    """`size`: the object's bytes. Reading raises what `Parts.part` raises."""

    def __init__(self, lake: Parts, key: str, size: int) -> None:
        self._lake, self._key, self._size = lake, key, size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        until = self._size if size < 0 else min(self._at + size, self._size)
        data = self._lake.part(self._key, self._at, until) if self._at < until else b""
        self._at += len(data)
        return data
