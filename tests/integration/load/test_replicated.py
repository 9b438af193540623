"""A load of a replicated table, on a server that answers as a replica does: statements, settings, and errors
of the quorum. The embedded server has no Keeper: that replicas do agree is the real servers' part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.errors import Outcome, ServerError
from sluice.clients.clickhouse.shards import placement_of
from sluice.clients.clickhouse.sql import Sql, identifier, literal, render, table
from sluice.config.pipeline import Pipeline
from sluice.errors import Changed, QuorumPending, TargetRefused, TooFewReplicas
from sluice.flow.load.load import load
from sluice.flow.load.replicas import write_settings
from sluice.flow.load.work import LoadResult
from tests.integration.landed import World, client_of, event, land, unit
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

COLUMNS = "n UInt16, _slice DateTime('UTC'), _cluster LowCardinality(String)"
SPEC = {"shards": [{"name": "s1", "replicas": ["ch1a", "ch1b"]}], "lease": "2s"}
_FAMILY = re.compile(r"((?:Summing|Aggregating|Replacing)?MergeTree)(?:\((.*?)\))?(?= |$)")
ENGINES = "ReplicatedMergeTree('/clickhouse/tables/{shard}/sluice/"


@dataclass
class Told:
    """What the server was told; `fails` is (step, code, done) of the next statement that is answered so."""

    name: str = "a"
    live: int = 2
    family: str = "Replicated"
    pending: bool = False
    writes: list[tuple[str, dict]] = field(default_factory=list)
    reads: list[tuple[str, dict]] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    fails: tuple[str, int, bool] | None = None


class ReplicatedClient(Client):
    """The session's server, whose MergeTree tables say that they are replicated."""

    def __init__(self, driver: Any, address: str, told: Told, reading: Mapping | None = None) -> None:
        super().__init__(driver, address, reading)
        self._told = told

    def reading(self, settings: Mapping) -> Client:
        return ReplicatedClient(self._driver, self.address, self._told, settings)

    def rows(self, sql: str, parameters: Mapping | None = None, settings: Mapping | None = None) -> list:
        if "FROM system.zookeeper" in sql:
            return [("/clickhouse/tables/s1/clicks/quorum",)] if self._told.pending else []
        if "FROM system.replicas" in sql:
            return [(self._told.name, 0, 2, self._told.live, {"a": 1, "b": self._told.live - 1})]
        found = super().rows(sql, parameters, settings)
        self._told.reads.append((sql, self._reading))
        if "FROM system.tables" not in sql:
            return found
        return [tuple(replicated(value, self._told.family) for value in row) for row in found]

    def run(
        self,
        sql: str,
        parameters: Mapping | None = None,
        settings: Mapping | None = None,
        body: bytes | None = None,
    ) -> None:
        if ENGINES in sql:
            self._told.created.append(sql.split("ENGINE = ")[1].split("\n")[0])
            before, _, after = sql.partition("ENGINE = Replicated")
            sql = before + "ENGINE = MergeTree" + after.partition(")")[2]
        step = dict(settings or {}).get("query_id", "---").split("-")[-2]
        if step:  # a statement of the protocol
            self._told.writes.append((sql, dict(settings)))
        failing = self._told.fails and self._told.fails[0] == step
        if not (failing and not self._told.fails[2]):
            super().run(sql, parameters, settings, body)
        if failing:
            _, code, _ = self._told.fails
            self._told.fails = None
            raise ServerError(self.address, code, "INJECTED", step, "as a replica answers")


def replicated(value: Any, family: str = "Replicated") -> Any:
    """An engine, or the whole of its definition, as a server of the family has it."""
    found = _FAMILY.match(value) if isinstance(value, str) else None
    if found is None or found.end() == len(value):
        return f"{family}{value}" if found else value
    own = f"'/clickhouse/tables/s1/t', '{{replica}}'{f', {found[2]}' if found[2] else ''}"
    return f"{family}{found[1]}({own}){value[found.end() :]}"


