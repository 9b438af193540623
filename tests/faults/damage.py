"""A pipeline whose lake and tables tests damage for real, and the `sluice` command that finds and repairs it.

Kafka and Spark are in this process (landing_world.py); the lake's folder, ClickHouse, the boundaries
and the command line are the real ones.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.cli.commands import commands
from sluice.clients.clickhouse.client import Client
from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.land import submit
from sluice.flow.land.submit import SubmitSpec
from sluice.manifest import Manifest, decode
from sluice.slices import SliceRange, parse_instant
from tests.faults.repairs_tried import Repairs, rows_of, try_repairs
from tests.support.landing_world import NOW, START, World, event, hours

_KNOWN: dict[str, Repairs] = {}
HOURS = 4
REJECTED_ROW_HOUR, REJECTED_RECORDS_HOUR = 1, 2
_CLICKS = """CREATE TABLE {db}.clicks (n UInt16, _type LowCardinality(String), _topic LowCardinality(String),
_partition Int32, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String))
ENGINE = MergeTree PARTITION BY toDate(_slice) ORDER BY (_slice, _partition, _offset)"""
_VIEWS = (
    """CREATE MATERIALIZED VIEW {db}.sums ENGINE = SummingMergeTree ORDER BY (_slice, _cluster, _partition)
    AS SELECT _slice, _cluster, _partition, toUInt64(sum(n)) AS total, toUInt64(count()) AS events
    FROM {db}.clicks GROUP BY _slice, _cluster, _partition""",
    """CREATE MATERIALIZED VIEW {db}.large ENGINE = MergeTree ORDER BY (_slice, n)
    AS SELECT n, _slice, _cluster FROM {db}.clicks WHERE n >= 10""",
    """CREATE MATERIALIZED VIEW {db}.thirds ENGINE = MergeTree ORDER BY (_slice, n)
    AS SELECT n, n / 3 AS third, _slice, _cluster FROM {db}.clicks""",
    """CREATE MATERIALIZED VIEW {db}.means ENGINE = AggregatingMergeTree ORDER BY (_slice, _cluster)
    AS SELECT _slice, _cluster, sumState(n / 3) AS third, sumSimpleState(n / 7) AS seventh
    FROM {db}.clicks GROUP BY _slice, _cluster""",
)
_OTHER = """CREATE TABLE {db}.other (_type LowCardinality(String), _payload String, _slice DateTime('UTC'),
_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice"""


def logs(count: int = HOURS, partitions: int = 3) -> World:
    """Per hour and partition: three clicks, a view and a scroll; one click that does not fit, one record
    that is no JSON."""
    found: list[list[tuple[bytes | None, int]]] = []
    for partition in range(partitions):
        log: list[tuple[bytes | None, int]] = []
        for hour in range(count):
            for n in range(3):
                text = "x" if (hour, partition, n) == (REJECTED_ROW_HOUR, 0, 1) else str(10 * partition + n)
                log.append(event("click", 60 * hour + 10 * n, n=text))
            log.append(event("view", 60 * hour + 40))
            log.append(event("scroll", 60 * hour + 50))
            if (hour, partition) == (REJECTED_RECORDS_HOUR, 1):
                log.append((b"{", log[-1][1]))
        found.append(log)
    return World({("dc1", "bids"): found}, plain=True)


@dataclass
class Damaged:
    """`verify` and `repair` run the very command line; `root` is the lake's folder of the pipeline."""

    folder: Path
    client: Client
    database: str
    patch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]
    world: World = field(default_factory=logs)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        return self.folder / "ads.yaml"

    @property
    def root(self) -> Path:
        return self.folder / "lake" / "ads"

    @property
    def lake(self) -> FolderLake:
        return FolderLake(self.root)

    @property
    def pipeline(self) -> Pipeline:
        return read(self.config)

    def make(self, count: int = HOURS) -> Damaged:
        """Tables, and `count` hours landed and loaded by `sluice run`, which finds them whole."""
        assert self.make_landed(count) == 0
        _KNOWN[self.database] = Repairs(rows_of(self))
        return self

    def make_landed(self, count: int = HOURS) -> int:
        """The same, whatever `sluice run` finds: its exit code."""
        self.make_tables()
        self.configure()
        self.world.resolve(self.pipeline, self.lake, hours(count))
        end = hours(count).end
        words = f"--from {START:%Y-%m-%dT%H:%MZ} --to {end:%Y-%m-%dT%H:%MZ}"
        return self.command(f"sluice run ads --config {self.config} {words}")[0]

    def make_tables(self) -> None:
        self.sql("CREATE DATABASE {db}")
        for statement in (_CLICKS, *_VIEWS, _OTHER):
            self.sql(statement)

    def configure(self, **changes: Any) -> None:
        spec = {
            "kafka": [{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids"]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": f"file://{self.folder / 'lake'}",
            "rejected": {"fail_above": 1},  # the hours have few records
            "tables": {"click": f"{self.database}.clicks", "*": f"{self.database}.other"},
            **self.options,
            **changes,
        }
        self.config.write_text(yaml.safe_dump(spec))

    def sql(self, text: str) -> list[Sequence[Any]]:
        text = text.replace("{db}", self.database)
        if text.lstrip().upper().startswith("SELECT"):
            return self.client.rows(text)
        self.client.run(text)
        return []

    def command(self, line: str) -> tuple[int, str]:
        """The exit code and what was printed, of a command as it would be typed."""
        program, *words = shlex.split(line)
        assert program == "sluice"
        self.patch.setattr(submit, "run_locally", self._land)
        self.capture.readouterr()
        try:
            code = commands(words, standalone_mode=False) or 0
        except SluiceError as error:
            return error.exit_code, str(error)
        return code, self.capture.readouterr().out

    def _land(self, spec: SubmitSpec, *_: object) -> int:
        """What spark_jobs/land.py does, with the records of this process."""
        loss = "--accept-loss"
        words = [word for word in spec.application_args if word != loss]
        given = dict(zip(words[::2], words[1::2], strict=True))
        pipeline = read(Path(given["--config"]))
        edges = (parse_instant(given[name], NOW, pipeline.slice) for name in ("--from", "--to"))
        slices = SliceRange.widen(*edges, pipeline.slice)
        asked, accepts = (given["--mode"], given["--token"]), loss in spec.application_args
        self.world.land(pipeline, open_lake(pipeline), slices, *asked, accept_loss=accepts)
        return 0

    def verify(self, *words: str, tried: bool = True) -> list[dict[str, Any]]:
        """The anomalies; the exit code has to agree with them. Each repair that they print is tried and taken
        back, where `make` had found all whole, and what was right then still is."""
        code, out = self.command(
            shlex.join(["sluice", "verify", "ads", "--config", str(self.config), "--json", *words])
        )
        found = json.loads(out)["anomalies"]
        assert code == (1 if found else 0)
        if self.database in _KNOWN and tried:
            try_repairs(self, _KNOWN[self.database], found)
        return found

    def repair(self, anomalies: Iterable[Mapping[str, Any]]) -> None:
        """Runs every printed command, each once; each has to succeed."""
        for line in dict.fromkeys(anomaly["command"] for anomaly in anomalies):
            assert self.command(line)[0] == 0, line

    def manifest(self, hour: int) -> Manifest:
        key = layout.manifest(self.slice_id(hour), "dc1")
        stored = self.lake.read(key)
        assert stored is not None
        return decode(stored.data, key)

    def manifest_path(self, hour: int) -> Path:
        return self.root / layout.manifest(self.slice_id(hour), "dc1")

    def slice_id(self, hour: int) -> str:
        return START.add(hours=hour).strftime("%Y-%m-%dT%HZ")

    def edit(self, path: Path, change: Any) -> None:
        """`change` alters the object's JSON in place."""
        content = json.loads(path.read_bytes())
        change(content)
        path.write_text(json.dumps(content))
