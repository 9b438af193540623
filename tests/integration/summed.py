"""Two tables of events, and a rollup that adds up one of them: two numbers tell which rows it was made of."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import pendulum

from sluice.clients.lake import layout
from sluice.config.pipeline import Pipeline
from sluice.flow.load.work import LoadResult
from sluice.manifest import Forgotten, encode
from sluice.slices import Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.ledger import committed
from sluice.state.manifests import read_manifests
from sluice.state.status import UnitStatus, statuses
from tests.integration.landed import Event, World, land

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
TABLES = (
    f"CREATE TABLE {{db}}.clicks (x UInt64, {KEYS}) ENGINE = MergeTree ORDER BY _slice",
    f"CREATE TABLE {{db}}.views (x UInt64, {KEYS}) ENGINE = MergeTree ORDER BY x",
    f"CREATE TABLE {{db}}.sums (n UInt64, s UInt64, {KEYS}) ENGINE = MergeTree ORDER BY n",
)
NAMES = ("clicks", "views", "sums")


def events(*numbers: int) -> list[Event]:
    """One click and one view of each number; a view's is larger by a thousand."""
    return [
        Event(kind, json.dumps({"type": kind, "x": number + more}))
        for number in numbers
        for kind, more in (("click", 0), ("view", 1000))
    ]


@dataclass
class Summed:
    """`source` and `factor` are what the pipeline file says of the rollup now."""

    world: World
    source: str = "clicks"
    factor: int = 1
    said: list[str] = field(default_factory=list)

    def create(self) -> None:
        for statement in ("CREATE DATABASE {db}", *TABLES):
            self.world.sql(statement)

    def drop(self) -> None:
        self.world.sql("DROP DATABASE {db} SYNC")

    def pipeline(self) -> Pipeline:
        file, db = self.world.root / "sums.sql", self.world.database
        file.write_text(f"SELECT count() AS n, sum(x * {self.factor}) AS s FROM {{source}}")
        return self.world.pipeline(
            {"click": "clicks", "view": "views"},
            rollups={f"{db}.sums": {"from": f"{db}.{self.source}", "sql": str(file)}},
            clickhouse={"lease": "1s"},
        )

    def land(self, place: Unit, *numbers: int, generation: int = 1) -> None:
        land(self.world.lake, place, events(*numbers), generation)

    def load(self, *places: Unit, table: str, mode: str = "fill") -> LoadResult:
        return self.world.load(self.pipeline(), *places, table=table, mode=mode, on_progress=self.said.append)

    def fill(self, *places: Unit) -> list[int]:
        """Loads every table, and returns how many units each has loaded."""
        self.said.clear()
        return [len(self.load(*places, table=name).loaded) for name in NAMES]

    def expire(self, condition: str, table: str = "clicks") -> None:
        """Deletes rows, as a TTL does."""
        self.world.sql(f"DELETE FROM {{db}}.{table} WHERE {condition}")

    def forget(self, *places: Unit) -> None:
        """Leaves the lake as `keep.lake` does, with nothing of the units but their manifests."""
        lake = self.world.lake
        for place, manifest in read_manifests(lake, places).items():
            lake.delete([file.key for file in manifest.files])
            forgotten = Forgotten(lake=str(pendulum.now("UTC")), removed=True)
            content = encode(replace(manifest, forgotten=forgotten))
            lake.put(layout.manifest(place.slice.id, place.cluster), content)

    def sums(self) -> dict[tuple[int, str], list[tuple[int, int]]]:
        """Returns (n, s) of each row, by unit."""
        found: dict[tuple[int, str], list[tuple[int, int]]] = {}
        rows = self.world.sql("SELECT toUnixTimestamp(_slice), _cluster, n, s FROM {db}.sums ORDER BY ALL")
        for start, cluster, n, s in rows:
            found.setdefault((start, cluster), []).append((n, s))
        return found

    def total(self) -> tuple[int, int]:
        """Returns what readers get who add up all units."""
        [row] = self.world.sql("SELECT sum(n), sum(s) FROM {db}.sums")
        return row

    def statuses(self, *places: Unit) -> list[UnitStatus]:
        pipeline, lake = self.pipeline(), self.world.lake
        ledgers = {t.table: committed(self.world.client, pipeline, lake.url, t) for t in pipeline.targets}
        now, manifests = pendulum.now("UTC").add(years=9), read_manifests(lake, places)
        return statuses(pipeline, places, Boundaries(), manifests, ledgers, now)


def key(place: Unit) -> tuple[int, str]:
    return int(place.slice.start.timestamp()), place.cluster
