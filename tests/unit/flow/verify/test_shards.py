"""Shards as decisions: what the pipeline file may say, who commits what, and what verify makes of it."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
from pydantic import ValidationError

from sluice.clients.clickhouse.shards import Placement, Server, absent, placement_in, placement_of
from sluice.clients.lake import layout
from sluice.config.clickhouse import ClickHouse
from sluice.errors import ClickHouseUnavailable, ShardsWait, ShardUnavailable
from sluice.flow import steps
from sluice.flow.batch_loop import one_by_one, run_batches
from sluice.flow.load.shards import merged
from sluice.flow.load.work import LoadResult, UnitLoad
from sluice.flow.verify import audit
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.check import check_states
from sluice.flow.verify.facts import LeftRows, TableFacts, VerifyFacts
from sluice.flow.verify.read_tables import whole
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Forgotten
from sluice.plan.estimate import TimeEstimate
from sluice.plan.plan import PlannedWork
from sluice.state.ledger import LedgerRow
from sluice.state.shard_ledgers import left, merge, remember
from sluice.state.status import statuses
from sluice.state.unit_state import UnitState
from tests.support.fakes import MemoryLake
from tests.support.landing_world import hours
from tests.support.verified import FACTS, FOUND, LEDGERS, TEN, found, pipeline

TWO = {"shards": [{"name": "s1", "connection": "a"}, {"name": "s2", "connection": "b"}]}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**TWO, "connection": "c"}, "not both"),
        ({"shard_by": "n"}, "`shard_by` is for `shards`"),
        ({"shards": [{"name": "s1"}]}, "exactly one of `connection` and `replicas`"),
        ({"shards": [{"name": "s1", "connection": "a", "replicas": ["b"]}]}, "exactly one of"),
        ({"shards": [{"name": "s1", "connection": "a"}, {"name": "s1", "connection": "b"}]}, "used twice"),
        ({"shards": [{"name": "s1", "connection": "a"}, {"name": "s2", "replicas": ["a"]}]}, "used twice"),
        ({"shards": [{"name": "s/1", "connection": "a"}]}, "letters, digits"),
        ({**TWO, "shard_by": "rand()"}, "the same answer for a row.*not rand"),
        ({**TWO, "shard_by": {"e.c": "n + (SELECT 1)"}}, "not SELECT"),
        ({**TWO, "shard_by": "cityHash64(n, hostName())"}, "not hostName"),
        ({**TWO, "quorum": "most"}, "quorum"),
        ({**TWO, "quorum": -1}, "quorum"),
    ],
)
def test_what_the_pipeline_file_may_not_say(given: dict, words: str):
    with pytest.raises(ValidationError, match=words):
        ClickHouse.model_validate(given)


@pytest.mark.parametrize(
    "gap",
    [" ", "\n\t", "\u00a0", "/**/", "/* a ( */ /* * / */ ", "/* /* */ */", " -- a\n", "# a\n", '"', "` "],
)
@pytest.mark.parametrize("name", ["now", "NOW", "generateUUIDv4"])
def test_what_stands_before_a_bracket_hides_no_function(name: str, gap: str):
    """Those are accepted by ClickHouse 26.7."""
    quote = gap[0] if gap[0] in '"`' else ""
    with pytest.raises(ValidationError, match=f"the same answer for a row.*not {name}"):
        ClickHouse.model_validate({**TWO, "shard_by": f"cityHash64({quote}{name}{gap}())"})


@pytest.mark.parametrize(
    "expression",
    [
        "n",
        "now_id + (n)",
        "today * (n)",
        "cityHash64(version, (n))",
        f"cityHash64(now{'/**/' * 240})",
        "a.now",
    ],
)
def test_a_column_with_the_name_of_a_function(expression: str):
    ClickHouse.model_validate({**TWO, "shard_by": expression})


@pytest.mark.parametrize("table", ["e.click", "E.clicks", "clicks", "*"])
def test_what_is_sharded_by_is_a_table_of_the_file(table: str):
    wrong = rf"clickhouse\.shard_by\.{re.escape(table)}: expected a table of this file"
    with pytest.raises(ValidationError, match=wrong):
        pipeline(clickhouse={**TWO, "shard_by": {"e.clicks": "n", table: "n"}})
    assert pipeline(clickhouse={**TWO, "shard_by": {"e.clicks": "n"}}).clickhouse.placed_by("e.clicks") == "n"


def test_tables_of_counts_are_sharded_by_what_the_file_says():
    counts = [{"table": "e.traffic", "by": ["country"]}]
    spec = pipeline(counts=counts, clickhouse={**TWO, "shard_by": {"e.traffic": "n"}})
    assert spec.clickhouse.placed_by("e.traffic") == "n"


def test_one_connection_is_one_shard_without_a_name():
    alone = ClickHouse(connection="x")
    assert [(s.name, s.connections) for s in alone.parts] == [("", ("x",))]
    place = placement_of(alone, alone.parts[0], "e.clicks")
    assert (place.alone, place.stamp, place.own_record) == (True, "", "1")


def test_the_stamp_says_which_of_which_shards_by_what():
    two = ClickHouse.model_validate({**TWO, "shard_by": {"e.clicks": "cityHash64(n)"}})
    stamps = [placement_of(two, shard, "e.clicks").stamp for shard in two.shards]
    assert stamps == ["s1 of s1, s2 by cityHash64(n)", "s2 of s1, s2 by cityHash64(n)"]
    assert placement_of(two, two.shards[1], "e.other").stamp == "s2 of s1, s2 by partition"


def row(sharding: str, rows: int = 3, manifest: str = "") -> LedgerRow:
    known = FOUND[0].tables["e.clicks"]
    return replace(known, rows=rows, rejected_rows=0, sharding=sharding, manifest=manifest or known.manifest)


def state(held: dict) -> tuple[UnitState, tuple[str, ...]]:
    """Of the first hour when the shards hold these rows of e.clicks."""
    pipeline = FACTS.pipeline.model_copy(update={"clickhouse": ClickHouse.model_validate(TWO)})
    sharding = pipeline.clickhouse.sharding("e.other")
    ledgers = {
        "e.clicks": merge(pipeline.clickhouse, "e.clicks", held),
        "e.other": {TEN: replace(FOUND[0].tables["e.other"], sharding=sharding)},
    }
    manifests = {TEN: FOUND[0].manifest}
    [one] = statuses(pipeline, [TEN], FACTS.boundaries, manifests, ledgers, FACTS.now)
    return one.state, one.lacking_shards


OWN = {name: f"{name} of s1, s2 by partition" for name in ("s1", "s2")}


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({"s1": row(OWN["s1"]), "s2": row(OWN["s2"])}, (UnitState.COMPLETE, ())),
        ({"s1": row(OWN["s1"]), "s2": None}, (UnitState.LANDED, ("s2",))),
        ({"s1": None, "s2": None}, (UnitState.LANDED, ())),
        ({"s1": row(OWN["s1"]), "s2": row(OWN["s2"], manifest="0-old")}, (UnitState.STALE, ())),
        ({"s1": row(OWN["s1"]), "s2": row("s2 of s1, s2, s3 by partition")}, (UnitState.STALE, ())),
        ({"s1": row(OWN["s2"]), "s2": row(OWN["s1"])}, (UnitState.STALE, ())),  # the servers were swapped
        ({"s1": row(""), "s2": row(OWN["s2"])}, (UnitState.STALE, ())),
    ],
)
def test_an_hour_is_complete_when_every_shard_has_its_share(held: dict, expected: tuple):
    ledgers = {name: {TEN: one} if one else {} for name, one in held.items()}
    assert state(ledgers) == expected


def test_of_a_shard_that_does_not_answer_nothing_counts():
    assert state({"s1": {TEN: row(OWN["s1"])}, "s2": None}) == (UnitState.LANDED, ("s2",))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", Placement()),
        ("s1 of s1 by partition", Placement("s1", 0, 1, "partition", "s1 by partition")),
        (OWN["s2"], Placement("s2", 1, 2, "partition", "s1, s2 by partition")),
        (
            "b-2 of a_1, b-2, c by cityHash64(n, 'x, y by z of w')",
            Placement(
                "b-2",
                1,
                3,
                "cityHash64(n, 'x, y by z of w')",
                "a_1, b-2, c by cityHash64(n, 'x, y by z of w')",
            ),
        ),
    ],
)
def test_a_stamp_names_its_placement(given: str, expected: Placement):
    assert placement_in(given) == expected
    assert expected.stamp == given


@pytest.mark.parametrize(
    ("stamps", "expected"),
    [
        ([""], ()),
        ([OWN["s1"], OWN["s2"]], ()),
        ([OWN["s2"]], ("s1",)),
        (["s1 of s1, s2, s3 by n", "s3 of s1, s2, s3 by n"], ("s2",)),
        # Of rows that are being placed anew nothing is known.
        (["", OWN["s2"]], None),
        (["", ""], None),
        ([OWN["s1"], "s2 of s1, s2 by n"], None),
    ],
)
def test_which_shares_of_a_placement_are_absent(stamps: list[str], expected: tuple | None):
    assert absent(stamps) == expected


FORGOTTEN = Forgotten("2028-01-01T00:00:00Z", tables=("e.clicks", "e.other"), removed=True)


def seen(clickhouse: dict, held: dict) -> tuple[str, list[str]]:
    """What status says of the first hour, whose files are forgotten, and verify of e.clicks."""
    spec = FACTS.pipeline.model_copy(update={"clickhouse": ClickHouse.model_validate(clickhouse)})
    other = replace(FOUND[0].tables["e.other"], sharding=spec.clickhouse.sharding("e.other"))
    ledgers = {"e.clicks": merge(spec.clickhouse, "e.clicks", held), "e.other": {TEN: other}}
    manifests = {TEN: replace(FOUND[0].manifest, forgotten=FORGOTTEN)}
    [one] = statuses(spec, [TEN], FACTS.boundaries, manifests, ledgers, FACTS.now)
    facts = replace(FACTS, pipeline=spec, statuses=(one,), tables=FACTS.tables)
    found = [a.advice or a.command for a in check_states(facts, Repairs("ads"))]
    return one.seen.removeprefix("complete; files forgotten on 2028-01-01"), found


@pytest.mark.parametrize(
    ("clickhouse", "held", "said"),
    [
        # A shard came: the rows of one server stay there.
        (TWO, {"s1": {TEN: row("")}, "s2": {}}, ""),
        (TWO, {"s1": {TEN: row("")}, "s2": None}, ""),
        # Another order, another expression: each share is where it was.
        (TWO, {"s1": {TEN: row("s1 of s2, s1 by n")}, "s2": {TEN: row("s2 of s2, s1 by n")}}, ""),
        # A listed shard has lost its share, or does not answer.
        (TWO, {"s1": {TEN: row(OWN["s1"])}, "s2": {}}, ", not on shard s2"),
        (TWO, {"s1": {TEN: row(OWN["s1"])}, "s2": None}, ", not on shard s2"),
        # One that holds a share is not listed any more.
        (TWO, {"s1": {TEN: row("s1 of s1, s3 by n")}, "s2": {}}, ", in part on shard s3, which left"),
        ({}, {"": {TEN: row(OWN["s1"])}}, ", in part on shard s2, which left"),
        ({}, {"": {TEN: row("s1 of s1 by partition")}}, ""),
    ],
)
def test_hours_that_cannot_be_moved_keep_their_placement(clickhouse: dict, held: dict, said: str):
    status, found = seen(clickhouse, held)
    assert status == said
    assert bool(found) == bool(said)
    if "left" in said:
        assert found == ["its files are forgotten: list the shard under `clickhouse.shards` again"]


def test_rows_of_the_shards_add_up():
    two = ClickHouse.model_validate(TWO)
    held = {"s1": {TEN: row(OWN["s1"], 3)}, "s2": {TEN: row(OWN["s2"], 2)}}
    found = merge(two, "e.clicks", held)[TEN]
    assert (found.rows, found.sharding) == (5, "s1, s2 by partition")
    loads = {
        "s1": LoadResult("t", (UnitLoad(TEN, "m", 3, 1, loaded=False),), 0, 0),
        "s2": LoadResult("t", (UnitLoad(TEN, "m", 2, 0, loaded=True),), 12, 4),
    }
    assert merged("t", loads) == LoadResult("t", (UnitLoad(TEN, "m", 5, 1, loaded=True),), 12, 4)


def sharded(first: int, second: int, **away: int) -> VerifyFacts:
    """e.other on two shards that have committed 2 and 1 rows of the first hour, and hold these."""
    parts = []
    for name, committed, rows in (("s1", 2, first), ("s2", 1, second)):
        ledger = {TEN: replace(LEDGERS["e.other"][TEN], rows=committed)}
        held = {TEN: {"view": rows}}
        misplaced = {TEN: away[name]} if name in away else {}
        parts.append(TableFacts("e.other", rows=held, ledger=ledger, shard=name, misplaced=misplaced))
    table = whole(parts, {TEN: LEDGERS["e.other"][TEN]})
    clicks = FACTS.tables[0]
    return replace(FACTS, statuses=FOUND[:1], tables=(clicks, table), shards=tuple(parts))


def test_verify_finds_nothing_where_each_shard_holds_its_share():
    assert [a for a in found(sharded(2, 1)) if a.slice == TEN.slice.id] == []


def test_a_row_that_is_missing_here_and_too_many_there_is_found():
    """The sum is right."""
    anomalies = [(a.kind, a.shard, a.command) for a in found(sharded(1, 2)) if a.shard]
    command = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode repair --table e.other"
    assert anomalies == [(AnomalyKind.ROWS_MISSING, "s1", command), (AnomalyKind.ROWS_EXTRA, "s2", command)]


def test_a_shard_with_the_only_rows_of_hours_is_not_to_be_dropped():
    facts = replace(sharded(2, 1), left=(LeftRows("s3", "c", "e.other", 7, only=2),))
    [one] = [a for a in found(facts) if a.kind is AnomalyKind.LEFT]
    assert (one.seen, one.command) == ("7 rows", "")
    assert "2 of them are of hours that the listed shards have not committed" in one.advice
    assert "DROP" not in one.advice


def test_rows_of_another_shard_and_shards_that_have_left_are_named():
    facts = replace(sharded(2, 1, s2=1), left=(LeftRows("s3", "c", "e.other", 7),))
    places = [(a.kind, a.place) for a in found(facts) if a.shard]
    assert places == [
        (AnomalyKind.MISPLACED, "table e.other, shard s2, slice 2026-11-20T10Z/dc1"),
        (AnomalyKind.LEFT, "table e.other, shard s3"),
    ]


def test_the_lake_remembers_shards_that_leave():
    lake = MemoryLake()
    remember(lake, ClickHouse())
    assert lake.read(layout.SHARDS) is None
    remember(lake, ClickHouse.model_validate(TWO))
    moved = {"shards": [{"name": "s1", "replicas": ["a", "c"]}]}
    remember(lake, ClickHouse.model_validate(moved))
    assert left(lake, ClickHouse.model_validate(moved)) == {"s2": ("b",)}
    assert left(lake, ClickHouse(connection="b")) == {"s1": ("a", "c")}


class Absent:
    """A shard's client that does not answer the first `silent` statements, and has nothing to say then."""

    def __init__(self, silent: int) -> None:
        self.silent = silent

    def rows(self, *_: object, **__: object) -> list[tuple[object, ...]]:
        if self.silent:
            self.silent -= 1
            raise ClickHouseUnavailable("h:8123", "connection reset")
        return []


