"""Makes sure that no earlier attempt at a target can do anything any more."""

from __future__ import annotations

from collections.abc import Callable

from sluice.clickhouse.client import Client
from sluice.load.names import SYSTEM, fences, stagings, statements
from sluice.load.settings import WRITE
from sluice.load.sql import identifier, render


def fence_off(client: Client, target: str, renew: Callable[[], None]) -> None:
    """Drops every fence and temporary table of the target, then kills its statements and mutations, and those
    on sluice.rejected that nobody's fence table is left of.

    In this order: a statement that has not begun finds its table gone, and one that has is killed. Drops do
    not wait for statements that still read the table. `renew` proves before each statement that the lease is
    still this attempt's (Fenced): one that wakes up late must not drop its successor's tables.
    """
    prefixes = {"fences": fences(target), "stagings": stagings(target)}
    for (name,) in client.rows(render("leftovers"), prefixes):
        renew()
        client.run(render("drop_table", table=identifier(SYSTEM, name)), settings=WRITE)
    renew()
    client.run(render("kill_statements"), {"prefix": statements(target)})
    renew()
    client.run(render("kill_mutations"), {"fences": fences(target)})
    for mutation in _orphans(client):
        renew()
        client.run(render("kill_orphan"), {"mutation": mutation})


def _orphans(client: Client) -> list[str]:
    """Returns the mutations of sluice.rejected, of whatever target, that no attempt waits for any more.

    An attempt drops its fence after its mutations are done. So a fence that is gone once its mutation has
    been seen belongs to nobody; the mutation is retried for ever, and every later one waits behind it.
    """
    reads = dict(client.rows(render("orphaned_mutations")))
    there = client.rows(render("existing_tables"), {"names": sorted(set(reads.values()))}) if reads else []
    known = {name for (name,) in there}
    return [mutation for mutation, fence in reads.items() if fence not in known]
