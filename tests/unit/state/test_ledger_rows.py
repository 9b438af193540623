"""What the ledger's rows say of each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.state.ledger import (
    Commits,
    LedgerRow,
    follows,
    frozen_commit,
    is_frozen,
    is_of_another,
    made_of,
    manifests_in,
    settles,
)
from tests.unit.flow.load.test_rollups_choices import DIGEST, OTHER_DIGEST, row, unit

THERE, FROZEN = f"1-a@3#{DIGEST}", f"0-z@2#{DIGEST} frozen for 1-a@3#{OTHER_DIGEST}"


@pytest.mark.parametrize(
    ("held", "is_of_it"),
    [
        (THERE, True),
        (f"1-a@3#{OTHER_DIGEST}", True),
        (FROZEN, True),
        (f"1-a@3#{DIGEST} frozen for 1-a@4#{DIGEST}", True),
        (f"1-a@2#{DIGEST}", False),
        (f"0-z@3#{DIGEST}", False),
        ("", False),
    ],
)
def test_a_derived_table_follows_its_source_by_whatever_definition(held, is_of_it):
    source, derived = row(unit(0)), row(unit(0), manifest=held)
    assert follows(derived, source) is is_of_it
    other = row(unit(0), manifest=THERE)
    shares = (("s1", source), ("s2", source), ("s3", None))

    def on_shards(*parts: LedgerRow | None) -> bool:
        named = tuple(zip(("s1", "s2", "s3"), parts, strict=False))
        return follows(row(unit(0), shares=named), row(unit(0), shares=shares))

    assert on_shards(derived, other) is on_shards(other, derived) is is_of_it
    # A shard that has only one of the two says nothing.
    assert on_shards(None, other, derived) and on_shards()


def test_what_the_rows_of_a_unit_are_of():
    parts = (("s1", row(unit(0), manifest="1-a@3#x")), ("s2", None), ("s3", row(unit(0), manifest=FROZEN)))
    assert manifests_in(row(unit(0), shares=parts)) == {"1-a", "0-z"}
    assert manifests_in(row(unit(0), manifest="1-a")) == {"1-a"}
    assert is_frozen(row(unit(0), shares=parts)) and not is_frozen(row(unit(0), shares=parts[:2]))
    assert [is_of_another(row(unit(0), manifest=held), "1-a") for held in ("1-a", "0-z", FROZEN)] == [
        False,
        True,
        False,
    ]
    assert not is_of_another(row(unit(0), shares=parts), "1-a")
    assert is_of_another(row(unit(0), shares=parts[:1]), "0-z")


def test_what_leaves_nothing_to_do():
    assert [
        settles(held, "c") for held in ("c", "b frozen for c", " frozen for c", "c frozen for d", "b")
    ] == [
        True,
        True,
        True,
        False,
        False,
    ]
    # What was frozen, and frozen again: its rows are the first one's.
    twice = frozen_commit(row(unit(0), manifest="b frozen for c"), "d")
    assert (twice, made_of(twice)) == ("b frozen for d", "b")
    assert frozen_commit(None, "c") == " frozen for c"


def test_the_newest_row_of_a_unit():
    commits = Commits()
    assert (commits.others, commits.revoked, commits.newest(unit(0))) == ({}, {}, None)
    commits.revoked[unit(0)] = revoked = row(unit(0))
    commits.revoked[unit(1)] = row(unit(1))
    commits[unit(1)] = committed = row(unit(1), manifest="2-b")
    assert (commits.newest(unit(0)), commits.newest(unit(1))) == (revoked, committed)


def test_what_a_ledger_row_says_of_nothing():
    plain = LedgerRow(unit(0), "1-a", (), 1, 1, 0, "t", 1)
    assert (plain.sharding, plain.rules, plain.added, plain.shares, plain.left) == ("", "", (), (), ())
    assert (plain.counted, plain.defaulted, plain.nulls, plain.failed) == (False, {}, {}, {})
    told = replace(plain, defaulted={"a": 1}, nulls={"a": 1}, failed={"b": 1})
    assert len({plain, told}) == 2
    assert replace(plain, shares=(("s1", plain), ("s2", None))).lacking == ("s2",)
