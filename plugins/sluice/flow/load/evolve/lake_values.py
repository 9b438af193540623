"""Reads fields of events from the lake's files: how often they have a value, and which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import Conservation
from sluice.field_path import FieldPath, path_of, spellings
from sluice.flow.load.casts.columns import RULES
from sluice.flow.load.evolve.fields import SliceFields
from sluice.flow.load.work import LoadWork
from sluice.infer.infer import InferredColumn, optional_column
from sluice.infer.types import STRING, ArrayOf, Inferred, Leaf, fraction_digits, nullable, unfit
from sluice.infer.values import loads
from sluice.manifest import Manifest
from sluice.runtime import deeper
from sluice.slices import Unit
from sluice.state.manifests import read_manifests

_ROWS_AT_ONCE = 1_024
_MOST_NAMES = 10_000  # of different fields that are counted in one unit
MOST_VALUES = 400_000
MOST_BYTES = 64 << 20
"""Values, and their bytes, of all fields together that are held for the first inference."""
_NULL = b"null"
_EVENT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ESCAPED_COLON = b"\\u003"

Values = Mapping[str, msgspec.Raw]


class _Member:
    """The name of one member, which equals that of no other."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


_MEMBERS = msgspec.json.Decoder(dict[_Member, msgspec.Raw], dec_hook=lambda kind, name: kind(name))


@dataclass
class ValueSample:
    """Texts of a field's values; of more than `most`, or of `most_bytes`, a half, a quarter … of them, spread
    by a hash of their number: at even distances only some of a producer that takes turns would be met."""

    most: int
    most_bytes: int
    seen: int = 0
    _kept: list[tuple[int, bytes]] = field(default_factory=list)
    _mask: int = 0
    _size: int = 0

    @property
    def texts(self) -> list[bytes]:
        return [text for _, text in self._kept]

    def add(self, text: bytes) -> None:
        number = crc32(self.seen.to_bytes(8, "big"))
        self.seen += 1
        if number & self._mask:
            return
        self._kept.append((number, text))
        self._size += len(text)
        while len(self._kept) > 1 and (len(self._kept) > self.most or self._size > self.most_bytes):
            self._mask = self._mask << 1 | 1
            self._kept = [pair for pair in self._kept if not pair[0] & self._mask] or self._kept[:1]
            self._size = sum(len(text) for _, text in self._kept)

    @property
    def complete(self) -> bool:
        return self.seen == len(self._kept)


def filled_fields(lake: Lake, work: LoadWork) -> SliceFields:
    """Counts in the files what an exact manifest counts: in how many rows each field has a value."""
    filled: Counter[str] = Counter()
    rows = others = 0
    for values in events(lake, work):
        rows += 1
        names = {name for name, raw in values.items() if bytes(raw) != _NULL}
        counted = names if len(filled) < _MOST_NAMES else names & filled.keys()
        filled.update(counted)
        others += len(names) - len(counted)
    return SliceFields(work.unit.slice.id, rows, filled, others)


