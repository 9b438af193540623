"""A target with two rollups, and what both have to hold, by plain Python out of the events that landed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pendulum

from sluice.config.pipeline import Pipeline
from sluice.slices import Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.ledger import committed
from sluice.state.manifests import read_manifests
from sluice.state.status import UnitStatus, statuses
from sluice.state.unit_state import UnitState
from tests.integration.landed import START, Event, World, land

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
# Neither DISTINCT nor a median nor a join can be had from a materialized view, which sees a block at a time.
BY_USER = """-- What each user did in one slice.
SELECT user, any(u.plan) AS plan, count() AS clicks, uniqExact(page) AS pages,
    quantileExact(0.5)(ms) AS median
FROM {source} AS c LEFT JOIN {db}.users AS u USING (user)
GROUP BY user;
"""
BY_HOUR = """SELECT toStartOfHour(at) AS hour, count() AS clicks, uniqExact(user) AS users,
    quantileExact(0.5)(ms) AS median
FROM {source}
GROUP BY hour
"""
TABLES = (
    "CREATE TABLE {db}.users (user String, plan String) ENGINE = MergeTree ORDER BY user",
    "INSERT INTO {db}.users VALUES ('u0', 'free'), ('u1', 'paid')",
    f"CREATE TABLE {{db}}.clicks (user String, page String, ms UInt32, at DateTime('UTC'), {KEYS}) "
    "ENGINE = MergeTree PARTITION BY _slice ORDER BY user",
    f"CREATE TABLE {{db}}.by_user (user String, plan String, clicks UInt64, pages UInt64, median UInt32, "
    f"{KEYS}) ENGINE = MergeTree PARTITION BY _slice ORDER BY user",
    f"CREATE TABLE {{db}}.by_hour (hour DateTime('UTC'), clicks UInt64, users UInt64, median UInt32, "
    f"{KEYS}) ENGINE = MergeTree ORDER BY hour",
)
PLANS = {"u0": "free", "u1": "paid"}


def clicks(count: int, hour: int = 0, seed: int = 1) -> list[Event]:
    """Clicks in the event hour that begins `hour` hours after START."""
    found = []
    for n in range(count):
        k = n * 7919 + seed * 104729
        at = START.add(hours=hour, seconds=k % 3600).isoformat()
        fields = {"type": "click", "user": f"u{k % 5}", "page": f"p{k % 13}", "ms": k % 997, "at": at}
        found.append(Event("click", json.dumps(fields), START.add(hours=hour).strftime("%Y-%m-%dT%H")))
    return found


@dataclass
class Rolled:
    world: World
    landed: dict[Unit, list[Event]] = field(default_factory=dict)
    source: str = "clicks"

    def create(self) -> None:
        for statement in ("CREATE DATABASE {db}", *TABLES):
            self.world.sql(statement)
        for name, text in (("by_user", BY_USER), ("by_hour", BY_HOUR)):
            self._sql(name).write_text(text.replace("{db}", self.world.database))

    def _sql(self, name: str) -> Path:
        return self.world.root / f"{name}.sql"

    def pipeline(self) -> Pipeline:
        db = self.world.database
        source = {"from": f"{db}.{self.source}"}
        rollups = {
            f"{db}.by_user": {**source, "sql": str(self._sql("by_user"))},
            f"{db}.by_hour": {**source, "sql": str(self._sql("by_hour"))},
        }
        return self.world.pipeline({"click": "clicks"}, rollups=rollups, clickhouse={"lease": "1s"})

    def land(self, place: Unit, events: list[Event], generation: int = 1) -> None:
        land(self.world.lake, place, events, generation)
        self.landed[place] = events

    def load(self, *units: Unit, table: str, mode: str = "fill", **options) -> int:
        """How many units were loaded."""
        return len(self.world.load(self.pipeline(), *units, table=table, mode=mode, **options).loaded)

    def load_all(self, *units: Unit, mode: str = "fill", **options) -> dict[str, int]:
        names = ("clicks", "by_user", "by_hour")
        return {name: self.load(*units, table=name, mode=mode, **options) for name in names}

    def statuses(self, *units: Unit) -> list[UnitStatus]:
        pipeline, lake = self.pipeline(), self.world.lake
        ledgers = {t.table: committed(self.world.client, pipeline, lake.url, t) for t in pipeline.targets}
        now, manifests = pendulum.now("UTC").add(years=9), read_manifests(lake, units)
        return statuses(pipeline, units, Boundaries(), manifests, ledgers, now)

    def states(self, *units: Unit) -> list[UnitState]:
        return [status.state for status in self.statuses(*units)]

    def seen(self) -> dict[str, list[tuple]]:
        by_user = "SELECT toUnixTimestamp(_slice), _cluster, user, plan, clicks, pages, median"
        by_hour = "SELECT toUnixTimestamp(_slice), _cluster, toUnixTimestamp(hour), clicks, users, median"
        return {
            "by_user": sorted(self.world.sql(by_user + " FROM {db}.by_user")),
            "by_hour": sorted(self.world.sql(by_hour + " FROM {db}.by_hour")),
        }

    def expected(self) -> dict[str, list[tuple]]:
        by_user: dict[tuple, list[dict]] = {}
        by_hour: dict[tuple, list[dict]] = {}
        for place, events in self.landed.items():
            for one in events:
                row = json.loads(one.payload)
                of_unit = (int(place.slice.start.timestamp()), place.cluster)
                by_user.setdefault((*of_unit, row["user"]), []).append(row)
                hour = int(pendulum.parse(row["at"]).start_of("hour").timestamp())
                by_hour.setdefault((*of_unit, hour), []).append(row)
        users = [
            (*key, PLANS.get(key[2], ""), len(rows), len({r["page"] for r in rows}), median(rows))
            for key, rows in by_user.items()
        ]
        hours = [
            (*key, len(rows), len({row["user"] for row in rows}), median(rows))
            for key, rows in by_hour.items()
        ]
        return {"by_user": sorted(users), "by_hour": sorted(hours)}


def median(rows: list[dict]) -> int:
    """As quantileExact says it: of an even number the upper one of the two in the middle."""
    return sorted(row["ms"] for row in rows)[len(rows) // 2]
