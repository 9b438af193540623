"""Reads fields of events from the lake's files: how often they have a value, and which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.clients.lake.base import Files
from sluice.errors import Conservation
from sluice.flow.load.evolve.fields import SliceFields
from sluice.flow.load.work import LoadWork
from sluice.infer.values import loads
from sluice.runtime import deeper

_ROWS_AT_ONCE = 16_384
_MOST_NAMES = 10_000  # of different fields that are counted in one unit
MOST_VALUES = 400_000
MOST_BYTES = 64 << 20
"""Values, and their bytes, of all fields together that are held for the first look at them."""
_NULL = b"null"
_EVENT = msgspec.json.Decoder(dict[str, msgspec.Raw])

Values = Mapping[str, bytes]


@dataclass
class ValueSample:
    """Texts of a field's values, at even distances once there are more than `most` of them, or of
    `most_bytes`."""

    most: int
    most_bytes: int
    texts: list[bytes] = field(default_factory=list)
    seen: int = 0
    _step: int = 1
    _size: int = 0

    def add(self, text: bytes) -> None:
        if self.seen % self._step == 0:
            self.texts.append(text)
            self._size += len(text)
            while len(self.texts) > 1 and (len(self.texts) > self.most or self._size > self.most_bytes):
                self.texts, self._step = self.texts[::2], self._step * 2
                self._size = sum(map(len, self.texts))
        self.seen += 1

    @property
    def complete(self) -> bool:
        return self.seen == len(self.texts)


def filled_fields(lake: Files, work: LoadWork) -> SliceFields:
    """What a manifest that was counted exactly says, from the files."""
    filled: Counter[str] = Counter()
    rows = others = 0
    for values in events(lake, work):
        rows += 1
        known = set(values) if len(filled) < _MOST_NAMES else values.keys() & filled.keys()
        filled.update(known)
        others += len(known) < len(values)
    return SliceFields(work.unit.slice.id, rows, filled, others)


def sample_values(lake: Files, works: Sequence[LoadWork], names: Collection[str]) -> dict[str, ValueSample]:
    """The values of these fields in all rows of the units."""
    share = max(1, len(names))
    samples = {name: ValueSample(MOST_VALUES // share, MOST_BYTES // share) for name in names}
    for name, text in values_of(lake, works, names):
        samples[name].add(text)
    return samples


def values_of(lake: Files, works: Sequence[LoadWork], names: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Each value of each field with the field's name, in the same order every time."""
    for work in works:
        for values in events(lake, work):
            for name in names:
                if name in values:
                    yield name, values[name]


def value(text: bytes) -> object:
    """Raises RecursionError for one that is nested deeper than the landing takes an event."""
    with deeper():
        found: object = loads(text.decode())
    return found


def events(lake: Files, work: LoadWork) -> Iterator[Values]:
    """The values of each row that the unit gives the table, nulls left out. Raises Conservation for a file
    that is missing."""
    types = set(work.types)
    for file in work.files:
        try:
            with lake.local(file.key) as path, pq.ParquetFile(path) as parquet:
                wanted = ["_payload", *(["_type"] if file.type is None else [])]
                for batch in parquet.iter_batches(_ROWS_AT_ONCE, columns=wanted):
                    yield from _rows(batch, types)
        except FileNotFoundError as error:
            raise Conservation(
                f"slice {work.unit}: lake file {file.key} of its manifest is missing: `--mode reland` over "
                "the slice writes it again"
            ) from error


def _rows(batch: pa.RecordBatch, types: Collection[str]) -> Iterator[Values]:
    kinds = batch.column("_type").to_pylist() if "_type" in batch.schema.names else None
    payloads: list[Any] = batch.column("_payload").cast(pa.binary()).to_pylist()
    for number, payload in enumerate(payloads):
        if kinds is None or kinds[number] in types:
            yield _values(payload)


def _values(payload: bytes) -> Values:
    """Nothing of what is no object: the load says of it what it is."""
    try:
        with deeper():
            found = _EVENT.decode(payload)
    except msgspec.DecodeError:
        return {}
    texts = ((name, bytes(text)) for name, text in found.items())
    return {name: text for name, text in texts if text != _NULL}