@dataclass
class Place:
    world: World
    client: ReplicatedClient
    other: ReplicatedClient
    told: Told

    def pipeline(self, **more: Any) -> Pipeline:
        return self.world.pipeline({"click": "clicks"}, clickhouse={**SPEC, **more})

    def load(self, pipeline: Pipeline, **options: Any) -> LoadResult:
        shard, target = pipeline.clickhouse.shards[0], pipeline.targets[0]
        place = placement_of(pipeline.clickhouse, shard, target.table)
        known = {"mode": "fill", "placement": place, "others": (self.other,), **options}
        return load(pipeline, target, [unit()], self.world.lake, self.client, **known)

    def numbers(self) -> list[int]:
        return [n for (n,) in self.world.sql("SELECT n FROM {db}.clicks ORDER BY n")]


@pytest.fixture
def place(clickhouse_server, tmp_path, name) -> Place:
    world = World(tmp_path, client_of(clickhouse_server), name)
    world.sql("CREATE DATABASE {db} ENGINE = Atomic")
    world.sql(f"CREATE TABLE {{db}}.clicks ({COLUMNS}) ENGINE = MergeTree PARTITION BY n % 3 ORDER BY n")
    told = Told()
    driver = world.client._driver
    other = ReplicatedClient(driver, "replica b", Told("b"))
    yield Place(world, ReplicatedClient(driver, "replica a", told), other, told)
    world.sql("DROP DATABASE {db} SYNC")


def test_every_write_waits_for_the_quorum_and_every_count_sees_it(place: Place):
    place.world.sql("DROP DATABASE IF EXISTS sluice SYNC")  # other tests' loads have made it
    land(place.world.lake, unit(), [event(n=n) for n in (1, 2, 3)] + [event(n="x")])
    result = place.load(place.pipeline(quorum=2))
    assert place.numbers() == [1, 2, 3]
    assert {s["insert_quorum"] for _, s in place.told.writes} == {"2"}
    assert {s["insert_quorum_parallel"] for _, s in place.told.writes} == {0}
    assert {(s["mutations_sync"], s["alter_sync"]) for _, s in place.told.writes} == {(2, 2)}
    counts = [reading for sql, reading in place.told.reads if "count()" in sql and "GROUP BY" in sql]
    assert counts
    assert all(reading["select_sequential_consistency"] == 1 for reading in counts)
    assert not [sql for sql, _ in place.told.writes if "ATTACH" in sql]
    tables = [engine.partition("/sluice/")[2] for engine in place.told.created]
    assert tables == ["ledger', '{replica}')", "rejected', '{replica}')", "targets', '{replica}')"]
    # Three partitions of the target, the rejected row, the ledger's row.
    assert (result.statements, result.blocks) == (len(place.told.writes), 5)


def test_a_deletion_carries_the_units_and_the_fences_name_to_the_other_replicas(place: Place):
    land(place.world.lake, unit(), [event(n=1), event(n="x")])
    place.load(place.pipeline())
    land(place.world.lake, unit(), [event(n=2), event(n="y")], generation=2)
    place.load(place.pipeline(), mode="reland")
    assert place.numbers() == [2]
    found = place.world.sql("SELECT command FROM system.mutations WHERE database = '{db}'")
    stamp = int(unit().slice.start.timestamp())
    assert len(found) == 1
    assert f"(toDateTime({stamp}, 'UTC'), 'dc1')" in found[0][0]
    assert "notEmpty('fence_" in found[0][0]
    assert "SELECT" not in found[0][0]


def test_without_its_fence_a_deletion_does_not_begin(place: Place):
    """A statement that comes late, when a successor has dropped the fence table."""
    place.load(place.pipeline())
    place.world.sql(f"INSERT INTO {{db}}.clicks SELECT 1, {int(unit().slice.start.timestamp())}, 'dc1'")
    sql = render(
        "load/delete_rows_replicated",
        table=table(f"{place.world.database}.clicks"),
        units=Sql(f"(toDateTime({int(unit().slice.start.timestamp())}, 'UTC'), 'dc1')"),
        marker=literal("fence_x_1_1"),
        fence=identifier("sluice", "fence_x_1_1"),
    )
    settings = write_settings(place.pipeline().clickhouse, None)
    with pytest.raises(ServerError) as raised:
        place.world.client.run(sql, settings=settings)
    assert raised.value.code == 60
    assert place.numbers() == [1]