def test_a_shard_that_goes_away_while_its_ledger_is_read_is_told(monkeypatch):
    two = pipeline(clickhouse=TWO)
    servers = tuple(Server(shard, Absent(n)) for n, shard in enumerate(two.clickhouse.shards))
    monkeypatch.setattr(audit, "connect_shards", lambda *_: nullcontext(servers))
    with pytest.raises(ShardUnavailable, match="^shard s2: it went away while its ledger was read$"):
        audit.read_facts(two, MemoryLake(), FACTS.slices, audit.AuditScope(), print)


def test_a_shard_that_waits_holds_up_no_other_table_nor_batch(monkeypatch):
    """`sluice run` raises it when everything else is loaded."""
    tried = []

    def load_table(spec, table, batch, *_):
        tried.append((table, batch))
        if table == "e.clicks":
            raise ShardsWait(table, "shard s2: it is down", "s1")

    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", "http://127.0.0.1:1")
    monkeypatch.setattr(steps, "load_table", load_table)
    monkeypatch.setattr(steps, "estimated_time", lambda spec, work: TimeEstimate({}, ()))
    batches = (hours(1), hours(1, first=1))
    work = PlannedWork(batches, ((1, 1), (1, 1)), ((1, 1), (1, 1)), (2, 2))
    with pytest.raises(ShardsWait, match="shard s2: it is down; loaded on s1"):
        run_batches(FACTS.pipeline, work, "fill", "t", partial(one_by_one, lambda batch: 0), print)
    assert tried == [(table, batch) for batch in batches for table in ("e.clicks", "e.other")]
