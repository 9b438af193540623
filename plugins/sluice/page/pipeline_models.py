"""What the endpoints of a pipeline's cards answer, without its runs: those are in models.py."""

from __future__ import annotations

from pydantic import Field

from sluice.page.models import CauseRow, Model


class TableFacts(Model):
    """`complete_until` is the end of the last hour up to which the range has no gap in this table, empty
    where its first hour is one; `behind` counts hours of the range that it lacks, `first_behind` is the
    oldest.

    `rows`, `misfits` and `defaults` are of the range's hours; `defaults` names columns that got some, with
    shares. `last_load`, `parts`, `bytes` and `rows_in_all` are what ClickHouse says now, None where it does
    not; `shards` names those that do not answer."""

    table: str
    kind: str
    state: str
    types: list[str]
    complete_until: str
    behind: int
    first_behind: str
    rows: int
    misfits: int
    defaults: str
    last_load: str
    parts: int | None
    bytes: int | None
    rows_in_all: int | None


class Tables(Model):
    """Of `[start, end)`; `errors` has a line for each shard that does not answer, `departed` one for each
    table with rows of the pipeline that its file no longer names."""

    start: str
    end: str
    tables: list[TableFacts]
    errors: list[str]
    departed: list[str]


class LagTrend(Model):
    """A value for each hour from the first that is known in the range: the highest that the watch saw, None
    for an hour in which it saw nothing. `starts` in seconds since the epoch, `seconds` as `PartitionLag`."""

    starts: list[int]
    records: list[int | None]
    seconds: list[int | None]
    held: list[int | None]


class Change(Model):
    """`kind` is file, Sluice, column, field, topic, partition or erasure; `at` when it was seen (ISO 8601,
    UTC), or the hour in which it shows; `lines` are those of a diff of the file, at most so many."""

    at: str
    kind: str
    place: str
    what: str
    slice: str = ""
    lines: list[str] = Field(default_factory=list)


class Changes(Model):
    """The newest first; `more` are left out. `known_since`: nothing was noted of the file before.
    `fields_at` is when the hours' fields were compared (answers are kept for five minutes)."""

    start: str
    end: str
    changes: list[Change]
    more: int
    known_since: str
    fields_at: str


class Deletion(Model):
    """An hour that has not landed. `at`: when Kafka may delete its first record, by the setting or movement
    `by`, empty where nothing says so; `gone` records of it have been deleted already."""

    slice: str
    cluster: str
    place: str
    at: str
    by: str
    seconds: int | None
    records: int
    gone: int


class TopicRetention(Model):
    """`kept_seconds` and `kept_bytes` (of each partition) are the topic's settings, None: without a bound or
    not known. `oldest` is the time of the oldest record that is left."""

    cluster: str
    topic: str
    partitions: int
    kept_seconds: int | None
    kept_bytes: int | None
    oldest: str
    records: int


class NextForgotten(Model):
    """The slice of which the lake forgets `what` next, and when."""

    what: str
    slice: str
    at: str


class Keeping(Model):
    """What `keep` in the pipeline file says, in seconds; None: for ever."""

    lake_seconds: int | None
    rejected_seconds: int | None
    table_seconds: dict[str, int]
    following: list[NextForgotten]


class Retention(Model):
    """`hours` are the oldest `len(hours)` of `waiting` units that have not landed; `at` is when it was asked
    (answers are kept for a minute). `keep` is what the lake itself forgets."""

    at: str
    waiting: int
    hours: list[Deletion]
    topics: list[TopicRetention]
    errors: list[str]
    keep: Keeping | None = None


class HourSize(Model):
    """A slice against the same one a day and a week before. Records are those that landed, None where a
    cluster has not; `expected`, `low` and `high` as the watch judges (sluice.watch.expected), the last two
    None with little history. Rates are rows a second of the batch that held the slice: of this one, of the
    one a day and a week before."""

    slice: str
    records: int | None
    bytes: int | None
    yesterday: int | None
    week_ago: int | None
    expected: int | None
    low: int | None
    high: int | None
    land_rates: tuple[float | None, float | None, float | None]
    load_rates: tuple[float | None, float | None, float | None]


class Sizes(Model):
    """The newest slice first."""

    hours: list[HourSize]


class Series(Model):
    """One value per slice, or per day (`by_day`); `starts` in seconds since the epoch. `types` only where the
    range is short."""

    starts: list[int]
    read: list[int]
    rows: list[int]
    unparsed: list[int]
    misfits: list[int]
    late: list[int]
    types: dict[str, list[int]]
    by_day: bool = False


class LateCell(Model):
    arrival: str
    event: str
    rows: int


class LateDelay(Model):
    """Rows that came from `hours` to `until` (not included; None: without an end) whole hours after their own
    hour; 0 to 1 came in it."""

    hours: int
    until: int | None
    rows: int


class LateTable(Model):
    """Rows by the slice that brought them and their own hour, without those that came in their own hour.
    `delays` is the histogram of all rows, empty where nothing has landed."""

    arrivals: list[str]
    events: list[str]
    cells: list[LateCell]
    most: int
    delays: list[LateDelay] = Field(default_factory=list)


class VerificationRow(Model):
    at: str
    start: str
    until: str
    units: int
    records: int
    found: int


class Anomalies(Model):
    """What is open, by cause, and the last verifications, the newest first."""

    causes: list[CauseRow]
    verifications: list[VerificationRow]


class ProblemRow(Model):
    """What the watch has seen and not yet seen to be over; `since` is when it saw it first."""

    kind: str
    place: str
    message: str
    since: str


class Problems(Model):
    """`watched` is when the watch DAG last began, empty when it never did; `paused`: it does not run.
    `remedy`: what a person does where nobody watches."""

    problems: list[ProblemRow]
    watched: str
    paused: bool
    watch_dag: str
    remedy: str = ""
