"""The manifest: what one (slice, cluster) landed. Writing it is the landing's commit point."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import msgspec

from sluice.errors import SluiceError
from sluice.stored_json import Whole, decode_stored

# The top-level fields of the events of a type, as a landing saw them: a part of the manifest.

KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")
"""JSON kinds of a field's values. A number with a fraction or an exponent is a `number`, not an `integer`."""

MOST_TYPES, MOST_FIELDS, MOST_IN_ALL = 1_000, 1_000, 10_000
"""Types of a manifest, fields of a type, and fields of all types together."""
NAME_CHARACTERS = 200
"""A field with a longer name is one of the others."""


@dataclass(frozen=True, slots=True)
class FieldSeen:
    """In how many rows the field was, nulls included. Counts by kind add up to `rows`.

    `places`: the sum of its places among the row's fields, counted from 0.
    """

    rows: int
    kinds: Mapping[str, int]
    places: int = 0

    @property
    def filled(self) -> int:
        """Rows in which it is not null."""
        return self.rows - self.kinds.get("null", 0)


@dataclass(frozen=True)
class TypeFields:
    """Of `rows` rows that were inspected; `exact`: these are all rows of the type that the unit landed.

    `others`: how often fields were there that are not among `fields`, because their number and their names'
    length are bounded. A field that is there twice in a row counts once, with its last value.
    """

    type: str
    rows: int
    exact: bool
    fields: Mapping[str, FieldSeen]
    others: int = 0

    @cached_property
    def kinds(self) -> frozenset[tuple[str, str]]:
        """Returns each field with each kind that it has beside null."""
        return frozenset(
            (name, kind) for name, seen in self.fields.items() for kind in seen.kinds if kind != "null"
        )


def merged(parts: Iterable[TypeFields]) -> tuple[TypeFields, ...]:
    """Adds up what was seen in parts of the rows, by type; any division into parts gives the same."""
    by_type: dict[str, list[TypeFields]] = {}
    for part in parts:
        by_type.setdefault(part.type, []).append(part)
    return tuple(_merged(type_parts) for _, type_parts in sorted(by_type.items()))


def _merged(parts: Sequence[TypeFields]) -> TypeFields:
    if len(parts) == 1:
        return parts[0]
    seen_by_field: dict[str, list[FieldSeen]] = {}
    for part in parts:
        for name, seen in part.fields.items():
            seen_by_field.setdefault(name, []).append(seen)
    return TypeFields(
        type=parts[0].type,
        rows=sum(part.rows for part in parts),
        exact=all(part.exact for part in parts),
        fields={name: _added(seen_by_field[name]) for name in sorted(seen_by_field)},
        others=sum(part.others for part in parts),
    )


def _added(seen: Sequence[FieldSeen]) -> FieldSeen:
    kinds = {kind: sum(part.kinds.get(kind, 0) for part in seen) for kind in KINDS}
    return FieldSeen(
        rows=sum(part.rows for part in seen),
        kinds={kind: rows for kind, rows in kinds.items() if rows},
        places=sum(part.places for part in seen),
    )


Shape = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of an event's fields, in their order, and the kind of each."""


def less(of: TypeFields, erased: Mapping[Shape, int]) -> TypeFields:
    """Returns the fields without those of some rows, given by their shapes."""
    kinds, places = Counter[tuple[str, str]](), Counter[str]()
    for (names, kinds_of_names), rows in erased.items():
        for place, (name, kind) in enumerate(zip(names, kinds_of_names, strict=True)):
            kinds[name, kind] += rows
            places[name] += place * rows
    fields = {}
    for name, seen in of.fields.items():
        left = {kind: rows - kinds[name, kind] for kind, rows in seen.kinds.items()}
        left = {kind: rows for kind, rows in left.items() if rows > 0}
        if left:
            fields[name] = FieldSeen(sum(left.values()), left, seen.places - places[name])
    others = sum(rows for (name, _), rows in kinds.items() if name not in of.fields)
    return replace(of, rows=of.rows - sum(erased.values()), fields=fields, others=max(0, of.others - others))


