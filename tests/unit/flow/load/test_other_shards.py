"""By whose rules a shard makes its part of a unit."""

from __future__ import annotations

import pytest

from sluice.flow.load.own_placement import OtherShards
from sluice.state.ledger import LedgerRow
from tests.integration.landed import unit
from tests.support.manifests import made_manifest

UNIT = unit()


def row(manifest: str, rules: str) -> LedgerRow:
    return LedgerRow(UNIT, f"1-{manifest}", ("click",), 1, 1, 0, "", 1, rules=rules)


@pytest.mark.parametrize(
    ("own", "others", "rules"),
    [
        (None, [], None),
        (None, [row("now", "theirs")], "theirs"),
        (row("now", "own"), [row("now", "theirs")], "own"),
        (row("old", "own"), [row("now", "theirs")], "theirs"),
        (row("amended", "own"), [row("now", "theirs")], "own"),
        (row("old", "own"), [row("other", "theirs")], "own"),  # that no rule goes by
        (None, [row("other", "older"), row("amended", "theirs")], "theirs"),
    ],
)
def test_own_or_other(own, others, rules):
    values = ("p", UNIT.slice.id, UNIT.cluster, 1, "now", (), (), (), 0, {}, 0)
    manifest = made_manifest(*values, amends=("1-amended",))
    found = OtherShards(rows={UNIT: others}).own_or_other(own, manifest, UNIT)
    assert (found.rules if found else None) == rules
