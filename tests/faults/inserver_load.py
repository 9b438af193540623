"""One load that is disturbed: what is there before it, and what has to be there after its retry."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sluice.config.pipeline import Pipeline
from sluice.flow.load.fencing import fences, stagings
from sluice.manifest import Manifest
from sluice.slices import Unit
from tests.integration.landed import Event, World, event, land, unit


class Commit(StrEnum):
    """What the target is: how its rows are staged and attached differs."""

    PLAIN = "a plain table"
    TTL = "a table with a TTL"  # its staging table has to keep what a merge would forget
    VIEW = "a table with a view"


def clicks(*values: object) -> list[Event]:
    return [event(n=value, kind=f"k{number % 3}") for number, value in enumerate(values)]


UNITS = (unit(0), unit(1), unit(2))
# Loaded before: what the load under test has to replace in the first unit, and find done in the second.
OLD = {UNITS[0]: clicks(*range(6), "x"), UNITS[1]: clicks(100, 101)}
NEW = {UNITS[0]: clicks(*range(3, 10), "y", -1), UNITS[1]: OLD[UNITS[1]], UNITS[2]: clicks(7, 8, 70_000)}


@dataclass(frozen=True)
class State:
    """What readers find: rows of the target and of sluice.rejected, the view's sums, the ledger's commits."""

    rows: Counter
    shown: Counter
    rejected: Counter
    sums: dict
    ledger: list
    leftovers: list


def expected(events: dict[Unit, list[Event]], manifests: dict[Unit, Manifest], commit: Commit) -> State:
    """Computed from the events alone: `n` is a UInt16."""
    fields = [(place, json.loads(item.payload)) for place, items in events.items() for item in items]
    fits = [(p, f) for p, f in fields if isinstance(f["n"], int) and 0 <= f["n"] < 65536]
    rejected_rows = [(p, f) for p, f in fields if (p, f) not in fits]
    rows = Counter((f["n"], f["kind"], *_key(p)) for p, f in fits)
    per_unit = [Counter(_key(p) for p, _ in some) for some in (fields, fits, rejected_rows)]
    ledger = [(*_key(p), manifests[p].id, *(c[_key(p)] for c in per_unit)) for p in sorted(events)]
    sums = Counter((f["kind"], *_key(p)) for p, f in fits) if commit is Commit.VIEW else Counter()
    rejected = Counter((*_key(p), "n", str(f["n"])) for p, f in rejected_rows)
    return State(rows, rows, rejected, dict(sums), ledger, [])


def _key(place: Unit) -> tuple[int, str]:
    return int(place.slice.start.timestamp()), place.cluster


@dataclass
class Trials:
    """A table for each trial in the world's database, and what is in it afterwards."""

    world: World
    commit: Commit
    trials: int = 0

    def __post_init__(self) -> None:
        for name in ("{db}", "sluice"):
            self.world.sql(f"CREATE DATABASE IF NOT EXISTS {name}")

    def prepare(self) -> tuple[str, Pipeline, dict[Unit, Manifest]]:
        """A new table with the old units loaded, and the new ones landed; nothing of earlier trials."""
        for table in ("rejected", "ledger"):
            self.world.sql(f"TRUNCATE TABLE IF EXISTS sluice.{table}")
        self.trials += 1
        table = f"t{self.trials}"
        keys = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
        ttl = "TTL _slice + INTERVAL 50 YEAR" if self.commit is Commit.TTL else ""
        self.world.sql(
            f"CREATE TABLE {{db}}.{table} (n UInt16, kind LowCardinality(String), {keys}) "
            f"ENGINE = MergeTree PARTITION BY n % 2 ORDER BY n {ttl}"
        )
        if self.commit is Commit.VIEW:
            self.world.sql(
                f"CREATE MATERIALIZED VIEW {{db}}.{table}_kinds ENGINE = SummingMergeTree "
                "ORDER BY (kind, _slice, _cluster) AS SELECT kind, _slice, _cluster, "
                f"toUInt64(count()) AS events FROM {{db}}.{table} GROUP BY kind, _slice, _cluster"
            )
        pipeline = self.world.pipeline({"click": table}, clickhouse={"lease": "5s"})
        manifests = {place: land(self.world.lake, place, events) for place, events in OLD.items()}
        self.world.load(pipeline, *OLD)
        for place in (UNITS[0], UNITS[2]):
            manifests[place] = land(self.world.lake, place, NEW[place], generation=2)
        return table, pipeline, manifests

    def differences(self, table: str, right: State) -> list[str]:
        found = self.state(table)
        names = State.__dataclass_fields__
        pairs = [(name, getattr(right, name), getattr(found, name)) for name in names]
        return [f"{name}: {there!r} instead of {due!r}" for name, due, there in pairs if due != there]

    def state(self, table: str) -> State:
        target = f"{self.world.database}.{table}"
        sums = (
            "SELECT kind, toUnixTimestamp(_slice), _cluster, sum(events) "
            f"FROM {{db}}.{table}_kinds GROUP BY ALL"
        )
        tables = [
            name for (name,) in self.world.sql("SELECT name FROM system.tables WHERE database='sluice'")
        ]
        return State(
            rows=self._rows(f"{{db}}.{table}"),
            shown=self._rows(f"sluice.`{{db}}.{table}`"),
            rejected=Counter(
                self.world.sql(
                    "SELECT toUnixTimestamp(slice), cluster, column, value FROM sluice.rejected "
                    f"WHERE target = '{target}'"
                )
            ),
            sums={row[:3]: row[3] for row in self.world.sql(sums)} if self.commit is Commit.VIEW else {},
            ledger=sorted(self._commits(target)),
            leftovers=[name for name in tables if name.startswith((fences(target), stagings(target)))],
        )

    def _rows(self, place: str) -> Counter:
        return Counter(self.world.sql(f"SELECT n, kind, toUnixTimestamp(_slice), _cluster FROM {place}"))

    def _commits(self, target: str) -> Iterable[tuple]:
        """The newest row of each unit; a revoked one shows as such, and so differs from what is expected."""
        rows = self.world.sql(
            "SELECT toUnixTimestamp(slice), cluster, manifest, landed, rows, rejected_rows, state, "
            f"generation, attempt FROM sluice.ledger WHERE target = '{target}'"
        )
        newest: dict[tuple, tuple] = {}
        for row in sorted(rows, key=lambda r: (r[7], r[8], r[6] == "committed")):
            newest[row[:2]] = row[:6] if row[6] == "committed" else (*row[:6], "revoked")
        return newest.values()