def bounded(
    types: Iterable[TypeFields],
    most_types: int = MOST_TYPES,
    most_fields: int = MOST_FIELDS,
    most_in_all: int = MOST_IN_ALL,
) -> tuple[TypeFields, ...]:
    """Returns the types with most rows, and of each the fields in most rows, sorted by name; `most_in_all`
    bounds the fields of all types together, and a type is left out rather than cut by that."""
    ranked = sorted(types, key=lambda type_fields: (-type_fields.rows, type_fields.type))[:most_types]
    kept: list[TypeFields] = []
    for type_fields in (_shortened(type_fields, most_fields) for type_fields in ranked):
        if len(type_fields.fields) <= most_in_all:
            most_in_all -= len(type_fields.fields)
            kept.append(type_fields)
    return tuple(sorted(kept, key=lambda type_fields: type_fields.type))


def _shortened(type_fields: TypeFields, most: int) -> TypeFields:
    ranked = sorted(type_fields.fields.items(), key=lambda item: (-item[1].rows, item[0]))
    others = type_fields.others + sum(seen.rows for _, seen in ranked[most:])
    return replace(type_fields, fields=dict(sorted(ranked[:most])), others=others)


# What a manifest is made of: ranges of offsets, files, counts, losses.

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


TOMBSTONE = "no value"
"""Why a record without a value is no row. It is kept where rejected records are, for its key may be a
person's, and counts as none of them."""
SHIPPED_TWICE = "shipped twice"
"""Why a line that is there once already is no row: nothing is lost."""
VERSION = 1
STAMP = "%Y-%m-%dT%H:%M:%SZ"  # of `landed_at`, in UTC: stamps compare as texts
TWELFTHS = 12
"""Equal parts of a slice in which its records' stamps are counted."""

TopicPartitionKey = tuple[str, int]
"""A topic and one of its partitions."""


