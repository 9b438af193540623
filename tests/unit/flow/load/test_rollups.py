"""Which units of a rollup are computed again, as a table of cases; and what a pipeline file may say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sluice.clients.clickhouse.sql import table
from sluice.clients.clickhouse.types import parse, takes
from sluice.config.pipeline import Pipeline
from sluice.config.target import Rollup
from sluice.flow.load.rollups.decide import RollupFacts, SourceUnit
from sluice.flow.load.rollups.staging import of_unit
from sluice.flow.verify.facts import lacking, targets_of
from sluice.slices import Slice, Unit
from sluice.state.ledger import LedgerRow, commit_of, is_settled
from tests.support.landing_world import SPEC, START
from tests.unit.flow.load.test_rollups_choices import landed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "r.sql").write_text("SELECT user, count() AS n FROM {source} GROUP BY user;\n")
    return tmp_path


def rollup(folder: Path, **more: object) -> Rollup:
    given = {"from": "db.click", "sql": "sql/r.sql", **more}
    return Rollup.model_validate(given, context={"folder": folder})


def unit(hour: int, cluster: str = "dc1") -> Unit:
    return Unit(Slice(START.add(hours=hour)), cluster)


def row(place: Unit, generation: int = 3, manifest: str = "1-a", **more: object) -> LedgerRow:
    known = {"types": (), "landed": 9, "rows": 9, "rejected_rows": 0, "token": "", **more}
    return LedgerRow(unit=place, manifest=manifest, generation=generation, **known)


def test_a_unit_is_made_once_for_each_commit_of_its_source(folder):
    spec = rollup(folder)
    source = {unit(n): row(unit(n)) for n in range(3)}
    fresh = row(unit(0), manifest=commit_of(spec, source[unit(0)]), token="t")
    stale = row(unit(1), manifest=commit_of(spec, row(unit(1), generation=2)))
    ledger = {unit(0): fresh, unit(1): stale}
    units = [unit(3), unit(2), unit(1), unit(0)]  # the source does not hold the last hour yet

    def made(mode: str, token: str) -> list[tuple[Unit, bool]]:
        facts = RollupFacts(spec, source, ledger, mode, token)
        whole = {place: SourceUnit(source[place], 9, True, None) for place in facts.due(units)}
        choice = facts.choose(units, whole)
        made_now = {work.unit for work in choice.todo}
        assert [r.unit for r in choice.skipped] == [u for u in (unit(0),) if u not in made_now]
        return [(work.unit, work.replaces) for work in choice.todo]

    assert made("fill", "x") == [(unit(1), True), (unit(2), False)]
    assert made("reload", "x") == [(unit(0), True), (unit(1), True), (unit(2), False)]
    assert made("reload", "t") == [(unit(1), True), (unit(2), False)]


def test_a_rollup_is_settled_when_it_is_on_every_shard(folder):
    spec = rollup(folder)
    one, two = row(unit(0), generation=3), row(unit(0), generation=7)
    source = replace(one, shares=(("a", one), ("b", two)))
    made = {s: row(unit(0), manifest=commit_of(spec, c)) for s, c in source.shares}
    assert is_settled(spec, row(unit(0), shares=tuple(made.items())), source)
    assert not is_settled(spec, row(unit(0), shares=(("a", made["a"]), ("b", made["a"]))), source)
    assert not is_settled(spec, row(unit(0), shares=(("a", made["a"]), ("b", None))), source)


def test_another_select_or_source_is_another_commit(folder):
    first = commit_of(rollup(folder), row(unit(0)))
    assert commit_of(rollup(folder, **{"from": "db.view"}), row(unit(0))) != first
    (folder / "sql" / "r.sql").write_text("SELECT user, count() + 1 AS n FROM {source} GROUP BY user")
    assert commit_of(rollup(folder), row(unit(0))) != first


def test_a_unit_reads_its_own_rows_only(folder):
    own = f"_slice = toDateTime({int(START.timestamp())}, 'UTC') AND _cluster = 'd\\'c'"
    text = of_unit(rollup(folder), unit(0, "d'c"), table("db.click"))
    assert f"FROM (SELECT * FROM `db`.`click` WHERE {own}) GROUP BY" in text


@pytest.mark.parametrize(
    ("column", "given", "same"),
    [
        ("UInt8", "UInt8", True),
        ("UInt16", "UInt8", False),
        ("Bool", "UInt8", False),
        ("Nullable(UInt8)", "UInt8", True),
        ("Nullable(UInt8)", "Nullable(UInt8)", True),
        ("UInt8", "Nullable(UInt8)", False),
        ("LowCardinality(String)", "String", True),
        ("String", "LowCardinality(String)", True),
        ("LowCardinality(Nullable(String))", "String", True),
        ("String", "LowCardinality(Nullable(String))", False),
        ("DateTime('UTC')", "DateTime", True),
        ("DateTime('UTC')", "DateTime('Asia/Tokyo')", True),
        ("DateTime64(3, 'UTC')", "DateTime64(3)", True),
        ("DateTime64(3, 'UTC')", "DateTime64(6, 'UTC')", False),
        ("DateTime('UTC')", "DateTime64(0, 'UTC')", False),
        ("Date", "Date32", False),
        ("Decimal(9, 2)", "Decimal(9, 3)", False),
        ("SimpleAggregateFunction(max, UInt16)", "UInt16", True),
        ("SimpleAggregateFunction(max, UInt16)", "UInt32", False),
        ("AggregateFunction(uniq, String)", "AggregateFunction(uniq, String)", True),
        ("AggregateFunction(uniq, String)", "AggregateFunction(uniq, UInt8)", False),
        ("Array(Nullable(UInt8))", "Array(UInt8)", True),
        ("Array(UInt8)", "Array(Nullable(UInt8))", False),
        ("Map(LowCardinality(String), UInt8)", "Map(String, UInt8)", True),
        ("Map(String, UInt16)", "Map(String, UInt8)", False),
        ("Tuple(a UInt8, b String)", "Tuple(a UInt8, b LowCardinality(String))", True),
        ("Tuple(a UInt8, b UInt8)", "Tuple(b UInt8, a UInt8)", False),
        ("Tuple(a UInt8, b UInt8)", "Tuple(UInt8, UInt8)", False),
        ("Tuple(UInt8, UInt8)", "Tuple(UInt8)", False),
        ("Nullable(UInt8)", "Nullable(Nothing)", False),
    ],
)
def test_a_column_takes_values_of_its_own_type(column, given, same):
    assert takes(parse(column), parse(given)) is same


def pipeline(folder: Path, **rollups: object) -> Pipeline:
    return Pipeline.model_validate({**SPEC, "rollups": rollups}, context={"folder": folder})


def test_rollups_are_targets_after_their_sources(folder):
    known = {"from": "db.click", "sql": "sql/r.sql"}
    made = pipeline(folder, **{"db.one": known, "db.two": known})
    assert [t.table for t in made.targets] == ["db.click", "db.one", "db.two"]
    assert made.routed(made.targets[1], ["click"]) == ()
    tables = {"db.click": row(unit(0))}
    targets = targets_of(made)
    assert "db.one" in lacking(made, targets, landed(unit(0), tables))
    tables["db.one"] = row(unit(0), manifest=commit_of(made.rollups["db.one"], tables["db.click"]))
    assert "db.one" not in lacking(made, targets, landed(unit(0), tables))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"from": "db.other"}, "a table of events or counts, not db.other"),
        ({"from": "db.one"}, "a table of events or counts, not db.one"),
        ({"sql": "sql/none.sql"}, "cannot be read"),
        ({"select": "SELECT 1"}, "expected"),
        ({"grain": "hour"}, "grain"),
    ],
)
def test_a_wrong_rollup_is_refused(folder, given, says):
    with pytest.raises(ValueError, match=says):
        pipeline(folder, **{"db.one": {"from": "db.click", "sql": "sql/r.sql", **given}})


def test_a_select_has_to_read_its_source(folder):
    (folder / "sql" / "r.sql").write_text("SELECT 1 AS n")
    with pytest.raises(ValueError, match="does not read {source}"):
        rollup(folder)
