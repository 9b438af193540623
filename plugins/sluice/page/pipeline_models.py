"""What the endpoints about one pipeline's tables, lag, changes, retention and runs answer."""

from __future__ import annotations

from pydantic import Field

from sluice.page.models import Model


class TableFacts(Model):
    """`complete_until` is the end of the last hour up to which the range has no gap in this table, empty
    where its first hour is one; `behind` counts hours of the range that it lacks, `first_behind` is the
    oldest.

    `rows` and `misfits` are of the range's hours. `last_load`, `parts`, `bytes` and `rows_in_all` are what
    ClickHouse says now, None where it does not; `shards` names those that do not answer."""

    table: str
    kind: str
    state: str
    types: list[str]
    complete_until: str
    behind: int
    first_behind: str
    rows: int
    misfits: int
    last_load: str
    parts: int | None
    bytes: int | None
    rows_in_all: int | None


class Tables(Model):
    """Of `[start, end)`; `errors` has a line for each shard that does not answer."""

    start: str
    end: str
    tables: list[TableFacts]
    errors: list[str]


class LagTrend(Model):
    """A value for each hour from the first that is known in the range: the highest that the watch saw, None
    for an hour in which it saw nothing. `starts` in seconds since the epoch, `seconds` as `PartitionLag`."""

    starts: list[int]
    records: list[int | None]
    seconds: list[int | None]
    held: list[int | None]


class Change(Model):
    """`kind` is file, Sluice, column, field, topic or partition; `at` when it was seen (ISO 8601, UTC), or
    the hour in which it shows; `lines` are those of a diff of the file, at most so many."""

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


class Retention(Model):
    """`hours` are the oldest `len(hours)` of `waiting` units that have not landed; `at` is when it was asked
    (answers are kept for a minute)."""

    at: str
    waiting: int
    hours: list[Deletion]
    topics: list[TopicRetention]
    errors: list[str]


class StepAmount(Model):
    """What a run did in one step, all batches together; `table` of a load."""

    step: str
    table: str
    units: int
    rows: int
    bytes: int
    seconds: float


class Moved(Model):
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
    moved: Moved


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
