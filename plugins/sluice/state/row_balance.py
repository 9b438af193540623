"""What became of records and rows: in a table, rejected, without a table or a value, not loaded yet. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.config.pipeline import Pipeline, Target
from sluice.manifest import Manifest
from sluice.safe_text import visible
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from sluice.state.status import UnitStatus

_NAMED = 5


@dataclass(frozen=True)
class RowBalance:
    """Rows of units that have landed: landed = loaded + rejected rows + without a table + not loaded.
    `without`: those of types that no table takes, by type."""

    landed: int = 0
    loaded: int = 0
    rejected_rows: int = 0
    without: Counter[str] = field(default_factory=Counter)

    @property
    def not_loaded(self) -> int:
        return self.landed - self.loaded - self.rejected_rows - self.without.total()

    def __str__(self) -> str:
        """`9 rows parsed = 5 loaded + 1 rejected + 3 without a table (view) + 0 not loaded`"""
        names = [name for name, _ in self.without.most_common(_NAMED)]
        names += [f"{len(self.without) - _NAMED:,} more types"] if len(self.without) > _NAMED else []
        types = f" ({', '.join(names)})" if names else ""
        return (
            f"{self.landed:,} rows parsed = {self.loaded:,} loaded + {self.rejected_rows:,} rejected + "
            f"{self.without.total():,} without a table{types} + {self.not_loaded:,} not loaded"
        )


def balance_of(pipeline: Pipeline, statuses: Iterable[UnitStatus]) -> RowBalance:
    """Counts what tables of events hold of the manifests, by the routes of the pipeline file as it is now. A
    unit whose files the lake has forgotten counts by the routes of its load: nothing moves its rows."""
    landed = loaded = rejected_rows = 0
    without: Counter[str] = Counter()
    targets = _of_events(pipeline)
    for status in statuses:
        if status.manifest is None:
            continue
        landed += status.manifest.landed
        held: set[str] = set()
        types = status.manifest.rows_by_type()
        for target in targets:
            row = status.tables.get(target.table)
            if row is None or row.manifest != status.manifest.id:
                continue
            if status.forgotten_on or row.types == pipeline.routed(target, types):
                loaded, rejected_rows = loaded + row.rows, rejected_rows + row.rejected_rows
                held.update(row.types)
        lacking = without_table(pipeline, status.manifest)
        without.update({name: rows for name, rows in lacking.items() if name not in held})
    return RowBalance(landed, loaded, rejected_rows, without)


def without_table(pipeline: Pipeline, manifest: Manifest) -> dict[str, int]:
    """Returns the rows landed of each type that no table takes."""
    rows = manifest.rows_by_type()
    routed = {name for target in _of_events(pipeline) for name in pipeline.routed(target, rows)}
    return {name: count for name, count in rows.items() if name not in routed}


def _of_events(pipeline: Pipeline) -> list[Target]:
    return [target for target in pipeline.targets if not target.counted and target.rollup is None]


def rejected_by_reason(statuses: Iterable[UnitStatus]) -> dict[str, int]:
    """Returns the records, and rows of records, that landings rejected; most frequent reason first."""
    reasons: Counter[str] = Counter()
    for status in statuses:
        reasons.update(status.manifest.refused_by_reason() if status.manifest else {})
    return dict(reasons.most_common())


def rejected_words(pipeline: Pipeline, statuses: Sequence[UnitStatus]) -> str:
    """Returns a line with the totals and each reason; empty where nothing was rejected. Records are counted
    among records, and rows of arrays among rows."""
    reasons = rejected_by_reason(statuses)
    if not reasons:
        return ""
    landed = [status.manifest for status in statuses if status.manifest is not None]
    records = sum(manifest.refused_records for manifest in landed)
    rows = sum(sum(manifest.rejected_elements.values()) for manifest in landed)
    totals = [f"{records:,} of {sum(manifest.read for manifest in landed):,} records"] if records else []
    if rows:
        totals.append(f"{rows:,} of {sum(manifest.rows or 0 for manifest in landed):,} rows of arrays")
    said = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items())
    every = "" if any(manifest.landed for manifest in landed) else ": none became a row"
    return f"rejected: {' and '.join(totals)} ({said}){every}; `{pipeline.command('rejected')}` shows them"


def tombstone_words(statuses: Iterable[UnitStatus]) -> str:
    """Returns a line on records without a value; empty where there are none."""
    count = sum(status.manifest.tombstones for status in statuses if status.manifest)
    return said_of_tombstones(count) if count else ""


def said_of_tombstones(count: int) -> str:
    have = "1 record has no value, and gives" if count == 1 else f"{count:,} records have no value, and give"
    return f"tombstones: {have} no row"


def unlanded(statuses: Iterable[UnitStatus]) -> list[Unit]:
    """Returns the units of which it is unknown what a landing rejects."""
    return [status.unit for status in statuses if status.manifest is None]


def unknown_words(pipeline: Pipeline, units: Iterable[Unit], missing: Collection[Unit]) -> str:
    """Returns a line on how many slices of `units` have not landed; empty where all have."""
    if not missing:
        return ""
    count, total = (len({unit.slice for unit in some}) for some in (missing, units))
    have = "has not" if count == 1 else "have not"
    landed = "landed from every cluster" if len(pipeline.clusters) > 1 else "landed"
    return f"rejected: unknown of {count:,} of {total:,} slices, which {have} {landed}"


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
