"""A log of changes and the table of its newest rows, and what that has to hold, by plain Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pendulum

from sluice.clients.clickhouse.shards import ALONE
from sluice.config.pipeline import Pipeline
from sluice.flow.contents.compare import Auditor, ContentsReport
from sluice.flow.contents.compare_tables import Comparing
from sluice.flow.contents.staged_load import Stage
from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.check_tables import check_tables
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.read_tables import SliceSpan, read_target
from sluice.flow.verify.repairs import Repairs
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.departed_tables import creation
from sluice.state.ledger import LedgerRow, committed
from sluice.state.manifests import read_manifests
from sluice.state.status import UnitStatus, statuses
from sluice.state.unit_state import UnitState
from tests.integration.landed import Event, World, land

LOG = (
    "CREATE TABLE {db}.log (id UInt32, lsn Nullable(Int64), name String, gone Nullable(Bool), "
    "_topic LowCardinality(String), _partition Int32, _offset Int64, "
    "_slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice"
)
NAMES = ("log", "customer")
PARTITIONS = 2


@dataclass(frozen=True)
class Change:
    """A record of the log; `gone`: it deletes its key."""

    id: int
    name: str
    lsn: int | None = None
    gone: bool | None = None

    def event(self) -> Event:
        return Event("customer", json.dumps({"type": "customer", **self.__dict__}))


@dataclass
class Newest:
    """`key` and `version`: the pipeline file's. `log`: its other keys of the log."""

    world: World
    version: tuple[str, ...] = ("lsn",)
    key: tuple[str, ...] = ("id",)
    log: dict[str, object] = field(default_factory=dict)
    clickhouse: dict[str, object] = field(default_factory=lambda: {"lease": "1s"})
    landed: dict[Unit, Sequence[Change]] = field(default_factory=dict)
    generations: dict[Unit, int] = field(default_factory=dict)

    def create(self) -> None:
        for statement in ("CREATE DATABASE {db}", LOG):
            self.world.sql(statement)
        pipeline = self.pipeline()
        made = creation(pipeline, pipeline.targets[-1]).partition(": ")[2]
        self.world.client.run(made)

    def pipeline(self) -> Pipeline:
        latest = {"table": f"{self.world.database}.customer", "key": list(self.key), "deleted": "gone"}
        target = {"table": "log", **self.log, "latest": {**latest, "version": list(self.version)}}
        return self.world.pipeline({"customer": target}, clickhouse=self.clickhouse)

    def land(self, place: Unit, changes: Sequence[Change]) -> None:
        """Lands the unit, anew if it has landed before."""
        generation = self.generations.get(place, 0) + 1
        land(self.world.lake, place, [one.event() for one in changes], generation, PARTITIONS)
        self.generations[place] = generation
        self.landed[place] = changes

    def load(self, *units: Unit, table: str, mode: str = "fill", **options) -> int:
        """How many units were loaded."""
        return len(self.world.load(self.pipeline(), *units, table=table, mode=mode, **options).loaded)

    def fill(self, *units: Unit, mode: str = "fill", **options) -> dict[str, int]:
        return {name: self.load(*units, table=name, mode=mode, **options) for name in NAMES}

    def fill_table(self, table: str) -> int:
        return self.load(*self.landed, table=table) if self.landed else 0

    def differing(self) -> list[str]:
        """Returns the anomalies that a comparison of all contents finds in the table of newest rows."""
        pipeline, world = self.pipeline(), self.world
        stage = Stage(world.client, pipeline, pipeline.targets[-1], world.lake, ALONE)
        auditor, contents = Auditor(pipeline, world.lake, Repairs("p"), print), ContentsReport()
        works = auditor.works(stage, self.statuses(*self.landed), contents)
        assert {work.unit for work in works} == {*self.landed}
        found = Comparing(stage, Repairs("p")).check(works)
        assert not found.moved
        assert not contents.notes
        return [
            f"{one.slice} {one.cluster}: {one.expected}, {one.seen}" for one in found.anomalies
        ] + found.blocked

    def wrong(self) -> list[str]:
        return [f"{one.table} {one.slice}: {one.kind}, {one.seen}" for one in self.anomalies()]

    def anomalies(self) -> list[Anomaly]:
        """Returns what verify finds without a comparison of contents."""
        if not self.landed:
            return []
        pipeline, done = self.pipeline(), tuple(self.statuses(*self.landed))
        tables = tuple(
            read_target(self.world.client, pipeline, target, self.ledgers()[target.table], SliceSpan())
            for target in pipeline.targets
        )
        now, span = (
            pendulum.now("UTC").add(years=9),
            SliceRange(done[0].unit.slice.start, done[-1].unit.slice.end),
        )
        facts = VerifyFacts(pipeline, span, now, Boundaries(), done, tables=tables)
        return [*check_tables(facts, Repairs("p"))]

    def ledgers(self) -> dict[str, Mapping[Unit, LedgerRow]]:
        pipeline, lake = self.pipeline(), self.world.lake
        return {t.table: committed(self.world.client, pipeline, lake.url, t) for t in pipeline.targets}

    def statuses(self, *units: Unit) -> list[UnitStatus]:
        now, manifests = pendulum.now("UTC").add(years=9), read_manifests(self.world.lake, units)
        return statuses(self.pipeline(), units, Boundaries(), manifests, self.ledgers(), now)

    def states(self, *units: Unit) -> list[UnitState]:
        return [status.state for status in self.statuses(*units)]

    def seen(self) -> list[tuple]:
        found = self.world.sql(
            "SELECT id, name, lsn, toUnixTimestamp(_slice), toString(_cluster), _partition, _offset "
            "FROM {db}.customer FINAL ORDER BY id"
        )
        return [tuple(row) for row in found]

    def expected(self) -> list[tuple]:
        """Of what has landed, the newest change of each key that is not gone: by its lsn, null first, then by
        the hour, the offset, the partition and the cluster."""
        hashed = "SELECT cityHash64('{0}', 'events') % pow(2, 27)"
        clusters = {c: self.world.sql(hashed.format(c))[0][0] for c in {u.cluster for u in self.landed}}
        newest: dict[int, tuple] = {}
        for place, changes in self.landed.items():
            start = int(place.slice.start.timestamp())
            for number, one in enumerate(changes):
                partition, offset = number % PARTITIONS, number // PARTITIONS
                lsn = () if "lsn" not in self.version else (one.lsn is not None, one.lsn or 0)
                rank = (lsn, start, offset, partition, clusters[place.cluster])
                row = (one.id, one.name, one.lsn, start, place.cluster, partition, offset)
                if one.id not in newest or newest[one.id][0] < rank:
                    newest[one.id] = (rank, one, row)
        return [row for _, one, row in (newest[key] for key in sorted(newest)) if not one.gone]
