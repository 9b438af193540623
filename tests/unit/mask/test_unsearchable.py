"""A value that nothing can find is said to be so: each unit's mask beside the keys of now."""

from __future__ import annotations

import pytest

from sluice.config.mask import MaskRule
from sluice.manifest import Masked
from sluice.mask.mask_rules import KeyedRule, MaskKey, MaskRules, unsearchable

OLD, NEW, OTHER = (MaskKey(text.encode()) for text in ("old" * 9, "new" * 9, "other" * 9))


def rules(**keys: tuple[MaskKey, ...]) -> MaskRules:
    hashed = {name: KeyedRule(MaskRule(hash="x" * 20), own) for name, own in keys.items()}
    return MaskRules({name.replace("_", "."): rule for name, rule in hashed.items()}, {})


HASHED = Masked({"email": "hash"}, ("email",), (OLD.id,))


@pytest.mark.parametrize(
    ("masked", "now", "name", "why"),
    [
        (None, None, "email", ""),
        (HASHED, rules(email=(OLD,)), "email", ""),
        (HASHED, rules(email=(NEW, OLD)), "email", ""),
        (HASHED, rules(email=(NEW,)), "email", f"no longer has (id {OLD.id})"),
        (HASHED, None, "email", f"no longer has (id {OLD.id})"),
        (HASHED, rules(uid=(OLD,)), "email", f"no longer has (id {OLD.id})"),
        (HASHED, None, "uid", ""),
        (HASHED, None, "email.domain", "the mask `hash` of email left nothing"),
        (Masked({"email": "drop"}), None, "email", "the mask `drop` left nothing"),
        (Masked({"email": "drop of click"}), rules(email=(NEW,)), "email", "the mask `drop of click` left"),
        (Masked({"email": "keep_first 3"}), None, "email", "the mask `keep_first 3` left nothing"),
        (Masked({"user": "drop"}), None, "user.id", "the mask `drop` of user left nothing"),
        (Masked({"_key": "keep"}), None, "_key", ""),
        (Masked({}, ("email", "uid"), (OTHER.id,)), rules(email=(NEW,), uid=(OTHER,)), "email", ""),
    ],
)
def test_what_cannot_be_found(masked: Masked | None, now: MaskRules | None, name: str, why: str) -> None:
    said = unsearchable(masked, now, name)
    assert why in said and bool(said) == bool(why)