def sample_values(lake: Lake, works: Sequence[LoadWork], names: Collection[str]) -> dict[str, ValueSample]:
    """Returns the values of these fields in all rows of the units."""
    share = max(1, len(names))
    samples = {name: ValueSample(MOST_VALUES // share, MOST_BYTES // share) for name in names}
    for name, text in values_of(lake, works, names):
        samples[name].add(text)
    return samples


def values_of(lake: Lake, works: Sequence[LoadWork], names: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Yields each value of each field with the field's name, in the same order every time."""
    for work in works:
        for values in events(lake, work):
            for name in names:
                if (text := _value_of(values, name)) != _NULL:
                    yield name, text


def _value_of(values: Values, name: str) -> bytes:
    """Returns what a column of the name takes: the field, else the one inside the object that a dot ends."""
    found = (_value_at(values, keys) for keys in spellings(path_of(name)))
    return next((text for text in found if text != _NULL), _NULL)


def _value_at(values: Values, keys: FieldPath) -> bytes:
    first, *inner = keys
    text = bytes(values.get(first, _NULL))
    for key in inner:
        text = bytes(_values(text).get(key, _NULL))
    return text


def value(text: bytes) -> object:
    """Returns a value of a field as Python has it."""
    with deeper():
        parsed: object = loads(text.decode())
    return parsed


def events(lake: Lake, work: LoadWork) -> Iterator[Values]:
    """Yields the values of each row that the unit gives the table. Raises Conservation for a missing file."""
    types = set(work.types)
    for file in work.files:
        try:
            with lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
                columns = ["_payload", *(["_type"] if file.type is None else [])]
                for batch in parquet.iter_batches(_ROWS_AT_ONCE, columns=columns):
                    yield from _rows(batch, types)
        except FileNotFoundError as error:
            reland = lake.command("run", *work.unit.slice.words, "--mode", "reland")
            raise Conservation(
                f"slice {work.unit}: lake file {file.key} of its manifest is missing: `{reland}` writes it "
                "again"
            ) from error


def _rows(batch: pa.RecordBatch, types: Collection[str]) -> Iterator[Values]:
    kinds = batch.column("_type").to_pylist() if "_type" in batch.schema.names else None
    payloads: list[Any] = batch.column("_payload").cast(pa.binary()).to_pylist()
    with deeper():
        rows = [_values(payload) for payload in payloads]
    for number, values in enumerate(rows):
        if kinds is None or kinds[number] in types:
            yield values


def _values(payload: bytes) -> Values:
    """Returns no values for what is no object: the load rejects it with its reason. Of a field that is there
    twice it returns the first value, which the load takes; msgspec keeps the last."""
    try:
        values = _EVENT.decode(payload)
    except msgspec.DecodeError:
        return {}
    # Each member has a colon, so that one is missing in what is left of two.
    if payload.count(b":") == msgspec.json.encode(values).count(b":") and _ESCAPED_COLON not in payload:
        return values
    return {member.name: raw for member, raw in reversed(_MEMBERS.decode(payload).items())}


# Which type holds all values of a field, however many there are.

# No row becomes a rejected row by a column that its own load adds.
_RULES = replace(RULES, unfit_values=0.0)
_ROUNDS = 4
_MOST_REFUSED = 1_000  # values that a round adds to a sample


@dataclass(frozen=True)
class ColumnType:
    """A type, and in a few words why."""

    type: str
    why: str


AllValues = Callable[[Sequence[str]], Iterable[tuple[str, bytes]]]
"""Every value of some fields, with the field's name."""

_TEXT = ColumnType(nullable(STRING).text, "values that no narrower type holds")


def column_types(
    samples: Mapping[str, ValueSample], all_values: AllValues, earlier: Kinds = MappingProxyType({})
) -> dict[str, ColumnType]:
    """Returns for each field the type of its sample, widened by other values that do not fit.
    `earlier`: the kinds of values that other slices have in it, which the type holds as well."""
    first = {
        name: [*sample.texts, *examples(earlier.get(name, ()), sample.texts)]
        for name, sample in samples.items()
    }
    kinds = {name: _inferred(name, texts) for name, texts in first.items()}
    unsure = [name for name, sample in samples.items() if not sample.complete and kinds[name] is not None]
    texts = {name: first[name] for name in unsure}
    for _ in range(_ROUNDS):
        refused = _refused({name: kinds[name] for name in unsure}, all_values) if unsure else {}
        unsure = list(refused)
        for name, more in refused.items():
            texts[name] = [*texts[name], *more]
            kinds[name] = _inferred(name, texts[name])
    undecided = dict.fromkeys(unsure)
    return {
        name: _TEXT
        if column is None or name in undecided
        else ColumnType(column.type, _why(column, samples[name]))
        for name, column in kinds.items()
    }


def _why(column: InferredColumn, sample: ValueSample) -> str:
    return column.why if sample.complete else f"in a sample {column.why}"


def _inferred(name: str, texts: Sequence[bytes]) -> InferredColumn | None:
    """Returns None where only a text holds them."""
    values = [value(text) for text in texts]
    column = optional_column(name, values, _RULES)
    # ClickHouse takes arrays with a dot in their names for parts of a Nested, of one length.
    return None if "." in name and isinstance(column.kind, ArrayOf) else column


def _refused(kinds: Mapping[str, InferredColumn | None], all_values: AllValues) -> dict[str, list[bytes]]:
    """Returns the values that do not fit, by field."""
    refused: dict[str, list[bytes]] = {}
    for name, text in all_values(list(kinds)):
        column = kinds[name]
        if column is not None and len(refused.get(name, ())) < _MOST_REFUSED and not _fits(column.kind, text):
            refused.setdefault(name, []).append(text)
    return refused


def _fits(kind: Inferred, text: bytes) -> bool:
    parsed_value = value(text)
    return unfit(kind, parsed_value) is None and not _cut(kind, parsed_value)


def _cut(kind: Inferred, parsed_value: object) -> bool:
    """Returns whether a load would cut off what is finer than the column."""
    if isinstance(kind, Leaf) and kind.name == "DateTime64" and isinstance(parsed_value, str):
        return fraction_digits(parsed_value) > kind.digits[0]
    return False


# Which kinds of values earlier slices have in a field: the column that is added for it holds them, too.

MOST_UNITS = 10_000
"""Manifests that are read, of the newest slices."""
_OF_KIND = {
    "boolean": b"true",
    "integer": b"1",
    "number": b"0.5",
    "string": b'"text"',
    "array": b"[]",
    "object": b"{}",
}
_FIRST = {b'"': "string", b"t": "boolean", b"f": "boolean", b"[": "array", b"{": "object"}

Kinds = Mapping[str, Collection[str]]


def read_kinds(
    pipeline: Pipeline, target: Target, lake: Lake, units: Iterable[Unit], names: Sequence[str]
) -> Kinds:
    """Returns what the manifests of the newest of `units` say."""
    newest = sorted(units)[-MOST_UNITS:]
    return kinds_of(pipeline, target, read_manifests(lake, newest).values(), names)


def kinds_of(
    pipeline: Pipeline, target: Target, manifests: Iterable[Manifest], names: Sequence[str]
) -> Kinds:
    kinds_by_field: dict[str, set[str]] = {name: set() for name in names}
    for manifest in manifests:
        types = set(pipeline.routed(target, manifest.rows_by_type()))
        for type_fields in manifest.fields:
            for name in (
                kinds_by_field.keys() & type_fields.fields.keys() if type_fields.type in types else ()
            ):
                kinds_by_field[name] |= {
                    kind for kind, rows in type_fields.fields[name].kinds.items() if rows
                }
    return kinds_by_field


def examples(kinds: Collection[str], texts: Iterable[bytes]) -> list[bytes]:
    """Returns a value of each kind that none of `texts` is of."""
    return [_OF_KIND[kind] for kind in sorted(_OF_KIND.keys() & set(kinds) - set(map(_kind, texts)))]


def _kind(text: bytes) -> str:
    number = "integer" if text.lstrip(b"-").isdigit() else "number"
    return _FIRST.get(text[:1], number)
