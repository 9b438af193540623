"""Which units of a rollup are computed again, as a table of cases; and what a pipeline file may say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sluice.config.pipeline import Pipeline
from sluice.config.rollups import Rollup
from sluice.flow.load.rollups.decide import RollupFacts, changed, name_of
from sluice.flow.load.rollups.select import of_hour, of_unit
from sluice.flow.verify.current import lacking, targets_of
from sluice.slices import Slice, Unit
from sluice.state.ledger import LedgerRow
from sluice.state.rollup_commits import commit_of, is_fresh
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
    known = {"types": (), "landed": 9, "rows": 9, "misfits": 0, "token": "", **more}
    return LedgerRow(unit=place, manifest=manifest, generation=generation, **known)


def test_a_unit_is_made_once_for_each_commit_of_its_source(folder):
    spec = rollup(folder)
    source = {unit(n): row(unit(n)) for n in range(3)}
    fresh = row(unit(0), manifest=commit_of(spec, source[unit(0)]), token="t")
    stale = row(unit(1), manifest=commit_of(spec, row(unit(1), generation=2)))
    ledger = {unit(0): fresh, unit(1): stale}
    units = [unit(3), unit(2), unit(1), unit(0)]  # the source does not hold the last hour yet

    def made(mode: str, token: str) -> list[tuple[Unit, bool]]:
        todo, skipped = RollupFacts(spec, source, ledger, mode, token).choose(units)
        assert [r.unit for r in skipped] == [u for u in (unit(0),) if u not in {w.unit for w in todo}]
        return [(work.unit, work.replaces) for work in todo]

    assert made("fill", "x") == [(unit(1), True), (unit(2), False)]
    assert made("reload", "x") == [(unit(0), True), (unit(1), True), (unit(2), False)]
    assert made("reload", "t") == [(unit(1), True), (unit(2), False)]


def test_an_hour_is_made_again_when_any_of_its_commits_is_another(folder):
    spec = rollup(folder, grain="hour", time="at")
    source = {unit(n): row(unit(n), generation=n + 1) for n in range(3)}
    hour, other = Unit(Slice(START), ""), Unit(Slice(START.add(hours=1)), "")
    made = RollupFacts(spec, source, {}, "fill", "")
    [first] = made.hour_works({hour: {unit(0): 4, unit(1): 5}})
    assert (first.landed, first.types) == (9, (name_of(source[unit(0)]), name_of(source[unit(1)])))
    ledger = {hour: row(hour, manifest=first.manifest, types=first.types), other: row(other)}
    again = replace(made, ledger=ledger)
    assert again.hour_works({hour: {unit(1): 5, unit(0): 4}}) == []
    assert again.hours_naming([unit(1), unit(2)]) == {hour}
    # A unit more, a unit less, another commit of one, and one that is not committed: its rows do not count.
    assert [w.types for w in again.hour_works({hour: {unit(0): 4, unit(1): 5, unit(2): 1}})]
    assert [w.types for w in again.hour_works({hour: {unit(1): 5}})] == [(name_of(source[unit(1)]),)]
    assert [w.landed for w in again.hour_works({hour: {}})] == [0]
    newer = replace(again, source={**source, unit(1): row(unit(1), generation=8)})
    assert len(newer.hour_works({hour: {unit(0): 4, unit(1): 5}})) == 1
    half = replace(again, source={unit(0): source[unit(0)]})
    assert [(w.types, w.landed) for w in half.hour_works({hour: {unit(0): 4, unit(1): 5}})] == [
        ((name_of(source[unit(0)]),), 4)
    ]


def test_what_was_read_counts_only_if_its_commits_still_stand(folder):
    spec = rollup(folder, grain="hour", time="at")
    source = {unit(n): row(unit(n)) for n in range(2)}
    made = RollupFacts(spec, source, {}, "fill", "")
    works = [*made.hour_works({Unit(Slice(START), ""): {unit(0): 1}}), *made.choose([unit(1)])[0]]
    assert changed(spec, works, source) == []
    assert changed(spec, works, {unit(1): source[unit(1)]}) == [works[0].unit]
    assert changed(spec, works, {**source, unit(1): row(unit(1), generation=4)}) == [unit(1)]


def test_a_rollup_is_fresh_when_it_is_on_every_shard(folder):
    spec = rollup(folder)
    one, two = row(unit(0), generation=3), row(unit(0), generation=7)
    source = replace(one, shares=(("a", one), ("b", two)))
    made = {s: row(unit(0), manifest=commit_of(spec, c)) for s, c in source.shares}
    assert is_fresh(spec, row(unit(0), shares=tuple(made.items())), source)
    assert not is_fresh(spec, row(unit(0), shares=(("a", made["a"]), ("b", made["a"]))), source)
    assert not is_fresh(spec, row(unit(0), shares=(("a", made["a"]), ("b", None))), source)


def test_another_select_is_another_commit(folder):
    first = commit_of(rollup(folder), row(unit(0)))
    (folder / "sql" / "r.sql").write_text("SELECT user, count() + 1 AS n FROM {source} GROUP BY user")
    assert commit_of(rollup(folder), row(unit(0))) != first


def test_a_unit_reads_its_own_rows_only(folder):
    start = int(START.timestamp())
    own = f"_slice = toDateTime({start}, 'UTC') AND _cluster = 'd\\'c'"
    assert f"FROM (SELECT * FROM `db`.`click` WHERE {own}) GROUP BY" in of_unit(
        rollup(folder), unit(0, "d'c")
    )
    spec = rollup(folder, grain="hour", time="at")
    text = of_hour(spec, Unit(Slice(START), ""), [unit(0), unit(1)])
    assert f"(toDateTime({start}, 'UTC'), 'dc1'), (toDateTime({start + 3600}, 'UTC'), 'dc1'))" in text
    assert f"toStartOfHour(`at`) = toDateTime({start}, 'UTC')" in text


def pipeline(folder: Path, **rollups: object) -> Pipeline:
    return Pipeline.model_validate({**SPEC, "rollups": rollups}, context={"folder": folder})


def test_rollups_are_targets_after_their_sources(folder):
    known = {"from": "db.click", "sql": "sql/r.sql"}
    made = pipeline(folder, **{"db.one": known, "db.two": {**known, "from": "db.one"}})
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
        ({"from": "db.other"}, "a table above it"),
        ({"sql": "sql/none.sql"}, "cannot be read"),
        ({"grain": "hour"}, "needs `time`"),
        ({"time": "at"}, "needs `time`"),
        ({"select": "SELECT 1"}, "expected"),
        ({"grain": "day"}, "grain"),
    ],
)
def test_a_wrong_rollup_is_refused(folder, given, says):
    with pytest.raises(ValueError, match=says):
        pipeline(folder, **{"db.one": {"from": "db.click", "sql": "sql/r.sql", **given}})


def test_no_rollup_is_made_from_event_hours(folder):
    hours = {"from": "db.click", "sql": "sql/r.sql", "grain": "hour", "time": "at"}
    with pytest.raises(ValueError, match="belong to no slice"):
        pipeline(folder, **{"db.one": hours, "db.two": {"from": "db.one", "sql": "sql/r.sql"}})


def test_a_select_has_to_read_its_source(folder):
    (folder / "sql" / "r.sql").write_text("SELECT 1 AS n")
    with pytest.raises(ValueError, match="does not read {source}"):
        rollup(folder)
