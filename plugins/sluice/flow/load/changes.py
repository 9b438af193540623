"""The statements of a load that change what stays: on the tables that stay, and before that on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sluice.clients.clickhouse.errors import ServerError, shorten
from sluice.clients.clickhouse.inspect_tables import grant, lacking
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, listed, literal, render, table
from sluice.errors import Blocked, TargetRefused
from sluice.flow.load.staging import Staging
from sluice.flow.load.work import LoadWork
from sluice.flow.load.writer import Destination, UnitCounts, Writer

_LEDGER, _REJECTED = identifier(SYSTEM, "ledger"), identifier(SYSTEM, "rejected")

# By whether the table has projections, and whether it is replicated.
DELETIONS = {
    (False, False): "load/delete_rows",
    (False, True): "load/delete_rows_replicated",
    (True, False): "load/delete_rows_rewriting",
    (True, True): "load/delete_rows_rewriting_replicated",
}


@dataclass(frozen=True)
class Changes:
    """`marks`: deletions from Sluice's own tables are marked. `ledger_values` are the attempt's own. `views`
    selects by unit the rows of the views' tables, and `lacking` by unit and column the rows without a value,
    where they are `counted`.

    `rehearsed`: the statements go to tables of the attempt's own, as `rehearsal` gives them.
    """

    works: Sequence[LoadWork]
    writer: Writer
    marks: bool
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
        statement = DELETIONS[destination.projections, destination.replicated]
        self._run("delete", render(statement, table=place, fence=self._fence, **marked))

    def delete_rejected_rows(self) -> None:
        target = self.writer.attempt.target
        parts: dict[str, Sql] = {"rejected": self.rejected, "fence": self._fence}
        if self.marks:
            parts |= {**self._marked, "target_name": literal(target)}
        kind = "load/delete_rejected_rows_replicated" if self.marks else "load/delete_rejected_rows"
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


# Tries everything that could refuse the rest of a load, before anything is changed.

_REJECTED_NAME, _LEDGER_NAME = f"{SYSTEM}.rejected", f"{SYSTEM}.ledger"
_RIGHTS = ("SELECT(_slice, _cluster)", "INSERT", "ALTER DELETE")
_OWN_RIGHTS = {_REJECTED_NAME: ("SELECT", "INSERT", "ALTER DELETE"), _LEDGER_NAME: ("SELECT", "INSERT")}
# No partition has such an id: there is nothing to attach, and everything else about it is checked.
_NOWHERE = Sql(literal("no-such"))


@dataclass(frozen=True)
class Rehearsal:
    """`attached`: parts are attached to the destinations. `changes`: the load's, on the attempt's tables."""

    destinations: Sequence[Destination]
    staging: Staging
    writer: Writer
    attached: bool
    changes: Changes

    @property
    def _copies(self) -> dict[Sql, Destination]:
        own = self.writer.attempt.temporary
        return {own(f"copy{number}"): destination for number, destination in enumerate(self.destinations)}

    def execute(self) -> dict[str, UnitCounts]:
        """Returns the staged rows of the views' tables by unit.

        Raises TargetRefused, Blocked by a mutation that fails, and what the client raises.
        """
        self._check_rights()
        self._check_mutations()
        staged = {destination.table: self._own_rows(destination) for destination in self.destinations[1:]}
        if self.attached:
            for destination in self.destinations:
                command = Sql(f"ATTACH PARTITION ID {_NOWHERE} FROM {destination.staged}")
                sql = render("load/attach_partitions", target=table(destination.table), partitions=command)
                self.writer.run("rehearse", sql)
        if any(work.replaces for work in self.staging.works):
            self._try_changes()
        return staged

    def _try_changes(self) -> None:
        """What is loaded is revoked next: whatever refuses a later statement has to refuse it here."""
        changes = self.changes
        meanings = {changes.ledger: _LEDGER_NAME, changes.rejected: _REJECTED_NAME}
        meanings |= {copy: destination.table for copy, destination in self._copies.items()}
        try:
            for own, name in ((changes.ledger, _LEDGER_NAME), (changes.rejected, _REJECTED_NAME)):
                self._create("load/create_rehearsed_own", own, table(name))
            changes.revoke()
            changes.reject()
            changes.delete_rejected_rows()
            self._expect_none(_REJECTED_NAME, self.staging.count_rejected_rows(changes.rejected))
            changes.commit(self.writer.rows_by_unit(self.writer.attempt.staging))
            for copy, destination in self._copies.items():
                self._create("load/create_rehearsed", copy, destination.staged)
                self._fill(copy, destination)
                changes.delete(destination, copy)
                self._expect_none(destination.table, self.writer.count_rows(copy))
        except ServerError as error:
            raise replace(error, reason=_renamed(error.reason, meanings)) from error
        for own in (changes.ledger, changes.rejected, *self._copies):
            self.writer.run("rehearse", render("clickhouse/drop_table", table=own))

    def _create(self, statement: str, own: Sql, like: Sql) -> None:
        self.writer.run("rehearse", render(statement, rehearsed=own, like=like))

    def _fill(self, copy: Sql, destination: Destination) -> None:
        """Attaches one of the staged partitions: no row is copied."""
        for (key,) in self.writer.rows(render("load/staged_partitions"), {"name": destination.staged_name})[
            :1
        ]:
            command = Sql(f"ATTACH PARTITION ID {literal(key)} FROM {destination.staged}")
            self.writer.run("rehearse", render("load/attach_partitions", target=copy, partitions=command))

    def _expect_none(self, name: str, left: UnitCounts) -> None:
        if left:
            raise TargetRefused(
                name,
                f"the server's DELETE leaves {sum(left.values()):,} of the rows that it is asked to delete",
                "see the server's log: nothing has been changed",
            )

    def _check_rights(self) -> None:
        needed = {destination.table: _RIGHTS for destination in self.destinations} | _OWN_RIGHTS
        for name, rights in needed.items():
            client, place = self.writer.client, table(name)
            if lacking(client, [", ".join(rights)], place):
                missing = lacking(client, rights, place)
                raise TargetRefused(
                    name,
                    f"the user of the connection lacks {', '.join(missing)}",
                    grant(client, missing, place),
                )

    def _check_mutations(self) -> None:
        """Raises Blocked for a failing mutation of a table from which rows will be deleted."""
        names = [_REJECTED_NAME, *(destination.table for destination in self.destinations)]
        for name, mutation, reason in self.writer.rows(render("load/stuck_mutations"), {"tables": names}):
            rejected = self.staging.count_rejected_rows(identifier(SYSTEM, "rejected"))
            if rejected if name == _REJECTED_NAME else self.writer.count_rows(table(name)):
                database, _, rest = name.partition(".")
                where = f"database = {literal(database)} AND table = {literal(rest)}"
                remedy = f"KILL MUTATION WHERE {where} AND mutation_id = {literal(mutation)}"
                raise Blocked(name, mutation, shorten(reason, 200), remedy)

    def _own_rows(self, destination: Destination) -> UnitCounts:
        counts = self.writer.count_rows(destination.staged)
        [(rows,)] = self.writer.rows(render("clickhouse/count_table", table=destination.staged))
        if rows != sum(counts.values()):
            raise TargetRefused(
                destination.table,
                f"materialized views give it {rows - sum(counts.values()):,} rows of no slice that is loaded",
                "let them give the source's _slice and _cluster in every row, without FULL or RIGHT JOIN, "
                "ROLLUP and CUBE",
            )
        return counts


def _renamed(reason: str, meanings: Mapping[Sql, str]) -> str:
    """Returns what the server says with the tables for which the attempt's own ones stand."""
    for own, meant in meanings.items():
        reason = reason.replace(own, meant).replace(own.replace("`", ""), meant)
    return reason
