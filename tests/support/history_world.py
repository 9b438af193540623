"""A pipeline whose history is made step by step: landed in this process, loaded into a real ClickHouse."""

from __future__ import annotations

import re
import shlex
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pendulum
import pyarrow.parquet as pq

from sluice.cli.rejected import _do, _planned
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.shards import connect_shards
from sluice.clients.lake.folder import FolderLake
from sluice.config.pipeline import Keep, Pipeline
from sluice.errors import SluiceError
from sluice.flow.contents.compare import auditor
from sluice.flow.erase.erase import Eraser
from sluice.flow.erase.finish import finish
from sluice.flow.erase.search import ErasureRequest, Where
from sluice.flow.forget import forget_window
from sluice.flow.land.land import land
from sluice.flow.rejected.rejections import RejectionFilter
from sluice.flow.steps import load_table
from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.audit import AuditScope, audit
from sluice.mask.mask_rules import mask_rules
from sluice.plan.plan import refuse_forgotten
from sluice.slices import SliceRange
from sluice.state.manifests import read_manifests, units_in
from sluice.state.survey import survey
from sluice.state.unit_state import UnitState
from tests.support.history_model import HOURS, TOPICS, FileNow, Record
from tests.support.landing_world import START, InProcess, World, hours, kafka_away

_OWN = (
    "_slice DateTime('UTC'), _cluster LowCardinality(String), _topic LowCardinality(String), "
    "_partition Int32, _offset Int64"
)
_RANGE = re.compile(r"--from (\S+) --to (\S+) --mode (\w+)")


def logs() -> dict[tuple[str, int], list[Record]]:
    """By topic and hour the records of Kafka: ten an hour in `t`, seven in `b`."""
    counts = dict(zip(TOPICS, (10, 7), strict=True))
    return {
        (topic, hour): [Record(topic, hour, hour * counts[topic] + n) for n in range(counts[topic])]
        for topic in TOPICS
        for hour in range(HOURS)
    }


