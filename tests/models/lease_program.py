"""What one attempt at a load does to others, step by step: the program of tests/models/lease_model.py."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from sluice.crash_points import TableLoad

TARGET, VIEW, REJECTED = (0, 1), (2,), (3,)
"""The chunks of the target, of its view's table and of sluice.rejected."""


class Rule(StrEnum):
    """Each can be switched off, to see that the others do not do without it."""

    CONDITION = "statements read the attempt's own table"
    OWN_TABLES = "each attempt has tables of its own"
    LEDGER_CONDITION = "the ledger's rows read the fence"
    RENEWAL = "a renewal before each statement"
    DROP = "a successor drops the tables"
    KILL = "a successor kills statements"
    KILL_MUTATIONS = "a successor kills mutations"
    DROP_FIRST = "drop before kill"
    REVOKE_FIRST = "revoke before delete"
    DELETE = "delete before the move"
    COUNT_AFTER_DELETE = "nothing is left after the delete"
    COUNT_BEFORE_COMMIT = "exactly the unit is there before the commit"


class Act(NamedTuple):
    """A statement of the step (`kind` says what it does), or with `local` what the client does itself."""

    step: TableLoad
    label: str
    kind: str
    chunks: tuple[int, ...] = ()
    reads: str = ""
    local: bool = False


def program(off: frozenset[Rule]) -> tuple[Act, ...]:
    """The steps of crash_points.py in their order, with what of each matters to others."""
    drops = [
        Act(TableLoad.FENCED_OFF, "drop fences", "drop all fences"),
        Act(TableLoad.FENCED_OFF, "drop temporary tables", "drop all stagings"),
    ]
    kills = [
        Act(TableLoad.FENCED_OFF, "kill statements", "kill statements"),
        Act(TableLoad.FENCED_OFF, "kill mutations", "kill mutations"),
    ]
    revoke = Act(TableLoad.REVOKED, "revoke", "revoke", reads="fence")
    delete = [
        Act(TableLoad.DELETED, "delete", "mutate", TARGET, reads="fence"),
        Act(TableLoad.DELETED, "delete", "mutate", VIEW, reads="fence"),
        Act(TableLoad.DELETED, "delete", "mutate", REJECTED, reads="fence"),
        Act(TableLoad.DELETED, "nothing is left", "expect nothing", reads="fence", local=True),
    ]
    acts = [
        Act(TableLoad.LEASED, "takes the lease", "lease", local=True),
        Act(TableLoad.CLAIMED, "claims", "nothing", local=True),
        *([*drops, *kills] if Rule.DROP_FIRST not in off else [*kills, *drops]),
        Act(TableLoad.CHECKED, "reads the ledger", "check", local=True),
        Act(TableLoad.FENCED, "fence", "create fence"),
        Act(TableLoad.STAGED, "stage", "create staging", reads=""),
        Act(TableLoad.REVIEWED, "reviews", "expect staged", reads="staging", local=True),
        Act(TableLoad.REHEARSED, "rehearses", "expect staged", reads="staging", local=True),
        *([revoke, *delete] if Rule.REVOKE_FIRST not in off else [*delete, revoke]),
        Act(TableLoad.REJECTED, "reject", "insert", REJECTED, reads="fence"),
        Act(TableLoad.MOVED, "move", "insert", TARGET, reads="staging"),
        Act(TableLoad.MOVED, "move", "insert", VIEW, reads="staging"),
        Act(TableLoad.COUNTED, "counts", "expect whole", reads="fence", local=True),
        Act(TableLoad.COMMITTED, "commit", "commit", reads="fence"),
        Act(TableLoad.DROPPED, "drop", "drop own"),
        Act(TableLoad.RELEASED, "gives the lease back", "nothing", local=True),
    ]
    gone = {Rule.DROP: "drop all", Rule.KILL: "kill statements", Rule.KILL_MUTATIONS: "kill mutations"}
    gone |= {Rule.DELETE: "mutate", Rule.COUNT_AFTER_DELETE: "expect nothing"}
    gone |= {Rule.COUNT_BEFORE_COMMIT: "expect whole"}
    without = tuple(gone[rule] for rule in off if rule in gone)
    return tuple(act for act in acts if not (without and act.kind.startswith(without)))
