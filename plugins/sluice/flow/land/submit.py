"""How the land application is submitted: the same for Airflow's operator and for `sluice run`."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sluice.clients.connections import find as connections
from sluice.clients.connections.find import Connection
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.flow.land import spark_needs
from sluice.runtime import PACKAGE
from sluice.safe_text import Say, line
from sluice.slices import SliceRange

PACKAGES = "spark.jars.packages"  # in a pipeline file's `spark:`, Spark fetches the jars by itself
_DEPLOY_MODE = "spark.submit.deployMode"
ERROR = "error: "  # how the application's line on what went wrong begins

# What the JVM and Spark's launcher say on every start.
_NOISE = ("WARNING: Using incubator modules", "WARNING: A restricted method", "Using Spark's default log4j")
_STOP_SECONDS = 10


@dataclass(frozen=True)
class SubmitSpec:
    """One spark-submit; `env_vars` add to the caller's environment, where connections are, too."""

    master: str
    application: str
    application_args: tuple[str, ...]
    conf: Mapping[str, str]
    jars: tuple[str, ...]
    env_vars: Mapping[str, str]
    py_files: tuple[str, ...] = ()

    def options(self) -> list[str]:
        conf = [word for key, value in self.conf.items() for word in ("--conf", f"{key}={value}")]
        jars = ("--jars", ",".join(self.jars)) if self.jars else ()
        library = ("--py-files", ",".join(self.py_files)) if self.py_files else ()
        return ["--master", self.master, *jars, *library, *conf]

    def command(self) -> list[str]:
        return [*self.options(), self.application, *self.application_args]


def spark_submit_arguments(
    pipeline: Pipeline,
    config: Path,
    slices: SliceRange,
    mode: str,
    token: str,
    environment: Mapping[str, str] = os.environ,
    cluster: str = "",
    accept_loss: bool = False,
) -> SubmitSpec:
    """Returns what lands `slices`, of one `cluster` only where one is named. `accept_loss`: rows that are
    there may be rejected. Raises WrongUse when the jars or the Spark connection are missing, or the
    driver would run elsewhere."""
    connection = connections.find(pipeline.spark_connection)
    refuse_cluster_mode(connection.conn_id, connection.extra.get("deploy-mode"), pipeline.spark)
    master = _master(connection)
    local = master.startswith("local")
    return SubmitSpec(
        master=master,
        application=str(spark_needs.APPLICATION),
        application_args=(
            *("--config", str(Path(config).resolve())),
            *("--from", slices.start.isoformat(), "--to", slices.end.isoformat()),
            *("--mode", mode, "--token", token),
            *(("--cluster", cluster) if cluster else ()),
            *(("--accept-loss",) if accept_loss else ()),
        ),
        conf={**spark_needs.settings(local), **pipeline.spark},
        jars=() if PACKAGES in pipeline.spark else spark_needs.jars(environment),
        env_vars=spark_needs.environment(environment, local),
        # In this very process Spark finds the library as we did.
        py_files=() if local else (str(archive_file()),),
    )


def refuse_cluster_mode(conn_id: str, deploy_mode: object, conf: Mapping[str, str]) -> None:
    """Raises WrongUse for a driver that would run on the cluster: it would be sent its secrets in the
    clear, and Spark standalone has no such mode for Python applications at all."""
    for where, mode in (
        (f"Spark connection {conn_id!r}", deploy_mode),
        (f"spark: {_DEPLOY_MODE}", conf.get(_DEPLOY_MODE)),
    ):
        if mode == "cluster":
            raise WrongUse(
                f"{where} has deploy-mode cluster: landing needs `client`, its driver runs beside the "
                "Airflow worker and takes secrets from its environment"
            )


def _master(connection: Connection) -> str:
    """Returns the master as Airflow's SparkSubmitHook makes it of a `spark` connection."""
    if not connection.host:
        raise WrongUse(f"Spark connection {connection.conn_id!r}: its host is missing, for example local[*]")
    return f"{connection.host}:{connection.port}" if connection.port else connection.host


class Running:
    """What `run_locally` has started in one thread, so that another may stop it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False

    def began(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._process = process
            if self._stopped:
                _stop(process)

    def stop(self) -> None:
        """Stops it, and what is started after."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                _stop(self._process)


def run_locally(spec: SubmitSpec, on_line: Say, running: Running | None = None) -> int:
    """Runs spark-submit to its end and returns its exit code; `on_line` gets the lines of its progress.

    Its errors go to this process's stderr. An interruption stops Spark first, as `running` does where it is
    given. Raises WrongUse without Java.
    """
    environment = {**os.environ, **spec.env_vars}
    if not (environment.get("JAVA_HOME") or shutil.which("java")):
        raise WrongUse("no Java found, which Spark needs: install a JRE 17 or newer, or set JAVA_HOME")
    process = subprocess.Popen(
        [_binary(), *spec.command()],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
        start_new_session=True,
    )
    if running is not None:
        running.began(process)
    try:
        complaints = threading.Thread(target=_pass_on, args=(process.stderr,))
        complaints.start()
        for output_line in process.stdout or ():
            if output_line.startswith(ERROR):  # spark-submit joins the application's two outputs
                _pass_on([output_line])
            elif not output_line.startswith("{"):
                on_line(output_line.rstrip("\n"))
        complaints.join()
        return process.wait()
    finally:
        _stop(process)


def _binary() -> str:
    """Returns the path of spark-submit. Raises WrongUse where there is none."""
    beside = Path(sys.executable).with_name("spark-submit")
    program = str(beside) if beside.exists() else shutil.which("spark-submit")
    if program is None:
        raise WrongUse("no spark-submit found: `pip install 'sluice[spark]'`, or put Spark's bin on the PATH")
    return program


def _pass_on(lines: Iterable[str]) -> None:
    for output_line in lines:
        if not output_line.startswith(_NOISE):
            sys.stderr.write(f"{line(output_line)}\n")


def _stop(process: subprocess.Popen[str]) -> None:
    """Stops Spark and its Python workers, which are its process group, if they still run."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, kind)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)


# The library as one archive that spark-submit sends to Spark's workers (`--py-files`).
#
# The same sources give the same bytes: entries are sorted, dated alike and not compressed, for what a
# compressor makes depends on its version.
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first date that a zip entry can have
_FILE_MODE = 0o644 << 16
# Not Python, or the driver's alone.
_LEFT_OUT = frozenset({"_shipped", "__pycache__"})


def archive(package: Path = PACKAGE) -> bytes:
    """Returns a zip of the package's Python files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_STORED) as bundle:
        for path in sorted(package.rglob("*.py")):
            inside = path.relative_to(package)
            if not _LEFT_OUT & set(inside.parts):
                entry = zipfile.ZipInfo(str(package.name / inside), _EPOCH)
                entry.external_attr = _FILE_MODE
                bundle.writestr(entry, path.read_bytes())
    return content.getvalue()


def archive_file(folder: Path | None = None) -> Path:
    """Returns the archive in a file that its content names, so that runs of one version share it.

    Raises WrongUse when another user owns the folder, because its owner decides what the workers run, and
    for what is no folder.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"sluice-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise WrongUse(f"{folder} is not this user's alone: remove it, or set TMPDIR to another folder")
    content = archive()
    path = folder / f"sluice-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as partial:
        partial.write(content)
    os.replace(partial.name, path)
    return path
