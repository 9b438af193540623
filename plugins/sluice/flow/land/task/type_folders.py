"""Which types have a folder of their own: in a task as it goes, and over all tasks of a unit at its end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.clients.lake.layout import hive_escape
from sluice.config.pipeline import Pipeline
from sluice.flow.land import reject_reasons
from sluice.flow.land.task.records import FILE_TYPE, HOUR, SLICE, TYPE, numbers_of
from sluice.flow.land.task.reports import WrittenFile
from sluice.manifest import Manifest

OVERFLOW = -1
"""The code of rows that go to the overflow: types are counted from 0, those of later batches too."""

MOST_TYPES = 100_000
"""That a task knows, beside those configured."""
MOST_FILES = 5_000
"""The most files of one slice in one task. They are counted only when types × hours exceed this number, so as
many again may be there already."""


class Admission:
    """In one task: the configured types have their files, and of each slice the first `max_types` others, as
    long as their event hours make no more than MOST_FILES files of them."""

    def __init__(self, configured: Collection[str], max_types: int) -> None:
        self._configured = frozenset(configured)
        self._max_types = max_types
        self._admitted: dict[int, set[int]] = {}
        self._files: dict[int, set[tuple[int, int]]] = {}
        self._first, self._last = 0, -1  # event hours

    def placed(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        """Returns the rows with FILE_TYPE: the codes of their types, and OVERFLOW for those that have no file
        of their own."""
        slices, types, hours = (numbers_of(rows, name) for name in (SLICE, TYPE, HOUR))
        return rows.append_column(FILE_TYPE, pa.array(self.codes(slices, types, hours, names)))

    def codes(
        self, slices: np.ndarray, types: np.ndarray, hours: np.ndarray, names: Sequence[str]
    ) -> np.ndarray:
        """Returns `types` with OVERFLOW for those that have no file of their own."""
        codes = self._by_type(slices, types, names)
        return self._by_file(slices, codes, hours, names) if len(codes) else codes

    def _by_file(
        self, slices: np.ndarray, types: np.ndarray, hours: np.ndarray, names: Sequence[str]
    ) -> np.ndarray:
        low, high = int(hours.min()), int(hours.max())
        any_hours = self._first <= self._last
        self._first = min(self._first, low) if any_hours else low
        self._last = max(self._last, high) if any_hours else high
        span = self._last - self._first + 1
        if len(names) * span <= MOST_FILES:
            return types
        rows = np.flatnonzero(types != OVERFLOW)
        files = (slices[rows].astype(np.int64) * len(names) + types[rows]) * span + hours[rows] - self._first
        distinct, inverse = np.unique(files, return_inverse=True)
        good = [self._has_file(file // span, file % span, names) for file in distinct.tolist()]
        codes = types.copy()
        codes[rows[~np.array(good, bool)[inverse]]] = OVERFLOW
        return codes

    def _has_file(self, slice_and_type: int, hour: int, names: Sequence[str]) -> bool:
        slice_number, code = divmod(slice_and_type, len(names))
        if names[code] in self._configured:
            return True
        files, file = self._files.setdefault(slice_number, set()), (code, hour + self._first)
        if file not in files and len(files) < MOST_FILES:
            files.add(file)
        return file in files

    def _by_type(self, slices: np.ndarray, types: np.ndarray, names: Sequence[str]) -> np.ndarray:
        if len(names) <= self._max_types:
            return types
        pairs, inverse = np.unique(slices.astype(np.int64) * len(names) + types, return_inverse=True)
        admitted = [self._admits(pair // len(names), pair % len(names), names) for pair in pairs.tolist()]
        return np.where(np.array(admitted)[inverse], types, OVERFLOW).astype(types.dtype)

    def _admits(self, slice_number: int, code: int, names: Sequence[str]) -> bool:
        admitted = self._admitted.setdefault(slice_number, set())
        if names[code] in self._configured or code in admitted:
            return True
        if len(admitted) < self._max_types:
            admitted.add(code)
            return True
        return False


def own_folders(files: Iterable[WrittenFile], configured: Collection[str], max_types: int) -> frozenset[str]:
    """Returns the types of a unit that keep their folder: those configured, and of the others the first by
    name.

    A type that any task had to put into the overflow is wholly there.
    """
    others: set[str] = set()
    overflown: set[str] = set()
    for file in files:
        overflown.update(file.rows_by_type)
        if file.type is not None and file.type not in configured:
            others.add(file.type)
    return frozenset(configured) | frozenset(sorted(others - overflown)[:max_types])


def folders_with(old: Manifest, files: Iterable[WrittenFile], pipeline: Pipeline) -> frozenset[str]:
    """Returns the types that keep their folder when `files` are added to those of a unit: types that have one
    in the unit have it, and types that are in its overflow are wholly there."""
    own = {file.type for file in old.files if file.type is not None}
    overflown = {kind for file in old.files if file.type is None for kind in file.types()}
    new = [file for file in files if file.type not in own | overflown]
    room = pipeline.max_types - len(own - set(pipeline.types))
    return frozenset(own | (own_folders(new, pipeline.types, max(0, room)) - overflown))


def placed(file: WrittenFile, types_with_folder: Collection[str]) -> WrittenFile:
    """Returns `file` in the folder that its type got."""
    if not file.hour or file.type is None or file.type in types_with_folder:
        return file
    return replace(file, type=None, rows_by_type={file.type: file.rows})


FOLDER_BYTES = 200  # of an escaped type; file systems allow 255 for `type=` and it


class TypeCodes:
    """One per task: `names[code]` is the type of a code, the same over all its batches. Of types that are not
    `configured` it knows MOST_TYPES; others have no code."""

    def __init__(self, configured: Collection[str] = ()) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}
        self._configured = frozenset(configured)
        self._others = 0

    def encode(
        self, names: pa.Array[Any], lands: np.ndarray | None = None
    ) -> tuple[np.ndarray, dict[int, str]]:
        """Returns (int32 codes, reason by position). Bytes, which headers are, have to be UTF-8.

        Codes go to names in the order of the rows that may land (`lands`; None: all may); of others none gets
        one.
        """
        encoded = names.dictionary_encode()
        distinct: list[Any] = encoded.dictionary.to_pylist()
        verdicts = self._verdicts(distinct, encoded.indices, lands)
        if not encoded.indices.null_count and all(isinstance(verdict, int) for verdict in verdicts):
            return np.array(verdicts, np.int32)[encoded.indices.to_numpy()], {}
        each = [reject_reasons.NO_TYPE if i is None else verdicts[i] for i in encoded.indices.to_pylist()]
        codes = np.array([verdict if isinstance(verdict, int) else -1 for verdict in each], np.int32)
        refused = {i: verdict for i, verdict in enumerate(each) if isinstance(verdict, str)}
        if lands is None:
            return codes, refused
        # Of a row that is refused otherwise the name was not counted.
        beyond = reject_reasons.TOO_MANY_TYPES
        return codes, {i: reason for i, reason in refused.items() if lands[i] or reason != beyond}

    def _verdicts(
        self, distinct: list[Any], indices: pa.Array[Any], lands: np.ndarray | None
    ) -> list[int | str]:
        if lands is None:
            return [self._code(name, True) for name in distinct]
        named: list[Any] = indices.filter(pa.array(lands, pa.bool_())).to_pylist()
        needed = [number for number in dict.fromkeys(named) if number is not None]
        verdicts = {number: self._code(distinct[number], True) for number in needed}
        return [
            verdicts[number] if number in verdicts else self._code(name, False)
            for number, name in enumerate(distinct)
        ]

    def _code(self, name: str | bytes, needed: bool) -> int | str:
        try:
            text = name if isinstance(name, str) else name.decode()
        except UnicodeDecodeError:
            return reject_reasons.TYPE_NOT_TEXT
        code = self._codes.get(text)
        if code is not None:
            return code
        verdict = _verdict(text)
        if verdict is not None:  # not kept: it may be of any length, and another one in each record
            return verdict
        if not needed:
            return -1
        if text not in self._configured:
            if self._others >= MOST_TYPES:
                return reject_reasons.TOO_MANY_TYPES
            self._others += 1
        self._codes[text] = len(self.names)
        self.names.append(text)
        return self._codes[text]


def _verdict(name: str) -> str | None:
    """Returns why `name` cannot be a folder's name, or None."""
    if not name:
        return reject_reasons.NO_TYPE
    return reject_reasons.TYPE_TOO_LONG if len(hive_escape(name).encode()) > FOLDER_BYTES else None
