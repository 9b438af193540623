"""The servers that all cases of a process share: two ClickHouse servers, an S3 store, a schema registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from local import services
from local.cluster import s3_server
from sluice.clients.lake.settings import S3Settings
from tests.integration import s3_servers
from tests.pairs.places import BUCKET, COLLECTION, Services
from tests.pairs.tables import PARTITIONS
from tests.support import registry_server

_CONFIG = """<clickhouse><named_collections><{name}><url>{url}/{bucket}/</url>
<access_key_id>{key}</access_key_id><secret_access_key>{secret}</secret_access_key></{name}>
</named_collections></clickhouse>"""
_USERS = """<clickhouse><profiles><default>
<max_partitions_per_insert_block>{partitions}</max_partitions_per_insert_block></default></profiles>
<users><default><password/><profile>default</profile>
<access_management>1</access_management><named_collection_control>1</named_collection_control><networks><ip>127.0.0.1</ip></networks></default></users>
</clickhouse>"""


def _store(folder: Path) -> AbstractContextManager[S3Settings]:
    """The quicker server where it can be built, which takes Go; else moto's."""
    try:
        s3_server.program()
    except s3_server.CannotBuild:
        return s3_servers.moto(folder)
    return s3_servers.versitygw(folder)


@pytest.fixture(scope="module")
def paired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """The services, and connections in the environment that lead to them."""
    folder = tmp_path_factory.mktemp("services")
    with (
        _store(folder) as store,
        registry_server.serve() as registry,
        pytest.MonkeyPatch.context() as patch,
    ):
        s3_servers.make_bucket(store, BUCKET)
        known = {"name": COLLECTION, "bucket": BUCKET, "url": store.endpoint_url}
        config = _CONFIG.format(**known, key=store.key, secret=store.secret)
        users = _USERS.format(partitions=PARTITIONS)
        servers = [
            services.clickhouse_server(folder / f"s{number}", users=users, config=config) for number in (1, 2)
        ]
        extra = {"endpoint_url": store.endpoint_url, "region_name": store.region}
        lake = {"conn_type": "aws", "login": store.key, "password": store.secret, "extra": extra}
        patch.setenv("AIRFLOW_CONN_PAIRS_STORE", json.dumps(lake))
        patch.setenv("AIRFLOW_CONN_PAIRS_REGISTRY", registry.url)
        for number, server in enumerate(servers, start=1):
            patch.setenv(f"AIRFLOW_CONN_PAIRS_S{number}", server.at.variable)
        yield Services(servers, registry)
        for server in servers:
            server.kill()
