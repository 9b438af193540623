"""What a lineage event says, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class RunState(StrEnum):
    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"


class JobKind(StrEnum):
    STEP = "STEP"
    COMMAND = "COMMAND"


@dataclass(frozen=True)
class RunOfJob:
    """One run (a UUID) of one job."""

    namespace: str
    job: str
    run_id: str


@dataclass(frozen=True)
class Parent:
    """The run that began this one, and the run at the beginning of all."""

    run: RunOfJob
    root: RunOfJob


class Offsets(NamedTuple):
    """Offsets `[start, until)` of a partition."""

    partition: int
    start: int
    until: int


class DatasetName(NamedTuple):
    """By the naming rules of the specification: https://openlineage.io/docs/spec/naming"""

    namespace: str
    name: str


@dataclass(frozen=True)
class ColumnSource:
    """The field of another dataset that fills a column; `cast` is the type it becomes, empty where it stays
    as it is."""

    dataset: DatasetName
    field: str
    cast: str = ""


@dataclass(frozen=True)
class Dataset:
    """One input or output of a run. What is None or empty is not known, and the event does not say it.

    `rows`, `size` (bytes) and `files` were read or written by this run. `columns` are (name, type), `sources`
    what fills them.
    """

    at: DatasetName
    rows: int | None = None
    size: int | None = None
    files: int | None = None
    offsets: tuple[Offsets, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    sources: Mapping[str, ColumnSource] | None = None


class Datasets(NamedTuple):
    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()


NONE = Datasets()


@dataclass(frozen=True)
class LineageEvent:
    """A run that began or ended at `at`, over the slices `[since, until)`.

    `error` is the line of a run that failed, `unread` why its datasets are named only.
    """

    state: RunState
    at: datetime
    run: RunOfJob
    kind: JobKind
    since: datetime
    until: datetime
    parent: Parent | None = None
    datasets: Datasets = NONE
    error: str = ""
    unread: str = ""
