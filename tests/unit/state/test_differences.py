"""One function says in what a unit's rules differ from the pipeline file's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.config.pipeline import Pipeline
from sluice.flow.load.target_checks import required
from sluice.manifest import LandedFile, Traffic
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from sluice.state.rules import (
    Difference,
    LandingRules,
    RulesReader,
    TableRules,
    difference_lines,
    differs,
    write_rules,
)
from tests.support.fakes import MemoryLake
from tests.support.landing_world import hours, pipeline
from tests.support.manifests import made_manifest

UNITS = [Unit(slice_, "dc1") for slice_ in hours(3)]
EVENT = {"type": {"field": "type"}, "time": {"field": "at"}}
COUNTS = {"counts": [{"table": "db.traffic", "by": ["country"]}]}
COLUMNS = {
    "n": ("Int64", "", "", "Int64"),
    "note": ("Nullable(String)", "", "", "Nullable(String)"),
    "paid": ("Bool", "DEFAULT", "1", "Bool"),
}
TABLES = {"tables": {"click": {"table": "db.clicks", "columns": {"rider": "passenger"}}}}


def found(
    landed: Pipeline,
    now: Pipeline,
    traffic: tuple[Traffic, ...] = (),
    columns: dict[str, str] | None = None,
    needed: tuple[str, ...] = (),
    kinds: tuple[str, ...] = (),
) -> tuple[Difference, ...]:
    lake = MemoryLake()
    digest = write_rules(lake, LandingRules.of(landed, None))
    manifest = made_manifest("p", UNITS[0].slice.id, "dc1", 1, "a", (), (), (), 10, {}, 0, rules=digest)
    rows: dict[str, LedgerRow] = {}
    if columns is not None:
        demands = dict.fromkeys(needed, "reject")
        table = write_rules(
            lake, TableRules("db.clicks", columns=columns, required=demands, definitions=COLUMNS)
        )
        rows["db.clicks"] = LedgerRow(UNITS[0], manifest.id, ("click",), 1, 1, 0, "", 1, rules=table)
    files = tuple(LandedFile("k", "k", kind, "h", 1, 1, "") for kind in kinds)
    manifest = replace(manifest, traffic=traffic, files=files)
    return differs(now, manifest, rows, LandingRules.of(now, None), RulesReader(lake), required)


@pytest.mark.parametrize(
    ("now", "rules"),
    [
        ({}, []),
        ({"tables": {"click": "db.clicks"}, "max_record": "128MiB", "settle": "5m"}, []),
        ({"event": {**EVENT, "type": {"topic": True}}}, ["event.type"]),
        ({"event": {**EVENT, "time": {"record": True}}}, ["event.time"]),
        ({"event": {**EVENT, "rows": "array"}}, ["event.rows"]),
        ({"event": {**EVENT, "batch": {"header": "b"}}}, ["event.batch"]),
        ({"mask": {"ip": "drop"}}, ["mask"]),
        ({"max_types": 3, "max_early": "2h", "max_late": "7d"}, ["max_types", "max_early", "max_late"]),
    ],
)
def test_each_rule_of_a_landing_is_named_as_in_the_file(now: dict[str, Any], rules: list[str]):
    assert found(pipeline(), pipeline(**now)) == tuple(Difference(rule, "remake") for rule in rules)


def test_a_rule_of_the_mask_that_the_file_lost_makes_no_difference():
    hidden = pipeline(mask={"ip": "drop", "name": "keep_first"})
    assert found(hidden, pipeline(mask={"ip": "drop"})) == ()
    assert found(hidden, pipeline()) == ()


def test_no_run_changes_the_isolation_of_what_has_landed():
    cluster = {"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids"]}
    uncommitted = pipeline(kafka=[{**cluster, "isolation": "read_uncommitted"}])
    [difference] = found(pipeline(), uncommitted)
    assert difference == Difference("kafka.isolation", "")
    assert difference_lines({UNITS[0]: [difference]}) == [
        "1 unit has another `kafka.isolation` than the pipeline file (2026-01-01T00Z): what has landed keeps "
        "its own"
    ]
    assert found(pipeline(), pipeline(kafka=[{**cluster, "isolation": "read_committed"}])) == ()


def test_counts_that_the_file_asks_for_otherwise():
    spec = pipeline(**COUNTS)
    counted = Traffic("db.traffic", {"country": "country"}, (), {}, ())
    assert found(spec, spec, (counted,)) == ()
    missing = (Difference("counts of db.traffic", "remake"),)
    assert found(spec, spec) == missing
    assert found(spec, spec, (replace(counted, by={"country": "geo.country"}),)) == missing


def test_columns_are_those_of_the_last_load():
    spec = pipeline(**TABLES)
    assert found(spec, spec, columns={"rider": "passenger"}) == ()
    assert found(spec, spec, columns={"rider": "person"}) == (Difference("columns of db.clicks", "reload"),)


@pytest.mark.parametrize(
    ("kinds", "mode"), [((), "reload"), (("click", "odd"), "reload"), (("click", "view"), "fill")]
)
def test_a_fill_that_brings_a_type_applies_the_files_columns_and_says_so(kinds: tuple[str, ...], mode: str):
    """The ledger row has clicks; by now the file sends views there, too."""
    target = {"table": "db.clicks", "columns": {"rider": "person"}}
    spec = pipeline(tables={"click": target, "view": target})
    differences = found(spec, spec, columns={"rider": "passenger"}, kinds=kinds)
    assert differences == (Difference("columns of db.clicks", mode),)


@pytest.mark.parametrize(
    ("then", "now", "differ"),
    [
        ((), "default", False),
        (("n",), "reject", False),
        ((), "reject", True),
        (("n",), "default", True),
        (("note",), {"note": "reject"}, False),
        (("n", "note"), {"note": "reject"}, True),
        ((), {"came_later": "reject"}, False),
        (("n",), {"n": "default"}, True),
    ],
)
def test_what_a_missing_value_does_is_that_of_the_last_load(then: tuple[str, ...], now: object, differ: bool):
    spec = pipeline(tables={"click": {"table": "db.clicks", "missing": now}})
    wanted = (Difference("missing of db.clicks", "reload"),) if differ else ()
    assert found(spec, spec, columns={}, needed=then) == wanted


@pytest.mark.parametrize(
    ("now", "left"),
    [
        ("default", {"n": "default"}),
        ("object", {"n": "object"}),
        ("reject", {"n": "reject"}),
        ({"n": "default"}, {"n": "default"}),
        ({"n": "reject", "b": "reject"}, {"n": "reject"}),
    ],
)
def test_a_retry_requires_no_column_that_the_file_no_longer_does_and_no_other(now: object, left: dict):
    [target] = pipeline(tables={"click": {"table": "db.clicks", "missing": now}}).targets
    rules = TableRules("db.clicks", required={"gone": "reject", "n": "reject"})
    others = {"*": "default"}
    assert rules.apply(target, {"n", "b"}, types=False).missing == others | left
    assert rules.apply(target, {"n", "b"}).missing == others | {"n": "reject"}


def test_a_unit_that_names_no_rules_has_no_difference():
    manifest = made_manifest("p", UNITS[0].slice.id, "dc1", 1, "a", (), (), (), 10, {}, 0)
    now = LandingRules.of(pipeline(), None)
    assert differs(pipeline(), manifest, {}, now, RulesReader(MemoryLake()), required) == ()


def test_units_with_the_same_difference_share_a_line():
    time, mask = Difference("event.time", "remake"), Difference("mask", "remake")
    assert difference_lines({UNITS[0]: [time, mask], UNITS[1]: [time], UNITS[2]: []}) == [
        "2 units have another `event.time` than the pipeline file (2026-01-01T00Z … 2026-01-01T01Z): "
        "--mode remake applies it",
        "1 unit has another `mask` than the pipeline file (2026-01-01T00Z): --mode remake applies it",
    ]
