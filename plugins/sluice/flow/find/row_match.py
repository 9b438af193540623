"""Finds rows by their record's key, or by the value of a field. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.config.mask import KEY
from sluice.errors import WrongUse
from sluice.event_values import UnreadablePayload, all_fields, read_event, text_of
from sluice.field_path import checked_path, names_of
from sluice.mask.mask_rules import MaskRules, hashes_of

_ESCAPE = "\\"


@dataclass(frozen=True)
class RowMatch:
    """A record's `key`, or a field of its event: the dotted path, and the value as text. `hashes`: what a
    mask may have made of it."""

    key: bytes | None = None
    path: tuple[str, ...] = ()
    value: str = ""
    hashes: tuple[bytes, ...] = ()

    @property
    def column(self) -> str:
        """Which of a file's columns has to be read."""
        return "_key" if self.key is not None else "_payload"

    def positions(self, rows: pa.Table) -> np.ndarray:
        """Returns the rows that match, ascending. To be called where the stack is deep enough:
        sluice.runtime.deeper."""
        if self.key is not None:
            return _true(pc.is_in(rows["_key"], value_set=pa.array([self.key, *self.hashes], pa.binary())))
        payloads = rows["_payload"].cast(pa.binary())
        # Where the value does not stand as it is, it may stand there with escapes.
        likely = pc.or_(_has(payloads, self.value), _has(payloads, _ESCAPE))
        values = {self.value, *(text.decode() for text in self.hashes)}
        for text in values - {self.value}:
            likely = pc.or_(likely, _has(payloads, text))
        matching = [n for n in _true(likely).tolist() if self._matches(payloads[n].as_py(), values)]
        return np.array(matching, np.int64)

    def _matches(self, payload: bytes, values: Collection[str]) -> bool:
        try:
            return any(text_of(value) in values for value in all_fields(read_event(payload), self.path))
        except UnreadablePayload:
            return False


def read_match(key: str | None, field: str | None) -> RowMatch:
    """Returns what `--key K` or `--field user.id=7` asks for. Raises WrongUse."""
    if (key is None) is (field is None):
        raise WrongUse("name one of TOPIC:PARTITION:OFFSET, --key and --field")
    if key is not None:
        return RowMatch(key=key.encode(errors="surrogateescape"))
    if any("\ud800" <= character <= "\udfff" for character in field or ""):
        raise WrongUse("--field: what was typed is not UTF-8, and an event's text is")
    path, sign, value = (field or "").partition("=")
    try:
        names = names_of(checked_path(path))
    except ValueError as error:
        raise WrongUse(f"--field: {error}") from error
    if not sign or not all(names):
        raise WrongUse(f"--field {(field or '')[:60]!r}: expected PATH=VALUE such as user.id=7")
    return RowMatch(path=names, value=value)


def with_hashes(match: RowMatch, rules: MaskRules | None) -> RowMatch:
    """Returns the match with what a mask makes of its value, with each of its keys."""
    if match.key is not None:
        return replace(match, hashes=tuple(hashes_of(rules, KEY, match.key)))
    return replace(match, hashes=tuple(hashes_of(rules, ".".join(match.path), match.value.encode())))


def _has(payloads: Any, text: str) -> Any:
    return pc.fill_null(pc.match_substring(payloads, text), False)


def _true(mask: Any) -> np.ndarray:
    positions: np.ndarray = np.flatnonzero(pc.fill_null(mask, False).to_numpy())
    return positions
