"""The wide demo's pipeline file is one, and its connections lead to the demo's servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from local import wide
from local.services import ClickHouseServer, KafkaBroker
from sluice.clients.connections.find import find
from sluice.clients.kafka.settings import settings_of
from sluice.config.files import read


@pytest.fixture
def servers(tmp_path: Path) -> wide.Wide:
    """None of them runs."""
    brokers = {name: KafkaBroker("", tmp_path, 20_001 + n) for n, name in enumerate(wide.CLUSTERS)}
    shards = {
        name: ClickHouseServer("", tmp_path, 20_011 + n, tcp_port=20_021 + n)
        for n, name in enumerate(wide.SHARDS)
    }
    return wide.Wide(tmp_path, brokers, shards, ClickHouseServer("", tmp_path, 20_031))


def test_every_connection_leads_to_its_server(servers: wide.Wide, monkeypatch: pytest.MonkeyPatch):
    for name, value in servers.environment().items():
        monkeypatch.setenv(name, value)
    pipeline = read(wide.PIPELINE)
    assert pipeline.lake == f"file://{servers.home}/lake"
    found = {cluster.cluster: settings_of(cluster).bootstrap for cluster in pipeline.kafka}
    assert found == {"east": "127.0.0.1:20001", "west": "127.0.0.1:20002"}
    ports = {shard.name: find(shard.connections[0]).port for shard in pipeline.clickhouse.parts}
    assert ports == {"s1": 20_011, "s2": 20_012}


def test_the_front_knows_both_shards(servers: wide.Wide):
    config = wide.cluster_of(servers.shards)
    assert config.count("<shard>") == 2
    assert all(f"<port>{port}</port>" in config for port in (20_021, 20_022))
