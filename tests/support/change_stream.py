"""PostgreSQL, and Debezium's connector in Kafka Connect, which writes its changes into a topic."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local import fetch
from local.environment import HOST
from local.java import java
from local.leash import leashed
from local.readiness import free_port, wait_until

START_SECONDS = 120
OWNER = "postgres"
SETTINGS = """
wal_level = logical
listen_addresses = '{host}'
port = {port}
unix_socket_directories = ''
fsync = off
"""
WORKER = """
bootstrap.servers={bootstrap}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=1000
listeners=http://{host}:{rest}
"""
CONNECTOR = """
name=changes
connector.class=io.debezium.connector.postgresql.PostgresConnector
plugin.name=pgoutput
database.hostname={host}
database.port={port}
database.user=postgres
database.password=none
database.dbname=postgres
topic.prefix={prefix}
table.include.list={table}
publication.autocreate.mode=filtered
topic.creation.default.partitions={partitions}
topic.creation.default.replication.factor=1
"""


def programs() -> Path:
    """Returns the folder of the newest server's programs, which local/test_tools.sh installs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    assert found, "there is no PostgreSQL: run make tools"
    return found[-1].parent


def as_owner(*command: str | Path) -> list[str]:
    """PostgreSQL does not run as root."""
    words = [*map(str, command)]
    if os.geteuid() != 0:
        return words
    return ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups", *words]


@dataclass
class Postgres:
    port: int

    def ready(self) -> bool:
        asked = [programs() / "pg_isready", "-q", "-h", HOST, "-p", str(self.port)]
        return subprocess.run(asked).returncode == 0

    def run(self, sql: str) -> str:
        """Returns what the statements print, a row a line, as COPY writes it."""
        command = [programs() / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", HOST, "-p", str(self.port)]
        done = subprocess.run(
            [*command, "-U", "postgres"], input=sql, text=True, check=True, stdout=subprocess.PIPE
        )
        return done.stdout


@contextmanager
def postgres() -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="sluice-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(folder, OWNER, OWNER)
    data, server = folder / "data", Postgres(free_port())
    initdb = as_owner(programs() / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "-N")
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd="/")
    with (data / "postgresql.auto.conf").open("a") as file:
        file.write(SETTINGS.format(host=HOST, port=server.port))
    with (folder / "log").open("wb") as log:
        command = as_owner(programs() / "postgres", "-D", data)
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
    try:
        wait_until(server.ready, "PostgreSQL", START_SECONDS)
        yield server
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Connect:
    """Kafka Connect with one connector. Killed, it goes on from its last offsets: what it has written since
    comes again."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        jars = f"{fetch.debezium_jars()}/*"
        command = [java(), "-Xmx300m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", jars]
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                leashed([*command, main, "worker.properties", "connector.properties"]),
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> Path:
        return self.folder / "connect.log"

    def committed_after(self, instant: float) -> bool:
        """Returns whether it knows how far it is; without that it begins with another snapshot."""
        offsets = self.folder / "offsets"
        return offsets.exists() and offsets.stat().st_mtime > instant

    def alive(self) -> None:
        assert self.process is not None and self.process.poll() is None, self.log.read_text()[-3_000:]

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@contextmanager
def debezium(
    folder: Path, server: Postgres, bootstrap: str, prefix: str, table: str, partitions: int
) -> Iterator[Connect]:
    places = {"host": HOST, "port": server.port, "rest": free_port(), "folder": folder, "prefix": prefix}
    facts = {**places, "bootstrap": bootstrap, "table": table, "partitions": partitions}
    folder.mkdir()
    (folder / "worker.properties").write_text(WORKER.format(**facts))
    (folder / "connector.properties").write_text(CONNECTOR.format(**facts))
    connect = Connect(folder)
    connect.start()
    try:
        yield connect
    finally:
        connect.kill()
