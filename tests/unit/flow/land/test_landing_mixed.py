"""Options with each other: random logs through a landing, compared row by row with what was put into them.

Whoever makes a record here says what has to become of it, so nothing is parsed a second time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.landing_world import START, World, hours, pipeline
from tests.support.long_form import per_commit

HOURS = 3
KINDS = ["click", "bid", *(f"k{n}" for n in range(9)), "a/b=c", "_overflow", "ü"]
COUNTRIES = ["DE", "US", 'a"b', None, 7]


@dataclass
class Case:
    """What a seed chooses. `rows` and `refused` are what has to be there, `counted` by (slice, hour, type,
    country)."""

    random: Random
    arrays: bool
    type_by: str
    time_by: str
    batch: bool
    long: bool
    clusters: list[str]
    topics: list[str]
    logs: dict[tuple[str, str], list[list[tuple]]] = field(default_factory=dict)
    rows: Counter[tuple] = field(default_factory=Counter)
    refused: Counter[tuple] = field(default_factory=Counter)
    counted: Counter[tuple] = field(default_factory=Counter)

    @property
    def spec(self) -> dict[str, Any]:
        types = {"field": {"field": "type"}, "header": {"header": "kind"}, "topic": {"topic": True}}
        times = {"record": {"record": True}}
        event = {"type": types[self.type_by]}
        event["time"] = times.get(self.time_by) or {"field": "at", "format": self.time_by}
        event |= {"rows": "array"} if self.arrays else {}
        event |= {"batch": {"header": "sluice_batch"}} if self.batch else {}
        named = [{"cluster": c, "bootstrap": "nowhere:1", "topics": self.topics} for c in self.clusters]
        return {
            "event": event,
            "kafka": named,
            "tables": {"click": "db.click", "k8": "db.k8"},
            "counts": [{"table": "db.traffic", "by": ["country"]}],
            "max_types": 3,
            "max_early": "none",
        }


def case_of(seed: int) -> Case:
    random = Random(seed)
    case = Case(
        random,
        arrays=seed % 2 == 1,
        type_by=("field", "header", "topic")[seed % 3],
        time_by=("iso8601", "epoch_ms", "epoch_s", "record")[seed // 2 % 4],
        batch=seed // 3 % 2 == 1,
        long=seed // 4 % 2 == 1,
        clusters=["dc1", "dc2"][: 1 + seed // 5 % 2],
        topics=["bids", "click"][: 1 + seed // 6 % 2],
    )
    for cluster in case.clusters:
        for topic in case.topics:
            partitions = range(random.randint(1, 3))
            case.logs[cluster, topic] = [log_of(case, (cluster, topic, number)) for number in partitions]
    return case


def log_of(case: Case, place: tuple[str, str, int]) -> list[tuple]:
    random, log, seen = case.random, [], set()
    stamps = sorted(random.randrange(HOURS * 3_600_000) for _ in range(random.randint(0, 150)))
    for offset, after in enumerate(stamps):
        stamp = int(START.timestamp() * 1000) + after
        headers, kind = headers_of(case)
        name = dict(headers or ()).get("sluice_batch")
        slice_id = START.add(hours=after // 3_600_000).strftime("%Y-%m-%dT%HZ")
        twice = case.batch and name in SHIPPED and (slice_id, name) in seen
        seen.add((slice_id, name))
        events = [
            event_of(case, stamp, kind, place[1]) for _ in range(random.randint(0, 4) if case.arrays else 1)
        ]
        value = (b"[%b]" if case.arrays else b"%b") % b" ,".join(text for text, _, _ in events)
        where = (slice_id, *place, offset)
        if twice:
            case.refused[*where, None, value, "shipped twice"] += 1
        elif random.random() < 0.05:
            value, reason = (b"[1", "not JSON") if case.arrays else (b"\xff", "not UTF-8")
            case.refused[*where, None, value, reason] += 1
        else:
            for number, told in enumerate(events):
                tell(case, where, number if case.arrays else None, told)
        log.append((value, stamp, headers))
    return log


SHIPPED = {b"b:%d" % n for n in range(1, 6)}


def headers_of(case: Case) -> tuple[list[tuple[str, bytes | None]] | None, str | bytes | None]:
    """A record's headers and the type that they say."""
    random = case.random
    if random.random() < 0.2:
        return None, None
    kind = random.choice([*KINDS, b"\xff", ""])
    raw = kind if isinstance(kind, bytes) else kind.encode()
    headers = [("kind", b"older"), ("x", None), ("kind", raw)]
    name = random.choice([*sorted(SHIPPED), b"other", b"b:" + b"1" * 5000])
    return [*headers, ("sluice_batch", name)], kind


