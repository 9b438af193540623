"""What the endpoints about one slice answer."""

from __future__ import annotations

from pydantic import Field

from sluice.config.page import Payloads
from sluice.page.models import CauseRow, Model, RepairRow, StepRun


class OffsetsRow(Model):
    topic: str
    partition: int
    start: int
    until: int
    records: int


class TableRow(Model):
    """`state` is committed, frozen, stale, missing, before (an hour before the pipeline's first one), or no
    such table; `run` the Airflow run (or command) that loaded it."""

    table: str
    state: str
    types: list[str]
    rows: int
    misfits: int
    landed: int
    generation: int
    run: str


class FileRow(Model):
    key: str
    type: str
    hour: str
    rows: int
    bytes: int


class LossRow(Model):
    topic: str
    partition: int
    start: int
    until: int
    exact: bool


class UnitView(Model):
    """One cluster's part of a slice. `files` are the largest ones, of `file_count`."""

    cluster: str
    state: str
    manifest: str
    attempt: str
    generation: int
    landed_at: str
    verified: bool
    offsets: list[OffsetsRow]
    read: int
    parsed: int
    holes: int
    erased: int  # rows, or records, that the erasure list left out
    late: int
    rows_by_type: dict[str, int]
    rejected_by_reason: dict[str, int]
    rows_held: int | None  # by its records, where these are arrays
    losses: list[LossRow]
    lacking_topics: list[str]
    tables: list[TableRow]
    files: list[FileRow]
    file_count: int
    bytes: int


class TaskRow(Model):
    """`map_index` is the batch, -1 outside of batches; `tries` counts the attempts so far."""

    task_id: str
    map_index: int
    state: str
    tries: int
    started: str
    seconds: float | None


class RunRow(Model):
    dag_id: str
    run_id: str
    state: str
    started: str
    asked: str
    tasks: list[TaskRow]


class EventHour(Model):
    """An event hour that begins in the slice: for how many of the `types` the lake says it is complete.
    `forgotten`: it has forgotten files of the hour, and with them its marks."""

    hour: str
    complete: int
    types: int
    forgotten: bool = False


class ChangeRow(Model):
    """A field of the events of `type` that has changed in the slice, or a column that the table `type` has
    got for one; `message` has the numbers."""

    cluster: str
    kind: str
    type: str
    field: str
    message: str


class CountRow(Model):
    """A number of the hour, and of the same hour of the day and of the week before, where that has landed.
    `unit` is empty or `bytes`."""

    name: str
    unit: str
    now: int
    day: int | None
    week: int | None


class TableCounts(Model):
    """What landed for a table and is committed and rejected there; `day` and `week`: committed then.
    `defaults` names columns that got defaults, with shares."""

    table: str
    landed: int
    committed: int
    misfits: int
    defaults: str
    day: int | None
    week: int | None


class Balance(Model):
    """landed = loaded + misfits + without_table + not_loaded, in rows; `types` are those without a table."""

    landed: int
    loaded: int
    misfits: int
    without_table: int
    not_loaded: int
    types: dict[str, int]


class FailedTry(Model):
    """A try of a task, whose log says why it failed; `map_index` is -1 outside batches."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    tries: int


class Finding(Model):
    """Something of the hour that a person may have to act on. `tone` is bad, warn or none; `repair` the
    command that ends it, and `run` the try whose log says more. `since` is ISO 8601, or empty."""

    tone: str
    title: str
    message: str
    since: str = ""
    advice: str = ""
    repair: RepairRow | None = None
    run: FailedTry | None = None


class SliceView(Model):
    """`said` is what holds of the hour, in one sentence; `findings` and `causes` say what is wrong, and its
    remedy."""

    pipeline: str
    can_start: bool
    slice: str
    start: str
    end: str
    cell: str
    tone: str
    said: str
    findings: list[Finding]
    counts: list[CountRow] = Field(default_factory=list)
    tables: list[TableCounts] = Field(default_factory=list)
    balance: Balance | None = None
    running: str
    before: str
    after: str
    units: list[UnitView]
    event_hours: list[EventHour] = Field(default_factory=list)
    causes: list[CauseRow]
    changes: list[ChangeRow] = Field(default_factory=list)
    step_runs: list[StepRun] = Field(default_factory=list)
    runs: list[RunRow]


class RejectedSample(Model):
    """A rejected record: `kind` is unparsed (no row in the lake) or misfit (a value did not fit `place`).

    `payload` is cut, and what is not UTF-8 is escaped. `place`, `value` and it are what the caller may see of
    them: a place has keys of maps."""

    kind: str
    place: str
    reason: str
    value: str
    cluster: str
    topic: str
    partition: int
    offset: int
    payload: str


class RejectGroup(Model):
    """Records that were rejected for one reason, misfits by table and column; `records` is exact, and the
    lake has `forgotten` the bytes of some of them. `advice` says what a person can do."""

    kind: str
    table: str
    column: str
    reason: str
    records: int
    forgotten: int
    advice: str
    samples: list[RejectedSample]


class Rejects(Model):
    """The most frequent first. `payloads` is hidden, masked or shown; `more`: groups that are left out."""

    payloads: Payloads
    groups: list[RejectGroup]
    more: int
