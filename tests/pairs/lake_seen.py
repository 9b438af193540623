"""The lake of a case against the oracle: each file that a manifest names, read with pyarrow."""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from sluice.clients.lake.base import Lake
from tests.pairs.differences import Said, counters_differ, rows_differ
from tests.pairs.events import CONFIGURED, time_path
from tests.pairs.expected import Expected, lake_values
from tests.pairs.log import Sent
from tests.pairs.oracle import Rejected, Row, Unit

_MAX_TYPES = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def lake_differs(expected: Expected, lake: Lake) -> list[str]:
    manifests = list(_manifests(lake))
    rows, rejected, folders = [], [], []
    for manifest in manifests:
        unit = (_seconds(manifest["slice"]), manifest["cluster"])
        for file in (*manifest["files"], *manifest["rejected"]):
            for row in _rows(lake, file["key"]):
                if file["key"].startswith("_rejected/"):
                    rejected.append(_rejected(unit, row))
                else:
                    rows.append(_row(expected, unit, row))
                    folders.append((unit, row["_type"], file["key"].rpartition("/")[0], row_key(row)))
    return [
        *rows_differ("the lake's rows", {r.key: _wanted(expected, r) for r in expected.rows}, rows),
        *counters_differ("the lake's _rejected", _wanted_rejected(expected), Counter(rejected)),
        *_folders_differ(expected, folders),
        *counters_differ("manifests", _wanted_counts(expected), Counter(map(_counts, manifests))),
        *_unnamed(lake, manifests),
    ]


def _manifests(lake: Lake) -> Iterator[dict[str, Any]]:
    for item in lake.list("_slices/"):
        if item.key.endswith("/manifest.json"):
            yield json.loads(lake.read(item.key).data)


def _rows(lake: Lake, key: str) -> list[dict[str, Any]]:
    return pq.read_table(io.BytesIO(lake.read(key).data)).to_pylist()


def _seconds(slice_id: str) -> int:
    shape = "%Y-%m-%dT%HZ" if len(slice_id) == 14 else "%Y-%m-%dT%H%MZ"
    return int(datetime.strptime(slice_id, shape).replace(tzinfo=UTC).timestamp())


def row_key(row: dict[str, Any]) -> tuple:
    return (row["_cluster"], row["_topic"], row["_partition"], row["_offset"], row.get("_row") or 0)


def _row(expected: Expected, unit: tuple[int, str], row: dict[str, Any]) -> tuple[tuple, tuple]:
    key = None if row["_key"] is None else row["_key"].hex().upper()
    stamp = round(row["_timestamp"].timestamp() * 1000)
    headers = None if row["_headers"] is None else tuple((h["key"], h["value"]) for h in row["_headers"])
    case = expected.case
    assert ("_row" in row) is case.arrays and ("_raw" in row) is case.decoded
    place = (unit[0], row["_type"], *row_key(row), stamp, key)
    time = (row["_event_time"] - _EPOCH) // timedelta(milliseconds=1)
    return row_key(row), (*place, headers or (), row["_payload"], row.get("_raw"), time)


def _wanted(expected: Expected, row: Row) -> tuple:
    case, message = expected.case, row.sent.message
    payload = Said(row.text, time_path(case)) if case.decoded else row.text
    raw = message.value if case.decoded else None
    return (*lake_values(row), row.sent.headers, payload, raw, row.time)


def _rejected(unit: tuple[int, str], row: dict[str, Any]) -> tuple:
    place = (row["_cluster"], row["_topic"], row["_partition"], row["_offset"], row.get("_row"))
    return (*unit, *place, row["_reason"], row["_payload"])


def _wanted_rejected(expected: Expected) -> Counter[tuple]:
    found: Counter[tuple] = Counter()
    for (start, cluster), unit in expected.units.items():
        for one in unit.rejected:
            found[start, cluster, *one.place, one.offset, one.number, one.reason, one.payload] += 1
    return found


def _folders_differ(expected: Expected, seen: list[tuple]) -> list[str]:
    """Each row lies in the folder of its type and event hour. Of a unit with too many types some lie in the
    overflow, each type wholly there or not at all."""
    wrong, overflown, own = [], defaultdict(set), defaultdict(set)
    hours = {row.key: row.hour for row in expected.rows}
    for unit, kind, folder, key in seen:
        found, date, hour = (part.partition("=")[2] for part in folder.split("/"))
        at = datetime.fromtimestamp(hours.get(key, 0), UTC)
        if (date, hour) != (f"{at:%Y-%m-%d}", f"{at:%H}"):
            wrong.append(f"{key}: {folder}, not hour {at:%Y-%m-%dT%H}")
        (overflown if found == "_overflow" else own)[unit].add(kind)
        if found != "_overflow" and unquote(found) != kind:
            wrong.append(f"{key}: type {kind!r} in {folder}")
    for unit, kinds in overflown.items():
        others = own[unit] - {*CONFIGURED, "alpha", "beta"}
        if expected.case.max_types == "enough" or kinds & own[unit] or len(others) > _MAX_TYPES:
            wrong.append(f"unit {unit}: {sorted(kinds)} in the overflow beside {sorted(own[unit])}")
    return [f"folders: {line}" for line in sorted(set(wrong))[:3]]


def _counts(manifest: dict[str, Any]) -> tuple:
    """(slice, cluster, records read, reasons). A gap at an edge is in either slice: who reads on behind a
    stamp of the future does not see it."""
    reasons = Counter(manifest["rejected_records"]) + Counter(manifest.get("rejected_elements") or {})
    return (
        _seconds(manifest["slice"]),
        manifest["cluster"],
        manifest["read"],
        tuple(sorted(reasons.items())),
    )


def _wanted_counts(expected: Expected) -> Counter[tuple]:
    found: Counter[tuple] = Counter()
    for (start, cluster), unit in expected.units.items():
        reasons = Counter(one.reason for one in unit.rejected)
        found[start, cluster, unit.read, tuple(sorted(reasons.items()))] += 1
    return found


def _unnamed(lake: Lake, manifests: list[dict[str, Any]]) -> list[str]:
    """Files that are visible, and that no manifest names."""
    named = {file["key"] for m in manifests for file in (*m["files"], *m["rejected"])}
    named |= {one["file"]["key"] for m in manifests for one in m.get("traffic") or () if one.get("file")}
    seen = {i.key for i in lake.list("") if i.key.endswith(".parquet")}
    left = sorted(key for key in seen - named if not key.startswith(("_attempts/", "_counts/")))
    return [f"files that no manifest names: {left[:3]}"] if left else []


__all__ = ["Rejected", "Sent", "Unit", "lake_differs"]
