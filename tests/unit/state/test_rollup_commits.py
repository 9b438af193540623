"""What the ledger has to hold for a rollup, and when its table is behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.config.clickhouse import ClickHouse
from sluice.config.pipeline import Pipeline
from sluice.flow.verify.facts import lacking, targets_of
from sluice.state.ledger import rollups_wanted
from sluice.state.unit_state import Commit
from tests.support.landing_world import SPEC
from tests.unit.flow.load.test_rollups_choices import (
    DIGEST,
    MINE,
    PIPELINE,
    ROLLUP,
    SHARED,
    landed,
    row,
    unit,
)


def spec(**changes: Any) -> Pipeline:
    return PIPELINE.model_copy(update={"rollups": {"db.sums": ROLLUP}, **changes})


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ({}, {}),
        ({"db.sums": row(unit(0))}, {}),
        ({"db.click": row(unit(0))}, {"db.sums": Commit(f"1-a@3#{DIGEST}", (), "")}),
        (
            {"db.click": row(unit(0)), "db.sums": row(unit(0), types=("x",), manifest=f"1-a@3#{DIGEST}")},
            {"db.sums": Commit(f"1-a@3#{DIGEST}", ("x",), "")},
        ),
        (
            {"db.click": row(unit(0)), "db.sums": row(unit(0), types=("x",), manifest=f"1-a@2#{DIGEST}")},
            {"db.sums": Commit(f"1-a@3#{DIGEST}", (), "")},
        ),
        (
            {"db.click": row(unit(0)), "db.sums": row(unit(0), manifest=f"1-a@3#{DIGEST}", added=("x", "y"))},
            {"db.sums": Commit(f"1-a@3#{DIGEST} with x, y", (), "")},
        ),
    ],
)
def test_what_the_ledger_has_to_hold_for_a_rollup(rows, wanted):
    assert rollups_wanted(spec(), rows) == wanted


def test_a_rollup_on_shards_has_their_sharding():
    given = {"shards": [{"name": n, "connection": n} for n in ("a", "b")], "shard_by": {"db.sums": "n"}}
    on_shards = Pipeline.model_validate(SPEC).model_copy(
        update={"rollups": {"db.sums": ROLLUP}, "clickhouse": ClickHouse.model_validate(given)}
    )
    own = row(unit(0), manifest="x", shares=tuple(MINE.items()))
    source = replace(SHARED, sharding=on_shards.clickhouse.sharding("db.click"))
    assert rollups_wanted(on_shards, {"db.click": source, "db.sums": own}) == {
        "db.sums": Commit("x", (), "a, b by n")
    }
    assert rollups_wanted(on_shards, {"db.click": source}) == {
        "db.sums": Commit(f"1-a@3#{DIGEST}", (), "a, b by n")
    }
    # A source that can no longer be moved keeps its placement, and its rollup stays beside it.
    old = replace(source, sharding="a by n"), replace(own, sharding="a by n")
    assert rollups_wanted(on_shards, dict(zip(("db.click", "db.sums"), old, strict=True))) == {
        "db.sums": Commit("x", (), "a by n")
    }


@pytest.mark.parametrize(
    ("rows", "behind"),
    [
        ({}, True),
        ({"db.click": row(unit(0))}, False),
        ({"db.click": row(unit(0), manifest="0-z")}, True),
        ({"db.click": row(unit(0), types=("view",))}, True),
        ({"db.click": row(unit(0), sharding="a, b by n")}, True),
        ({"db.click": row(unit(0), shares=(("a", row(unit(0))), ("b", None)))}, True),
        ({"db.other": row(unit(0))}, True),
    ],
)
def test_a_table_is_behind_what_has_landed(rows, behind):
    assert ("db.click" in lacking(PIPELINE, targets_of(PIPELINE), landed(unit(0), rows))) is behind


@pytest.mark.parametrize(
    ("rows", "behind"),
    [
        ({"db.click": row(unit(0))}, True),
        ({"db.sums": MINE["a"]}, True),
        ({"db.click": row(unit(0), 1), "db.sums": MINE["a"]}, False),
        ({"db.click": row(unit(0), 2), "db.sums": MINE["a"]}, True),
    ],
)
def test_a_rollup_is_behind_its_source(rows, behind):
    assert ("db.sums" in lacking(spec(), targets_of(spec()), landed(unit(0), rows))) is behind
