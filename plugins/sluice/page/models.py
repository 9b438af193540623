"""What the overview answers: the models are the documentation of the JSON.

Those of other answers stand beside the functions that make them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from sluice.page.airflow_runs import UNREAD, Phase, SliceActivity
from sluice.state.unit_state import UnitState

# One cell per hour: from what is known of a slice to the one state that the overview shows.
#
# `sluice.state` says how far each unit is; a cell adds what the ledger cannot know: whether verify has seen
# it hold, what Airflow is doing to it, and whether it should have been done by now.


class Cell(StrEnum):
    """In the order of how urgent they are, the least first. `sign` distinguishes them without color; the
    page's legend shows it with `meaning`."""

    sign: str
    meaning: str

    BEFORE = "before", "", "before the pipeline's first hour"
    OPEN = "open", "·", "the hour is not over"
    EMPTY = "empty", "0", "complete, and without a row"
    FORGOTTEN = "forgotten", "◌", "complete, and the lake has forgotten its files"
    VERIFIED = "verified", "✓", "complete, and all counts match"
    LOADED = "loaded", "●", "in every table, not verified yet"
    LANDED = "landed", "◐", "in the lake, a table lacks it"
    LANDING = "landing", "▸", "being read from Kafka"
    WAITING = "waiting", "○", "not landed yet"
    ODD = "odd", "▲", "complete, and unusual: rejected or defaulted values, failed checks, few or many rows"
    STALE = "stale", "↻", "landed or routed anew, a table has the old rows"
    LATE = "late", "!", "should have been complete by now"
    NO_TABLE = "no-table", "∅", "in the lake, and a table that has to have it is not there"
    LOSSY = "lossy", "−", "complete, with a recorded loss"
    EXPIRED = "expired", "E", "Kafka no longer has it"
    FAILED = "failed", "✕", "its last run failed"
    BROKEN = "broken", "≠", "rows, files or counts don't match"

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
    table is not there; `odd`: it is unusual (odd.py); `empty`: no table has a row of it."""

    states: tuple[UnitState, ...]
    verified: bool
    anomalies: int
    work: SliceActivity | None
    overdue: bool
    expected: bool = True
    gone: bool = False
    odd: bool = False
    empty: bool = False


def cell_of(facts: CellFacts) -> Cell:
    states = set(facts.states)
    if facts.anomalies and states != {UnitState.NOT_OVER}:
        return Cell.BROKEN
    if all(state.done for state in states):
        if UnitState.COMPLETE_WITH_LOSS in states:
            return Cell.LOSSY
        if UnitState.FORGOTTEN in states:
            return Cell.FORGOTTEN
        if facts.odd or facts.empty:
            return Cell.ODD if facts.odd else Cell.EMPTY
        return Cell.VERIFIED if facts.verified else Cell.LOADED
    if UnitState.NOT_OVER in states:
        return Cell.OPEN
    return _unfinished(states, facts)


def _unfinished(states: set[UnitState], facts: CellFacts) -> Cell:
    if facts.work is not None:
        if facts.work.phase is Phase.FAILED:
            return Cell.EXPIRED if UnitState.EXPIRED in states else Cell.FAILED
        unlanded = UnitState.MISSING in states or UnitState.EXPIRED in states
        if unlanded and facts.work.phase not in UNREAD:
            return Cell.LANDING
    if UnitState.EXPIRED in states:
        return Cell.EXPIRED
    if not facts.expected:
        return Cell.BEFORE
    idle = not (facts.work and facts.work.running)
    if idle and facts.gone and UnitState.LANDED in states and states <= _LACKING:
        return Cell.NO_TABLE
    if idle and facts.overdue:
        return Cell.LATE
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


class Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class Legend(Model):
    cell: str
    sign: str
    meaning: str


class OverviewCell(Model):
    """A slice (`id` is its id) or a day (`id` is its date, `counts` its slices by state, the worst first).

    `rejected` are records, `rejected_rows` rows that tables rejected: they are not added up.

    `running` is Airflow's phase for a slice, or the number of slices that are being worked on; `missing` the
    clusters that a slice waits for, where others have landed."""

    id: str
    cell: Cell
    running: str = ""
    run: str = ""
    anomalies: int = 0
    read: int = 0
    rows: int = 0
    rejected: int = 0
    rejected_rows: int = 0
    late: int = 0
    missing: tuple[str, ...] = ()
    counts: dict[str, int] = Field(default_factory=dict)
    lost: int = Field(0, exclude=True)  # the row has the sum
    unlanded: bool = Field(False, exclude=True)


class RepairRow(Model):
    """A command that repairs. What a run of the backfill DAG has to be given for the same: a mode,
    `[start, end)`, and tables, none for all; all are empty for a command that is no run."""

    command: str
    mode: str = ""
    start: str = ""
    end: str = ""
    tables: list[str] = Field(default_factory=list)


class FailedTry(Model):
    """A try of a task, whose log says why it failed; `map_index` is -1 outside batches."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    tries: int


