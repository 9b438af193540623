"""Starts single services of the stack on ports of their choice: what the tests and benchmarks use."""

import json
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.clickhouse_config import PASSWORD, USER, write_configuration
from local.clickhouse_config import users as one_user
from local.environment import HOST, clickhouse_connection
from local.leash import leashed
from local.readiness import broker_ready, clickhouse_ready, free_port, wait_until
from local.secret_file import write
from local.versions import ROOT

START_SECONDS = 60
STOP_SECONDS = 30


class DiedWhileStarting(Exception):
    """The service's process ended before it answered."""


@dataclass
class Service:
    """A running service. `stop` is its clean end, `kill` is kill -9; `start` works again on the same data."""

    module: str
    data: Path
    port: int
    options: list[str] = field(default_factory=list)
    process: subprocess.Popen | None = None
    environment: dict[str, str] = field(default_factory=dict, kw_only=True)

    host = HOST

    def ready(self) -> bool:
        raise NotImplementedError

    @property
    def log(self) -> Path:
        return self.data / "service.log"

    def start(self) -> "Service":
        self.data.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", self.module, "--data", str(self.data), "--port", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                leashed([*command, *self.options]),
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )
        try:
            wait_until(self.ready, self.module, START_SECONDS, check=self._still_alive)
        except Exception:
            self.kill()
            raise
        return self

    def _still_alive(self) -> None:
        if self.process.poll() is not None:
            last_line = self.log.read_text(errors="replace").strip().splitlines()[-1:]
            raise DiedWhileStarting(
                f"{self.module} ended with {self.process.returncode}: {''.join(last_line)}"
            )

    def stop(self) -> None:
        self._end(subprocess.Popen.terminate)

    def kill(self) -> None:
        self._end(subprocess.Popen.kill)

    def _end(self, how: Callable[[subprocess.Popen], None]) -> None:
        if self.process is None:
            return
        how(self.process)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


@dataclass
class KafkaBroker(Service):
    sasl_port: int | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def ready(self) -> bool:
        return broker_ready(self.port)


@dataclass(frozen=True)
class ClickHouseAt:
    """A port that leads to an embedded ClickHouse, and who may log in there."""

    port: int
    password: str = field(repr=False)
    user: str = USER

    @property
    def login(self) -> dict[str, Any]:
        """What `clickhouse_connect.get_client` takes."""
        return {"host": HOST, "port": self.port, "username": self.user, "password": self.password}

    @property
    def place(self) -> dict[str, Any]:
        """What `Connection` takes beside its name, and Airflow's JSON form has."""
        return clickhouse_connection(self.port, self.password, self.user)

    @property
    def variable(self) -> str:
        """The text of an AIRFLOW_CONN_… variable."""
        return json.dumps(self.place)


@dataclass
class ClickHouseServer(Service):
    tcp_port: int | None = None
    user: str = USER
    password: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def at(self) -> ClickHouseAt:
        return ClickHouseAt(self.port, self.password, self.user)

    def ready(self) -> bool:
        return clickhouse_ready(self.port)


def kafka_broker(
    data: Path, port: int | None = None, *, sasl: Mapping[str, str] | None = None
) -> KafkaBroker:
    """`sasl`: users and passwords of a second listener, on `sasl_port`, which asks for them (PLAIN)."""
    port, controller_port = port or free_port(), free_port()
    options = ["--controller-port", str(controller_port)]
    sasl_port = free_port() if sasl else None
    if sasl:
        path = write_sasl(data, port, controller_port, sasl_port, sasl)
        options += ["--properties", str(path)]
    return KafkaBroker("local.kafka_broker", data, port, options, sasl_port=sasl_port).start()


def write_sasl(data: Path, port: int, controller_port: int, sasl_port: int, users: Mapping[str, str]) -> Path:
    listeners = f"PLAINTEXT://{HOST}:{port},CLIENT://{HOST}:{sasl_port}"
    logins = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    data.mkdir(parents=True, exist_ok=True)
    path = data / "sasl.properties"
    write(
        path,
        f"listeners={listeners},CONTROLLER://{HOST}:{controller_port}\nadvertised.listeners={listeners}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENT:SASL_PLAINTEXT\n"
        "listener.name.client.sasl.enabled.mechanisms=PLAIN\nlistener.name.client.plain.sasl.jaas.config="
        f"org.apache.kafka.common.security.plain.PlainLoginModule required {logins};\n",
    )
    return path


def clickhouse_server(
    data: Path,
    port: int | None = None,
    *,
    tcp: bool = False,
    users: str | None = None,
    config: str | None = None,
    password: str | None = None,
    reads: Sequence[Path] = (),
) -> ClickHouseServer:
    """`users` is the text of a ClickHouse users.xml, whose `default` has no password; else there is one user,
    with the `password`, that of the environment, or a new one. `config` is the text of a configuration file.
    `reads`: folders that it may read, else all of the machine's temporary ones."""
    password = password or os.environ.get(PASSWORD) or secrets.token_urlsafe(24)
    user, password = ("default", "") if users else (USER, password)
    tcp_port = free_port() if tcp else None
    options = ["--tcp-port", str(tcp_port)] if tcp else []
    for folder in reads or [Path(tempfile.gettempdir())]:
        options += ["--reads", str(folder)]
    options += ["--config", str(write_configuration(data, users or one_user(password), config))]
    name, port = "local.clickhouse_server", port or free_port()
    return ClickHouseServer(name, data, port, options, None, tcp_port, user, password).start()
