"""Changes a unit's traffic counts by rows that were taken out or brought in; all others stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake
from sluice.config.counts import COUNTS, Counts
from sluice.errors import Conservation
from sluice.flow.land.amend.amended import NewTraffic
from sluice.flow.land.amend.rewrite import NewFile, Part
from sluice.flow.land.count_totals import lake_rows
from sluice.flow.land.task import columns
from sluice.flow.land.task.count_fields import FieldTexts, counted_key
from sluice.flow.land.task.reports import WrittenFile
from sluice.flow.land.task.writer import handed_over, sha256
from sluice.manifest import Manifest, Traffic
from sluice.slices import words_of

_ROWS = 16_384
_COUNT = b',"count":'


@dataclass
class CountsOf:
    """How many rows of each key are added to the counts of a table, or taken off: by the fields and types
    with which the manifest says that it was counted."""

    traffic: Traffic
    changes: Counter[bytes] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._spec = Counts(table=self.traffic.table, by=self.traffic.by, types=self.traffic.types)
        self._fields = FieldTexts(self._spec.by.values())

    def add(self, payloads: Sequence[bytes], kinds: Sequence[str], hour: str, sign: int) -> None:
        """Adds events of an event hour, such as `2026-11-20T10`, `sign` times each."""
        rows = [n for n, kind in enumerate(kinds) if self._spec.counts(kind)]
        columns_of_rows = self._fields.read([payloads[n] for n in rows])
        for place, n in enumerate(rows):
            texts = [column[place] for column in columns_of_rows]
            key = counted_key(hour, kinds[n], dict(zip(self._spec.by, texts, strict=True)))
            self.changes[key] += sign
            self.types[kinds[n]] += sign


@dataclass(frozen=True)
class CountsRewrite:
    """Rewrites files of counts of one unit into an attempt. `stamp`: the slice's start in ms."""

    lake: Lake
    old: Manifest
    attempt: str
    stamp: int

    def changed(self, number: int, of: CountsOf) -> NewTraffic:
        """`number` is unique in the attempt. Raises Conservation where the file has not the counts that are
        taken off."""
        old = of.traffic
        if not +of.changes and not -of.changes:
            return NewTraffic(old, old.sums, old.files[0] if old.files else None)
        kinds = sorted({*old.sums, *of.types})
        sums = {kind: old.sums.get(kind, 0) + of.types[kind] for kind in kinds}
        sums = {kind: count for kind, count in sums.items() if count}
        return NewTraffic(old, sums, self._rewritten(number, of) if sums else None)

    def _rewritten(self, number: int, of: CountsOf) -> Part | None:
        key = f"{layout.attempt(self.old.slice, self.attempt)}amended-counts-{number}.parquet"
        target, rows = self.lake.begin(key), 0
        try:
            with columns.writer(target.path, columns.COUNTED) as writer:
                for table in self._tables(of):
                    writer.write_table(table)
                    rows += table.num_rows
            size, digest = target.path.stat().st_size, sha256(target.path)
            handed_over(partial(self.lake.finish, key, target))
        except BaseException:
            target.discard()
            raise
        unit = (self.old.cluster, self.old.slice)
        return NewFile(
            WrittenFile(*unit, COUNTS, "", key, rows, size, digest), layout.counts_folder(of.traffic.table)
        )

    def _tables(self, of: CountsOf) -> Iterator[pa.Table]:
        """Yields the old rows with their counts changed, in their order, and then new ones."""
        left, last = dict(of.changes), -1
        offsets: list[Any]
        for file in of.traffic.files:
            with self.lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
                for batch in parquet.iter_batches(_ROWS):
                    offsets = batch["_offset"].to_pylist()
                    last = max([last, *offsets])
                    yield _changed(batch, left)
        if any(count < 0 for count in left.values()):
            remake = self.lake.command("run", *words_of(self.old.slice), "--mode", "remake")
            raise Conservation(
                f"slice {self.old.slice}/{self.old.cluster}: the counts for table {of.traffic.table} lack "
                f"rows that are to be taken off: nothing was committed; `{remake}` counts again"
            )
        new = sorted((key, count) for key, count in left.items() if count)
        for start in range(0, len(new), _ROWS):
            yield lake_rows(new[start : start + _ROWS], self.old.cluster, self.stamp, last + 1 + start)


def _changed(batch: pa.RecordBatch, left: dict[bytes, int]) -> pa.Table:
    """Takes what it has used off `left`."""
    texts: list[Any] = batch["_payload"].cast(pa.binary()).to_pylist()
    kept = []
    for position, text in enumerate(texts):
        key, _, tail = text.rpartition(_COUNT)
        change = left.pop(key, 0)
        count = int(tail[:-1]) + change
        if count < 0:
            left[key] = count
        if count > 0:
            kept.append(position)
            texts[position] = key + _COUNT + b"%d}" % count if change else text
    payloads = pa.array([texts[position] for position in kept], pa.binary()).cast(pa.string())
    rows = pa.Table.from_batches([batch]).take(pa.array(kept, pa.int64()))
    rows = rows.set_column(rows.column_names.index("_payload"), "_payload", payloads)
    return rows.select(columns.COUNTED.names).cast(columns.COUNTED)


def counts_of(old: Manifest) -> list[CountsOf]:
    return [CountsOf(traffic) for traffic in old.traffic]
