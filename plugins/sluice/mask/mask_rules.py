"""The mask of a pipeline with its keys: made where the pipeline file is read, it travels to the tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

from sluice.clients import connections as connections
from sluice.clients.connections import Connection
from sluice.config.mask import (
    FEWEST_CHARACTERS,
    HEADERS,
    KEY,
    PARTS,
    REJECTED_RECORDS,
    HashKey,
    MaskRule,
    said,
    with_defaults,
)
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.field_path import header_of, names_of
from sluice.manifest import Masked

FindConnection = Callable[[str], Connection]


@dataclass(frozen=True)
class KeyedRule:
    """A rule of the pipeline file with its keys, of which the first one hashes."""

    rule: MaskRule
    keys: tuple[MaskKey, ...] = ()


@dataclass(frozen=True)
class MaskRules:
    """What is done with the fields of an event, by path, and with the other `parts` of its record.

    `read_headers` are read by the pipeline, and stay as they are.
    """

    fields: Mapping[str, KeyedRule]
    parts: Mapping[str, KeyedRule]
    read_headers: frozenset[str] = frozenset()

    def rule_of(self, name: str) -> KeyedRule | None:
        """Returns the rule of a field, a part or a header; None where it stays as it is."""
        header, own = header_of(names_of(name)), {**self.fields, **self.parts}.get(name)
        if own is None and header is not None and header not in self.read_headers:
            return self.parts[HEADERS]
        return own

    @property
    def applied(self) -> Masked:
        """Returns what a manifest says of it."""
        rules = {**self.fields, **self.parts}
        hashed = [name for name, keyed in rules.items() if keyed.keys]
        dropped = [REJECTED_RECORDS] if self.parts[REJECTED_RECORDS].rule.drop else []
        keys = dict.fromkeys(keyed.keys[0].id for keyed in rules.values() if keyed.keys)
        return Masked(said(rules_of(self)), tuple(sorted([*hashed, *dropped])), tuple(sorted(keys)))


def rules_of(mask: MaskRules) -> dict[str, MaskRule]:
    return {name: keyed.rule for name, keyed in {**mask.fields, **mask.parts}.items()}


def said_by(pipeline: Pipeline) -> dict[str, str]:
    """Returns what a manifest would say of the pipeline file's mask."""
    return said(with_defaults(pipeline.mask))


def mask_rules(pipeline: Pipeline, find: FindConnection = connections.find) -> MaskRules | None:
    """Returns None for a pipeline without a mask. Raises WrongUse for a connection that is missing or holds
    no key."""
    if not pipeline.mask:
        return None
    keyed = {
        name: KeyedRule(rule, tuple(_key(name, key, find) for key in rule.hash or ()))
        for name, rule in with_defaults(pipeline.mask).items()
    }
    sources = (pipeline.event.type, pipeline.event.time, pipeline.event.batch)
    return MaskRules(
        fields={name: rule for name, rule in keyed.items() if name not in PARTS},
        parts={name: keyed[name] for name in (KEY, HEADERS, REJECTED_RECORDS)},
        read_headers=frozenset(source.header for source in sources if source and source.header),
    )


def keyless(pipeline: Pipeline) -> Pipeline:
    """Returns the pipeline without the keys that its file holds: what travels to tasks has MaskRules."""
    return pipeline.model_copy(update={"mask": {}}) if pipeline.mask else pipeline


def joined(new: Masked | None, old: Masked | None) -> Masked | None:
    """Returns what a unit's manifest says that was remade of the files of another: hashes stay there."""
    if old is None or not old.hashed:
        return new
    rules = new.rules if new else {}
    hashed = {*old.hashed, *(new.hashed if new else ())}
    keys = {*old.keys, *(new.keys if new else ())}
    return Masked(rules, tuple(sorted(hashed)), tuple(sorted(keys)))


def _key(name: str, key: HashKey, find: FindConnection) -> MaskKey:
    if key.secret is not None:
        return MaskKey(key.secret.get_secret_value().encode())
    text = find(key.connection or "").password or ""
    if len(text) < FEWEST_CHARACTERS:
        raise WrongUse(
            f"mask.{name}: connection {key.connection!r} has no password of at least {FEWEST_CHARACTERS} "
            "characters: the key is its password"
        )
    return MaskKey(text.encode())


# What a value that somebody looks for may have become in the lake. Pure.
def hashes_of(rules: MaskRules | None, name: str, value: bytes) -> list[bytes]:
    """Returns the hashes of a value in the field `name` (a dotted path, or `_key`) with each key of its rule:
    as a text, and as a number or a boolean that is written so. None where the field is not hashed."""
    rule = None if rules is None else rules.rule_of(name)
    return [] if rule is None else list(_each(rule, value))


