"""Names of what one attempt at one target makes in ClickHouse."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, render


def digest(target: str) -> str:
    """Returns twelve hexadecimal digits that stand for `database.table` in names."""
    return hashlib.sha256(target.encode()).hexdigest()[:12]


def fences(target: str) -> str:
    """Returns what the names of all fence tables of a target begin with."""
    return f"fence_{digest(target)}_"


def stagings(target: str) -> str:
    """Returns what the names of all temporary tables of a target begin with."""
    return f"tmp_{digest(target)}_"


def statements(target: str) -> str:
    """Returns what the query ids of all statements of a target's attempts begin with."""
    return f"sluice-{digest(target)}-"


@dataclass(frozen=True)
class LoadAttempt:
    """The `number`-th protocol run under one lease `generation` of a target; `part` has tables of its own."""

    target: str
    generation: int
    number: int
    part: str = ""

    @property
    def _suffix(self) -> str:
        return f"{self.generation}_{self.number}{self.part}"

    @property
    def fence_name(self) -> str:
        return fences(self.target) + self._suffix

    @property
    def staging_name(self) -> str:
        return stagings(self.target) + self._suffix

    @property
    def fence(self) -> Sql:
        return identifier(SYSTEM, self.fence_name)

    @property
    def staging(self) -> Sql:
        return identifier(SYSTEM, self.staging_name)

    @property
    def rejected_rows(self) -> Sql:
        return self.temporary("rejected_rows")

    def temporary(self, what: str) -> Sql:
        """Names another temporary table of the attempt."""
        return identifier(SYSTEM, self.temporary_name(what))

    def temporary_name(self, what: str) -> str:
        return f"{self.staging_name}_{what}"

    def query_id(self, step: str, serial: int) -> str:
        return f"{statements(self.target)}{self.generation}-{self.number}{self.part}-{step}-{serial}"


def fence_off(client: Client, target: str, renew: Callable[[], None]) -> None:
    """Drops every fence and temporary table of the target, then kills its statements and mutations, and those
    on sluice.rejected whose fence table is gone.

    In this order: a statement that has not begun finds its table gone, and one that has is killed. Drops do
    not wait for statements that still read the table. `renew` proves before each statement that the lease is
    still this attempt's (Fenced): one that wakes up late must not drop its successor's tables.
    """
    prefixes = {"fences": fences(target), "stagings": stagings(target)}
    for (name,) in client.rows(render("load/leftovers"), prefixes):
        renew()
        client.run(render("clickhouse/drop_table", table=identifier(SYSTEM, name)), settings=WRITE)
    renew()
    client.run(render("load/kill_statements"), {"prefix": statements(target)})
    renew()
    client.run(render("load/kill_mutations"), {"fences": fences(target)})
    for mutation in _orphans(client):
        renew()
        client.run(render("load/kill_orphan"), {"mutation": mutation})


def _orphans(client: Client) -> list[str]:
    """Returns the mutations of sluice.rejected, of whatever target, that no attempt waits for any more.

    An attempt drops its fence after its mutations are done. So a fence that is gone once its mutation has
    been seen has no attempt; the mutation is retried forever, and every later one waits behind it.
    """
    rows: Iterable[Any] = client.rows(render("load/orphaned_mutations"))
    reads: dict[str, str] = dict(rows)
    existing_rows = (
        client.rows(render("load/existing_tables"), {"names": sorted(set(reads.values()))}) if reads else []
    )
    existing = {name for (name,) in existing_rows}
    return [mutation for mutation, fence in reads.items() if fence not in existing]
