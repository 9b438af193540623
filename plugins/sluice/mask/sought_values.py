"""What a value that somebody looks for may have become in the lake. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.manifest import Masked
from sluice.mask.mask_rules import KeyedRule, MaskRules


def hashes_of(rules: MaskRules | None, name: str, value: bytes) -> list[bytes]:
    """Returns the hashes of a value in the field `name` (a dotted path, or `_key`) with each key of its rule:
    as a text, and as a number or a boolean that is written so. None where the field is not hashed."""
    rule = None if rules is None else {**rules.fields, **rules.parts}.get(name)
    return [] if rule is None else list(_each(rule, value))


def hidden_by(rules: MaskRules | None, name: str) -> str:
    """Returns the action that leaves nothing to look for in a field; else nothing. A field around it is
    masked as a whole, also where it is hashed."""
    keyed_rules = {} if rules is None else {**rules.fields, **rules.parts}
    if (keyed := keyed_rules.get(name)) is not None:
        return "" if keyed.keys or keyed.rule.keep else keyed.rule.action
    around = (name.rsplit(".", up)[0] for up in range(1, name.count(".") + 1))
    return next((keyed_rules[outer].rule.action for outer in around if outer in keyed_rules), "")


def _each(rule: KeyedRule, value: bytes) -> Iterator[bytes]:
    for key in rule.keys:
        yield key.token(value)
        yield key.token_of_json(value)


def unsearchable(masked: Masked | None, rules: MaskRules | None, name: str) -> str:
    """Returns why a value of the field `name` may be in a unit and not be found there; else nothing.

    `masked`: what its manifest says. `rules`: the mask of now, with whose keys the value is hashed. A field
    around it is masked as a whole.
    """
    if masked is None:
        return ""
    around = [name.rsplit(".", up)[0] for up in range(1, name.count(".") + 1)]
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
