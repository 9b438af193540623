"""`sluice plan` says what is masked, and of how many hours that is not so yet."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from sluice.manifest import Masked
from sluice.mask.mask_rules import mask_rules
from sluice.plan.dry_run import mask_lines
from sluice.slices import Slice, Unit
from sluice.state.status import UnitStatus
from tests.support.landing_world import START, pipeline
from tests.support.manifests import made_manifest

KEY, NEW = "the first key of 2026", "the second key of 2026"
UNIT = Unit(Slice(START), "dc1")
BARE = made_manifest("p", "2026-01-01T00Z", "dc1", 1, "a", (), (), (), 0, {}, 0)


def lines(mask: dict[str, Any], *masked: Masked | None) -> list[str]:
    found = [SimpleNamespace(unit=UNIT, manifest=replace(BARE, masked=one)) for one in masked]
    return list(mask_lines(pipeline(mask=mask), [*cast("list[UnitStatus]", found), missing()]))


def missing() -> UnitStatus:
    return cast(UnitStatus, SimpleNamespace(manifest=None))


def applied(mask: dict[str, Any]) -> Masked:
    rules = mask_rules(pipeline(mask=mask))
    assert rules is not None
    return rules.applied


def test_without_a_mask_nothing_is_said():
    assert lines({}, None, applied({"ip": "drop"})) == []


def test_units_that_landed_without_it_or_with_another():
    mask = {"email": {"hash": KEY}, "ip": {"drop": True, "types": ["click"]}}
    said = "mask: _headers: hash; _key: hash; _unparsed: hash; email: hash; ip: drop of click"
    whole = applied(mask)
    assert lines(mask, whole) == [said]
    more = applied({**mask, "phone": "drop"})  # what was masked beyond it stays hidden
    rotated = applied({**mask, "email": {"hash": [NEW, KEY]}})  # another key changes nothing
    assert lines(mask, whole, more, rotated) == [said]
    for_all = applied({"email": {"hash": KEY}, "ip": "drop"})
    command = "sluice run demo --from 2026-01-01T00:00Z --to 2026-01-01T01:00Z --mode remake"
    left = f"landed without this mask, or with another: `{command}` masks them"
    assert lines(mask, whole, None) == [said, f"1 unit was {left}"]
    assert lines(mask, None, for_all, applied({"email": "drop"})) == [said, f"3 units were {left}"]
