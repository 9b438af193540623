"""Which units an erasure rewrites, which it only loads, and for which it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.erase.erase import due_units
from sluice.manifest import Forgotten
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.landing_world import hours
from tests.support.manifests import made_manifest

TABLES = ("db.t0",)
FIRST, SECOND = (Unit(piece, "dc1") for piece in hours(2))


def status(unit: Unit, state: UnitState, generation: int, *commits: str) -> UnitStatus:
    """`commits`: the manifest that each table has committed."""
    manifest = made_manifest("p", unit.slice.id, "dc1", generation, "a", (), (), (), 1, {}, 0)
    rows = {f"db.t{n}": LedgerRow(unit, held, (), 1, 1, 0, "", 1) for n, held in enumerate(commits)}
    return UnitStatus(unit, state, (), (), manifest, rows, (), 1)


@pytest.mark.parametrize(
    ("found", "loaded"),
    [
        (status(FIRST, UnitState.COMPLETE, 2, "2-a"), False),
        (status(FIRST, UnitState.COMPLETE_WITH_LOSS, 2, "2-a"), False),
        (status(FIRST, UnitState.STALE, 2, "1-a"), True),
        (status(FIRST, UnitState.STALE, 2, "2-a", "1-a"), True),
        (status(FIRST, UnitState.STALE, 1, "1-b"), True),  # its manifest was deleted, and it landed anew
        (status(FIRST, UnitState.STALE, 1, "1-a"), False),  # another routing: the rows are its files'
        (status(FIRST, UnitState.STALE, 1, "1-a", "1-a@7#5e1ec7"), False),  # a rollup of another SELECT
        (status(FIRST, UnitState.STALE, 1, "1-b@7#5e1ec7"), True),
        (status(FIRST, UnitState.STALE, 2, "2-a"), False),  # the same after the load of an erasure
        (status(FIRST, UnitState.STALE, 2, "2-a", "1-a@7#5 frozen for 2-a@8#5"), False),
        (status(FIRST, UnitState.LANDED, 2), True),  # its commit may be revoked, and its rows be there
        (status(FIRST, UnitState.LANDED, 1), False),
        (status(FIRST, UnitState.NOT_OVER, 2, "1-a"), False),
    ],
)
def test_what_tables_may_have_of_the_files_before_is_loaded(found: UnitStatus, loaded: bool):
    due = due_units([found], [], TABLES)
    assert (due.rewrite, due.load) == ((), (found,) if loaded else ())


@pytest.mark.parametrize(("held", "loaded"), [(("1-a@7#5", "1-a@8#5"), False), (("1-a", "1-b"), True)])
def test_of_shards_each_ones_commit_counts(held: tuple[str, str], loaded: bool):
    found = status(FIRST, UnitState.STALE, 1, "")
    shares = tuple((f"s{n}", LedgerRow(FIRST, one, (), 1, 1, 0, "", 1)) for n, one in enumerate(held))
    rows = {"db.t0": replace(found.tables["db.t0"], shares=(*shares, ("s2", None)))}
    assert bool(due_units([replace(found, tables=rows)], [], TABLES).load) is loaded


def test_what_holds_the_person_is_rewritten_whatever_tables_have():
    found = [status(SECOND, UnitState.COMPLETE, 2, "2-a"), status(FIRST, UnitState.STALE, 2, "1-a")]
    due = due_units(found, [FIRST, SECOND], TABLES)
    assert ([one.unit for one in due.rewrite], due.load) == ([FIRST, SECOND], ())


def test_what_the_lake_has_forgotten_is_not_loaded():
    found = status(FIRST, UnitState.LANDED, 2)
    assert found.manifest is not None
    without = replace(found.manifest, forgotten=Forgotten(lake="2026-03-01T00:00:00Z", removed=True))
    assert due_units([replace(found, manifest=without)], [], TABLES).load == ()
