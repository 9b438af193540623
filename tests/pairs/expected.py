"""What every table of a case has to hold, out of what has landed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.pairs import rollups
from tests.pairs.columns import ID
from tests.pairs.events import CONFIGURED
from tests.pairs.fitting import Fit, RejectedRow, fitted
from tests.pairs.options import Case
from tests.pairs.oracle import Row, Unit, at_path
from tests.pairs.tables import BIDS, MAIN, OTHER, main_columns

Values = tuple[Any, ...]


def configured_types(case: Case) -> tuple[str, str]:
    """The types of the main table and of the second one."""
    return ("alpha", "beta") if case.type == "topic" else CONFIGURED


@dataclass(frozen=True)
class Expected:
    case: Case
    units: Mapping[tuple[int, str], Unit]

    @cached_property
    def rows(self) -> list[Row]:
        return [row for unit in self.units.values() for row in unit.rows]

    def routed(self, table: str) -> list[Row]:
        main, bids = configured_types(self.case)
        types = {MAIN: (main,), BIDS: (bids,)}
        if table == OTHER:
            return [row for row in self.rows if row.type not in (main, bids)]
        return [row for row in self.rows if row.type in types[table]]

    @cached_property
    def main(self) -> tuple[list[Fit], list[RejectedRow]]:
        return fitted(self.case, main_columns(self.case), self.routed(MAIN))

    @cached_property
    def targets(self) -> list[str]:
        """Those that take events."""
        return [MAIN, BIDS, *([OTHER] if self.case.catch_all == "yes" else [])]

    def table(self, name: str) -> dict[tuple, Values]:
        """The rows of a target by `lake_key`, as `tables.reading` reads them."""
        if name == MAIN:
            columns = [column.name for column in main_columns(self.case)]
            return {
                fit.row.key: (*lake_values(fit.row), *(fit.values[column] for column in columns))
                for fit in self.main[0]
            }
        found = {}
        for row in self.routed(name):
            own = (int(row.event.get(ID.name) or 0), row.text) if name == BIDS else (row.text,)
            found[row.key] = (*lake_values(row), *own)
        return found

    def views(self) -> dict[str, Counter[tuple]]:
        """The rows of the tables behind the main table's views, of all shards together."""
        fits = self.main[0]
        totals: dict[tuple, list[int]] = {}
        passed, lengths = Counter(), Counter()
        for fit in fits:
            unit, n = (fit.row.slice, fit.row.place[0]), fit.values["n"]
            sums = totals.setdefault((fit.shard, *unit, fit.values["country"] or ""), [0, 0])
            sums[0], sums[1] = sums[0] + 1, sums[1] + n
            if n % 2 == 1 or self.case.target == "narrow view":
                said = f"<{fit.values['user']}>"
                passed[(*unit, fit.values["id"], said)] += 1
                lengths[(fit.shard, *unit, len(said))] += 1
        return {
            "totals": Counter((*key[1:], *sums) for key, sums in totals.items()),
            "passed": passed,
            "lengths": Counter((*key[1:], count) for key, count in lengths.items()),
        }

    def traffic(self) -> Counter[tuple]:
        """(slice, cluster, event hour, type, country, city) → rows; those of no DateTime are left out."""
        return Counter({key: count for key, count in self._counted.items() if 0 <= key[2] < 1 << 32})

    def traffic_rejected_rows(self) -> Counter[tuple]:
        return Counter({key: count for key, count in self._counted.items() if not 0 <= key[2] < 1 << 32})

    @cached_property
    def _counted(self) -> Counter[tuple]:
        found: Counter[tuple] = Counter()
        for row in self.rows:
            fields = (at_path(row.event, ("country",)), at_path(row.event, ("geo", "city")))
            found[(row.slice, row.place[0], row.hour, row.type, *fields)] += 1
        return found

    def rollups(self) -> dict[str, Counter[tuple]]:
        return {one.name: rollups.expected(one, self.main[0]) for one in rollups.rollups_of(self.case)}

    def published(self) -> Counter[tuple[str, int]]:
        """(table, slice) → rows of all clusters, for the targets that take events."""
        found: Counter[tuple[str, int]] = Counter()
        for (table, start, _), (rows, _) in self.ledger().items():
            found[table, start] += rows
        return found

    def ledger(self) -> dict[tuple, tuple[int, int]]:
        """(table, slice, cluster) → rows and rejected rows of the targets that take events."""
        found: dict[tuple, list[int]] = {
            (table, *unit): [0, 0] for table in self.targets for unit in self.units
        }
        rejected_rows = {unfit.row.key for unfit in self.main[1]}
        for table in self.targets:
            for row in self.routed(table):
                found[table, row.slice, row.place[0]][row.key in rejected_rows] += 1
        return {key: (rows, bad) for key, (rows, bad) in found.items()}


def lake_values(row: Row) -> Values:
    """What each table has of where a row came from, as tables.READ_LAKE reads it."""
    key = None if row.sent.key is None else row.sent.key.hex().upper()
    return (row.slice, row.type, *row.place, row.offset, row.number, row.sent.stamp, key)
