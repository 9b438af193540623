"""Where the rows of a unit stay, by the ledger rows of its shards."""

from __future__ import annotations

import pytest

from sluice.flow.load.own_placement import own_stamps
from sluice.state.ledger import LedgerRow
from tests.integration.landed import unit
from tests.support.manifests import made_manifest

UNIT = unit()
LEFT = "shard s2 has left the pipeline file"
MIXED = "the shards do not hold them by one placement"
BOTH = {"s1": "s1 of s1, s2 by k", "s2": "s2 of s1, s2 by k"}


def row(sharding: str, manifest: str) -> LedgerRow:
    return LedgerRow(UNIT, f"1-{manifest}", ("click",), 1, 1, 0, "", 1, sharding=sharding)


@pytest.mark.parametrize(
    ("held", "listed", "found"),
    [
        ({}, ["s1", "s2"], None),
        ({"s1": ("s1 of s1, s2 by k", "replaced")}, ["s1", "s2"], None),
        ({"s1": ("s1 of s1, s2 by k", "now"), "s2": ("s2 of s1, s2 by k", "amended")}, ["s1", "s2"], BOTH),
        ({"s1": ("s1 of s1, s2 by k", "now")}, ["s2", "s1", "s3"], BOTH),  # s2 was away
        ({"s1": ("s1 of s1, s2 by k", "now"), "s2": ("s2 of s1, s2 by k", "replaced")}, ["s1", "s2"], BOTH),
        ({"s1": ("s1 of s1, s2 by k", "now")}, ["s1", "s3"], LEFT),
        ({"": ("s2 of s2 by k", "now")}, [""], LEFT),
        ({"s1": ("s1 of s1, s2 by k", "now"), "s2": ("s2 of s1, s2 by n", "now")}, ["s1", "s2"], MIXED),
        ({"s1": ("s2 of s1, s2 by k", "now")}, ["s1", "s2"], MIXED),  # two names were exchanged
        ({"s1": ("s1 of s1 by k", "now"), "s2": ("s2 of s1, s2 by k", "replaced")}, ["s1", "s2"], MIXED),
        ({"": ("", "now")}, [""], {"": ""}),
        ({"s1": ("", "now")}, ["s1", "s2"], {"s1": ""}),
        ({"s1": ("", "now"), "s2": ("", "now")}, ["s1", "s2"], MIXED),
    ],
)
def test_own_stamps(held, listed, found):
    values = ("p", UNIT.slice.id, UNIT.cluster, 1, "now", (), (), (), 0, {}, 0)
    manifest = made_manifest(*values, amends=("1-amended",))
    assert own_stamps(manifest, {shard: row(*one) for shard, one in held.items()}, listed) == found
