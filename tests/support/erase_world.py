"""A pipeline with a person in it, landed in this process and loaded into a real ClickHouse."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sluice.clients.clickhouse.client import Client
from sluice.clients.lake.folder import FolderLake
from sluice.config.pipeline import Pipeline
from sluice.flow.erase.erase import Eraser
from sluice.flow.erase.finish import finish
from sluice.flow.erase.search import ErasureRequest, Where
from sluice.flow.land.land import land
from sluice.flow.steps import load_table
from sluice.mask.mask_rules import mask_rules
from sluice.slices import SliceRange
from tests.support.landing_world import START, InProcess, World, event, hours, kafka_away

PERSON = "7f3c-person-0042"
SLICES = hours(3)
OWN = "_slice DateTime('UTC'), _cluster LowCardinality(String), _offset Int64, _partition Int32"
# What is not compressed can be searched for on the disk.
PLAIN = "ENGINE = MergeTree ORDER BY _slice SETTINGS default_compression_codec = 'NONE'"


def log(first: int, count: int = 60) -> list[tuple]:
    """Every fifth record is the person's; of those some do not fit, and some cannot be parsed."""
    found = []
    for n in range(first, first + count):
        uid = PERSON if n % 5 == 3 else f"user-{n % 7}"
        value, stamp = event(("click", "bid")[n % 2], n * 170 / (first + count), uid=uid, n=n)
        text = json.loads(value) | {"n": "many" if n % 20 == 8 else n}
        value = json.dumps(text).encode()
        found.append((value[:-9] if n % 30 == 13 else value, stamp, None, b"k%d" % n))
    return found


@dataclass
class EraseWorld:
    folder: Path
    client: Client
    database: str
    more: dict[str, Any]
    kafka: World
    variable: str = ""

    @classmethod
    def made(cls, folder: Path, client: Client, database: str, **more: Any) -> EraseWorld:
        logs = {("dc1", "bids"): [log(0), log(100)], ("dc1", "wins"): [log(200, 20)]}
        world = cls(folder, client, database, more, World(logs))
        client.run(f"CREATE DATABASE `{database}`")
        client.run(f"CREATE TABLE `{database}`.clicks (n UInt32, uid String, {OWN}) {PLAIN}")
        client.run(f"CREATE TABLE `{database}`.other (_payload String, uid String, {OWN}) {PLAIN}")
        counts = "uid String, hour DateTime('UTC'), type String, count UInt64, _slice DateTime('UTC'), "
        client.run(f"CREATE TABLE `{database}`.traffic ({counts} _cluster String) {PLAIN}")
        return world

    @property
    def lake(self) -> FolderLake:
        return FolderLake(self.folder / "lake" / "demo")

    def pipeline(self) -> Pipeline:
        db = self.database
        spec = {
            "name": "demo",
            "kafka": [{"cluster": "dc1", "bootstrap": "127.0.0.1:1", "topics": ["bids", "wins"]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": f"file://{self.folder}/lake",
            "rejected": {"fail_above": 1},
            "tables": {"click": f"{db}.clicks", "*": f"{db}.other"},
            "counts": [{"table": f"{db}.traffic", "by": ["uid"]}],
            **self.more,
        }
        return Pipeline.model_validate(spec)

    def begin(self) -> None:
        """Lands and loads all hours."""
        self.kafka.resolve(self.pipeline(), self.lake, SLICES)
        self.land(SLICES, "fill", "first")
        self.load(SLICES)

    def land(self, slices: SliceRange, mode: str, token: str) -> None:
        engine = InProcess(self.kafka)
        topics = self.kafka.topics_of
        land(self.pipeline(), self.lake, slices, mode, token, engine, lambda _: None, topics)

    def load(self, slices: SliceRange) -> None:
        for target in self.pipeline().targets:
            load_table(self.pipeline(), target.table, slices, "fill", "", lambda _: None)

    def eraser(self, *wheres: str, kind: str = "", say: Callable[[str], None] = lambda _: None) -> Eraser:
        found = tuple(Where(tuple(w.partition("=")[0].split(".")), w.partition("=")[2]) for w in wheres)
        rules, slices = mask_rules(self.pipeline()), SliceRange(START.subtract(hours=9), SLICES.end)
        request = ErasureRequest(found, slices, "ticket 1", "me", kind, rules=rules)
        return Eraser(self.pipeline(), self.lake, request, say)

    def erase(
        self, *wheres: str, force: bool = False, kind: str = "", say: Callable[[str], None] = lambda _: None
    ) -> dict[str, Any]:
        """All that the command does."""
        eraser = self.eraser(*wheres, kind=kind, say=say)
        _, searched = eraser.plan()
        while True:
            number, known = eraser.ask()
            wrong = eraser.erase(number, known, searched)
            with kafka_away():
                receipt = finish(eraser, number, known, force, wrong)
            if not eraser.goes_on(known.entries[number]):
                return receipt

    def rows(self, table: str, columns: str = "*") -> list[tuple]:
        names = "_slice, _partition, _offset" if table != "traffic" else "hour, type"
        found = self.client.rows(f"SELECT {names}, {columns} FROM `{self.database}`.{table} ORDER BY ALL")
        return [tuple(row) for row in found]

    def rejected_rows(self) -> list[tuple]:
        sql = "SELECT target, partition, offset, payload FROM sluice.rejected"
        return sorted(tuple(row) for row in self.client.rows(sql))


def in_folder(folder: Path, text: str) -> list[str]:
    """Every file that has the text: as it is on the disk, and of Parquet files what is in their rows."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            data = path.read_bytes()
            if path.suffix == ".parquet":
                data += repr(pq.read_table(path).to_pylist()).encode()
        except FileNotFoundError:
            continue
        if text.encode() in data:
            found.append(str(path.relative_to(folder)))
    return found
