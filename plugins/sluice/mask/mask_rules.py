"""The mask of a pipeline with its keys: made where the pipeline file is read, it travels to the tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sluice.clients.connections import find as connections
from sluice.clients.connections.connection import Connection
from sluice.config.mask import (
    FEWEST_CHARACTERS,
    HEADERS,
    KEY,
    PARTS,
    UNPARSED,
    HashKey,
    MaskRule,
    said,
    with_defaults,
)
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.manifest import Masked
from sluice.mask.keyed_hash import MaskKey

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

    @property
    def applied(self) -> Masked:
        """Returns what a manifest says of it."""
        rules = {**self.fields, **self.parts}
        hashed = [name for name, keyed in rules.items() if keyed.keys]
        dropped = [UNPARSED] if self.parts[UNPARSED].rule.drop else []
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
    sources = (pipeline.event.type, pipeline.event.batch)
    return MaskRules(
        fields={name: rule for name, rule in keyed.items() if name not in PARTS},
        parts={name: keyed[name] for name in (KEY, HEADERS, UNPARSED)},
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
