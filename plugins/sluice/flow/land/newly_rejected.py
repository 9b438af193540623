"""Which records are rows now and would be rejected by a remake: compared one by one, and not by totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from sluice.clients.lake.base import Files
from sluice.errors import WouldReject
from sluice.manifest import Manifest
from sluice.safe_text import visible
from sluice.slices import Unit

Record = tuple[str, int, int, int | None]
"""Topic, partition, offset, and the number of a row of a record that was an array."""
_COLUMNS = ("_topic", "_partition", "_offset", "_row", "_reason")


@dataclass(frozen=True)
class NewlyRejected:
    """How many rows of a unit would be rejected, by reason, and the first one's place."""

    unit: Unit
    of: int
    reasons: Counter[str]
    example: str = ""

    @property
    def rows(self) -> int:
        return self.reasons.total()

    def error(self) -> WouldReject:
        (reason, _) = self.reasons.most_common(1)[0]
        return WouldReject(str(self.unit), self.rows, self.of, self.example, visible(reason))


def newly_rejected(
    unit: Unit, old: Manifest, before: Iterable[tuple[Record, str]], after: Iterable[tuple[Record, str]]
) -> NewlyRejected:
    """Compares the rejected records of `old` with those of a remake. What is rejected as a whole now may have
    had rows, and so may each element of an array that was not rejected itself."""
    known: set[Record] | None = None
    reasons: Counter[str] = Counter()
    example = ""
    for record, reason in after:
        if known is None:
            known = {record for record, _ in before}
        if record in known or (*record[:3], None) in known:
            continue
        reasons[reason] += 1
        topic, partition, offset, _ = record
        example = example or f"{unit.cluster}/{topic}/{partition}/{offset}"
    return NewlyRejected(unit, old.landed, reasons, example)


def rejected_in(files: Files, keys: Iterable[str]) -> Iterator[tuple[Record, str]]:
    """Yields the records of files of `_rejected/`, and why they are there."""
    for key in keys:
        with files.local(key) as path, pq.ParquetFile(path) as parquet:
            yield from rejected_of(parquet)


def rejected_of(parquet: pq.ParquetFile) -> Iterator[tuple[Record, str]]:
    names = [name for name in _COLUMNS if name in parquet.schema_arrow.names]
    for batch in parquet.iter_batches(columns=names):
        rows: list[Any] = batch.to_pylist()
        for row in rows:
            yield (row["_topic"], row["_partition"], row["_offset"], row.get("_row")), row["_reason"]
