"""Makes archives of the classes that the JVMs of Spark and of the broker load, so that they start sooner.

A JVM maps an archive instead of reading, checking and linking some ten thousand classes. An archive fits
one Java and one list of jars; a JVM that is given another one, or none, goes on without. Source: JEP 350,
Dynamic CDS Archives.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

from local import fetched, services
from local.java import java
from local.progress import CommandFailed, run_alive, say
from local.versions import BROKER_CLASSES, SPARK_CLASSES

_DUMP = "-XX:ArchiveClassesAtExit="
_SESSION = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(1000).repartition(2).mapInArrow(lambda batches: batches, "id long").toArrow()
spark.stop()
"""


def provide(archive: Path, jars: Iterable[Path], make: Callable[[Path], None]) -> None:
    """Makes the archive where it is not there for this Java and these jars. `make` writes it.

    It gets its name when it is complete: half an archive would end each JVM with SIGBUS. Without one, JVMs
    only start more slowly.
    """
    stamp, made_of = archive.with_suffix(".of"), _made_of(jars)
    with suppress(OSError):
        if archive.exists() and stamp.read_text() == made_of:
            return
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as work:
        unfinished = Path(work, archive.name)
        try:
            make(unfinished)
            unfinished.rename(archive)
        except (CommandFailed, services.DiedWhileStarting, TimeoutError, OSError) as error:
            say(f"no archive of classes, so that JVMs start more slowly: {error}")
            return
    stamp.write_text(made_of)


def _made_of(jars: Iterable[Path]) -> str:
    """Returns what the JVM compares: its own version, and names, sizes and times of the jars."""
    version = subprocess.run([java(), "-version"], capture_output=True, text=True).stderr
    files = [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in sorted(jars)]
    return "\n".join([version, *files])


def of_spark(archive: Path) -> None:
    """A session that runs a Python function in a task, as a landing does."""
    with tempfile.TemporaryDirectory() as work:
        session = Path(work, "session.py")
        session.write_text(_SESSION)
        options = f"spark.driver.extraJavaOptions=-XX:+UseParallelGC {_DUMP}{archive}"
        submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[1]"]
        submit += ["--conf", options, "--conf", "spark.ui.enabled=false", str(session)]
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }
        run_alive(submit, "making Spark start sooner", Path(work), environment)


def of_broker(archive: Path) -> None:
    """A broker that starts and stops."""
    with tempfile.TemporaryDirectory() as work, patch.dict(os.environ, KAFKA_OPTS=f"{_DUMP}{archive}"):
        services.kafka_broker(Path(work)).stop()


def main() -> None:
    import pyspark

    provide(SPARK_CLASSES, Path(pyspark.__file__).parent.glob("jars/*.jar"), of_spark)
    provide(BROKER_CLASSES, fetched.broker_jars().glob("*.jar"), of_broker)


if __name__ == "__main__":
    try:
        main()
    except fetched.NotAsPinned as error:
        sys.exit(f"sluice: {error}")
