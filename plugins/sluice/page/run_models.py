"""What the endpoints about a pipeline's runs answer."""

from __future__ import annotations

from sluice.page.models import Model


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


class TimingRow(Model):
    step: str
    table: str
    started: str
    seconds: float
    units: int
    rows: int
    mode: str
    start: str
    until: str


class StepRun(Model):
    """The steps of one run over the slice; `seconds` are from the begin of the first to the end of the last.
    `run` is that of Airflow or of a command, empty where nothing says it."""

    run: str
    started: str
    seconds: float
    steps: list[TimingRow]
