"""One cell per hour: from what is known of a slice to the one state that the overview shows. Pure.

`sluice.state` says how far each unit is; a cell adds what the ledger cannot know: whether verify has seen
it hold, what Airflow is doing to it, and whether it should have been done by now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from sluice.page.airflow_runs import Phase, SliceActivity
from sluice.state.unit_state import UnitState


class Cell(StrEnum):
    """In the order of how urgent they are, the least first. `sign` distinguishes them without color; the
    page's legend shows it with `meaning`."""

    sign: str
    meaning: str

    BEFORE = "before", "", "before the pipeline's first hour"
    OPEN = "open", "·", "the hour is not over"
    FORGOTTEN = "forgotten", "◌", "complete, and the lake has forgotten its files"
    VERIFIED = "verified", "✓", "complete, and every count holds"
    LOADED = "loaded", "●", "in every table, not verified yet"
    LANDED = "landed", "◐", "in the lake, a table lacks it"
    LANDING = "landing", "▸", "being read from Kafka"
    WAITING = "waiting", "○", "not landed yet"
    STALE = "stale", "↻", "landed or routed anew, a table has the old rows"
    LATE = "late", "!", "should have been complete by now"
    NO_TABLE = "no-table", "∅", "in the lake, and a table that has to have it is not there"
    LOSSY = "lossy", "−", "complete, with a recorded loss"
    EXPIRED = "expired", "E", "Kafka no longer has it"
    FAILED = "failed", "✕", "its last run failed"
    BROKEN = "broken", "≠", "verify found a count that does not hold"

    def __new__(cls, name: str, sign: str, meaning: str) -> Self:
        cell = str.__new__(cls, name)
        cell._value_, cell.sign, cell.meaning = name, sign, meaning
        return cell


URGENCY = {cell: number for number, cell in enumerate(Cell)}

# Of a slice that a table which is not there lacks.
_LACKING = frozenset({UnitState.LANDED, *(state for state in UnitState if state.done)})


@dataclass(frozen=True)
class CellFacts:
    """All that decides a slice's cell: `states` of its units, whether what is committed now was verified, its
    open anomalies, and the work on it. `expected` is False before the pipeline's first hour; `gone`: a target
    table is not there."""

    states: tuple[UnitState, ...]
    verified: bool
    anomalies: int
    work: SliceActivity | None
    overdue: bool
    expected: bool = True
    gone: bool = False


def cell_of(facts: CellFacts) -> Cell:
    states = set(facts.states)
    if facts.anomalies and states != {UnitState.NOT_OVER}:
        return Cell.BROKEN
    if all(state.done for state in states):
        if UnitState.COMPLETE_WITH_LOSS in states:
            return Cell.LOSSY
        if UnitState.FORGOTTEN in states:
            return Cell.FORGOTTEN
        return Cell.VERIFIED if facts.verified else Cell.LOADED
    if UnitState.NOT_OVER in states:
        return Cell.OPEN
    return _unfinished(states, facts)


def _unfinished(states: set[UnitState], facts: CellFacts) -> Cell:
    if facts.work is not None:
        if facts.work.phase is Phase.FAILED:
            return Cell.EXPIRED if UnitState.EXPIRED in states else Cell.FAILED
        if UnitState.MISSING in states or UnitState.EXPIRED in states:
            return Cell.LANDING
    if UnitState.EXPIRED in states:
        return Cell.EXPIRED
    if not facts.expected:
        return Cell.BEFORE
    if facts.overdue and not (facts.work and facts.work.running):
        return Cell.NO_TABLE if facts.gone and states <= _LACKING else Cell.LATE
    if UnitState.MISSING in states:
        return Cell.WAITING
    return Cell.STALE if UnitState.STALE in states else Cell.LANDED


def missing_from(states: Iterable[tuple[str, UnitState]]) -> tuple[str, ...]:
    """Returns the clusters that have not landed, where another has. `states` are the (cluster, state) of a
    slice's units."""
    pairs = list(states)
    missing = tuple(cluster for cluster, state in pairs if state in (UnitState.MISSING, UnitState.EXPIRED))
    return missing if len(missing) < len(pairs) else ()


def due_by(settle: timedelta, length: timedelta, now: datetime) -> datetime:
    """A slice that ended before this instant, more than its own length (and `settle`) ago, is overdue: the
    next one is due already."""
    return now - settle - length


def worst(cells: Iterable[Cell]) -> Cell:
    """Returns the cell that asks most for attention."""
    return max(cells, key=URGENCY.__getitem__, default=Cell.BEFORE)
