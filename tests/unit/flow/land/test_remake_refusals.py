"""Which units a remake refuses by their manifests alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.land.remake import refusal
from sluice.manifest import Forgotten, LandedFile, Manifest, PartitionCount
from tests.support.landing_world import pipeline
from tests.support.manifests import made_manifest


def manifest(**changes) -> Manifest:
    old = made_manifest("p", "2026-01-01T00Z", "dc1", 1, "a", (), (), (), 10, {}, 0, rules="new")
    return replace(old, **changes)


BAD = LandedFile("_rejected/x", "a", None, "", 3, 1, "0")
GONE = {"rejected": (BAD,), "forgotten": Forgotten(rejected="2028-01-01T00:00:00Z")}
COUNTS = (PartitionCount("bids", 0, 10, 3),)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rejected_records": {"no type": 3}, "counts": COUNTS, **GONE}, None),
        ({"rejected_records": {"no type": 3}, "counts": COUNTS, "rows": 9, **GONE}, None),
        (
            {
                "rejected_records": {"no type": 1},
                "rows": 9,
                "rejected_elements": {"no time": 2},
                "counts": COUNTS,
                **GONE,
            },
            "it forgot the bytes of 2 rejected elements of arrays on 2028-01-01",
        ),
        ({"rows": 9, "rejected_elements": {"no time": 2}, "counts": COUNTS}, None),
        ({"rows": 9, "rows_erased": 2}, "2 elements of its arrays were erased"),
        ({"rows_erased": 2}, None),
        ({"forgotten": Forgotten(lake="2028-01-01T00:00:00Z")}, "it forgot its files on 2028-01-01"),
    ],
)
def test_what_the_lake_has_forgotten_is_remade_without_it_where_the_rest_is_whole(
    changes: dict, why: str | None
):
    said = refusal(pipeline(), manifest(**changes))
    assert (said or "").startswith(why or "") and (said is None) == (why is None)
