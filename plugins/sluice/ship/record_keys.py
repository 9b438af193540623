"""The key of each record, out of a field of the event."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sluice.errors import WrongUse
from sluice.field_path import FieldPath, names_of, spellings
from sluice.ship.array_lines import elements_in

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
