"""Which types have a folder of their own: in a task as it goes, and over all tasks of a unit at its end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np

from sluice.landing.reports import WrittenFile

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
        own = [self._admits(*divmod(pair, len(names)), names) for pair in pairs.tolist()]
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
