"""A verify before anything was loaded, or of what is another pipeline's, prints no repair that can't work."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from sluice.errors import LakeTaken, ShardsRefused, TargetRefused
from sluice.flow.verify.anomaly import AnomalyKind
from tests.integration.landed import client_of
from tests.support.history_world import HistoryWorld
from tests.support.landing_world import hours
from tests.support.shards_world import point_at

pytestmark = pytest.mark.integration


def test_before_the_first_load(start_clickhouse_server, tmp_path, monkeypatch: pytest.MonkeyPatch):
    server = start_clickhouse_server()
    point_at(monkeypatch, "s1", server.port)
    world = HistoryWorld(tmp_path, [client_of(server)], "fresh")
    world.kafka.resolve(world.pipeline(), world.lake, hours(2))
    assert {anomaly.kind for anomaly in world.findings()} == {AnomalyKind.INCOMPLETE}
    world.everywhere("DROP DATABASE fresh SYNC")
    found = world.findings()
    assert {(anomaly.kind, anomaly.slice) for anomaly in found} >= {
        (AnomalyKind.INCOMPLETE, "2026-01-01T00Z"),
        (AnomalyKind.INCOMPLETE, "2026-01-01T01Z"),
    }


def another(of: HistoryWorld, folder: Path) -> HistoryWorld:
    """A pipeline with a lake in `folder` and the tables of the first; its hours are resolved."""
    world = HistoryWorld(folder, of.clients, f"history_{uuid.uuid4().hex[:8]}")
    world.close()
    world.database = of.database
    world.kafka.resolve(world.pipeline(), world.lake, hours(2))
    return world


def test_what_is_another_pipelines(clickhouse_server, tmp_path, monkeypatch: pytest.MonkeyPatch):
    """A fill would be refused: so is the verify that would print it."""
    point_at(monkeypatch, "s1", clickhouse_server.port)
    clients = [client_of(clickhouse_server)]
    world = HistoryWorld(tmp_path / "first", clients, f"history_{uuid.uuid4().hex[:8]}")
    world.run("fill", hours(4))
    assert world.findings() == []
    second = another(world, tmp_path / "second")
    with pytest.raises(TargetRefused, match="it belongs to pipeline 'history' with lake"):
        second.findings()
    with pytest.raises(ShardsRefused, match="it belongs to pipeline 'history' with lake"):
        second.run("fill", hours(2))
    nested = HistoryWorld(world.lake.root, clients, f"history_{uuid.uuid4().hex[:8]}")
    with pytest.raises(LakeTaken, match="is in the folder of another pipeline"):
        nested.findings()
    nested.close()
    world.close()