@dataclass(frozen=True)
class Manifest:
    """Counts: `read` = parsed records + the sum of `rejected_records` + `erased`; `gaps` are the explained
    missing offsets. Of `rejected_records` those of the reason TOMBSTONE are `tombstones`, and no rejects.

    Where messages are arrays, `rows` is how many rows the parsed records held = those in `files` + the sum of
    `rejected_elements`, and `empty` how many records held none; None: a record is a row.

    `token` names the `reland` or `remake` that wrote it, so that a repeated step does not land a slice again.
    `counts` has the partitions that brought records.
    `hours` that a slice brought later than `grace` after their end are counted in `late` (records).
    `long_numbers`: an event may hold a number of more digits than a double keeps.
    `fields`: of the types with most rows.
    `times`: how many records were stamped in each of TWELFTHS parts of the slice; empty if nothing was read.
    `remade`: where it was made out of the files of the generation before, and not of Kafka.
    `rules`: the digest of the rules by which its records became rows (state/rules.py). `retried`: of those by
    which rejected records were brought in later. `isolation`: which records of transactions were read.
    `amends`: the ids of the manifests that it only filters,
    extends or reads again; tables that were loaded from them keep their rules.
    `forgotten`: where the lake no longer has to hold some of the files. All counts stay.
    `erased`: records of which nothing was kept, by the erasure list. Where messages are arrays, `rows_erased`
    is how many of their rows were not kept; `rows` does not count them. `erasures`: how many entries the list
    had then.
    `masked`: what the pipeline file's `mask` has hidden; None: nothing.
    `without_bytes`: those of `rejected_records` of which the lake had forgotten the bytes when it was remade.
    They are counted, and in no file."""

    pipeline: str
    slice: str
    cluster: str
    generation: Whole
    attempt: str
    ranges: tuple[OffsetRange, ...]
    files: tuple[LandedFile, ...]
    rejected: tuple[LandedFile, ...]
    read: Whole
    rejected_records: Mapping[str, Whole]
    gaps: Whole
    token: str
    landed_at: str
    counts: tuple[PartitionCount, ...]
    times: tuple[int, ...]
    long_numbers: bool
    rules: str
    isolation: Isolation
    lost: tuple[Loss, ...] = ()
    late: Whole = 0
    traffic: tuple[Traffic, ...] = ()
    rows: Whole | None = None
    rejected_elements: Mapping[str, Whole] = field(default_factory=dict)
    empty: Whole = 0
    fields: tuple[TypeFields, ...] = ()
    remade: Remade | None = None
    retried: tuple[str, ...] = ()
    amends: tuple[str, ...] = ()
    forgotten: Forgotten | None = None
    erased: Whole = 0
    rows_erased: Whole = 0
    erasures: Whole = 0
    masked: Masked | None = None
    without_bytes: tuple[ForgottenRecords, ...] = ()
    version: int = VERSION

    @property
    def id(self) -> str:
        """What the ledger holds against it."""
        return f"{self.generation}-{self.attempt}"

    @property
    def parsed(self) -> int:
        return self.read - sum(self.rejected_records.values()) - self.erased

    @property
    def landed(self) -> int:
        """The rows that its files have to hold."""
        return (self.parsed if self.rows is None else self.rows) - sum(self.rejected_elements.values())

    @property
    def erased_rows(self) -> int:
        """Rows that were not kept, by the erasure list; rejected records are among them."""
        return self.erased if self.rows is None else self.rows_erased

    @property
    def tombstones(self) -> int:
        """Records without a value: a log's deletions, which give no row and are no rejects."""
        return self.rejected_records.get(TOMBSTONE, 0)

    @property
    def refused(self) -> int:
        """All records, and rows of records, that are rejected."""
        return self.refused_records + sum(self.rejected_elements.values())

    @property
    def refused_records(self) -> int:
        return sum(self.rejected_records.values()) - self.tombstones

    def refused_by_reason(self) -> dict[str, int]:
        return {reason: count for reason, count in self.unlanded_by_reason().items() if reason != TOMBSTONE}

    def unlanded_by_reason(self) -> dict[str, int]:
        """Returns what `_rejected/` is for: the rejected, and tombstones."""
        return dict(sorted((Counter(self.rejected_records) + Counter(self.rejected_elements)).items()))

    @property
    def kept(self) -> int:
        """The rows of the files in `rejected`."""
        return sum(self.kept_by_reason().values())

    def kept_by_reason(self) -> dict[str, int]:
        return _less(self.unlanded_by_reason(), self.without_bytes)

    def held_by_reason(self) -> dict[str, int]:
        """Returns those of `unlanded_by_reason` of which the lake holds the bytes."""
        return _less(self.unlanded_by_reason(), self.forgotten_records)

    def forgotten_by_reason(self) -> dict[str, int]:
        """Returns those of which it has forgotten them."""
        return dict(sorted(_summed(self.forgotten_records).items()))

    @property
    def forgotten_records(self) -> tuple[ForgottenRecords, ...]:
        """Those of before the unit was remade, and those of its own files."""
        on, kept = self.rejected_forgotten_on, self.kept_by_reason()
        return (*self.without_bytes, *([ForgottenRecords(on, kept)] if on and kept else []))

    def forgotten_in(self, count: PartitionCount) -> int:
        """Returns how many of them are of a partition."""
        return (
            count.rejected_records + count.rejected_elements
            if self.rejected_forgotten_on
            else count.without_bytes
        )

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(r.topic for r in self.ranges)

    @property
    def all_files(self) -> tuple[LandedFile, ...]:
        """Of events, of rejected records, and of traffic counts."""
        return (*self.files, *self.rejected, *self._counted)

    @property
    def forgotten_on(self) -> str:
        """When the lake forgot all files of the unit; empty where it holds those of its rows."""
        return self.forgotten.lake if self.forgotten else ""

    @property
    def rejected_forgotten_on(self) -> str:
        """When the lake forgot the unit's files of `_rejected/`; empty where it holds them, or had none."""
        forgotten = self.forgotten if self.rejected else None
        return forgotten.rejected or forgotten.lake if forgotten else ""

    @property
    def half_forgotten(self) -> bool:
        """Returns whether some files may be left of those that the lake forgets."""
        return self.forgotten is not None and not self.forgotten.removed

    @property
    def held_nowhere(self) -> bool:
        """Returns whether nothing is left of the unit: the lake forgot all its files, and no table had it."""
        gone = self.forgotten
        return gone is not None and bool(gone.lake) and gone.removed and not gone.tables

    @property
    def held_events(self) -> tuple[LandedFile, ...]:
        """Those of `files` that the lake has to hold: all or none."""
        return () if self.forgotten_on else self.files

    @property
    def held_rejected(self) -> tuple[LandedFile, ...]:
        return () if self.rejected_forgotten_on else self.rejected

    @property
    def held_files(self) -> tuple[LandedFile, ...]:
        """Those of `all_files` that the lake has to hold."""
        events_or_rejected = (*self.held_events, *self.held_rejected)
        return events_or_rejected if self.forgotten_on else (*events_or_rejected, *self._counted)

    @property
    def forgotten_files(self) -> tuple[LandedFile, ...]:
        held = {file.key for file in self.held_files}
        return tuple(file for file in self.all_files if file.key not in held)

    @property
    def _counted(self) -> tuple[LandedFile, ...]:
        return tuple(file for table_counts in self.traffic for file in table_counts.files)

    def traffic_for(self, table: str) -> Traffic | None:
        """Returns the counts; None where nothing was counted for the table when the slice landed."""
        return next((table_counts for table_counts in self.traffic if table_counts.table == table), None)

    def fields_of(self, type_name: str) -> TypeFields | None:
        """Returns the fields; None where the manifest does not know them."""
        return next((type_fields for type_fields in self.fields if type_fields.type == type_name), None)

    def rows_by_type(self) -> dict[str, int]:
        rows: Counter[str] = Counter()
        for file in self.files:
            rows.update(file.types())
        return dict(sorted(rows.items()))


