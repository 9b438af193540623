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
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sluice.clients import connections as connections
from sluice.clients.connections import Connection
from sluice.clients.kafka.settings import ALLOWED_URLS, token_urls
from sluice.config.pipeline import Pipeline
from sluice.errors import WrongUse
from sluice.runtime import PACKAGE, PROJECT, SHIPPED
from sluice.safe_text import Say, line
from sluice.slices import SliceRange

# What Spark needs to run the land application: its settings, its Kafka jars, and its environment.

APPLICATION = SHIPPED / "spark_jobs" / "land.py"
_JARS = ("spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10", "kafka-clients", "commons-pool2")
# The SHA-256 of these versions, wherever they were fetched from. Another version is its owner's to check.
PUBLISHED = """
64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705  spark-sql-kafka-0-10_2.13-4.2.0
f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767  spark-token-provider-kafka-0-10_2.13-4.0.0
014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8  kafka-clients-3.9.2
f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f  commons-pool2-2.13.1
"""
# `make tools` makes it: local/class_data.py.
_CLASSES = PROJECT / ".deps" / "class-data" / "spark.jsa"
_NO_REMARKS = ("-Xlog:disable", "-Xlog:all=error:stderr")
# What must not be seen in Spark's UI, its event log or a printed plan.
_SECRET = "(?i)secret|password|token|access[.]?key|credential|jaas|ssl[.].*key|certificate"  # noqa: S105 - a pattern
# A task gathers tens of MB and gives them back, again and again: it keeps that memory, instead of having the
# system clear it each time. Nor does it need numpy's threads, which wait by turning, or a heap for each
# thread of each of librdkafka's consumers (a worker's peak: 351 MB instead of 510). Sources: mallopt(3),
# mimalloc's page of environment options, OpenBLAS's README.
_WORKERS = {
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_ARENA_MAX": "2",
    "MIMALLOC_PURGE_DELAY": "-1",
    "OPENBLAS_NUM_THREADS": "1",
}


def spark_settings(local: bool) -> dict[str, str]:
    logging = APPLICATION.with_name("log4j2.properties").as_uri()
    conf = {
        # Throughput counts, not pauses: G1, the default, takes a tenth of the processor more.
        "spark.driver.extraJavaOptions": " ".join(
            [f"-Dlog4j2.configurationFile={logging}", "-XX:+UseParallelGC", *class_data(_CLASSES)]
        ),
        # A record that does not fit into memory fails its task, not Spark: the task reads it by itself.
        "spark.executor.killOnFatalError.depth": "0",
        "spark.redaction.regex": _SECRET,
        "spark.sql.redaction.options.regex": _SECRET,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        **{f"spark.executorEnv.{name}": value for name, value in _WORKERS.items()},
    }
    if local:
        conf |= {"spark.ui.enabled": "false", "spark.driver.memory": "2g", "spark.driver.host": "127.0.0.1"}
        conf |= {"spark.driver.bindAddress": "127.0.0.1", "spark.python.daemon.module": "worker_daemon"}
    else:
        # So that `spark.pyspark.python` names the workers' Python alone.
        conf |= {"spark.pyspark.driver.python": sys.executable}
    return conf


def class_data(archive: Path) -> tuple[str, ...]:
    """Returns the options with which a JVM maps an archive of classes; none where there is no archive.

    A JVM ignores an archive that does not fit; the options keep it from logging that.
    """
    return (f"-XX:SharedArchiveFile={archive}", *_NO_REMARKS) if archive.exists() else ()


def needed_jars(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Raises WrongUse."""
    configured = environment.get("SLUICE_SPARK_JARS")
    folders = (
        [Path(configured)] if configured else sorted((PROJECT / ".deps").glob("spark-kafka-*"), reverse=True)
    )
    for folder in folders:
        jars_by_name = [sorted(folder.glob(f"{name}*.jar")) for name in _JARS]
        if all(jars_by_name):
            return tuple(_as_published(jars[-1]) for jars in jars_by_name)
    where = configured or "SLUICE_SPARK_JARS is not set and .deps is empty"
    raise WrongUse(
        f"Spark's Kafka source is not there ({where}): let SLUICE_SPARK_JARS name the folder of its "
        "four jars, or run `make setup` in the repository"
    )


def _as_published(jar: Path) -> str:
    """Reads the jar, 10 MB in all, each time: whoever can write to its folder runs code in every landing."""
    known = [line.split() for line in PUBLISHED.splitlines() if line.endswith(f"  {jar.stem}")]
    expected = known[0][0] if known else None
    with jar.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if expected not in (None, found):
        raise WrongUse(
            f"{jar} is not the jar that was published: expected SHA-256 {expected}, found {found}; remove it "
            "and fetch it again"
        )
    return str(jar)


SUBMITTED = "SLUICE_SUBMITTED"
"""When the application was submitted, in seconds since the epoch."""
_LONGEST_START = 3600.0


def seconds_since_submit(environment: Mapping[str, str], now: float) -> float:
    """Returns how long the application took to begin; 0 where that is not known."""
    try:
        passed = now - float(environment.get(SUBMITTED, ""))
    except ValueError:
        return 0.0
    return round(passed, 3) if 0 <= passed < _LONGEST_START else 0.0


def submit_environment(environment: Mapping[str, str], local: bool) -> dict[str, str]:
    """Returns the variables by which driver and local workers run this interpreter with this library."""
    above = [str(PACKAGE.parent), str(APPLICATION.parent) if local else "", environment.get("PYTHONPATH", "")]
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, above)),
        "PYSPARK_PYTHON": environment.get("PYSPARK_PYTHON") or sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONUNBUFFERED": "1",
        SUBMITTED: f"{time.time():.3f}",
        # The driver too takes the library from the archive, which lies in another folder.
        "SLUICE_PROJECT": str(PROJECT),
        # Executors elsewhere have to find the driver under its real name.
        **({"SPARK_LOCAL_HOSTNAME": "localhost"} if local else {}),
    }


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
        application=str(APPLICATION),
        application_args=(
            *("--config", str(Path(config).resolve())),
            *("--from", slices.start.isoformat(), "--to", slices.end.isoformat()),
            *("--mode", mode, "--token", token),
            *(("--cluster", cluster) if cluster else ()),
            *(("--accept-loss",) if accept_loss else ()),
        ),
        conf=allowing({**spark_settings(local), **pipeline.spark}, token_urls(pipeline.kafka)),
        jars=() if PACKAGES in pipeline.spark else needed_jars(environment),
        env_vars=submit_environment(environment, local),
        # In this very process Spark finds the library as we did.
        py_files=() if local else (str(archive_file()),),
    )


def allowing(conf: Mapping[str, str], urls: Sequence[str]) -> Mapping[str, str]:
    """Returns the settings with which driver and executors may ask these token endpoints."""
    if not urls:
        return conf
    options = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
    allowed = f"-D{ALLOWED_URLS}={','.join(urls)}"
    return {**conf, **{name: f"{conf.get(name, '')} {allowed}".strip() for name in options}}


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
