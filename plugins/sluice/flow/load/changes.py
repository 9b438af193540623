"""The statements of a load that change what stays: on the tables that stay, and before that on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, listed, literal, render
from sluice.flow.load.work import LoadWork
from sluice.flow.load.writer import Destination, Writer

_LEDGER, _REJECTED = identifier(SYSTEM, "ledger"), identifier(SYSTEM, "rejected")

# By whether the table has projections, and whether it is replicated.
_DELETIONS = {
    (False, False): "load/delete_rows",
    (False, True): "load/delete_rows_replicated",
    (True, False): "load/delete_rows_rewriting",
    (True, True): "load/delete_rows_rewriting_replicated",
}


@dataclass(frozen=True)
class Changes:
    """`ledger_values` are the attempt's own. `views` selects by unit the rows of the views' tables, and
    `lacking` by unit and column the rows without a value, where they are `counted`.

    `rehearsed`: the statements go to tables of the attempt's own, as `rehearsal` gives them.
    """

    works: Sequence[LoadWork]
    writer: Writer
    replicated: bool
    ledger_values: Mapping[str, object]
    views: Sql
    lacking: Sql
    counted: bool
    ledger: Sql = _LEDGER
    rejected: Sql = _REJECTED
    rehearsed: bool = False

    def rehearsal(self) -> Changes:
        own = self.writer.attempt.temporary
        return replace(self, ledger=own("ledger"), rejected=own("rejected"), rehearsed=True)

    def revoke(self) -> None:
        sql = render("load/revoke", ledger=self.ledger, fence=self._fence)
        self._run("revoke", sql, self.ledger_values)

    def delete(self, destination: Destination, place: Sql) -> None:
        """Deletes the units' rows from `place`, in the way in which the destination loses them."""
        marked = self._marked if destination.replicated else {}
        statement = _DELETIONS[destination.projections, destination.replicated]
        self._run("delete", render(statement, table=place, fence=self._fence, **marked))

    def delete_rejected_rows(self) -> None:
        target = self.writer.attempt.target
        parts: dict[str, Sql] = {"rejected": self.rejected, "fence": self._fence}
        if self.replicated:
            parts |= {**self._marked, "target_name": literal(target)}
        kind = "load/delete_rejected_rows_replicated" if self.replicated else "load/delete_rejected_rows"
        self._run("delete", render(kind, **parts), {"target": target})

    def reject(self) -> None:
        rejected_rows = self.writer.attempt.rejected_rows
        sql = render(
            "load/insert_rejected_rows",
            rejected=self.rejected,
            rejected_rows=rejected_rows,
            fence=self._fence,
        )
        self._run("reject", sql, {"pipeline": self.ledger_values["pipeline"]}, blocks=1)

    def commit(self, staged: Sql) -> None:
        """`staged` selects (slice, cluster, rows) of the units."""
        attempt = self.writer.attempt
        parts = {"fence": attempt.fence, "staged": staged, "rejected_rows": attempt.rejected_rows}
        own = {"views": self.views, "lacking": self.lacking}
        sql = render("load/commit", ledger=self.ledger, **own, **parts)
        values = {**self.ledger_values, "counted": self.counted}
        self._run("commit", sql, values, blocks=1)

    def _run(self, step: str, sql: Sql, values: Mapping[str, object] | None = None, blocks: int = 0) -> None:
        if self.rehearsed:
            self.writer.run("rehearse", sql, values)
        else:
            self.writer.run(step, sql, values, blocks=blocks)

    @property
    def _fence(self) -> Sql:
        return self.writer.attempt.fence

    @property
    def _marked(self) -> dict[str, Sql]:
        """The units as values, and what tells the mutation from others: the fence's name."""
        units = (
            f"(toDateTime({int(w.unit.slice.start.timestamp())}, 'UTC'), {literal(w.unit.cluster)})"
            for w in self.works
        )
        return {"units": listed(units), "marker": literal(self.writer.attempt.fence_name)}