def hidden_by(rules: MaskRules | None, name: str) -> str:
    """Returns the action that leaves nothing to look for in a field; else nothing. A field around it is
    masked as a whole, also where it is hashed."""
    keyed_rules = {} if rules is None else {**rules.fields, **rules.parts}
    if (keyed := None if rules is None else rules.rule_of(name)) is not None:
        return "" if keyed.keys or keyed.rule.keep else keyed.rule.action
    around = _around(name)
    return next((keyed_rules[outer].rule.action for outer in around if outer in keyed_rules), "")


def _around(name: str) -> list[str]:
    names = names_of(name)
    if header_of(names) is not None:
        return [HEADERS]
    return [".".join(names[:size]) for size in range(len(names) - 1, 0, -1)]


def _each(rule: KeyedRule, value: bytes) -> Iterator[bytes]:
    for key in rule.keys:
        yield key.token(value)
        yield key.token_of_json(value)


def unsearchable(masked: Masked | None, rules: MaskRules | None, name: str) -> str:
    """Returns why a value of the field `name` may be in a unit and not be found there; else nothing.

    `masked`: what its manifest says. `rules`: today's mask, with whose keys the value is hashed. A field
    around it is masked as a whole.
    """
    if masked is None:
        return ""
    around = _around(name)
    for outer in (outer for outer in around if outer in masked.hashed or _hides(masked.rules.get(outer, ""))):
        return f"the mask `{masked.rules.get(outer, 'hash')}` of {outer} left nothing of it to be found"
    if _hides(action := masked.rules.get(name, "")):
        return f"the mask `{action}` left nothing of it to be found"
    if name not in masked.hashed:
        return ""
    keyed = {} if rules is None else {**rules.fields, **rules.parts}
    own = {key.id for key in keyed[name].keys} if name in keyed else set()
    others = {key.id for other, rule in keyed.items() if other != name for key in rule.keys}
    lacking = sorted(set(masked.keys) - own - others) if own else list(masked.keys)
    if not lacking:
        return ""
    return (
        f"it was hashed with a key that `mask.{name}` no longer has (id {', '.join(lacking)}): name the key "
        "there again, behind the one that hashes"
    )


def _hides(action: str) -> bool:
    """Returns whether a rule in words leaves no value, and no hash of it."""
    return action.startswith(("drop", "keep_first"))


FORM = re.compile(rb"hmac256:([0-9a-f]{8}):[0-9a-f]{64}")
"""`hmac256:<the key's id>:<hexadecimal digits>`"""
_OTHER = b"\0"
"""Before what is no plain text, so that the number 1 and the text 1 have two hashes."""


_BLOCK = 64  # bytes of SHA-256


@dataclass(frozen=True)
class MaskKey:
    """A key of HMAC-SHA-256. Its id is eight hexadecimal digits, from which nobody gets the key."""

    secret: bytes = field(repr=False)

    def __getstate__(self) -> dict[str, bytes]:
        """Returns what travels: states of a hash cannot."""
        return {"secret": self.secret}

    @cached_property
    def id(self) -> str:
        return self._hex(b"\0id")[:8]

    def token(self, data: bytes) -> bytes:
        """Returns the hash of a text in UTF-8, or of a record's key or bytes: `openssl dgst -hmac` gives the
        same digits."""
        if data.startswith(_OTHER):
            data = b"\0text" + data
        return self._head + self._hex(data).encode()

    def token_of_json(self, text: bytes) -> bytes:
        """Returns the hash of a value that is no text: a number, a boolean, an object, as it is written."""
        return self._head + self._hex(_OTHER + b"json" + text).encode()

    @cached_property
    def _head(self) -> bytes:
        return b"hmac256:" + self.id.encode() + b":"

    @cached_property
    def _states(self) -> tuple[Any, Any]:
        """Hashes the first block of RFC 2104's two hashes: a copy takes a third of hmac.digest's time."""
        short = self.secret if len(self.secret) <= _BLOCK else sha256(self.secret).digest()
        padded = short.ljust(_BLOCK, b"\0")
        return sha256(bytes(byte ^ 0x36 for byte in padded)), sha256(bytes(byte ^ 0x5C for byte in padded))

    def _hex(self, data: bytes) -> str:
        inner, outer = (state.copy() for state in self._states)
        inner.update(data)
        outer.update(inner.digest())
        digits: str = outer.hexdigest()
        return digits


def is_token(data: bytes, of: Collection[str]) -> bool:
    """Returns whether `data` is what one of the keys with these ids has made. Anybody can write such a text:
    it means something only where the caller knows that nothing else can stand there."""
    match = FORM.fullmatch(data) if of else None
    return match is not None and match[1].decode() in of
