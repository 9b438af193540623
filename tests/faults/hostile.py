"""A pipeline whose types, fields, keys, headers, tables and columns are the texts of hostile_texts.py,
landed and loaded by the very command line. Kafka and Spark are in this process (landing_world.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from sluice.cli.commands import commands
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.sql import identifier
from sluice.clients.kafka.topics import SampledRecord
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.doctor import examine
from sluice.doctor.events import EventSample, parse
from sluice.errors import SluiceError
from sluice.flow.land import submit
from sluice.flow.land.submit import SubmitSpec
from sluice.flow.resolve import resolve
from sluice.metrics.meter import MetricSample, taken_by
from sluice.slices import SliceRange, parse_instant
from tests.support.hostile_texts import TEXTS
from tests.support.landing_world import NOW, START, World, hours, to_ms

# As a type. The empty one is none.
TYPES = [text for text in TEXTS.values() if text]
# A name with a dot is one of two parts; a table is a file of ClickHouse's, with most characters as `%XX`; a
# pipeline file's `${…}` is the environment's. Of the others each third: loads take most of the time.
TABLES = [t for t in TYPES if not {".", "*", "$"} & set(t) and len(quote(t)) < 200][::3]
TABLES += {TEXTS["a link of a chat"]} - set(TABLES)
# `null` is refused: tests/integration/load/test_load.py.
COLUMNS = [text for text in TYPES if "." not in text and text != "null"]
_KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
_OWN = f"""_type String, _topic String, _partition Int32, _offset Int64, _key Nullable(String),
_payload String, {_KEYS}"""


def event_of(text: str) -> dict[str, object]:
    return {"type": text, "at": START.isoformat(), "n": 1, text: text, "in": {text: text}}


def record(text: str, minute: int = 0) -> tuple:
    """(value, stamp, headers, key)."""
    data = text.encode()
    value = json.dumps(event_of(text), ensure_ascii=False).encode()
    return value, to_ms(START.add(minutes=minute)), [(text, data), ("trace", data)], data


def logs() -> World:
    """A record of each text; one whose value fits no column; one that is no JSON, with the text in it."""
    found: list[tuple] = [record(text, minute) for minute, text in enumerate(TYPES)]
    late = to_ms(START.add(minutes=50))
    found += [(text.encode() + b"{", late, [(text, text.encode())], text.encode()) for text in TYPES]
    return World({("dc1", "bids"): [found]}, plain=True)


@dataclass
class Ran:
    code: int
    out: str
    err: str


@dataclass
class Site:
    folder: Path
    client: Client
    database: str
    patch: pytest.MonkeyPatch
    world: World = field(default_factory=logs)
    samples: list[MetricSample] = field(default_factory=list)

    @property
    def config(self) -> Path:
        return self.folder / "ads.yaml"

    def make(self) -> Site:
        self.client.run(f"CREATE DATABASE {identifier(self.database)}")
        columns = ", ".join(f"{identifier(name)} Nullable(String)" for name in COLUMNS)
        engine = "ENGINE = MergeTree ORDER BY (_slice, _cluster)"
        self._create("other", f"{columns}, {_OWN}", engine)
        for name in TABLES:
            self._create(name, f"n UInt8, {_OWN}", engine)
        counted = "hour DateTime('UTC'), type String, value String, count UInt64"
        self._create("traffic", f"{counted}, {_KEYS}", engine)
        own = {text: f"{self.database}.{text}" for text in TABLES}
        spec = {
            "kafka": [{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids"]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": f"file://{self.folder / 'lake'}",
            "rejected": {"fail_above": 1},
            "tables": {**own, "*": f"{self.database}.other"},
            "counts": [{"table": f"{self.database}.traffic", "by": {"value": "type"}}],
        }
        self.config.write_text(yaml.safe_dump(spec, allow_unicode=False))
        self.patch.setattr(submit, "run_locally", self._land)
        self.patch.setattr(examine, "sampled", self._sampled)
        for name in ("resolve", "retained_losses"):
            self.patch.setattr(resolve, name, partial(getattr(resolve, name), topics_of=self.world.topics_of))
        pipeline = read(self.config)
        self.world.resolve(pipeline, open_lake(pipeline), hours(1))
        return self

    def _create(self, name: str, columns: str, engine: str) -> None:
        self.client.run(f"CREATE TABLE {identifier(self.database, name)} ({columns}) {engine}")

    def sluice(self, command: str, *words: str) -> Ran:
        """The exit code, and what was printed. Whatever is no error of Sluice's is raised."""
        out, err = StringIO(), StringIO()
        with redirect_stdout(out), redirect_stderr(err), taken_by(self.samples.append):
            try:
                code = commands([command, "ads", "--config", str(self.config), *words], standalone_mode=False)
            except SluiceError as error:
                err.write(f"{error}\n")
                code = error.exit_code
        return Ran(code or 0, out.getvalue(), err.getvalue())

    def _land(self, spec: SubmitSpec, *_: object) -> int:
        words = spec.application_args
        given = dict(zip(words[::2], words[1::2], strict=True))
        pipeline = read(Path(given["--config"]))
        edges = (parse_instant(given[name], NOW, pipeline.slice) for name in ("--from", "--to"))
        slices = SliceRange.widen(*edges, pipeline.slice)
        self.world.land(pipeline, open_lake(pipeline), slices, given["--mode"], given["--token"])
        return 0

    def _sampled(self, pipeline, _count: int) -> EventSample:
        log = self.world.logs["dc1", "bids"][0]
        records = [
            SampledRecord("bids", 0, offset, stamp, value, tuple(headers))
            for offset, (value, stamp, headers, _) in enumerate(log)
        ]
        return parse(pipeline.event, records)


@contextmanager
def site(folder: Path, client: Client, database: str) -> Iterator[Site]:
    with pytest.MonkeyPatch.context() as patch:
        yield Site(folder, client, database, patch).make()
