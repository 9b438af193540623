"""What the endpoints of the backfill form take and answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sluice.page.models import Model
from sluice.page.run_models import StepAmount


class PlanAsked(BaseModel):
    model_config = ConfigDict(extra="forbid")

    start: str = Field(max_length=40)
    end: str = Field(max_length=40)
    mode: str = Field("fill", max_length=40)
    tables: list[Annotated[str, Field(max_length=500)]] = Field(default_factory=list, max_length=1_000)


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
    has a line for each cluster that could not be asked. `bytes` are those of the lake's files of these units;
    of what has not landed they are estimated (`estimated`) from what has, None where nothing has landed."""

    start: str
    end: str
    mode: str
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
    lines: list[PlanLine]
    dag_id: str = ""


class StepProgress(Model):
    """Of `batches` batches, those in which a step is done, under way or failed."""

    step: str
    done: int
    running: int
    failed: int
    batches: int


class ProgressView(Model):
    """`share` is how much of the run is done, from 0 to 1: it moves with each step of each batch. `did` is
    what the run did, once it has ended."""

    dag_id: str
    run_id: str
    state: str
    started: str
    ended: str
    tasks: dict[str, int]
    slices: int
    slices_done: int
    phase: str
    share: float
    steps: list[StepProgress]
    did: list[StepAmount] = Field(default_factory=list)
