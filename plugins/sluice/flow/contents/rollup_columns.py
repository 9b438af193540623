"""Which columns of a rollup can be compared: those that its SELECT gives alike each time it is evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluice.config.rollups import Rollup
from sluice.flow.contents.comparable_columns import Comparison
from sluice.flow.contents.staged_load import Stage, Staged
from sluice.flow.contents.sums import ALL_ROWS, RowSums, columns_that_differ, sums_of, units_that_differ
from sluice.flow.load.work import LoadWork
from sluice.flow.verify.repairs import Repairs
from sluice.slices import Unit

Sums = Callable[[Comparison], tuple[Mapping[Unit, RowSums], Mapping[Unit, RowSums]]]
"""What the table holds, and what the SELECT has given."""

_EVALUATIONS = 4
"""What the order of rows decides (any, groupArray, LIMIT) may by chance be the same in one of them."""
_NONE = RowSums()
_WHY = "another evaluation of its SELECT over the same rows gives other values"
# What may be another time: other tables, the clock, and functions that read what is outside of the query.
_OUTSIDE = re.compile(
    r"\b(FROM|JOIN)\s+(?!\{source\}|\()|\bIN\s+[A-Za-z_`\"]|"
    r"\b(now\w*|today|yesterday|UTCTimestamp|dict\w+|joinGet\w*|hostName|currentUser|file|url|s3|remote)\s*\(",
    re.IGNORECASE,
)


def reads_outside(select: str) -> bool:
    """Returns whether a rollup's SELECT may read more than the rows of its unit: other tables, the clock."""
    return _OUTSIDE.search(select) is not None


@dataclass
class RollupAgain:
    """Evaluates a rollup's SELECT again where the table has other rows than it gave. `notes` say what is not
    compared."""

    stage: Stage
    rollup: Rollup
    works: Sequence[LoadWork]
    staged: Staged
    repairs: Repairs
    notes: list[str] = field(default_factory=list)

    def compare(self, comparison: Comparison, sums: Sums) -> tuple[Comparison, list[Unit]]:
        """Returns what can be compared, and the units that differ in it. Raises what staging raises."""
        name = self.stage.target.table
        alike = self._alike_each_time(comparison)
        if alike is None:
            self.notes.append(f"table {name} is not compared: its SELECT gives other rows each time")
            return comparison, []
        units = units_that_differ(*sums(alike))
        if units and reads_outside(self.rollup.select):
            command = self.repairs.run([unit.slice for unit in units], "reload", name)
            self.notes.append(
                f"table {name}: its SELECT gives other rows of {len(units):,} slices now: it reads more than "
                f"{self.rollup.source}; if that has changed: {command}"
            )
            return alike, []
        return alike, units

    def _alike_each_time(self, comparison: Comparison) -> Comparison | None:
        """Returns the comparison without the columns that evaluations over other orders of the same rows give
        other values; None where they do not even give as many rows."""
        for _ in range(_EVALUATIONS):
            with self.stage.staged(self.works, shuffled=True) as again:
                shared = (self.stage.client, self.stage.pipeline)
                first, second = (
                    sums_of(*shared, one, one.rows, comparison, ALL_ROWS, by_column=True)
                    for one in (self.staged, again)
                )
            changing: set[str] = set()
            for unit in {*first, *second}:
                these, those = first.get(unit, _NONE), second.get(unit, _NONE)
                if these.rows != those.rows:
                    return None
                changing.update(columns_that_differ(comparison, these, those) if these.rows else ())
            comparison = replace(
                comparison,
                columns=tuple(column for column in comparison.columns if column.name not in changing),
                left_out=(*comparison.left_out, *((name, _WHY) for name in sorted(changing))),
            )
        return comparison
