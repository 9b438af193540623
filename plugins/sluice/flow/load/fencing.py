"""Names of what one attempt at one target makes in ClickHouse, and how its successor ends all of it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sluice.clients.clickhouse.client import WRITE, Client
from sluice.clients.clickhouse.sql import SYSTEM, Sql, identifier, literal, render
from sluice.errors import Busy


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
    """The `number`-th protocol run under one lease `generation` of a target; `part` has tables of its own.
    All tables of the attempt are in `database`."""

    target: str
    generation: int
    number: int
    part: str = ""
    database: str = SYSTEM

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
        return identifier(self.database, self.fence_name)

    @property
    def staging(self) -> Sql:
        return identifier(self.database, self.staging_name)

    @property
    def rejected_rows(self) -> Sql:
        return self.temporary("rejected_rows")

    def temporary(self, what: str) -> Sql:
        """Names another temporary table of the attempt."""
        return identifier(self.database, self.temporary_name(what))

    def temporary_name(self, what: str) -> str:
        return f"{self.staging_name}_{what}"

    def query_id(self, step: str, serial: int) -> str:
        return f"{statements(self.target)}{self.generation}-{self.number}{self.part}-{step}-{serial}"


@dataclass(frozen=True)
class Reach:
    """Where statements of earlier attempts may run: on the server that is asked, or on all of a `cluster`;
    and the `database` of their tables."""

    cluster: str = ""
    database: str = SYSTEM

    def system(self, name: str) -> Sql:
        """Returns a table of `system`, with the rows of all servers."""
        place = f"system.{name}"
        return Sql(f"clusterAllReplicas({literal(self.cluster)}, {place})" if self.cluster else place)

    @property
    def on_cluster(self) -> Sql:
        return Sql(f"ON CLUSTER {identifier(self.cluster)}" if self.cluster else "")


CLUSTER = "default"  # of all servers of a service of ClickHouse Cloud
HERE, EVERYWHERE = Reach(), Reach(CLUSTER)
_POLL_SECONDS = 0.5


def fence_off(
    client: Client,
    target: str,
    renew: Callable[[], None],
    reach: Reach = HERE,
    patience: timedelta = timedelta(minutes=1),
) -> None:
    """Ends all attempts at the target, and mutations of sluice.rejected whose fence table is gone. Raises
    Busy."""
    end_attempts(client, target, renew, reach, patience)
    for mutation in _orphans(client):
        renew()
        client.run(render("load/kill_orphan"), {"mutation": mutation})


def end_attempts(
    client: Client,
    target: str,
    renew: Callable[[], None],
    reach: Reach,
    patience: timedelta,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Drops every fence and temporary table of the target, then kills its statements and mutations.

    In this order: a statement that has not begun finds its table gone, and one that has is killed. Drops do
    not wait for statements that still read the table. `renew` proves before each statement that the lease is
    still this attempt's (Fenced): one that wakes up late must not drop its successor's tables.

    Raises Busy when a server of a cluster still has such a table, or runs such a statement, after `patience`.
    """
    _drop_and_kill(client, target, renew, reach)
    deadline = clock() + patience.total_seconds()
    while reach.cluster and (left := left_by(client, target, reach)):
        if clock() >= deadline:
            raise Busy(
                f"table {target} is being loaded by an earlier attempt, of which a server still has "
                f"{', '.join(left)}: it is tried again"
            )
        sleep(_POLL_SECONDS)
        _drop_and_kill(client, target, renew, reach)
    renew()
    client.run(render("load/kill_mutations"), {"fences": fences(target)})


def _drop_and_kill(client: Client, target: str, renew: Callable[[], None], reach: Reach) -> None:
    for name in _tables(client, fences(target), stagings(target), reach):
        renew()
        table = identifier(reach.database, name)
        client.run(render("clickhouse/drop_table", table=table), settings=WRITE)
    renew()
    client.run(render("load/kill_statements", on_cluster=reach.on_cluster), {"prefix": statements(target)})


def left_by(client: Client, target: str, reach: Reach) -> list[str]:
    """Returns the tables and the query ids of the target's attempts that any of the servers still has."""
    sql = render("load/running", processes=reach.system("processes"))
    running = [query_id for (query_id,) in client.rows(sql, {"prefix": statements(target)})]
    return [*_tables(client, fences(target), stagings(target), reach), *running]


def own_tables_of(client: Client, attempt: LoadAttempt) -> list[str]:
    """Returns the tables that the attempt has made."""
    return _tables(client, attempt.fence_name, attempt.staging_name, Reach(database=attempt.database))


def _tables(client: Client, fences: str, stagings: str, reach: Reach) -> list[str]:
    prefixes = {"fences": fences, "stagings": stagings}
    sql = render("load/leftovers", tables=reach.system("tables"))
    return [name for (name,) in client.rows(sql, {**prefixes, "database": reach.database})]


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
