"""A target's floating numbers against those that Python reads from some records of one file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from sluice.flow.contents.comparable_columns import Comparison
from sluice.flow.contents.floats import MOST_ROWS, float_columns, misread
from sluice.flow.contents.sampling import first_rows
from sluice.flow.contents.staged_load import Stage, Staged
from sluice.flow.load.work import LoadWork
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.slices import Unit

_MERGING = re.compile("Summing|Aggregating|Coalescing|Graphite")  # also of staged rows


@dataclass(frozen=True)
class ParsedFloats:
    """The `staged` rows of a target that had no columns `without`."""

    stage: Stage
    staged: Staged
    comparison: Comparison
    without: frozenset[str]

    def check(
        self, works: Sequence[LoadWork], rows: pa.Table | None, anomaly: Callable[[Unit], partial[Anomaly]]
    ) -> Iterator[Anomaly]:
        """Compares the records in `rows`, or else in a file of the first unit that has one of one type.

        Raises what the client raises; who reads the lake's files says which cannot be read.
        """
        target = self.stage.target
        files = [(work, file) for work in works for file in work.files if file.type is not None]
        merging = _MERGING.search(self.staged.target_table.engine)
        if merging or target.counted or target.rollup is not None or not files:
            return
        work, file = files[0]
        columns = [one for one in self.comparison.columns if one.name not in self.without]
        try:
            sampled = first_rows(self.stage.lake, file, 0, MOST_ROWS) if rows is None else rows
            floats = float_columns(target, columns)
            found = misread(self.stage.client, self.staged.rows, self.comparison.identity, floats, sampled)
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
