"""What the page's endpoints answer: the models are the documentation of the JSON."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from sluice.page.cells import Cell
from sluice.state.timings import Timing


class Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class Legend(Model):
    cell: str
    sign: str
    meaning: str


class OverviewCell(Model):
    """A slice (`id` is its id) or a day (`id` is its date, `counts` its slices by state, the worst first).

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
    late: int = 0
    missing: tuple[str, ...] = ()
    counts: dict[str, int] = Field(default_factory=dict)
    lost: int = Field(0, exclude=True)  # the row has the sum


class NeedRow(Model):
    """Why a pipeline needs somebody, and how often."""

    need: str
    count: int
    text: str


class OverviewRow(Model):
    """`error` is one line, where the lake or ClickHouse of the pipeline did not answer; `tables` are those
    that a backfill may choose from, for who may start one.

    `expected` has the rows that are expected of each cell, where cells are slices and earlier weeks are
    known; `problems` those that the watch sees, by kind; `watched`: its DAG is not paused; `needs` the most
    urgent first. `next_run` is when Airflow makes the next hourly run, empty where it makes none; `lost` are
    offsets of the range. `arrays`: a record is an array of rows, so that more rows than records may be
    rejected."""

    pipeline: str
    slice_seconds: int
    can_start: bool
    paused: bool
    arrays: bool = False
    tables: list[str] = Field(default_factory=list)
    behind_seconds: int | None
    anomalies: int
    cells: list[OverviewCell]
    error: str = ""
    lost: int = 0
    expected: list[int | None] = Field(default_factory=list)
    problems: dict[str, int] = Field(default_factory=dict)
    watched: bool = True
    needs: list[NeedRow] = Field(default_factory=list)
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


class LagNow(Model):
    """A pipeline's lag as it was `at`: `records` in Kafka that are not landed, `seconds` since the end of the
    newest landed slice of the partition that is furthest behind, `rate` in records a second, `gone` offsets
    that Kafka deleted before they had landed, and a line for each cluster that did not answer. `lacking` of
    the records are in hours that have landed without their topic; `outside` offsets lie before the first
    boundary."""

    at: str
    records: int
    seconds: int | None
    rate: float
    gone: int
    lacking: int
    outside: int
    errors: list[str]


class AnomalyRow(Model):
    kind: str
    place: str
    message: str
    command: str
    advice: str
    slices: list[str]
    found_at: str


class RepairRow(Model):
    """A command that repairs. What a run of the backfill DAG has to be given for the same: a mode,
    `[start, end)`, and tables, none for all; all are empty for a command that is no run."""

    command: str
    mode: str = ""
    start: str = ""
    end: str = ""
    tables: list[str] = Field(default_factory=list)


class CauseRow(Model):
    """What is wrong, once for all `slices` hours, from `first` to `last`, that have it. `breaks`: a count is
    wrong; `examples` are the first of `anomalies`. `held_at`: when all of these hours were last verified
    without an anomaly, empty where no verification that is kept says so."""

    name: str
    place: str
    message: str
    breaks: bool
    advice: str
    repairs: list[RepairRow]
    slices: int
    first: str
    last: str
    found_at: str
    held_at: str
    anomalies: int
    examples: list[AnomalyRow]


# What the endpoints about a pipeline's runs answer.
class StepAmount(Model):
    """What a run did in one step, all batches together; `table` of a load."""

    step: str
    table: str
    units: int
    rows: int
    bytes: int
    seconds: float


class MovedByRun(Model):
    """What a run moved: records landed with the bytes of their files, rows loaded of all tables, and how long
    the two took, all batches together. `steps` has every step."""

    landed: int
    bytes: int
    loaded: int
    land_seconds: float
    load_seconds: float
    steps: list[StepAmount]


class RunRecord(Model):
    """One run of the hourly or the backfill DAG, or of `sluice run` (`dag_id` empty). `start` and `end` are
    the edges of its range; `user` who triggered it, empty for the scheduler."""

    dag_id: str
    run_id: str
    kind: str
    state: str
    user: str
    started: str
    ended: str
    seconds: float | None
    start: str
    end: str
    mode: str
    tables: list[str]
    moved: MovedByRun


class Throughput(Model):
    """By hour in which the steps began: records a second landed and rows a second loaded, while they ran."""

    starts: list[int]
    land: list[float | None]
    load: list[float | None]


class Runs(Model):
    """The newest first, the first `len(runs)` of `count`."""

    runs: list[RunRecord]
    count: int
    throughput: Throughput


class StepRun(Model):
    """The steps of one run over the slice; `seconds` are from the begin of the first to the end of the last.
    `run` is that of Airflow or of a command, empty where nothing says it."""

    run: str
    started: str
    seconds: float
    steps: list[Timing]


# What the endpoints of the backfill form take and answer.
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
