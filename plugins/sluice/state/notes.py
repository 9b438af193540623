"""Notes in the lake, an object for each month with a line for each slice: enough to show a year of hours
without a listing. They are copies, or what can be seen only once; never evidence.

A write is a merge by compare-and-set, so steps that run side by side lose nothing of each other's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from sluice.clients.lake.base import Lake, update_object
from sluice.concurrency import each_if_slow
from sluice.slices import SliceRange
from sluice.stored_json import decode_stored

T = TypeVar("T")
_MONTH = 7  # letters of a slice's id


def months_of(slices: SliceRange) -> list[str]:
    """Returns `2026-11` of every month that the range touches."""
    last = slices.end - slices.length
    months, month = [], slices.start.start_of("month")
    while month <= last:
        months.append(f"{month:%Y-%m}")
        month = month.add(months=1)
    return months


class MonthlyNotes(Generic[T]):
    """Notes of one kind, by slice id.

    Args:
        prefix: Of the objects' keys, which the month ends: `_summary/` gives `_summary/2026-11.json`.
        notes: What a month decodes to, a dict of slice ids to T.
        damage: What an object that cannot be read is: `holds no times`.
        remedy: What a person does then.
    """

    def __init__(self, prefix: str, notes: type[dict[str, T]], damage: str, remedy: str) -> None:
        self._prefix, self._damage, self._remedy = prefix, damage, remedy
        self._decoder: msgspec.json.Decoder[dict[str, T]] = msgspec.json.Decoder(notes)

    def key(self, month: str) -> str:
        return f"{self._prefix}{month}.json"

    def read(self, lake: Lake, slices: SliceRange) -> dict[str, T]:
        """Returns the notes of every month that the range touches. Raises LakeUnavailable, and SluiceError as
        `decode` does."""

        def month_of(month: str) -> dict[str, T]:
            stored = lake.read(self.key(month))
            return {} if stored is None else self.decode(stored.data, f"{lake.url}/{self.key(month)}")

        return {name: note for one in each_if_slow(month_of, months_of(slices)) for name, note in one.items()}

    def add(
        self, lake: Lake, new: Mapping[str, T], merge: Callable[[dict[str, T], dict[str, T]], dict[str, T]]
    ) -> dict[str, T]:
        """Stores what `merge` makes of a month's notes and the new ones; nothing is written where that is
        there already. Returns the notes that were there before. Raises as `read` does."""
        months: dict[str, dict[str, T]] = {}
        for name, note in new.items():
            months.setdefault(name[:_MONTH], {})[name] = note
        before: dict[str, dict[str, T]] = {}
        for month, notes in sorted(months.items()):
            key = self.key(month)

            def change(
                data: bytes | None, month: str = month, notes: dict[str, T] = notes, key: str = key
            ) -> bytes:
                before[month] = {} if data is None else self.decode(data, f"{lake.url}/{key}")
                return self.encode(merge(before[month], notes))

            update_object(lake, key, change)
        return {name: note for one in before.values() for name, note in one.items()}

    def encode(self, notes: Mapping[str, T]) -> bytes:
        """Returns a line for each slice, so that a person can read it."""
        lines = (f"{_text(name)}: {_text(note)}" for name, note in sorted(notes.items()))
        return ("{\n" + ",\n".join(lines) + "\n}\n").encode()

    def decode(self, data: bytes, place: str) -> dict[str, T]:
        """Raises SluiceError naming `place`, and what to do."""
        return decode_stored(
            self._decoder, data, lambda error: f"{place} {self._damage} ({error}): {self._remedy}"
        )


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
