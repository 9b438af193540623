"""TLS by the connection's own files, and the rights that a shard needs."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from socket import create_connection, create_server, socket

import pytest

from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.shards import placement_of
from sluice.clients.connections import Connection
from sluice.errors import ClickHouseUnavailable
from sluice.flow.load.load import load
from tests.integration.landed import World, client_of, event, land, unit
from tests.integration.load.test_rights import EXACT, PLAIN, user
from tests.support.clickhouse_at import at

pytestmark = pytest.mark.integration

COLUMNS = "n UInt16, _slice DateTime('UTC'), _cluster LowCardinality(String)"


def test_an_expression_over_columns_needs_no_other_rights(start_clickhouse_server, tmp_path: Path):
    """Than a plain load (tests/integration/load/test_rights.py has what each of those is for)."""
    default = f"<default><password/><profile>default</profile>{PLAIN}</default>"
    users = f"<users>{default}{user('all', EXACT)}</users>"
    engines = "<table_engines_require_grant>false</table_engines_require_grant>"
    server = start_clickhouse_server(
        users=f"<clickhouse><profiles><default/></profiles>{users}</clickhouse>",
        config="<clickhouse><access_control_improvements>"
        f"{engines}</access_control_improvements></clickhouse>",
    )
    root = World(tmp_path, client_of(server), "events")
    root.sql("CREATE DATABASE events ENGINE = Atomic")
    root.sql(f"CREATE TABLE events.clicks ({COLUMNS}) ENGINE = MergeTree ORDER BY n")
    land(root.lake, unit(), [event(n=n) for n in range(6)] + [event(n="x")])
    one_of_two(server, "all", root)
    assert root.sql("SELECT n FROM events.clicks ORDER BY n") == [(0,), (2,), (4,)]


def one_of_two(server, login: str, root: World) -> None:
    """Loads the share of the first of two shards, by `n`."""
    client = open_client(Connection("x", host=server.host, port=server.port, login=login))
    two = [{"name": name, "connection": name} for name in ("s1", "s2")]
    pipeline = root.pipeline(
        {"click": "clicks"}, clickhouse={"shards": two, "shard_by": "n", "read": "push", "lease": "1s"}
    )
    target = pipeline.targets[0]
    place = placement_of(pipeline.clickhouse, pipeline.clickhouse.shards[0], target.table)
    load(pipeline, target, [unit()], root.lake, client, mode="fill", placement=place)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> Path:
    """ca.pem, and server and client certificates that it has signed, with their keys."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        *new, "-x509", "-days", "2", "-subj", "/CN=a test's own CA", "-keyout", "ca.key", "-out", "ca.pem"
    )
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("server", "client"):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signed)
    return folder


@pytest.fixture
def tls_port(certificates: Path, clickhouse_server) -> Iterator[int]:
    """ClickHouse behind TLS, as a proxy has it: who has no certificate of the CA is not let in."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates / "ca.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    with closing(create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(
            target=_accept, args=(listener, context, clickhouse_server.port), daemon=True
        ).start()
        yield listener.getsockname()[1]


def _accept(listener: socket, context: ssl.SSLContext, port: int) -> None:
    with suppress(OSError):
        while True:
            raw, _ = listener.accept()
            threading.Thread(target=_serve, args=(raw, context, port), daemon=True).start()


def _serve(raw: socket, context: ssl.SSLContext, port: int) -> None:
    with suppress(OSError), context.wrap_socket(raw, server_side=True) as near:
        with create_connection(("127.0.0.1", port)) as far:
            back = threading.Thread(target=_copy, args=(far, near), daemon=True)
            back.start()
            _copy(near, far)


def _copy(source: socket, sink: socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)


def secured(port: int, folder: Path, **extra: object) -> Connection:
    known = {"secure": True, "ca_cert": str(folder / "ca.pem"), "tls_mode": "strict", **extra}
    return Connection("tls", **at(port).place, extra=known)


def test_tls_with_the_connections_files(tls_port: int, certificates: Path, tmp_path: Path, name: str):
    own = {"client_cert": f"{certificates}/client.pem", "client_cert_key": f"{certificates}/client.key"}
    world = World(tmp_path, open_client(secured(tls_port, certificates, **own)), name)
    world.sql("CREATE DATABASE {db} ENGINE = Atomic")
    world.sql(f"CREATE TABLE {{db}}.clicks ({COLUMNS}) ENGINE = MergeTree ORDER BY n")
    pipeline = world.pipeline({"click": "clicks"}, clickhouse={"connection": "tls", "read": "push"})
    land(world.lake, unit(), [event(n=7)])
    assert world.load(pipeline, unit()).summary()["rows"] == 1
    assert world.sql("SELECT n FROM {db}.clicks") == [(7,)]
    world.sql("DROP DATABASE {db} SYNC")


@pytest.mark.parametrize("lacking", ["client_cert", "ca_cert"])
def test_tls_without_one_of_them_is_unavailable(tls_port: int, certificates: Path, lacking: str):
    own = {"client_cert": f"{certificates}/client.pem", "client_cert_key": f"{certificates}/client.key"}
    with pytest.raises(ClickHouseUnavailable, match="does not answer at 127.0.0.1"):
        open_client(secured(tls_port, certificates, **{**own, lacking: None}))