def event_of(case: Case, stamp: int, kind: str | bytes | None, topic: str) -> tuple[bytes, Any, str | None]:
    """(its text, what it is counted as, or why it is refused)."""
    random = case.random
    country, own, reason = random.choice(COUNTRIES), random.choice([*KINDS, None, 5, ""]), None
    late = random.choice([0, 1, 90, 60 * 24 * 40]) * 60_000
    at = stamp - late
    said: dict[str, Any] = {"type": own, "country": country, "pad": "é" * random.randint(0, 30)}
    if country is None:
        del said["country"]
    if case.long and random.random() < 0.05:
        said["pad"] = "x" * 70_000
    if case.type_by == "field":
        reason = "no type" if own in (None, "") else "type is not a string" if own == 5 else None
    elif case.type_by == "header":
        own = kind
        reason = "no type" if kind in (None, "") else "type is not a string" if kind == b"\xff" else None
    else:
        own = topic
    if case.time_by == "record":
        at = stamp
    else:
        written = {"iso8601": START.add(seconds=(at - int(START.timestamp() * 1000)) / 1000)}
        said["at"] = {"epoch_ms": at, "epoch_s": at / 1000}.get(case.time_by) or written[
            "iso8601"
        ].isoformat()
        if random.random() < 0.1:
            # One reason counts: a field that is missing or of another kind, in their order, comes before a
            # type that cannot be one.
            first = case.type_by == "field" and own in (None, 5)
            said["at"], reason = None, reason if first else "no time"
    text = json.dumps(said, ensure_ascii=random.random() < 0.5, separators=(",", random.choice([":", ": "])))
    return text.encode(), (own, at // 3_600_000, json.dumps(country)), reason


def tell(case: Case, where: tuple, number: int | None, event: tuple[bytes, Any, str | None]) -> None:
    text, (kind, hour, country), reason = event
    if reason is not None:
        case.refused[*where, number, text, reason] += 1
        return
    written = START.add(hours=hour - int(START.timestamp()) // 3600).strftime("%Y-%m-%dT%H")
    case.rows[*where, number, text, kind, written] += 1
    case.counted[where[0], where[1], written, kind, country] += 1


def table(lake: FolderLake, files: Iterable) -> Iterator[tuple[str, dict]]:
    for file in files:
        for row in pq.read_table(lake.root / file.key).to_pylist():
            yield file.key, row


def compare(case: Case, lake: FolderLake, manifests: list[Manifest]) -> None:
    rows, refused, counted = Counter(), Counter(), Counter()
    for manifest in manifests:
        own: Counter[str] = Counter()
        for key, row in table(lake, manifest.files):
            kind, day, hour = (part.partition("=")[2] for part in key.split("/")[:3])
            where = (manifest.slice, row["_cluster"], row["_topic"], row["_partition"], row["_offset"])
            assert kind in ("_overflow", FOLDERS[row["_type"]])
            assert kind != "_overflow" or row["_type"] not in ("click", "k8")
            rows[*where, row.get("_row"), row["_payload"].encode(), row["_type"], f"{day}T{hour}"] += 1
            own[row["_type"]] += 1
        assert manifest.rows_by_type() == own
        for _, row in table(lake, manifest.rejected):
            where = (manifest.slice, row["_cluster"], row["_topic"], row["_partition"], row["_offset"])
            refused[*where, row.get("_row"), row["_payload"], row["_reason"]] += 1
        for _, row in table(lake, manifest.traffic[0].files):
            said = json.loads(row["_payload"])
            place = (manifest.slice, manifest.cluster, said["hour"][:13], said["type"])
            counted[*place, json.dumps(said["country"])] += said["count"]
    assert refused == case.refused
    assert rows == case.rows
    assert counted == case.counted


FOLDERS = {kind: kind for kind in (*KINDS, "bids")} | {"a/b=c": "a%2Fb%3Dc", "_overflow": "%5Foverflow"}


@pytest.mark.parametrize("seed", per_commit(range(24), 4))
def test_every_row_is_where_it_belongs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int):
    case = case_of(seed)
    gathered = (7, 60, 250_000)[seed % 3]
    monkeypatch.setattr("sluice.flow.land.task.writer.ROWS_GATHERED", gathered)
    monkeypatch.setattr("sluice.flow.land.task.count_fields.MOST_BYTES", (2_000, 64 << 20)[seed % 2])
    monkeypatch.setattr("sluice.flow.land.task.unpack.ROWS_AT_ONCE", (3, 65_536)[seed // 2 % 2])
    lake, spec, world = FolderLake(tmp_path / "demo"), pipeline(**case.spec), World(case.logs)
    world.resolve(spec, lake, hours(HOURS))
    parts = [hours(HOURS)] if seed % 5 else [hours(1, n) for n in range(HOURS)]
    for part in parts:
        world.land(spec, lake, part, rows_per_read=1_000 if case.batch else (9, 40)[seed % 2])
    units = [Unit(piece, cluster) for piece in hours(HOURS) for cluster in case.clusters]
    compare(case, lake, list(read_manifests(lake, units).values()))
    world.land(spec, lake, hours(HOURS), "reland", "again", rows_per_read=1_000)
    compare(case, lake, list(read_manifests(lake, units).values()))