def read_count(ranges: Iterable[OffsetRange], rows_per_read: int) -> int:
    """Returns into how many reads the largest partition of a slice is divided; 0 for a slice without
    offsets."""
    return max((-(-r.offsets // rows_per_read) for r in ranges), default=0)


def _summed(forgotten: Iterable[ForgottenRecords]) -> Counter[str]:
    reasons: Counter[str] = Counter()
    for records in forgotten:
        reasons.update(records.rejected_records)
    return reasons


def _less(reasons: Mapping[str, int], forgotten: Iterable[ForgottenRecords]) -> dict[str, int]:
    return dict(Counter(reasons) - _summed(forgotten))


class _Format(msgspec.Struct):
    version: int


# Made here and not by each call: msgspec 0.22 crashes when several threads decode a dataclass for the first
# time at once. tests/unit/flow/land/test_decoding.py holds it for all of the library.
_FORMAT = msgspec.json.Decoder(_Format)
_MANIFEST = msgspec.json.Decoder(Manifest)

# At the beginning of a line only the manifest's own keys have one space before them.
_NO_FIELDS = b'\n "fields": []'


def encode(manifest: Manifest) -> bytes:
    """Returns a line for each value, and one for all fields of a type: there are many of them."""
    text = msgspec.json.format(msgspec.json.encode(replace(manifest, fields=())), indent=1)
    if not manifest.fields:
        return text
    types = b",\n  ".join(map(msgspec.json.encode, manifest.fields))
    return text.replace(_NO_FIELDS, _NO_FIELDS[:-1] + b"\n  " + types + b"\n ]", 1)


def decode(encoded: bytes, place: str) -> Manifest:
    """Raises SluiceError naming `place` when the bytes are no manifest, or a newer Sluice's."""

    def damage(error: Exception) -> str:
        return f"{place} is not a manifest ({error}): verify names what to do"

    version = decode_stored(_FORMAT, encoded, damage).version
    if version > VERSION:
        raise SluiceError(f"{place} has format {version}, newer than this Sluice's {VERSION}: upgrade")
    return decode_stored(_MANIFEST, encoded, damage, _instants)


def _instants(manifest: Manifest) -> Iterator[str]:
    forgotten = manifest.forgotten or Forgotten()
    landed = (manifest.landed_at, forgotten.lake, forgotten.rejected)
    yield from filter(None, (*landed, *(records.on for records in manifest.without_bytes)))
