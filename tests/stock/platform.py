"""A stock Airflow on PostgreSQL: its processes, each to be killed and started again by its name."""

from __future__ import annotations

import base64
import os
import secrets
import signal
import subprocess
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg2

from local.airflow_api import healthy
from local.cluster.postgres import PASSWORD, create_database
from local.environment import HOST
from local.java import java_home
from local.readiness import free_port, listens, wait_until
from local.services import Service
from tests.stock.guide import clean_environment

PARTS = {
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
    "triggerer": ("triggerer", "--skip-serve-logs"),
    "api-server": ("api-server",),
}
MARK = "STOCK_AIRFLOW"  # inherited by all that Airflow starts, Spark included
USER = "ann"
UP_SECONDS, RUN_SECONDS, STOP_SECONDS = 120, 300, 20


@dataclass
class Postgres(Service):
    def ready(self) -> bool:
        return listens(self.port)


def postgres(data: Path, password: str) -> Postgres:
    """Its password is in the environment of whoever starts it, as local/cluster/postgres.py asks."""
    os.environ[PASSWORD] = password
    try:
        # It makes its folder itself, and the service's log is in `data`.
        server = Postgres("local.cluster.postgres", data, free_port(), ["--data", str(data / "base")]).start()
    finally:
        del os.environ[PASSWORD]
    assert isinstance(server, Postgres)
    wait_until(lambda: _made(server.port, password), "PostgreSQL", UP_SECONDS)
    return server


def _made(port: int, password: str) -> bool:
    """It listens before it takes anybody."""
    try:
        create_database(port, password)
    except psycopg2.OperationalError:
        return False
    return True


@dataclass
class StockAirflow:
    home: Path
    venv: Path
    database_port: int
    database_password: str
    port: int = field(default_factory=free_port)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    parts: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    sessions: set[int] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def settings(self) -> dict[str, str]:
        """What a platform sets; and what is lost is noticed within a minute instead of five."""
        database = f"airflow:{self.database_password}@{HOST}:{self.database_port}/airflow"
        options = {
            "CORE__LOAD_EXAMPLES": False,
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": 4,
            "CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": self.home / "passwords.json",
            "DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{database}",
            "API__HOST": HOST,
            "API__PORT": self.port,
            "API__BASE_URL": self.url,
            "API__WORKERS": 1,
            "API__SECRET_KEY": secrets.token_urlsafe(24),
            "API_AUTH__JWT_SECRET": secrets.token_urlsafe(24),
            "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 60,
            "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": 20,
            "SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": 15,
        }
        own = {f"AIRFLOW__{name}": str(value) for name, value in options.items()}
        path = f"{self.venv / 'bin'}{os.pathsep}{os.environ['PATH']}"
        java = {"JAVA_HOME": str(java_home()), "PATH": f"{path}{os.pathsep}{java_home() / 'bin'}"}
        return {**clean_environment(), **own, **java, "AIRFLOW_HOME": str(self.home), MARK: self.mark}

    def start(self, part: str, environment: dict[str, str]) -> None:
        log = self.home / f"{part}.log"
        with log.open("ab") as output:
            self.parts[part] = subprocess.Popen(
                [self.venv / "bin/airflow", *PARTS[part]],
                cwd=self.home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.sessions.add(self.parts[part].pid)

    def wait_until_healthy(self) -> None:
        self.wait(lambda: healthy(self.url), "Airflow", UP_SECONDS)

    def kill(self, part: str) -> None:
        """kill -9 of the process, and of what it has started, as a service manager does.

        A scheduler that is killed alone leaves its executor's workers. They hold its session of the database,
        so PostgreSQL keeps its locks, and the next scheduler passes the locked runs by.
        """
        process = psutil.Process(self.parts[part].pid)
        for each in (process, *process.children(recursive=True)):
            send(each, signal.SIGKILL)
        self.parts[part].wait(STOP_SECONDS)

    def stop(self) -> None:
        """Airflow and all that it has started."""
        for part in self.parts.values():
            part.terminate()
        psutil.wait_procs(self.processes(), STOP_SECONDS)
        while left := self.processes():
            for process in left:
                send(process, signal.SIGKILL)
            psutil.wait_procs(left, STOP_SECONDS)

    def processes(self) -> list[psutil.Process]:
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        """A process that has changed its title has lost its environment, as far as others see."""
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            return os.getsid(process.pid) in self.sessions or process.environ().get(MARK) == self.mark
        except (psutil.Error, OSError):
            return False

    def landings(self) -> list[psutil.Process]:
        """The JVMs of backfills' landings that are at work; an hourly run may land beside them.

        A process that a JVM has just forked has its command line until it runs another program.
        """
        found = {one.pid: one for one in self.processes() if lands(command_of(one))}
        return [one for one in found.values() if parent_of(one) not in found]

    def sql(self, text: str) -> list[tuple]:
        """Airflow's own database."""
        connection = psycopg2.connect(
            host=HOST,
            port=self.database_port,
            user="airflow",
            dbname="airflow",
            password=self.database_password,
        )
        try:
            with connection.cursor() as cursor:
                cursor.execute(text)
                return cursor.fetchall()
        finally:
            connection.close()

    def wait(
        self, ready: Callable[[], bool], what: str, seconds: float = RUN_SECONDS, poll: float = 0.2
    ) -> None:
        wait_until(ready, f"{what} (logs: {self.home})", seconds, poll=poll)


def lands(words: Sequence[str]) -> bool:
    token = words[words.index("--token") + 1] if "--token" in words else ""
    return "org.apache.spark.deploy.SparkSubmit" in words and token.startswith("reland__")


def parent_of(process: psutil.Process) -> int | None:
    """None of a process that has ended."""
    try:
        return process.ppid()
    except psutil.Error:
        return None


def send(process: psutil.Process, what: signal.Signals) -> None:
    try:
        process.send_signal(what)
    except psutil.NoSuchProcess:
        return


def command_of(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
