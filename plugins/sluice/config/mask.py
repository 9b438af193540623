"""`mask:` in the pipeline file: what is hidden of an event before any of its bytes are kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SecretStr, WithJsonSchema, model_validator

from sluice.config.event import Event
from sluice.config.types import TEXT, Section, WrongKey
from sluice.field_path import HEADER, checked_path, header_of, names_of, outer_of

KEY, HEADERS, REJECTED_RECORDS = "_key", "_headers", "_rejected"
PARTS = (KEY, HEADERS, REJECTED_RECORDS)
"""What a record has beside the fields of its event: its key, its headers, and bytes that are no event."""
FEWEST_CHARACTERS = 16
"""Of a key: a shorter one is found by trying."""
_ACTIONS = ("hash", "drop", "keep_first", "keep")
_HASH = f"expected a key of at least {FEWEST_CHARACTERS} characters, {{connection: ID}}, or a list of these"


@dataclass(frozen=True)
class HashKey:
    """A key's own text, or the Airflow connection whose password is the key."""

    secret: SecretStr | None = None
    connection: str | None = None


def _parse_keys(value: Any) -> tuple[HashKey, ...]:
    """Parses the keys. An error never quotes the value: it may be a key."""
    keys = value if isinstance(value, list | tuple) else [value]
    if not keys:
        raise ValueError(_HASH)
    return tuple(map(_parse_key, keys))


def _parse_key(value: Any) -> HashKey:
    if isinstance(value, HashKey):
        return value
    if isinstance(value, Mapping) and set(value) == {"connection"}:
        connection = value["connection"]
        if isinstance(connection, str) and connection:
            return HashKey(connection=connection)
    if not isinstance(value, str) or len(value) < FEWEST_CHARACTERS:
        raise ValueError(_HASH)
    return HashKey(SecretStr(value))


_KEY = {
    "anyOf": [TEXT, {"type": "object", "properties": {"connection": TEXT}, "additionalProperties": False}]
}
HashKeys = Annotated[
    tuple[HashKey, ...],
    BeforeValidator(_parse_keys),
    WithJsonSchema({"anyOf": [_KEY, {"type": "array", "items": _KEY}]}),
]


class MaskRule(Section):
    """What becomes of one field of an event, of `_key`, of `_headers` or of `_rejected`. `drop` is short for
    `{drop: true}`, `keep_first` for `{keep_first: 1}`, `keep` for `{keep: true}`.
    """

    hash: HashKeys | None = None
    """Key of HMAC-SHA-256, or the connection whose password it is; of a list the first one hashes, and the
    others are found. Example: `{connection: mask_key}`"""
    drop: bool = False
    """The field is left out. Example: `true`"""
    keep_first: int | None = Field(None, ge=1, le=64)
    """So many characters stay, with `***` behind them. Example: `2`"""
    keep: bool = False
    """Of `_key`, `_headers`, `_rejected` and a `header:NAME`: they stay as they are. Example: `true`"""
    types: tuple[str, ...] = ()
    """Types of which the field is masked; without it all. Example: `[signup]`"""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        short = {"drop": {"drop": True}, "keep_first": {"keep_first": 1}, "keep": {"keep": True}}
        if isinstance(value, str):
            if value not in short:
                raise ValueError(f"expected {{hash: KEY}}, {', '.join(short)}, or one of these with `types`")
            return short[value]
        return value

    @model_validator(mode="after")
    def _one_action(self) -> MaskRule:
        if sum([self.hash is not None, self.drop, self.keep_first is not None, self.keep]) != 1:
            raise ValueError(f"expected exactly one of {', '.join(_ACTIONS)}")
        return self

    @property
    def action(self) -> str:
        """Returns the rule in words, without keys and types."""
        if self.keep_first is not None:
            return f"keep_first {self.keep_first}"
        return "hash" if self.hash else "drop" if self.drop else "keep"

    def applies(self, kind: str) -> bool:
        return not self.types or kind in self.types


def with_defaults(mask: Mapping[str, MaskRule]) -> dict[str, MaskRule]:
    """Adds the rules of key, headers and rejected bytes that the file does not name: they are hashed with the
    keys of the first field that is hashed, and dropped where none is."""
    if not mask:
        return {}
    keys = next((rule.hash for rule in mask.values() if rule.hash), None)
    default = MaskRule(hash=keys) if keys else MaskRule(drop=True)
    return {**mask, **{part: default for part in PARTS if part not in mask}}


def said(rules: Mapping[str, MaskRule]) -> dict[str, str]:
    """Returns each rule in words: `hash`, `drop of click`. Keys are not said."""
    of = {name: f" of {', '.join(rule.types)}" if rule.types else "" for name, rule in rules.items()}
    return {name: f"{rules[name].action}{of[name]}" for name in sorted(rules)}


def check_mask(mask: Mapping[str, MaskRule], event: Event) -> None:
    """Raises WrongKey for what cannot be masked exactly."""
    if mask and event.format.decoded:
        raise WrongKey(
            ("mask",),
            f"is for messages in JSON: of {event.format.kind} the lake keeps each message's own bytes (_raw)",
        )
    fields = {path: names_of(path) for path in mask if path not in PARTS}
    for path, names in fields.items():
        if not all(names):
            raise WrongKey(("mask", path), "expected a field or a dotted path")
        try:
            checked_path(path)
        except ValueError as error:
            raise WrongKey(("mask", path), str(error)) from error
        if header_of(names) is not None and mask[path].types:
            raise WrongKey(("mask", path), "a header is masked in records of all types")
        if mask[path].keep and header_of(names) is None:
            raise WrongKey(("mask", path), f"`keep` is for {', '.join(PARTS)}: leave the field out")
        for purpose, read in _read_fields(event):
            if _overlap(names, read):
                raise WrongKey(
                    ("mask", path),
                    f"{'.'.join(read)} is the event's {purpose}, which stands in folders and files",
                )
    whole = {names: path for path, names in fields.items()}
    for path, names in fields.items():
        if (outer := outer_of(names, whole)) is not None:
            raise WrongKey(("mask", path), f"{whole[outer]} is masked as a whole: name the one or the other")
    for part in PARTS:
        rule = mask.get(part)
        if rule is not None and (rule.keep_first is not None or rule.types):
            raise WrongKey(("mask", part), "expected {hash: KEY}, drop or keep, of all types")


def _read_fields(event: Event) -> Iterator[tuple[str, tuple[str, ...]]]:
    header = event.type.header and f"{HEADER}{event.type.header}"
    for purpose, field in (("type", event.type.field or header), ("time", event.time.field)):
        if field is not None:
            yield purpose, names_of(field)


def _overlap(path: tuple[str, ...], read: tuple[str, ...]) -> bool:
    shorter = min(len(path), len(read))
    return path[:shorter] == read[:shorter]


def connections_of(mask: Mapping[str, MaskRule]) -> list[str]:
    """Returns the Airflow connections that hold keys, each once."""
    keys = (key for rule in mask.values() for key in rule.hash or ())
    return list(dict.fromkeys(key.connection for key in keys if key.connection))


def hides(mask: Mapping[str, MaskRule], kind: str, path: Sequence[str]) -> bool:
    """Returns whether events of a type have nothing at `path` where they land, because it is masked."""
    names = names_of(".".join(path))
    if header_of(names) is not None and names[0] not in mask and mask:
        return with_defaults(mask)[HEADERS].drop
    for name, rule in mask.items():
        masked = names_of(name)
        if name not in PARTS and rule.applies(kind) and names[: len(masked)] == masked:
            return rule.drop or len(names) > len(masked)
    return False
