"""Which types have a folder of their own: in a task as it goes, and over all tasks of a unit at its end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.clients.lake.layout import hive_escape
from sluice.flow.land import reject_reasons
from sluice.flow.land.task.reports import WrittenFile

OVERFLOW = -1
"""The code of rows that go to the overflow: types are counted from 0, those of later batches too."""


class Admission:
    """In one task: the configured types have their files, and of each slice the first `max_types` others."""

    def __init__(self, configured: Collection[str], max_types: int) -> None:
        self._configured = frozenset(configured)
        self._max_types = max_types
        self._admitted: dict[int, set[int]] = {}

    def codes(self, slices: np.ndarray, types: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """`types` with OVERFLOW for those that have no file of their own."""
        if len(names) <= self._max_types:
            return types
        pairs, inverse = np.unique(slices.astype(np.int64) * len(names) + types, return_inverse=True)
        own = [self._admits(pair // len(names), pair % len(names), names) for pair in pairs.tolist()]
        return np.where(np.array(own)[inverse], types, OVERFLOW).astype(types.dtype)

    def _admits(self, slice_number: int, code: int, names: Sequence[str]) -> bool:
        admitted = self._admitted.setdefault(slice_number, set())
        if names[code] in self._configured or code in admitted:
            return True
        if len(admitted) < self._max_types:
            admitted.add(code)
            return True
        return False


def own_folders(files: Iterable[WrittenFile], configured: Collection[str], max_types: int) -> frozenset[str]:
    """The types of a unit that keep their folder: those configured, and of the others the first by name.

    A type that any task had to put into the overflow is wholly there.
    """
    others: set[str] = set()
    overflown: set[str] = set()
    for file in files:
        overflown.update(file.rows_by_type)
        if file.type is not None and file.type not in configured:
            others.add(file.type)
    return frozenset(configured) | frozenset(sorted(others - overflown)[:max_types])


def placed(file: WrittenFile, own: Collection[str]) -> WrittenFile:
    """`file` in the folder that its type got."""
    if not file.hour or file.type is None or file.type in own:
        return file
    return replace(file, type=None, rows_by_type={file.type: file.rows})


FOLDER_BYTES = 200  # of an escaped type; file systems allow 255 for `type=` and it


class TypeCodes:
    """One per task: `names[code]` is the type of a code, the same over all its batches."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def encode(self, names: pa.Array[Any]) -> tuple[np.ndarray, dict[int, str]]:
        """(int32 codes, reason by position). Bytes, which headers are, have to be UTF-8."""
        found = names.dictionary_encode()
        distinct: list[Any] = found.dictionary.to_pylist()
        verdicts = [self._code(name) for name in distinct]
        if not found.indices.null_count and all(isinstance(verdict, int) for verdict in verdicts):
            return np.array(verdicts, np.int32)[found.indices.to_numpy()], {}
        each = [reject_reasons.NO_TYPE if i is None else verdicts[i] for i in found.indices.to_pylist()]
        codes = np.array([verdict if isinstance(verdict, int) else -1 for verdict in each], np.int32)
        return codes, {i: verdict for i, verdict in enumerate(each) if isinstance(verdict, str)}

    def _code(self, name: str | bytes) -> int | str:
        try:
            text = name if isinstance(name, str) else name.decode()
        except UnicodeDecodeError:
            return reject_reasons.TYPE_NOT_STRING
        known = self._codes.get(text)
        if known is not None:
            return known
        verdict = _verdict(text)
        if verdict is not None:  # not kept: it may be of any length, and another one in each record
            return verdict
        self._codes[text] = len(self.names)
        self.names.append(text)
        return self._codes[text]


def _verdict(name: str) -> str | None:
    """Why `name` cannot be a folder's name, or None."""
    if not name:
        return reject_reasons.NO_TYPE
    return reject_reasons.TYPE_TOO_LONG if len(hive_escape(name).encode()) > FOLDER_BYTES else None
