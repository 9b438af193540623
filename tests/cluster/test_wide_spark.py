"""The landing on Spark standalone: what a worker needs, and what is left when one is lost in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from datetime import timedelta
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from local import fetched
from local.versions import SPARK_KAFKA_JARS
from tests.cluster.users import WideUser
from tests.cluster.wide import Wide, send
from tests.integration import foreign_events
from tests.integration.land.test_main_job import START, create_tables, ids_in_tables, write_foreign

pytestmark = pytest.mark.integration

COUNT = 2_000
# One hour: several small ones would be read by a single task.
RANGE = ("--from", START.isoformat(), "--to", (START + timedelta(hours=1)).isoformat())
# Many short tasks, so that there is a middle to be killed in.
MANY_READS = {"rows_per_read": 20}
POM = """\
<project><modelVersion>4.0.0</modelVersion>
<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></project>
"""
IVY_SETTINGS = """\
<ivysettings><settings defaultResolver="folder"/>
<resolvers><ibiblio name="folder" m2compatible="true" root="{root}/"/></resolvers></ivysettings>
"""


@pytest.fixture
def user(name: str, tmp_path: Path, cluster: Wide) -> WideUser:
    user = WideUser(name, tmp_path, cluster)
    create_tables(user)
    return user


def publish(user: WideUser, seed: int, count: int = COUNT, **changes) -> list[str]:
    """The ids of the events."""
    events = foreign_events.make(START, 1, count, seed)
    write_foreign(user, **changes)
    user.do("publish", str(foreign_events.write(events, user.folder / "events.ndjson")))
    return sorted(event["id"] for event in events)


def begun(user: WideUser, *, files: int = 4) -> subprocess.Popen:
    """A run whose landing has written some of its files and committed nothing."""
    process = user.start("run", *RANGE)
    written = lambda: len(list((user.lake / "_attempts").rglob("*.parquet"))) >= files  # noqa: E731
    user.wide.wait(lambda: written() or process.poll() is not None, "files of the attempt", 180)
    assert process.poll() is None, process.communicate()
    assert not list((user.lake / "_slices").rglob("manifest.json"))
    return process


def finish(process: subprocess.Popen) -> None:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, out + err


def check(user: WideUser, ids: list[str]) -> None:
    """Each event is in the lake and in the tables once, and no file is visible that no manifest names."""
    manifests = [json.loads(path.read_text()) for path in (user.lake / "_slices").rglob("manifest.json")]
    named = Counter(file["key"] for manifest in manifests for file in manifest["files"])
    visible = {str(path.relative_to(user.lake)) for path in user.lake.glob("type=*/**/*.parquet")}
    assert len(manifests) == 1
    assert named == Counter(visible)
    payloads = [pq.ParquetFile(user.lake / path).read(["_payload"])["_payload"] for path in visible]
    assert sorted(json.loads(text)["id"] for column in payloads for text in column.to_pylist()) == ids
    assert not list((user.lake / "_attempts").rglob("*.parquet"))
    assert ids_in_tables(user) == ids
    assert json.loads(user.do("verify", *RANGE, "--json"))["anomalies"] == []


def test_a_worker_has_nothing_of_the_repository(cluster: Wide):
    """Neither its Python nor its environment; and what it lands with is `--py-files`."""
    python, elsewhere = cluster.settings.worker_python, cluster.folder
    for module, found in {"pyarrow": 0, "sluice": 1}.items():
        done = subprocess.run([python, "-c", f"import {module}"], cwd=elsewhere, env={}, capture_output=True)
        assert done.returncode == found, module
    for part in ("spark_worker1", "spark_worker2"):
        environment = psutil.Process(cluster.process(part)).environ()
        assert not {"PYTHONPATH", "SLUICE_HOME", "AWS_SECRET_ACCESS_KEY"} & set(environment)


def test_an_executor_killed_in_the_middle(user: WideUser):
    ids = publish(user, seed=21, **MANY_READS)
    process = begun(user)
    killed = user.wide.executors("spark_worker2")
    for executor in killed:
        executor.kill()
    assert killed
    finish(process)
    check(user, ids)


def test_a_worker_killed_in_the_middle(user: WideUser):
    ids = publish(user, seed=22, **MANY_READS)
    process = begun(user)
    user.wide.kill("spark_worker1")
    finish(process)
    check(user, ids)


def test_a_slow_executor_with_speculation(user: WideUser):
    """It is put to sleep with its Python workers, and wakes up when all is done without it."""
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "500ms",
        "spark.speculation.quantile": "0.5",
    }
    ids = publish(user, seed=23, spark=speculation, **MANY_READS)
    process = begun(user)
    asleep = [
        pid
        for executor in user.wide.executors("spark_worker2")
        for pid in (executor.pid, *(child.pid for child in executor.children(recursive=True)))
    ]
    assert asleep
    for pid in asleep:
        send(pid, signal.SIGSTOP)
    try:
        finish(process)
    finally:
        for pid in asleep:
            send(pid, signal.SIGCONT)
    user.wide.wait(lambda: not any(map(psutil.pid_exists, asleep)), "the end of what slept")
    check(user, ids)


def test_jars_by_packages(user: WideUser):
    """From a Maven repository in a folder: Spark's own resolver fetches them, and `--jars` is not used."""
    repository = user.folder / "maven"
    for jar in SPARK_KAFKA_JARS:
        folder = repository.joinpath(*jar.organisation.split("."), jar.name, jar.version)
        folder.mkdir(parents=True)
        file = f"{jar.name}-{jar.version}"
        (folder / f"{file}.jar").symlink_to(fetched.spark_jars() / f"{file}.jar")
        text = POM.format(group=jar.organisation, name=jar.name, version=jar.version)
        (folder / f"{file}.pom").write_text(text)
    settings = user.folder / "ivysettings.xml"
    settings.write_text(IVY_SETTINGS.format(root=repository.as_uri()))
    spark = {
        "spark.jars.packages": ",".join(f"{j.organisation}:{j.name}:{j.version}" for j in SPARK_KAFKA_JARS),
        "spark.jars.ivySettings": str(settings),
        "spark.jars.ivy": str(user.folder / "ivy"),
    }
    ids = publish(user, seed=24, count=100, spark=spark)
    user.env = {**user.env, "SLUICE_SPARK_JARS": str(user.folder / "none")}
    user.do("run", *RANGE)
    check(user, ids)
    assert len(list((user.folder / "ivy" / "jars").glob("*.jar"))) == len(SPARK_KAFKA_JARS)
