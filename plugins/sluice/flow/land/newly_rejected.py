"""Which records are rows and would be rejected by the next generation: compared one by one, not by totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.clients.lake.base import Files
from sluice.errors import Relanded, WouldReject
from sluice.manifest import LandedFile, Manifest
from sluice.safe_text import visible

Record = tuple[str, int, int, int | None]
"""Topic, partition, offset, and the number of a row of a record that was an array."""
_IDENTITY = ("_topic", "_partition", "_offset", "_row")
_AT_ONCE = 200_000


@dataclass(frozen=True)
class NewlyRejected:
    """How many rows of a unit would be rejected, by reason, and the first one's place."""

    unit: str
    of: int
    reasons: Counter[str]
    example: str = ""

    @property
    def rows(self) -> int:
        return self.reasons.total()

    def error(self) -> WouldReject:
        (reason, _) = self.reasons.most_common(1)[0]
        return WouldReject(self.unit, self.rows, self.of, self.example, visible(reason))


def refusal(lake: Files, old: Manifest, new: Manifest) -> WouldReject | None:
    """Returns why `new`, whose files are still in its attempt, may not replace `old`: it rejects rows."""
    rejected = rejected_in(lake, (file.attempt_key for file in new.rejected))
    lost = newly_rejected(lake, old, rejected, same_rules={old.rules, *old.retried} == {new.rules})
    return lost.error() if lost.rows else None


NotReplaced = WouldReject | Relanded


def or_refusal(commit: Callable[[], Manifest]) -> Manifest | NotReplaced:
    """Returns the manifest that stands after the commit, or why it has replaced none."""
    try:
        return commit()
    except (WouldReject, Relanded) as error:
        return error


def newly_rejected(
    lake: Files, old: Manifest, rejected: Iterable[tuple[Record, str]], same_rules: bool = False
) -> NewlyRejected:
    """Returns which of the `rejected` records of a new generation are rows of `old`. What is rejected as a
    whole may have had rows, and an element of an array may have been part of one.

    Where files of rows are gone, any record of the old ranges may have been one, unless it was rejected or
    both landed by the `same_rules`.
    """
    reasons: Counter[str] = Counter()
    example = ""
    others = _not_rejected(lake, old, rejected) if old.landed else iter(())
    while some := dict(islice(others, _AT_ONCE)):
        for record in _were_rows(lake, old, some, same_rules):
            reasons[some[record]] += 1
            topic, partition, offset, _ = record
            example = example or f"{old.cluster}/{topic}/{partition}/{offset}"
    return NewlyRejected(f"{old.slice}/{old.cluster}", old.landed, reasons, example)


def _not_rejected(
    lake: Files, old: Manifest, rejected: Iterable[tuple[Record, str]]
) -> Iterator[tuple[Record, str]]:
    """Yields those that `old` has not rejected. Its files are read when there is one to ask for."""
    known: set[Record] | None = None
    for record, reason in rejected:
        if known is None:
            known = {*_records(lake, old.held_rejected, [])}
        if record not in known and (*record[:3], None) not in known:
            yield record, reason


def _were_rows(lake: Files, old: Manifest, some: Mapping[Record, str], same_rules: bool) -> list[Record]:
    rows: set[Record] = set()
    unread = [] if old.held_events else ["all of them are forgotten"]
    for row in _records(lake, old.held_events, unread, pa.array(sorted({record[2] for record in some}))):
        whole = (*row[:3], None)
        if whole in some or row in some or row[3] is None:
            rows.add(whole if whole in some else row)
    if unread and not same_rules:
        return [record for record in some if _in_ranges(old, record)]
    return [record for record in some if record in rows or (*record[:3], None) in rows]


def _in_ranges(old: Manifest, record: Record) -> bool:
    topic, partition, offset, _ = record
    return any(
        (r.topic, r.partition) == (topic, partition) and r.start <= offset < r.until for r in old.ranges
    )


def _records(
    lake: Files, files: Iterable[LandedFile], unread: list[str], offsets: pa.Array[Any] | None = None
) -> Iterator[Record]:
    """Yields the records of files, those of `offsets` alone where they are given. Adds the keys of files that
    are missing or damaged to `unread`."""
    for file in files:
        try:
            with lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
                for batch in _batches(parquet, _IDENTITY):
                    chosen = batch if offsets is None else batch.filter(pc.is_in(batch["_offset"], offsets))
                    yield from map(_record, chosen.to_pylist())
        except (pa.ArrowException, OSError):
            unread.append(file.key)


def rejected_in(files: Files, keys: Iterable[str]) -> Iterator[tuple[Record, str]]:
    """Yields the records of files of `_rejected/`, and why they are there."""
    for key in keys:
        with files.local(key) as path, pq.ParquetFile(path) as parquet:
            yield from rejected_of(parquet)


def rejected_of(parquet: pq.ParquetFile) -> Iterator[tuple[Record, str]]:
    for batch in _batches(parquet, (*_IDENTITY, "_reason")):
        rows: list[Any] = batch.to_pylist()
        for row in rows:
            yield _record(row), row["_reason"]


def _batches(parquet: pq.ParquetFile, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    yield from parquet.iter_batches(columns=[name for name in columns if name in parquet.schema_arrow.names])


def _record(row: Mapping[str, Any]) -> Record:
    return row["_topic"], row["_partition"], row["_offset"], row.get("_row")
