"""What is there after a kill and a retry: read with pyarrow and plain SQL, not with the code under test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import clickhouse_connect
import pyarrow.parquet as pq
from clickhouse_connect.driver.client import Client

from sluice.flow.load.fencing import fences, stagings
from tests.faults.kills_events import CLUSTER, PLAIN, VIEWED
from tests.support.clickhouse_at import at

COLUMNS = (
    "id UInt32, n UInt16, kind LowCardinality(String), _slice DateTime('UTC'), "
    "_cluster LowCardinality(String), _partition Int32, _offset Int64"
)
SLICE = "formatDateTime({}, '%Y-%m-%dT%HZ')"


@dataclass(frozen=True)
class Place:
    """One trial's own lake folder and database."""

    lake: Path
    database: str
    port: int

    @cached_property
    def client(self) -> Client:
        return clickhouse_connect.get_client(**at(self.port).login, autogenerate_session_id=False)

    def sql(self, text: str) -> list[tuple]:
        return list(self.client.query(text.replace("DB.", f"{self.database}.")).result_rows)

    def do(self, *statements: str) -> None:
        for text in statements:
            self.client.command(text.replace("DB.", f"{self.database}."))

    def create(self) -> None:
        table = f"({COLUMNS}) ENGINE = MergeTree PARTITION BY n % 3 ORDER BY id"
        self.do(
            f"CREATE DATABASE {self.database}",
            f"CREATE TABLE DB.{VIEWED} {table}",
            f"CREATE TABLE DB.{PLAIN} {table}",
            "CREATE MATERIALIZED VIEW DB.kinds ENGINE = SummingMergeTree ORDER BY (kind, _slice, _cluster) "
            f"AS SELECT kind, _slice, _cluster, toUInt64(count()) AS events FROM DB.{VIEWED} "
            "GROUP BY kind, _slice, _cluster",
        )

    def drop(self) -> None:
        self.do(f"DROP DATABASE {self.database}")


def observed(place: Place) -> dict[str, list]:
    """As kills_events.expected has it."""
    return {**_server(place), **_lake(place.lake)} | {"ledger": _ledger(place)}


def _server(place: Place) -> dict[str, list]:
    rows = f"SELECT id, n, {SLICE.format('_slice')}, _cluster, _partition, _offset FROM DB."
    counts = [place.sql(f"SELECT count() FROM sluice.`DB.{name}`")[0][0] for name in (VIEWED, PLAIN)]
    targets = f"target IN ('DB.{VIEWED}', 'DB.{PLAIN}')"
    return {
        VIEWED: sorted(place.sql(rows.replace(" FROM", ", extra FROM") + VIEWED)),
        PLAIN: sorted(place.sql(rows + PLAIN)),
        "readers' views": counts,
        "materialized view": sorted(
            place.sql(
                f"SELECT kind, {SLICE.format('_slice')} AS s, sum(events) FROM DB.kinds GROUP BY kind, s"
            )
        ),
        "rejected": sorted(
            (target.partition(".")[2], *rest)
            for target, *rest in place.sql(
                f"SELECT target, {SLICE.format('slice')}, column, value, partition, offset "
                f"FROM sluice.rejected WHERE {targets}"
            )
        ),
        "tables left behind": _left(place),
    }


def _left(place: Place) -> list[str]:
    """Temporary and fence tables of the two targets."""
    targets = [f"{place.database}.{name}" for name in (VIEWED, PLAIN)]
    starts = tuple(start(target) for target in targets for start in (fences, stagings))
    found = place.sql("SELECT name FROM system.tables WHERE database = 'sluice'")
    return [name for (name,) in found if name.startswith(starts)]


def _ledger(place: Place) -> list[tuple]:
    manifests = {m["slice"]: _id(m) for m in _manifests(place.lake)}
    found = place.sql(
        f"SELECT target, {SLICE.format('slice')} AS s, "
        "argMax((toString(state), manifest, rows, rejected_rows), (generation, attempt, state)) AS newest "
        f"FROM sluice.ledger WHERE startsWith(target, 'DB.') GROUP BY target, s"
    )
    return sorted(
        (target.partition(".")[2], piece, state, manifest == manifests.get(piece), rows, rejected_rows)
        for target, piece, (state, manifest, rows, rejected_rows) in found
    )


def _id(manifest: dict[str, Any]) -> str:
    """What the ledger and the slice's mark have of it."""
    return f"{manifest['generation']}-{manifest['attempt']}"


def _marked(lake: Path, manifest: dict[str, Any]) -> bool:
    mark = lake / "_slices" / manifest["slice"] / CLUSTER / "_SUCCESS"
    return mark.exists() and mark.read_text() == _id(manifest)


def _manifests(lake: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(lake.glob("_slices/*/*/manifest.json")):
        yield json.loads(path.read_text())


def _lake(lake: Path) -> dict[str, list]:
    manifests = list(_manifests(lake))
    named = _named(manifests)
    rows, rejected_records = [], []
    for key, piece in named:
        for row in pq.ParquetFile(lake / key).read().to_pylist():
            place = (piece, row["_partition"], row["_offset"], row["_payload"])
            if key.startswith("_rejected/"):
                rejected_records.append((*place, row["_reason"]))
            else:
                rows.append((key.rpartition("/")[0], *place))
    return {
        "lake": sorted(rows),
        "rejected_records": sorted(rejected_records),
        "offsets": sorted(
            (m["slice"], r["partition"], r["start"], r["until"]) for m in manifests for r in m["ranges"]
        ),
        "marked slices": sorted(m["slice"] for m in manifests if _marked(lake, m)),
        "marked hours": sorted(str(p.parent.relative_to(lake)) for p in lake.glob("type=*/*/*/_SUCCESS")),
        "files that no manifest names": unnamed(lake),
        "columns added": sorted(
            (one["column"], one["type"])
            for one in json.loads((lake / "_added_columns.json").read_text())
            if one["shards"]
        ),
    }


def unnamed(lake: Path) -> list[str]:
    """Files that no manifest names, and named ones that are not there; attempts are nobody's business."""
    there = {
        str(path.relative_to(lake))
        for path in lake.rglob("*.parquet")
        if not path.relative_to(lake).parts[0].startswith(("_attempts", ".sluice"))
    }
    return sorted(there ^ {key for key, _ in _named(_manifests(lake))})


def _named(manifests: Iterable[dict[str, Any]]) -> set[tuple[str, str]]:
    """(key, slice) of each file that is not forgotten."""
    held = [m for m in manifests if not (m.get("forgotten") or {}).get("lake")]
    return {(f["key"], m["slice"]) for m in held for f in (*m["files"], *m["rejected"])}
