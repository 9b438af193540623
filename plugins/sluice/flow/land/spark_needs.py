"""What Spark needs to run the land application: its settings, its Kafka jars, and its environment."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from sluice.errors import WrongUse
from sluice.runtime import PACKAGE, PROJECT, SHIPPED

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


def settings(local: bool) -> dict[str, str]:
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


def jars(environment: Mapping[str, str]) -> tuple[str, ...]:
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


def environment(environment: Mapping[str, str], local: bool) -> dict[str, str]:
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
