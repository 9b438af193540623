"""A small pipeline whose lake is a real S3 server on a disturbed line, and what has to be in it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace

import pendulum
import pytest
from botocore.retries import standard

from local.environment import HOST
from sluice.clients.lake import layout
from sluice.clients.lake.open import open_lake_at
from sluice.clients.lake.s3 import S3Lake
from sluice.clients.lake.settings import S3Settings
from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest, decode
from sluice.slices import SliceRange, Unit
from sluice.state.file_moves import finish_moves
from tests.integration import s3_servers
from tests.support.landing_world import World, event, hours, pipeline, rows_in

HOURS = 2
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>reduce your request rate</Message></Error>"
INTERNAL = b"<Error><Code>InternalError</Code><Message>try again</Message></Error>"


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 tries as often as ever, but waits only a moment between."""
    monkeypatch.setattr(standard.ExponentialBackoff, "delay_amount", lambda *_: 0.01)


def records() -> list[list[tuple[bytes, int]]]:
    """Two partitions with two hours of two types, one record rejected."""
    bad = (b"no json", event(minute=5)[1])
    return [
        [event("click", 1, n=1), bad, event("view", 20, n=2), event("click", 70, n=3)],
        [event("click", 2, n=4), event("click", 65, n=5), event("view", 66, n=6)],
    ]


def expected_rows() -> list[tuple]:
    """As `rows_in` gives them, computed from the records alone: the event hour is its time's."""
    found = []
    for partition, log in enumerate(records()):
        for offset, (value, at) in enumerate(log):
            if value != b"no json":
                kind = "view" if b'"view"' in value else "click"
                hour = pendulum.from_timestamp(at / 1000)
                folder = f"type={kind}/date={hour:%Y-%m-%d}/hour={hour:%H}"
                found.append((folder, "dc1", "bids", partition, offset, value.decode(), kind))
    return sorted(found)


@dataclass
class Scene:
    """`lake` goes through the disturbed line, `direct` past it."""

    lake: S3Lake
    direct: S3Lake
    world: World = field(default_factory=lambda: World({("dc1", "bids"): records()}))

    @property
    def pipeline(self) -> Pipeline:
        return pipeline()

    @property
    def slices(self) -> SliceRange:
        return hours(HOURS)

    @property
    def units(self) -> list[Unit]:
        return [Unit(piece, "dc1") for piece in self.slices]

    def resolve(self) -> None:
        self.world.resolve(self.pipeline, self.lake, self.slices)

    def land(self, mode: str = "fill", token: str = "t") -> None:
        self.world.land(self.pipeline, self.lake, self.slices, mode, token)

    def manifests(self) -> list[Manifest]:
        keys = [layout.manifest(unit.slice.id, unit.cluster) for unit in self.units]
        return [decode(self.direct.read(key).data, key) for key in keys]

    def expect_landed(self, generation: int = 1) -> None:
        """Every row once, and no visible file that no manifest names."""
        finish_moves(self.direct, self.units)
        manifests = self.manifests()
        assert {m.generation for m in manifests} == {generation}
        assert rows_in(self.direct, manifests) == expected_rows()
        named = {file.key for m in manifests for file in (*m.files, *m.rejected)}
        visible = {item.key for prefix in ("type=", "_rejected/") for item in self.direct.list(prefix)}
        assert {key for key in visible if key.endswith(".parquet")} == named
        assert sum(sum(m.rejected_records.values()) for m in manifests) == 1


def scene(server: S3Settings, port: int) -> Scene:
    """A bucket of its own, reached through `port` and directly."""
    bucket = "b" + uuid.uuid4().hex
    s3_servers.make_bucket(server, bucket)
    through = replace(server, endpoint_url=f"http://{HOST}:{port}")
    return Scene(*(open_lake_at(f"s3://{bucket}/lake", "demo", settings) for settings in (through, server)))


def port_of(server: S3Settings) -> int:
    return int(server.endpoint_url.rpartition(":")[2])
