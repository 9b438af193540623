"""What the overview answers: the models are the documentation of the JSON.

Those of other answers stand beside the functions that make them.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from sluice.page.cells import Cell


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
