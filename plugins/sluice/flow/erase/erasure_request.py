"""What `sluice erase` is asked for, and the list's entry that it becomes. Pure."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sluice.errors import WrongUse
from sluice.field_path import checked_path, names_of
from sluice.flow.land.reject_reasons import NO_VALUE
from sluice.flow.land.task import columns
from sluice.flow.land.task.erasing import LONGEST
from sluice.manifest import STAMP, Manifest
from sluice.mask.mask_rules import MaskRules, hashes_of, hidden_by, unsearchable
from sluice.slices import SliceRange, Unit
from sluice.state.erasures import KEY, Erasure, ErasureList

_MOST_VALUES = 100
_MOST_REASON = 500
_NOT_SEARCHED = {*columns.ROWS.names, *columns.REJECTED.names, "_row", "_raw", "_slice"} - set(KEY)
"""What the lake and the tables have beside an event's fields."""


@dataclass(frozen=True)
class Where:
    """A dotted path, `_key` for the record's own key, and one value."""

    path: tuple[str, ...]
    value: str


@dataclass(frozen=True)
class ErasureRequest:
    """`typed`: what the user asked for. `slices`: where to search. `start` and `end` say whether they were
    typed."""

    typed: tuple[Where, ...]
    slices: SliceRange
    reason: str
    by: str
    type: str = ""
    start: bool = False
    end: bool = False
    rules: MaskRules | None = None
    """The mask of the pipeline file."""

    @property
    def wheres(self) -> tuple[Where, ...]:
        """What was typed, and with it the hash that the mask makes of each value with each of its keys: as a
        value of the field, and as the key of a record without a value."""
        hashed = (
            Where(where.path, masked_value.decode())
            for where in self.typed
            for name in dict.fromkeys((where.path, KEY))
            for masked_value in hashes_of(self.rules, ".".join(name), where.value.encode())
        )
        return tuple(dict.fromkeys((*self.typed, *hashed)))

    def unsearchable(self, manifests: Mapping[Unit, Manifest]) -> list[str]:
        """Returns a line for each field of which some units may have values that are not found."""
        units_of: dict[tuple[str, str], list[Unit]] = {}
        names = dict.fromkeys(".".join(where.path) for where in self.typed)
        for unit, manifest in sorted(manifests.items()):
            keys = [".".join(KEY)] if _has_hashed_keys_alone(manifest) else []
            for name in dict.fromkeys((*names, *keys)):
                if why := unsearchable(manifest.masked, self.rules, name):
                    units_of.setdefault((name, why), []).append(unit)
        return [
            f"{name} cannot be searched in {len(units):,} units, {units[0]} … {units[-1]}: {why}; or erase "
            "by another field of the same records"
            for (name, why), units in units_of.items()
        ]

    def entry(self, erasures: ErasureList, now: datetime) -> Erasure:
        until = self.slices.end.strftime(STAMP)
        return Erasure(
            values=tuple(erasures.asked(where.path, where.value.encode()) for where in self.wheres),
            type=self.type,
            start=self.slices.start.strftime(STAMP) if self.start else "",
            until=until,
            asked_until=until if self.end else "",
            reason=self.reason,
            at=now.strftime(STAMP),
            by=self.by,
        )


def _has_hashed_keys_alone(manifest: Manifest) -> bool:
    """Returns whether records without a value are there, of which the lake has a hash of the key."""
    hashed = manifest.masked is not None and ".".join(KEY) in manifest.masked.hashed
    return hashed and bool(manifest.held_by_reason().get(NO_VALUE))


def read_wheres(texts: Sequence[str], file: bytes | None = None) -> tuple[Where, ...]:
    """Returns what `--where user.id=7`, and each line of `--where-file`, ask for. Raises WrongUse.

    No error has a word of what was given: it may be a person's.
    """
    numbered = len(texts) > 1
    labels = [f"--where number {n}" if numbered else "--where" for n in range(1, len(texts) + 1)]
    wheres = [_where(label, text) for label, text in zip(labels, texts, strict=True)]
    wheres += [_where(f"--where-file, line {n}", text) for n, text in _lines(file or b"")]
    if not wheres:
        name = "--where" if file is None else "--where-file"
        raise WrongUse(f"{name} is missing or empty: name a field and its value, such as user.id=7")
    if len(wheres) > _MOST_VALUES:
        raise WrongUse(f"--where: {len(wheres):,} values, more than {_MOST_VALUES}: erase them in parts")
    return tuple(dict.fromkeys(wheres))


def _lines(file: bytes) -> Iterator[tuple[int, str]]:
    """Yields each line that says something, and its number, without the spaces around the line."""
    for number, raw in enumerate(file.removeprefix(BOM_UTF8).split(b"\n"), start=1):
        if line := raw.strip():
            yield number, line.decode(errors="surrogateescape")


def _where(label: str, text: str) -> Where:
    path, sign, value = text.partition("=")
    try:
        names = names_of(checked_path(path))
    except ValueError as error:
        raise WrongUse(f"{label}: {error}") from error
    if path in _NOT_SEARCHED:
        raise WrongUse(
            f"{label}: {path} is not searched: name a field of the event, such as user.id, or _key, the "
            "record's key"
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise WrongUse(f"{label}: what is there is not UTF-8, and an event's text is")
    if not (sign and value and all(names)):
        raise WrongUse(f"{label}: expected PATH=VALUE such as user.id=7")
    if len(value.encode()) > LONGEST:
        raise WrongUse(f"{label}: a value has at most {LONGEST:,} bytes")
    return Where(names, value)


def hidden_lines(wheres: Sequence[Where], rules: MaskRules | None) -> list[str]:
    """Returns a line for each field that a mask hides: nothing is found by it."""
    names = dict.fromkeys(".".join(where.path) for where in wheres)
    return [
        f"the mask `{action}` hides {name}: what has landed with it is not found by this field"
        for name in names
        if (action := hidden_by(rules, name))
    ]


def checked_reason(text: str, wheres: Sequence[Where]) -> str:
    """Raises WrongUse for a reason that is empty, too long, or says who it is."""
    if not text.strip() or len(text) > _MOST_REASON:
        raise WrongUse(f"--reason: expected 1 to {_MOST_REASON} characters, such as a ticket's number")
    if any(len(where.value) > 3 and where.value in text for where in wheres):
        raise WrongUse(
            "--reason names the value itself: it is kept in the lake, so leave the person out of it"
        )
    return text