class FindingKind(StrEnum):
    """In the order of urgency, the most urgent first."""

    UNAVAILABLE = "unavailable"
    NO_TABLE = "table missing"
    DAMAGE = "damage"
    EXPIRED = "expired"
    HELD = "held"
    DELETES = "Kafka deletes"
    FAILED = "failed"
    LATE = "late"
    PROBLEM = "problem"
    ODD = "odd"
    STALE = "stale"
    PAUSED = "paused"
    UNWATCHED = "unwatched"
    LOSS = "loss"
    NOTE = "note"


class Example(Model):
    """One of the anomalies that are a finding."""

    kind: str
    place: str
    message: str


class Finding(Model):
    """What somebody may have to act on, once for its cause. `tone` is bad, warn, or empty for what needs
    nobody. `slices` hours have it, from `first` to `last`.

    `names` are those by which verify, the watch and the documents know it; `table`: one that the page can
    create again; `release`: one that its first hour can be let into. `since` is ISO 8601, or empty;
    `held_at`: when all of these hours were last verified without an anomaly; `run`: the try whose log says
    more; `examples` are the first of `anomalies`."""

    kind: FindingKind
    names: list[str] = Field(default_factory=list)
    table: str = ""
    release: str = ""
    tone: str
    what: str
    effect: str = ""
    message: str = ""
    advice: str = ""
    repairs: list[RepairRow] = Field(default_factory=list)
    slices: int = 0
    first: str = ""
    last: str = ""
    since: str = ""
    held_at: str = ""
    run: FailedTry | None = None
    anomalies: int = 0
    examples: list[Example] = Field(default_factory=list)

    @property
    def line(self) -> str:
        """`adx.clicks is missing in ClickHouse: 25 hours`"""
        return f"{self.what}: {self.effect}" if self.effect else self.what


class TableState(StrEnum):
    HEALTHY = "healthy"
    BEHIND = "behind"
    WRONG = "wrong"
    MISSING = "missing"


class TableMark(Model):
    """How a table does in a range, and in how many of its hours it is behind or wrong, or is missing."""

    table: str
    state: TableState
    hours: int = 0


class OverviewRow(Model):
    """`error` is one line, where the lake or ClickHouse of the pipeline did not answer; `tables` are those
    that a backfill may choose from, for who may start one.

    Where cells are slices, `marks` say how each table does, and `expected` has the rows that are expected of
    each cell, as far as earlier weeks are known; `findings` the most urgent first, `more` are left out.
    `next_run` is when Airflow makes the next hourly run, empty where it makes none; `lost` are offsets of the
    range. `arrays`: a record is an array of rows, so that more rows than records may be rejected."""

    pipeline: str
    slice_seconds: int
    can_start: bool
    paused: bool
    arrays: bool = False
    tables: list[str] = Field(default_factory=list)
    marks: list[TableMark] = Field(default_factory=list)
    behind_seconds: int | None
    cells: list[OverviewCell]
    error: str = ""
    lost: int = 0
    expected: list[int | None] = Field(default_factory=list)
    findings: list[Finding] = Field(default_factory=list)
    more: int = 0
    next_run: str = ""


class Overview(Model):
    now: str
    start: str
    end: str
    zoom: str
    user: str
    legend: list[Legend]
    pipelines: list[OverviewRow]
    broken_files: list[str]
