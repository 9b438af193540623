"""What a manifest is made of: ranges of offsets, files, counts, losses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sluice.stored_json import Whole

Isolation = Literal["read_committed", "read_uncommitted"]
"""Whether records of open and aborted transactions are left out, as Kafka's consumers name it."""


@dataclass(frozen=True, order=True)
class OffsetRange:
    """Offsets `[start, until)` of one partition of one topic; `uuid` is the topic's id in its cluster."""

    topic: str
    uuid: str
    partition: Whole
    start: Whole
    until: Whole

    @property
    def offsets(self) -> int:
        return self.until - self.start


@dataclass(frozen=True)
class Loss:
    """Offsets that Kafka no longer had; `exact` False: at most these, and their hours are unknown."""

    topic: str
    partition: Whole
    start: Whole
    until: Whole
    exact: bool


@dataclass(frozen=True)
class LandedFile:
    """A Parquet file: its final key, its key in the attempt, and what is in it.

    `type` is None for the overflow folder and for rejected records; `rows_by_type` then counts each type
    (empty for rejected ones). `hour` is the event hour, `2026-11-20T10`, empty for rejected records.
    """

    key: str
    attempt_key: str
    type: str | None
    hour: str
    rows: Whole
    bytes: Whole
    sha256: str
    rows_by_type: Mapping[str, Whole] = field(default_factory=dict)

    def types(self) -> Mapping[str, Whole]:
        return self.rows_by_type if self.type is None else {self.type: self.rows}


@dataclass(frozen=True)
class PartitionCount:
    """Of one partition's records in the slice: how many were read, and how many of them not parsed. `rows`,
    `rejected_elements`, `erased` and `rows_erased` as in the manifest. `without_bytes`: the rejected ones
    that are counted alone."""

    topic: str
    partition: Whole
    read: Whole
    rejected_records: Whole
    rows: Whole | None = None
    rejected_elements: Whole = 0
    erased: Whole = 0
    rows_erased: Whole = 0
    without_bytes: Whole = 0


@dataclass(frozen=True)
class Traffic:
    """The traffic counts for `table`: `by` and `types` as the pipeline file had them when the slice landed,
    `sums` of the counts by event type, and the file of them, where there is any count."""

    table: str
    by: Mapping[str, str]
    types: tuple[str, ...]
    sums: Mapping[str, Whole]
    files: tuple[LandedFile, ...]


@dataclass(frozen=True)
class Remade:
    """What a unit was made out of: the `manifest` before, its `rows`, and its rejected ones by reason."""

    manifest: str
    rows: Whole
    rejected_records: Mapping[str, Whole]


@dataclass(frozen=True)
class Forgotten:
    """When the lake forgot files of a unit on purpose, as `landed_at`: all of them in `lake`, those of
    `_rejected/` in `rejected`; empty where it did not. It is written before any of them is deleted.

    `tables` had committed the unit by then. `removed`: no file of them is left; without it some may be.
    """

    lake: str = ""
    rejected: str = ""
    tables: tuple[str, ...] = ()
    removed: bool = False


@dataclass(frozen=True)
class ForgottenRecords:
    """Rejected records, by reason, of which the lake forgot the bytes `on` an instant, as `landed_at`."""

    on: str
    rejected_records: Mapping[str, Whole]


@dataclass(frozen=True)
class Masked:
    """What was masked before the unit's records became bytes of the lake.

    `rules`: what the pipeline file said, by field. `hashed`: fields in which hashes may stand, `_rejected`
    also where such bytes were dropped; `keys`: the ids of the keys that made them. Those of the generations
    that a unit was remade of are among them.
    """

    rules: Mapping[str, str]
    hashed: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