@pytest.mark.parametrize("step", per_commit(["move", "commit"]))
@pytest.mark.parametrize("done", per_commit([True, False]))
@pytest.mark.parametrize(
    ("code", "outcome"), [(285, "retry"), (286, "unknown"), (319, "unknown"), (999, "unknown")]
)
def test_errors_of_the_quorum_are_looked_at_and_done_again(
    place: Place, code: int, outcome: str, done: bool, step: str
):
    land(place.world.lake, unit(), [event(n=n) for n in range(9)])
    place.told.fails = (step, code, done)
    with pytest.raises(ServerError) as raised:
        place.load(place.pipeline())
    assert (raised.value.outcome, raised.value.retryable) == (Outcome(outcome), True)
    again = place.load(place.pipeline())
    assert len(again.loaded) == (0 if (step, done) == ("commit", True) else 1)
    assert place.numbers() == list(range(9))


def test_too_few_live_replicas_are_waited_for_before_anything_is_written(place: Place):
    land(place.world.lake, unit(), [event(n=1)])
    place.told.live = 1
    with pytest.raises(TooFewReplicas, match="1 replicas are active and writable, 2 are needed"):
        place.load(place.pipeline())
    assert place.told.writes == []
    place.told.live = 2
    assert place.load(place.pipeline()).summary()["rows"] == 1


@pytest.mark.long
def test_an_insert_before_its_quorum_is_waited_for(place: Place):
    land(place.world.lake, unit(), [event(n=1)])
    place.told.pending = True
    with pytest.raises(QuorumPending):
        place.load(place.pipeline())
    assert place.told.writes == []


def test_replicas_of_a_table_that_is_not_replicated_are_refused(place: Place):
    land(place.world.lake, unit(), [event(n=1)])
    pipeline = place.pipeline()
    shard, target = pipeline.clickhouse.shards[0], pipeline.targets[0]
    here = placement_of(pipeline.clickhouse, shard, target.table)
    with pytest.raises(TargetRefused, match="its engine is MergeTree, and shard s1 lists replicas"):
        load(
            pipeline,
            target,
            [unit()],
            place.world.lake,
            place.world.client,
            mode="fill",
            placement=here,
            others=(),
        )


def evolving(place: Place) -> Pipeline:
    target = {"table": "clicks", "evolve": "add", "evolve_rows": 1}
    return place.world.pipeline({"click": target}, clickhouse=SPEC)


def test_a_column_is_there_though_a_replica_is_away(place: Place):
    """It takes the column when it is back: the statement has been done, and says so by error 341."""
    land(place.world.lake, unit(), [event(n=1, code="a"), event(n=2)])
    place.told.fails = ("evolve", 341, True)
    place.load(evolving(place))
    assert place.world.sql("SELECT n, code FROM {db}.clicks ORDER BY n") == [(1, "a"), (2, None)]
    altered = [settings for sql, settings in place.told.writes if "ADD COLUMN" in sql]
    assert [settings["alter_sync"] for settings in altered] == [2]


@pytest.mark.long
def test_a_column_that_did_not_come_is_tried_again(place: Place):
    land(place.world.lake, unit(), [event(n=1, code="a")])
    place.told.fails = ("evolve", 341, False)
    with pytest.raises(Changed, match="column code is not there after its ALTER") as raised:
        place.load(evolving(place))
    assert raised.value.retryable and place.numbers() == []
    place.load(evolving(place))
    assert place.world.sql("SELECT n, code FROM {db}.clicks ORDER BY n") == [(1, "a")]


@pytest.mark.long
def test_a_column_that_the_server_refuses_is_named_with_the_way_out(place: Place):
    land(place.world.lake, unit(), [event(n=1, code="a")])
    place.told.fails = ("evolve", 44, False)
    with pytest.raises(TargetRefused, match=r"ADD COLUMN IF NOT EXISTS `code` .*set `evolve: off`"):
        place.load(evolving(place))
