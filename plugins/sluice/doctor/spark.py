"""Can the landing application be submitted: connection, master, Java and jars?"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sluice.config.pipeline import Pipeline
from sluice.doctor.check import Area, Check, Level, fail, ok, warn
from sluice.flow.land.submit import spark_submit_arguments
from sluice.slices import SliceRange

_NEWEST_NEEDED = 17  # Spark 4: https://spark.apache.org/docs/latest/#downloading
_SECONDS = 10
_STANDALONE = re.compile(r"spark://(\[[^]]+\]|[^:,]+):(\d+)", re.ASCII)
_HIGHEST_PORT = 65_535


def spark_checks(
    pipeline: Pipeline, config: Path, slices: SliceRange, environment: Mapping[str, str] = os.environ
) -> Iterator[Check]:
    """Raises WrongUse for a missing Spark connection or missing jars."""
    spec = spark_submit_arguments(pipeline, config, slices, "fill", "doctor", environment)
    yield ok(Area.SPARK, "jars", ", ".join(Path(jar).name for jar in spec.jars))
    yield from spark_packages(_version("pyspark"), _version("pyspark-client"))
    yield _java(environment)
    yield _master(spec.master, environment)


def spark_packages(spark: str | None, client: str | None) -> Iterator[Check]:
    """Are the two packages with a `pyspark` folder of one version? The one installed last overwrites files of
    the other's: a mixture fails in the middle of a landing."""
    if spark is None or client is None:
        return
    if spark == client:
        yield ok(Area.SPARK, "packages", f"pyspark and pyspark-client {spark}")
        return
    remedy = f"pip install --force-reinstall --no-deps pyspark-client=={spark} pyspark=={spark}"
    yield fail(Area.SPARK, "packages", f"pyspark is {spark}, and pyspark-client {client}", remedy)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _java(environment: Mapping[str, str]) -> Check:
    home = environment.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    remedy = f"install a JRE {_NEWEST_NEEDED} or newer, or let JAVA_HOME name one"
    if program is None:
        return fail(Area.SPARK, "java", "there is no Java", remedy)
    try:
        version_text = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=60
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return fail(Area.SPARK, "java", f"{program} does not run ({error})", remedy)
    found = re.search(r'version "(\d+)', version_text)
    if found is None or int(found[1]) < _NEWEST_NEEDED:
        return fail(Area.SPARK, "java", f"{program} is {' '.join(version_text.split()[:3])}", remedy)
    return ok(Area.SPARK, "java", f"{program} is version {found[1]}")


def _master(master: str, environment: Mapping[str, str]) -> Check:
    if master.startswith("local"):
        return ok(Area.SPARK, "master", f"{master}: in the driver's own process, {os.cpu_count()} cores")
    if address := _STANDALONE.match(master):
        return _standalone(master, address[1].strip("[]"), address[2])
    if master == "yarn" and not (environment.get("HADOOP_CONF_DIR") or environment.get("YARN_CONF_DIR")):
        remedy = "let HADOOP_CONF_DIR name the folder of its configuration"
        return fail(Area.SPARK, "master", "yarn, and nothing says where its resource manager is", remedy)
    remedy = "a run over one hour proves it"
    return warn(Area.SPARK, "master", f"{master} can be tried only by an application", remedy)


def _standalone(master: str, host: str, port: str) -> Check:
    remedy = "correct host and port of the Spark connection"
    if mistake := _mistake(host, port):
        return fail(Area.SPARK, "master", f"{master} is no address ({mistake})", remedy)
    try:
        socket.create_connection((host, int(port)), _SECONDS).close()
    except OSError as error:
        finding = f"{master} does not answer ({error})"
        return Check(Area.SPARK, "master", Level.FAIL, finding, f"start it, or {remedy}", unreachable=True)
    return ok(Area.SPARK, "master", f"{master} answers")


def _mistake(host: str, port: str) -> str:
    """Returns why no socket takes host and port, else nothing."""
    try:
        host.encode("idna")
    except UnicodeError:
        return "a part of its host is empty, longer than 63 characters, or of characters that no host has"
    wrong = len(port) > len(str(_HIGHEST_PORT)) or int(port) > _HIGHEST_PORT
    return f"its port is above {_HIGHEST_PORT}" if wrong else ""