@dataclass
class HistoryWorld:
    """Without `clients` the pipeline has no tables; each is a shard's, and its Airflow connection is
    `shard_s1`, `shard_s2` …"""

    folder: Path
    clients: Sequence[Client] = ()
    database: str = ""
    kafka: World = field(init=False)
    file: FileNow = field(default_factory=FileNow)
    resolved: frozenset[str] = frozenset()  # the topics of the last run

    def __post_init__(self) -> None:
        by_topic = {
            ("dc1", topic): [[_kafka(r) for hour in range(HOURS) for r in logs()[topic, hour]]]
            for topic in TOPICS
        }
        self.kafka = World(by_topic)
        self.everywhere(f"CREATE DATABASE {self.database}")
        self.everywhere(
            f"CREATE TABLE {self.database}.clicks (n UInt32, uid String, rider String, "
            f"vip String DEFAULT 'no', {_OWN}) ENGINE = MergeTree ORDER BY n"
        )
        self.everywhere(
            f"CREATE TABLE {self.database}.other (_payload String, {_OWN}) "
            "ENGINE = MergeTree ORDER BY _offset"
        )

    def everywhere(self, sql: str) -> None:
        for client in self.clients:
            client.run(sql)

    def close(self) -> None:
        self.everywhere(f"DROP DATABASE {self.database} SYNC")

    @property
    def lake(self) -> FolderLake:
        return FolderLake(self.folder / "history")

    def pipeline(self) -> Pipeline:
        """The pipeline by what the file says now."""
        tables = {
            "click": {
                "table": f"{self.database}.clicks",
                "columns": {"rider": self.file.column},
                **({"evolve": "add", "evolve_rows": 1} if self.file.evolve else {}),
            },
            "*": f"{self.database}.other",
        }
        shards = [{"name": f"s{n}", "connection": f"shard_s{n}"} for n in range(1, self.file.shards + 1)]
        clickhouse = {"shards": shards, "shard_by": {f"{self.database}.clicks": "n"}}
        return Pipeline.model_validate(
            {
                "name": "history",
                "kafka": [{"cluster": "dc1", "bootstrap": "127.0.0.1:1", "topics": sorted(self.file.topics)}],
                "event": {"type": {"field": "type"}, "time": {"field": self.file.time}},
                "lake": f"file://{self.folder}",
                "rejected": {"fail_above": 1},
                **({"clickhouse": clickhouse, "tables": tables} if self.clients else {}),
                "mask": {"uid": {"hash": list(self.file.keys)}} if self.file.keys else {},
            }
        )

    def run(self, mode: str, slices: SliceRange, accept_loss: bool = True) -> None:
        """What `sluice run` does, up to the loads; also where a part of it does not land. Raises what the
        steps raise."""
        pipeline, token = self.pipeline(), uuid.uuid4().hex
        self.kafka.resolve(pipeline, self.lake, slices)
        self.resolved = self.file.topics
        refuse_forgotten(pipeline, survey(pipeline, slices), mode, None)
        engine = InProcess(self.kafka)
        how = (lambda _: None, self.kafka.topics_of, accept_loss)
        error: SluiceError | None = None
        try:
            land(pipeline, self.lake, slices, mode, token, engine, *how)
        except SluiceError as caught:
            error = caught
        for target in pipeline.targets:
            load_table(pipeline, target.table, slices, mode, token, lambda _: None)
        if error is not None:
            raise error

    def erase(self, person: str) -> dict[str, Any]:
        """What `sluice erase --where uid=…` does."""
        pipeline = self.pipeline()
        wheres, rules = (Where(("uid",), person),), mask_rules(pipeline)
        request = ErasureRequest(wheres, hours(HOURS), "ticket", "me", end=True, rules=rules)
        eraser = Eraser(pipeline, self.lake, request, lambda _: None)
        _, searched = eraser.plan()
        number, erasures = eraser.ask()
        wrong = eraser.erase(number, erasures, searched)
        with kafka_away():
            return finish(eraser, number, erasures, force=False, wrong=wrong)

    def forget(self, until: int) -> set[int]:
        """What `sluice forget` does when the first `until` hours are old enough. Returns which of them it
        has forgotten."""
        kept = self.pipeline().model_copy(update={"keep": Keep(lake=timedelta(hours=1))})
        now = START.add(hours=until + 1)
        forgotten = forget_window(kept, self.lake, hours(HOURS), now)
        assert forgotten.waiting == {}
        return {unit.slice.start.hour for unit in forgotten.units}

    def retry(self, slices: SliceRange) -> int:
        """What `sluice rejected --retry` does. Returns how many records came in by being parsed."""
        pipeline = self.pipeline()
        with connect_shards(pipeline) as servers:
            planned = _planned(pipeline, self.lake, servers, slices, RejectionFilter())
        came_in, wrong = _do(pipeline, self.lake, planned.plan, RejectionFilter())
        assert wrong == []
        return came_in

    def findings(self) -> list[Anomaly]:
        """What verify finds in counts and contents of all that has landed."""
        pipeline, slices = self.pipeline(), hours(HOURS)
        statuses, anomalies, *_ = audit(pipeline, slices, AuditScope(whole=True, checksums=True))
        contents = auditor(pipeline, known=anomalies).whole(statuses)
        assert contents.busy == []
        return [*anomalies, *contents.anomalies]

    def stale(self) -> set[int]:
        statuses = survey(self.pipeline(), hours(HOURS))
        return {status.unit.slice.start.hour for status in statuses if status.state is UnitState.STALE}

    def repair(self, command: str) -> None:
        """Runs a repair that verify printed."""
        assert shlex.split(command)[:3] == ["sluice", "run", "history"]
        start, end, mode = _RANGE.search(command).groups()
        self.run(mode, SliceRange(pendulum.parse(start), pendulum.parse(end)))

    def lake_rows(self, rejected: bool = False) -> set[tuple[str, int, str]]:
        return set(self._lake_rows(rejected))

    def _lake_rows(self, rejected: bool) -> Iterator[tuple[str, int, str]]:
        for manifest in read_manifests(self.lake, units_in(self.lake, hours(HOURS))).values():
            for file in manifest.held_rejected if rejected else manifest.held_events:
                with self.lake.local(file.key) as path:
                    for row in pq.read_table(path).to_pylist():
                        payload = row["_payload"]
                        text = payload.decode() if isinstance(payload, bytes) else payload
                        yield row["_topic"], row["_offset"], text

    def clicks(self) -> list[tuple]:
        found = []
        for client in self.clients:
            names = client.rows(
                f"SELECT name FROM system.columns WHERE database = '{self.database}' AND table = 'clicks'"
            )
            tip = "ifNull(tip, 0)" if ("tip",) in map(tuple, names) else "0"
            sql = f"SELECT _topic, _offset, n, uid, rider, vip, {tip} FROM {self.database}.clicks"
            found += map(tuple, client.rows(sql))
        return found

    def others(self) -> list[tuple]:
        sql = f"SELECT _topic, _offset, _payload FROM {self.database}.other"
        return [tuple(row) for client in self.clients for row in client.rows(sql)]


def _kafka(record: Record) -> tuple[bytes, int]:
    at = START.add(hours=record.hour, minutes=record.offset % 10 + 10)
    return record.value.encode(), int(at.timestamp() * 1000)
