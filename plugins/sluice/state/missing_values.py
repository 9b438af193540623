"""How many rows have no value of their event in a column, from the ledger's counts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sluice.safe_text import visible
from sluice.state.ledger import LedgerRow

_NAMED = 5


@dataclass(frozen=True)
class MissingValues:
    """Of `rows` rows: by column those that got a default, and those that got NULL."""

    rows: int
    defaulted: Mapping[str, int]
    nulls: Mapping[str, int]

    def share(self, column: str) -> float:
        """Returns the share of rows without a value for the column."""
        missing = self.defaulted.get(column, 0) + self.nulls.get(column, 0)
        return missing / self.rows if self.rows else 0.0

    @property
    def columns(self) -> frozenset[str]:
        return frozenset((*self.defaulted, *self.nulls))

    def __str__(self) -> str:
        """`amount 25.3 %, paid 0.1 %`: columns that got defaults, those with most of them first."""
        ranked = sorted(self.defaulted.items(), key=lambda item: (-item[1], item[0]))
        named = [f"{visible(name, 40)} {percent(rows / self.rows)}" for name, rows in ranked[:_NAMED]]
        more = len(ranked) - _NAMED
        return ", ".join(named) + (f", and {more:,} more" if more > 0 else "")


def percent(share: float) -> str:
    """Formats a share; one between none and all is neither 0 % nor 100 %."""
    return f"{100 * share:.0f} %" if share in (0, 1) else f"{min(max(100 * share, 0.1), 99.9):.1f} %"


def missing_in(rows: Iterable[LedgerRow]) -> MissingValues | None:
    """Returns the counts of these commits together; None where one of them was not counted."""
    commits = list(rows)
    if not commits or not all(row.counted for row in commits):
        return None
    defaulted: Counter[str] = Counter()
    nulls: Counter[str] = Counter()
    for row in commits:
        defaulted.update(row.defaulted)
        nulls.update(row.nulls)
    return MissingValues(sum(row.rows for row in commits), defaulted, nulls)


def said(rows: Iterable[LedgerRow]) -> str:
    """Returns which columns got defaults, of the commits that were counted; empty where none did."""
    missing = missing_in(row for row in rows if row.counted)
    return str(missing) if missing else ""
