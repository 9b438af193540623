"""The dry run of the page's backfill form: what `sluice plan` says, in numbers and lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sluice.clients.airflow_rest.backfill_run import run_name
from sluice.config.pipeline import Pipeline, Tables, Target
from sluice.errors import WrongUse
from sluice.flow.verify.causes import broken_slices
from sluice.flow.verify.facts import is_current
from sluice.flow.verify.verdict import OpenAnomaly
from sluice.page.models import Model
from sluice.plan.dry_run import DryRun, lost
from sluice.plan.modes import MISSING_COLUMNS, MODES, asked_mode
from sluice.plan.plan import has_work, rows_of
from sluice.slices import SliceRange
from sluice.state.status import UnitStatus
from sluice.watch.obstacles import Asks, Stops

MOST_LINES = 500
# As many hours as a year has: the plan asks Kafka for the boundaries of each.
MOST_SLICES = 9000


class PlanAsked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    start: str = Field(max_length=40)
    end: str = Field(max_length=40)
    mode: str = Field("fill", max_length=40)  # empty: the form has none chosen
    missing_columns: bool = False
    tables: list[Annotated[str, Field(max_length=500)]] = Field(default_factory=list, max_length=1_000)

    @field_validator("mode", mode="before")
    @classmethod
    def _chosen(cls, mode: object) -> object:
        return "" if mode is None else mode


class PlanLine(Model):
    slice: str
    cluster: str
    state: str
    action: str
    offsets: int
    reads: int
    lost: str
    lacking: str


class Replaced(Model):
    """What the run takes away before it writes: rows of a table (`place`), or rows and bytes of the lake's
    files (`place` is `lake`), of so many units."""

    place: str
    units: int
    rows: int
    bytes: int


class PlanView(Model):
    """`lines` are the first `len(lines)` of `units`; `start` and `end` are widened to whole slices.

    `rows` and `batches` are of all units with work, `time` says how long they take, as a phrase; `waiting`
    has a line for each cluster that could not be asked, `obstacles` for what would stop the run or hold it
    up: of these `stops` let it stop at once, and `asks` ask a person before the start. `at_work` has the ids
    of the runs over the same hours. The run's id begins with `run`. `bytes` are those of the lake's files of
    these units; of what has not landed they are estimated (`estimated`) from what has, None where nothing
    has landed."""

    start: str
    end: str
    mode: str
    missing_columns: bool = False
    tables: list[str] = Field(default_factory=list)
    slices: int
    units: int
    actions: dict[str, int]
    offsets: int
    reads: int
    rows: int
    bytes: int | None
    estimated: bool
    batches: int
    time: str
    replaces: list[Replaced]
    waiting: list[str]
    obstacles: list[str] = Field(default_factory=list)
    stops: list[str] = Field(default_factory=list)
    asks: list[str] = Field(default_factory=list)
    at_work: list[str] = Field(default_factory=list)
    run: str = ""
    lines: list[PlanLine]
    dag_id: str = ""


def check(request: PlanAsked, slices: SliceRange) -> str:
    """Returns the mode with its flag. Raises WrongUse for an unknown one, and for a range that is too long to
    plan here."""
    if request.mode not in MODES:
        unknown = f", not {request.mode!r}" if request.mode else ""
        raise WrongUse(f"choose a mode: one of {', '.join(MODES)}{unknown}")
    if len(slices) > MOST_SLICES:
        raise WrongUse(
            f"{len(slices):,} slices are too many for this form: plan at most {MOST_SLICES:,}, or use "
            "plan and backfill on the command line"
        )
    return asked_mode(request.mode, request.missing_columns)


def plan_view(
    pipeline: Pipeline,
    slices: SliceRange,
    dry: DryRun,
    tables: Tables | None = None,
    broken: Callable[[str, str], Sequence[str]] = lambda slice_id, cluster: (),
) -> PlanView:
    """Returns the plan as the form shows it. `actions` counts units by action; offsets and reads are of units
    to land, rows, bytes and batches of all with work. `tables` are the chosen ones, None: all; `broken` says
    what verify has found wrong with a unit."""
    size, estimated = bytes_of(dry)
    return PlanView(
        start=slices.start.to_iso8601_string(),
        end=slices.end.to_iso8601_string(),
        mode=dry.mode,
        slices=len(slices),
        units=len(dry.statuses),
        actions=dict(Counter(map(dry.does, dry.statuses)).most_common()),
        offsets=dry.offsets,
        reads=dry.reads,
        rows=dry.work.rows,
        bytes=size,
        estimated=estimated,
        batches=len(dry.work.batches),
        time=str(dry.time),
        replaces=replaced_by(pipeline, dry, tables),
        waiting=dry.waiting,
        obstacles=list(dry.obstacles),
        stops=[one for one in dry.obstacles if isinstance(one, Stops)],
        asks=[one for one in dry.obstacles if isinstance(one, Asks)],
        run=run_name(dry.mode, slices.start, slices.end),
        lines=[_line(s, dry.does(s), broken(*place_of(s))) for s in dry.statuses[:MOST_LINES]],
    )


def left_broken(dry: DryRun, anomalies: Iterable[OpenAnomaly]) -> list[str]:
    """Returns a line where a fill leaves hours as they are that verify has found broken: it finds them broken
    again, and so the run fails."""
    if dry.mode != "fill":
        return []
    broken = broken_slices(anomalies)
    done = {status.unit.slice.id: True for status in dry.statuses}
    for status in dry.statuses:
        done[status.unit.slice.id] &= status.state.done
    number = sum(name in broken for name, is_done in done.items() if is_done)
    if not number:
        return []
    them = (
        "1 hour of the range is broken, and a fill does not mend it"
        if number == 1
        else (f"{number:,} hours of the range are broken, and a fill does not mend them")
    )
    return [Asks(f"{them}: the run would stop in verify; the pipeline's overview says what mends them")]


def place_of(status: UnitStatus) -> tuple[str, str]:
    return status.unit.slice.id, status.unit.cluster


def _line(status: UnitStatus, does: str, broken: Sequence[str]) -> PlanLine:
    return PlanLine(
        slice=status.unit.slice.id,
        cluster=status.unit.cluster,
        state=f"broken: {', '.join(broken)}" if broken else str(status.state),
        action=does,
        offsets=status.offsets,
        reads=status.reads,
        lost=lost(status.losses),
        lacking=", ".join(map(str, status.lacking)),
    )


# What a backfill would take away, and how large what it moves is. Pure.
LAKE = "lake"
_LANDS_AGAIN = "land and load again"


def replaced_by(pipeline: Pipeline, dry: DryRun, tables: Tables | None = None) -> list[Replaced]:
    """Returns the lake's files that a `reland` replaces, then each table with rows that are deleted and
    loaded again; `tables` are those that are chosen."""
    again = [status for status in dry.statuses if dry.does(status) == _LANDS_AGAIN]
    manifests = [status.manifest for status in again if status.manifest]
    size = sum(file.bytes for manifest in manifests for file in manifest.held_files)
    rows = sum(file.rows for manifest in manifests for file in manifest.held_events)
    in_lake = [Replaced(place=LAKE, units=len(again), rows=rows, bytes=size)] if again else []
    return [*in_lake, *_of_tables(pipeline, dry, tables)]


def _of_tables(pipeline: Pipeline, dry: DryRun, tables: Tables | None) -> Iterator[Replaced]:
    for target in pipeline.chosen(tables):
        rows = [
            status.tables[target.table].rows
            for status in dry.statuses
            if target.table in status.tables and _loads_again(pipeline, target, status, dry)
        ]
        if rows:
            yield Replaced(place=target.table, units=len(rows), rows=sum(rows), bytes=0)


def _loads_again(pipeline: Pipeline, target: Target, status: UnitStatus, dry: DryRun) -> bool:
    does = dry.does(status)
    if does == _LANDS_AGAIN or (does == "load again" and dry.mode != MISSING_COLUMNS):
        return True
    if not has_work(status, dry.mode):
        return False
    return target.table in status.later if does == "load again" else not is_current(pipeline, target, status)


def bytes_of(dry: DryRun) -> tuple[int | None, bool]:
    """Returns the lake's bytes of the units with work, and whether some are estimated. Those of unlanded
    units are estimated by the bytes of a row of landed ones; None where nothing has landed."""
    todo = [status for status in dry.statuses if has_work(status, dry.mode)]
    landed = [status.manifest for status in dry.statuses if status.manifest]
    bytes_by_manifest = {id(manifest): sum(file.bytes for file in manifest.held_files) for manifest in landed}
    records = sum(manifest.read for manifest in landed)
    exact = sum(bytes_by_manifest[id(status.manifest)] for status in todo if status.manifest)
    missing = sum(rows_of(status) for status in todo if status.manifest is None)
    if not missing:
        return exact, False
    return (
        (exact + round(missing * sum(bytes_by_manifest.values()) / records), True)
        if records
        else (None, True)
    )
