"""What a commit may have lost by a column that was added after it, from generations and counted fields."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.config.pipeline import Target
from sluice.manifest import FieldSeen, Manifest, TypeFields
from sluice.state.additions import Addition, added_after, later_by_table, maybe_lost, since
from sluice.state.ledger import LedgerRow
from tests.support.manifests import made_manifest
from tests.unit.flow.load.test_load_decide import unit

CLICKS = Target(table="e.clicks", columns={"city": "geo.city"})
ADDED = Addition("e.clicks", "coupon", "String", "s", 1, 1, "now", "me", shards={"": 5})
ROW = LedgerRow(unit(), "1-a", ("click",), 3, 3, 0, "", 4)


def manifest(*fields: TypeFields) -> Manifest:
    return made_manifest("p", unit().slice.id, "dc1", 1, "a", (), (), (), 3, {}, 0, fields=fields)


def clicks(exact: bool = True, others: int = 0, **filled: int) -> TypeFields:
    return TypeFields(
        "click", 9, exact, {n: FieldSeen(9, {"null": 9 - k}) for n, k in filled.items()}, others
    )


@pytest.mark.parametrize(
    ("row", "shard", "columns"),
    [
        (ROW, "", {"coupon"}),
        (replace(ROW, generation=5), "", set()),
        (replace(ROW, generation=6), "", set()),
        (ROW, "s1", set()),  # that shard does not have it
        (replace(ROW, generation=9, shares=(("s1", ROW), ("", ROW))), "", {"coupon"}),
        (replace(ROW, shares=(("", replace(ROW, generation=5)), ("s2", None))), "", set()),
    ],
)
def test_a_commit_is_older_than_a_column_or_it_has_it(row: LedgerRow, shard: str, columns: set[str]):
    assert added_after(since((ADDED,)), "e.clicks", row, shard) == columns
    assert added_after(since((ADDED,)), "e.views", row, shard) == set()


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ([clicks(coupon=3)], {"coupon": 3}),
        ([clicks(coupon=0)], {}),
        ([clicks(x=3)], {}),
        ([clicks(x=3, others=1)], {"coupon": None}),
        ([clicks(exact=False, coupon=3)], {"coupon": None}),
        ([clicks(exact=False)], {"coupon": None}),
        ([], {"coupon": None}),
    ],
)
def test_what_a_manifest_says_of_a_field(fields: list[TypeFields], lost: dict[str, int | None]):
    assert maybe_lost(CLICKS, manifest(*fields), ["click"], {"coupon"}) == lost
    assert maybe_lost(CLICKS, manifest(*fields), [], {"coupon"}) == {}


def test_types_of_one_table_add_up_and_a_mapped_column_has_its_field():
    views = replace(clicks(coupon=4, geo=2), type="view")
    landed = manifest(clicks(coupon=3), views)
    assert maybe_lost(CLICKS, landed, ["click", "view"], {"coupon", "city"}) == {"city": 2, "coupon": 7}


def test_only_tables_that_lack_something_are_named():
    rows = {"e.clicks": ROW, "e.views": ROW}
    targets = [CLICKS, Target(table="e.views"), Target(table="e.other")]
    landed = manifest(clicks(coupon=3))
    assert later_by_table(since((ADDED,)), targets, landed, rows) == {"e.clicks": {"coupon": 3}}
    assert later_by_table({}, targets, landed, rows) == {}
    assert later_by_table(since((ADDED,)), targets, manifest(clicks()), rows) == {}
