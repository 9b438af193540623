"""Starts single services of the stack on ports of their choice: what the tests and benchmarks use."""

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from local.environment import HOST
from local.leash import leashed
from local.readiness import broker_ready, clickhouse_ready, free_port, wait_until
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
                leashed([*command, *self.options]), cwd=ROOT, stdout=log, stderr=log
            )
        try:
            wait_until(self.ready, self.module, START_SECONDS, check=self._still_alive)
        except Exception:
            self.kill()
            raise
        return self

    def _still_alive(self) -> None:
        if self.process.poll() is not None:
            last = self.log.read_text(errors="replace").strip().splitlines()[-1:]
            raise DiedWhileStarting(f"{self.module} ended with {self.process.returncode}: {''.join(last)}")

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


@dataclass
class ClickHouseServer(Service):
    tcp_port: int | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

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
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    data.mkdir(parents=True, exist_ok=True)
    path = data / "sasl.properties"
    path.write_text(
        f"listeners={listeners},CONTROLLER://{HOST}:{controller_port}\nadvertised.listeners={listeners}\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENT:SASL_PLAINTEXT\n"
        "listener.name.client.sasl.enabled.mechanisms=PLAIN\nlistener.name.client.plain.sasl.jaas.config="
        f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};\n"
    )
    return path


def clickhouse_server(
    data: Path,
    port: int | None = None,
    *,
    tcp: bool = False,
    users: str | None = None,
    config: str | None = None,
) -> ClickHouseServer:
    """`users` is the text of a ClickHouse users.xml, `config` that of a configuration file."""
    tcp_port = free_port() if tcp else None
    options = ["--tcp-port", str(tcp_port)] if tcp else []
    if users or config:
        options += ["--config", str(write_configuration(data, users, config))]
    server = ClickHouseServer(
        "local.clickhouse_server", data, port or free_port(), options, tcp_port=tcp_port
    )
    return server.start()


def write_configuration(data: Path, users: str | None, config: str | None) -> Path:
    data.mkdir(parents=True, exist_ok=True)
    path = data / "config.xml"
    if users:
        (data / "users.xml").write_text(users)
        users_tag = f"<users_config>{data / 'users.xml'}</users_config>"
        config = (config or "<clickhouse></clickhouse>").replace("</clickhouse>", f"{users_tag}</clickhouse>")
    path.write_text(config)
    return path
