"""The state of a slice: one enum, and one function from the facts to it. Commands, page and plan
ask it; land and load read manifest and ledger afresh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sluice.manifest import Loss, Manifest


class UnitState(StrEnum):
    NOT_OVER = "not over"
    MISSING = "missing"
    EXPIRED = "expired"
    LANDED = "landed"
    STALE = "stale"
    COMPLETE = "complete"
    COMPLETE_WITH_LOSS = "complete with loss"
    FORGOTTEN = "forgotten"

    @property
    def done(self) -> bool:
        return self in (UnitState.COMPLETE, UnitState.COMPLETE_WITH_LOSS, UnitState.FORGOTTEN)


DONE = frozenset(str(state) for state in UnitState if state.done)
"""Those of them in which every table has the unit, as summaries note them."""


@dataclass(frozen=True)
class Commit:
    """What the ledger holds, or should hold, for one unit in one table."""

    manifest: str
    types: tuple[str, ...]
    sharding: str = ""


@dataclass(frozen=True)
class UnitFacts:
    """All that decides the state of one unit.

    `losses` is what Kafka no longer has of it; `committed` the ledger's rows by table, and `wanted` what
    they have to be with today's manifest and routing. Of a unit whose files the lake has forgotten, `wanted`
    has rollups alone: nothing else can be loaded.
    """

    over: bool
    losses: tuple[Loss, ...]
    manifest: Manifest | None
    committed: Mapping[str, Commit]
    wanted: Mapping[str, Commit]


def state_of(facts: UnitFacts) -> UnitState:
    if not facts.over:
        return UnitState.NOT_OVER
    if facts.manifest is None:
        return UnitState.EXPIRED if facts.losses else UnitState.MISSING
    if any(table not in facts.committed for table in facts.wanted):
        return UnitState.LANDED
    if any(facts.committed[table] != commit for table, commit in facts.wanted.items()):
        return UnitState.STALE
    if facts.manifest.forgotten_on:
        return UnitState.FORGOTTEN
    return UnitState.COMPLETE_WITH_LOSS if facts.manifest.lost else UnitState.COMPLETE
