"""What racers land and load, and what must be there afterwards: computed from the published events alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sluice.clients.clickhouse.client import Client
from sluice.clients.lake.base import Lake
from sluice.clients.lake.layout import ATTEMPTS
from sluice.clients.lake.open import open_lake
from sluice.config.pipeline import Pipeline
from sluice.slices import SliceRange
from sluice.state.ledger import committed
from sluice.state.manifests import read_manifests
from sluice.state.units import units_of
from tests.faults.published import CLICKS, OTHER, REJECTED_ROW, Published, publish
from tests.faults.racers import Job
from tests.support.landing_world import START, hours, rows_in


@dataclass(frozen=True)
class Scene:
    """A lake, a database of its own, and `published` hours of records."""

    lake_root: str
    database: str
    client: Client
    environment: Mapping[str, str]
    published: int = 6
    lease: str = "5s"
    types: tuple[str, ...] = (CLICKS, OTHER)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The types in `types` have a table each; the catch-all takes the others."""
        names = {OTHER: "other"}
        spec: dict[str, Any] = {
            "name": "raced",
            "kafka": [{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids"]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": self.lake_root,
            "clickhouse": {"lease": self.lease},
            "tables": {kind: f"{self.database}.{names.get(kind, kind + 's')}" for kind in self.types},
        }
        return Pipeline.model_validate(spec)

    @cached_property
    def records(self) -> list[Published]:
        return publish(self.published)[1]

    @property
    def lake(self) -> Lake:
        return open_lake(self.pipeline)

    def named(self, database: str, **changes: Any) -> Scene:
        """Another database, and by that another table and lease; the lake is the same."""
        return replace(self, database=database, **changes)

    def make_tables(self, view: bool = True) -> Scene:
        keys = "_partition Int32, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)"
        create = f"({{}}, {keys}) ENGINE = MergeTree PARTITION BY {{}} ORDER BY _offset"
        self.sql(f"CREATE DATABASE {self.database}")
        for kind in ("clicks", "bids"):
            self.sql(f"CREATE TABLE {self.database}.{kind} " + create.format("n UInt16", "n % 4"))
        columns = "_type LowCardinality(String), _payload String"
        self.sql(f"CREATE TABLE {self.database}.other " + create.format(columns, "_partition"))
        if view:
            self.sql(
                f"CREATE MATERIALIZED VIEW {self.database}.summed ENGINE = SummingMergeTree "
                "ORDER BY (_slice, _cluster) AS SELECT _slice, _cluster, toUInt64(count()) AS events, "
                f"sum(n) AS total FROM {self.database}.clicks GROUP BY _slice, _cluster"
            )
        return self

    def job(self, first: int, count: int, **more: Any) -> Job:
        """A process's work on `count` hours from the `first` on."""
        return Job(
            **{"published": self.published, **more},
            pipeline=self.pipeline,
            slices=hours(count, first),
            environment=self.environment,
        )

    def sql(self, text: str) -> list[tuple]:
        if text.startswith("SELECT"):
            return [tuple(row) for row in self.client.rows(text)]
        self.client.run(text)
        return []

    def expect_lake(self, slices: SliceRange) -> None:
        """Every file that is visible is a manifest's, and together they hold what was published, once."""
        manifests = list(read_manifests(self.lake, units_of(self.pipeline, slices)).values())
        keys = {
            i.key for i in self.lake.list("") if i.key.endswith(".parquet") and not i.key.startswith(ATTEMPTS)
        }
        same("files", keys, {f.key for m in manifests for f in (*m.files, *m.rejected)})
        found = Counter(
            (part, offset, kind, value.encode())
            for *_, part, offset, value, kind in rows_in(self.lake, manifests)
        )
        mine = self._of(slices)
        same("lake", found, Counter((r.partition, r.offset, r.kind, r.value) for r in mine if r.kind))
        rejected_records = sum(sum(m.rejected_records.values()) for m in manifests)
        same("rejected_records", rejected_records, sum(not r.kind for r in mine))

    def expect_tables(self, slices: SliceRange, view: bool = True) -> None:
        """Targets, the view's table, sluice.rejected, the ledger and its view hold each row once."""
        mine = self._of(slices)
        stamp = int(START.timestamp())
        for kind in [kind for kind in self.types if kind != OTHER]:
            own = [r for r in mine if r.kind == kind]
            fit = Counter(
                (stamp + 3600 * r.hour, r.partition, r.offset, int(r.n)) for r in own if r.n != REJECTED_ROW
            )
            columns = "toUnixTimestamp(_slice), _partition, _offset, n"
            for name in (f"{self.database}.{kind}s", f"sluice.`{self.database}.{kind}s`"):
                same(name, Counter(self.sql(f"SELECT {columns} FROM {name}")), fit)
            rejected = (
                f"SELECT partition, offset, column, value FROM sluice.rejected WHERE target = '{{}}.{kind}s'"
            )
            rejected_rows = Counter(
                (r.partition, r.offset, "n", REJECTED_ROW) for r in own if r.n == REJECTED_ROW
            )
            same("rejected_rows", Counter(self.sql(rejected.format(self.database))), rejected_rows)
        others = Counter(
            (r.partition, r.offset, r.kind, r.value.decode())
            for r in mine
            if OTHER in self.types and r.kind and r.kind not in self.types
        )
        sql = f"SELECT _partition, _offset, _type, _payload FROM {self.database}.other"
        same("catch-all", Counter(self.sql(sql)), others)
        if view:
            sql = f"SELECT toUnixTimestamp(_slice), sum(events), sum(total) FROM {self.database}.summed"
            same("view", sorted(self.sql(sql + " GROUP BY _slice")), _summed(mine, stamp))
        self._expect_ledger(slices)

    def _expect_ledger(self, slices: SliceRange) -> None:
        units = units_of(self.pipeline, slices)
        manifests = read_manifests(self.lake, units)
        same("manifests", sorted(manifests), units)
        for target in self.pipeline.targets:
            rows = committed(self.client, self.pipeline, self.lake.url, target)
            held = {unit: row.manifest for unit, row in rows.items()}
            same(f"ledger of {target.table}", held, {unit: m.id for unit, m in manifests.items()})

    def ledger_rows(self, table: str) -> int:
        """How often something was written down for a table: commits and revocations."""
        return self.sql(f"SELECT count() FROM sluice.ledger WHERE target = '{self.database}.{table}'")[0][0]

    def _of(self, slices: SliceRange) -> list[Published]:
        return [r for r in self.records if slices.start <= START.add(hours=r.hour) < slices.end]


def _summed(records: Sequence[Published], stamp: int) -> list[tuple[int, int, int]]:
    sums: dict[int, tuple[int, int]] = {}
    for record in records:
        if record.kind == CLICKS and record.n != REJECTED_ROW:
            events, total = sums.get(record.hour, (0, 0))
            sums[record.hour] = events + 1, total + int(record.n)
    return sorted((stamp + 3600 * hour, *pair) for hour, pair in sums.items())


def same(what: str, found: Any, published: Any) -> None:
    """Says what is too much and what is missing."""
    if isinstance(found, Counter):
        assert found == published, f"{what}: too much {found - published}, missing {published - found}"
    assert found == published, f"{what}: {found}, not {published}"
