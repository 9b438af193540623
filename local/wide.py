"""The servers of the wide demo: two Kafka brokers, two ClickHouse shards, and one that reads them both.

They run only while the demo does; what they hold stays in `var/wide`.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from local import services
from local.clickhouse_config import password_of
from local.environment import HOST, Settings, environment
from local.progress import say
from local.versions import ROOT

PIPELINE = ROOT / "local" / "adx_wide.yaml"
CLUSTERS = ("east", "west")
SHARDS = ("s1", "s2")


@dataclass(frozen=True)
class Wide:
    """`brokers` by cluster, `shards` by name; `front` has Distributed tables over the shards."""

    home: Path
    brokers: Mapping[str, services.KafkaBroker]
    shards: Mapping[str, services.ClickHouseServer]
    front: services.ClickHouseServer

    def environment(self) -> dict[str, str]:
        """Returns the environment of a `sluice` command whose connections lead to these servers."""
        variables = environment(
            Settings(self.home, clickhouse_port=self.front.port, given_password=self.front.password)
        )
        for name, broker in self.brokers.items():
            extra = {"bootstrap.servers": broker.bootstrap}
            variables[connection(f"kafka_{name}")] = json.dumps({"conn_type": "kafka", "extra": extra})
        for name, server in self.shards.items():
            variables[connection(f"clickhouse_{name}")] = server.at.variable
        return variables


def connection(name: str) -> str:
    return f"AIRFLOW_CONN_{name.upper()}"


@contextmanager
def running(home: Path) -> Iterator[Wide]:
    """Starts the servers, and stops them cleanly at the end."""
    with ExitStack() as ends:
        brokers, shards = {}, {}
        kept = {"password": password_of(home), "reads": [home / "lake"]}
        for name in CLUSTERS:
            brokers[name] = services.kafka_broker(home / f"kafka-{name}")
            ends.callback(brokers[name].stop)
            say(f"Kafka cluster {name} is up at {brokers[name].bootstrap}")
        for name in SHARDS:
            shards[name] = services.clickhouse_server(home / f"clickhouse-{name}", tcp=True, **kept)
            ends.callback(shards[name].stop)
            say(f"ClickHouse shard {name} is up at {shards[name].url}")
        front = services.clickhouse_server(home / "clickhouse-front", config=cluster_of(shards), **kept)
        ends.callback(front.stop)
        say(f"ClickHouse front is up at {front.url}: its tables are Distributed over the shards")
        yield Wide(home, brokers, shards, front)


def cluster_of(shards: Mapping[str, services.ClickHouseServer]) -> str:
    """The configuration that makes them the cluster `wide`."""
    nodes = "".join(
        f"<shard><replica><host>{HOST}</host><port>{shard.tcp_port}</port>"
        f"<user>{shard.user}</user><password>{shard.password}</password></replica></shard>"
        for shard in shards.values()
    )
    return f"<clickhouse><remote_servers><wide>{nodes}</wide></remote_servers></clickhouse>"
