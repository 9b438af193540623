"""Finds hours in which one reason has rejected most: every count holds, but the data is missing. Pure.

`rejected.fail_above` of the pipeline file as it is now judges: it decides no row. The same hour is found
again by each verification, until its records are retried or the bound is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluice.errors import MostlyRejected
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.facts import ByColumn, ByType, VerifyFacts, loaded, targets_of
from sluice.flow.verify.verdict import Verdict
from sluice.manifest import SHIPPED_TWICE, TOMBSTONE, Manifest
from sluice.safe_text import visible
from sluice.slices import Unit
from sluice.state.row_balance import percent

_NO_LOSS = (TOMBSTONE, SHIPPED_TWICE)


@dataclass(frozen=True)
class Share:
    """`rejected` of `among` records or rows, for one `reason`; of a table's rows it is a `column`."""

    what: str
    rejected: int
    among: int
    reason: str
    type: str = ""
    column: str = ""

    def above(self, bound: float) -> bool:
        return bound < 1 and self.rejected > bound * self.among

    def __str__(self) -> str:
        share = percent(self.rejected / self.among)
        return f"{self.rejected:,} of {self.among:,} {self.what} ({share}): {visible(self.reason)}"


def check_rejected(facts: VerifyFacts) -> Iterator[Anomaly]:
    bound = facts.pipeline.rejected.fail_above
    for status, manifest in facts.landed:
        for share in shares_of_landing(manifest):
            if share.above(bound):
                yield _anomaly(facts, status.unit, share)
    targets = targets_of(facts.pipeline)
    for table in facts.tables:
        if not targets[table.table].counted and table.rejected_columns:
            for status, manifest in loaded(facts, table.table):
                columns = table.rejected_columns.get(status.unit, {})
                for share in shares_of_table(columns, manifest.rows_by_type()) if columns else ():
                    if share.above(bound):
                        yield _anomaly(facts, status.unit, share, table.table)


def shares_of_landing(manifest: Manifest) -> Iterator[Share]:
    """Yields the share of each reason among a unit's records, and among the rows of its arrays. Of such a
    record no type is known."""
    records = manifest.read - manifest.erased - manifest.tombstones
    yield from _shares("records", manifest.rejected_records, records)
    yield from _shares("rows of arrays", manifest.rejected_elements, manifest.rows or 0)


def _shares(what: str, reasons: Mapping[str, int], among: int) -> Iterator[Share]:
    for reason, rejected in sorted(reasons.items()):
        if rejected and reason not in _NO_LOSS:
            yield Share(what, rejected, among, reason)


def shares_of_table(columns: Mapping[str, ByColumn], landed: ByType) -> Iterator[Share]:
    """Yields, of a unit's rows of each type, the shares that columns of a table reject."""
    for kind, by_column in columns.items():
        for column, rejected in by_column.items():
            if among := landed.get(kind, 0):
                reason = f"{column} does not fit" if column else "the row does not fit"
                yield Share("rows", rejected, among, reason, kind, column)


def _anomaly(facts: VerifyFacts, unit: Unit, share: Share, table: str = "") -> Anomaly:
    pipeline = facts.pipeline
    named = ["--table", table, *(["--column", share.column] if share.column else [])] if table else []
    which = named or ["--reason", share.reason]
    shows = pipeline.command("rejected", *unit.slice.words, *which)
    return Anomaly(
        AnomalyKind.MOSTLY_REJECTED,
        expected=f"at most {percent(pipeline.rejected.fail_above)} rejected for one reason",
        seen=str(share),
        advice=f"`{shows}` says what repairs it; a larger `rejected.fail_above` in the pipeline file "
        "accepts it",
        slice=unit.slice.id,
        cluster=unit.cluster,
        type=share.type,
        table=table,
    )


# What stands in the verdict of it: such an hour is not published, and ends the run.


def held_back(verdict: Verdict) -> frozenset[str]:
    """Returns the ids of the slices that are not published."""
    return frozenset(name for name, _ in mostly_rejected(verdict))


def mostly_rejected(verdict: Verdict) -> frozenset[tuple[str, str]]:
    """Returns the units, as (slice id, cluster)."""
    found = (one for one in verdict.anomalies if one.kind == AnomalyKind.MOSTLY_REJECTED)
    return frozenset((name, one.cluster) for one in found for name in one.slices)


def error_of_rejected(verdict: Verdict) -> MostlyRejected | None:
    """Returns the error of a run over what the verdict is of, with the first one's words."""
    found = [one for one in verdict.anomalies if one.kind == AnomalyKind.MOSTLY_REJECTED]
    if not found:
        return None
    first = min(found, key=lambda one: one.slices)
    return MostlyRejected(first.place, first.message, first.advice, len(found) - 1)
