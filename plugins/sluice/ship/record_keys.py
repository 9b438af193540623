"""The key of each record, out of a field of the event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from sluice.errors import WrongUse
from sluice.field_path import FieldPath, names_of, spellings
from sluice.flow.land.reject_reasons import Unparsed
from sluice.flow.land.task.unpack import elements_of

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)


class RecordKeys:
    """`field` is a dotted path; None gives no keys. `missing` counts the lines without it. Where lines
    are `arrays`, the first element that has it gives the key."""

    def __init__(self, field: str | None, arrays: bool = False) -> None:
        self._path = names_of(field) if field else ()
        if not all(self._path):
            raise WrongUse(f"--key: expected a field such as user or device.id, not {field!r}")
        self._key = _key_in_array if arrays else _key
        self.missing = 0

    def of(self, events: Sequence[bytes]) -> list[bytes | None]:
        """Returns a text's UTF-8 bytes, and any other value as JSON writes it; None without the field, or
        null."""
        if not self._path:
            return [None] * len(events)
        keys = [self._key(event, self._path) for event in events]
        self.missing += keys.count(None)
        return keys


def _key(event: bytes, path: FieldPath) -> bytes | None:
    keys = (_key_at(event, spelled) for spelled in spellings(path))
    return next((key for key in keys if key is not None), None)


def _key_at(event: bytes, keys: FieldPath) -> bytes | None:
    try:
        for name in keys:
            event = _OBJECT.decode(event).get(name, b"null")
        raw = bytes(event)
        if raw.startswith(b'"'):
            return _TEXT.decode(raw).encode("utf-8", "surrogatepass")
        return None if raw == b"null" else raw
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _key_in_array(line: bytes, path: FieldPath) -> bytes | None:
    keys = (_key(bytes(element), path) for element in elements_in(line))
    return next((key for key in keys if key is not None), None)


# Lines that are arrays: each is one record, and its elements are the events.
@dataclass(frozen=True)
class Judged:
    """Times in ms; those that are `unread` are not understood, the broker would refuse those `refused`."""

    times: np.ndarray
    unread: np.ndarray
    refused: np.ndarray


@dataclass(frozen=True)
class Elements:
    """The events of `lines` arrays, in order; `places`: the line that each is of."""

    events: Sequence[bytes]
    places: np.ndarray
    lines: int

    @classmethod
    def of(cls, lines: Sequence[bytes]) -> Elements:
        elements_by_line = [*map(elements_in, lines)]
        sizes = np.array([*map(len, elements_by_line)], np.int64)
        events = [bytes(element) for elements in elements_by_line for element in elements]
        return cls(events, np.repeat(np.arange(len(lines)), sizes), len(lines))

    def latest(self, judged: Judged) -> Judged:
        """Returns each line's time, of those of its elements: the latest that the broker takes. An event may
        lie any time before its record, and only `max_early` behind it."""
        taken = ~(judged.unread | judged.refused)
        times = np.full(self.lines, -1, np.int64)  # what the broker takes is never below 0
        np.maximum.at(times, self.places[taken], judged.times[taken])
        none, refused = times < 0, np.zeros(self.lines, bool)
        refused[self.places[judged.refused]] = True
        return Judged(times, none & ~refused, none & refused)


def elements_in(line: bytes) -> Sequence[msgspec.Raw]:
    """Returns no elements of a line that is no array: landing rejects it."""
    try:
        return elements_of(line)
    except Unparsed:
        return ()
