"""What Spark's Python starts with: no archives of an installed pyspark, and one thread before a fork."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from local.versions import ROOT
from sluice.flow.land.submit import spark_submit_arguments
from tests.support.landing_world import hours, pipeline


@pytest.fixture
def without_archives(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "spark_jobs"))
    import unzipped

    return unzipped.without_archives


@pytest.fixture
def lib(tmp_path: Path) -> Path:
    """Of an installed pyspark, with its two archives."""
    folder = tmp_path / "site-packages" / "pyspark" / "python" / "lib"
    folder.mkdir(parents=True)
    (folder.parents[1] / "__init__.py").touch()
    for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip"):
        (folder / name).touch()
    return folder


def test_archives_give_way_to_the_package(without_archives, lib):
    path = [
        str(lib / "pyspark.zip"),
        str(lib / "py4j-0.10.9.9-src.zip"),
        "/plugins",
        "/usr/lib/python311.zip",
    ]
    assert without_archives(path) == ["/plugins", "/usr/lib/python311.zip", str(lib.parents[2])]


def test_a_folder_that_is_there_keeps_its_place(without_archives, lib):
    packages = str(lib.parents[2])
    assert without_archives([packages, str(lib / "pyspark.zip"), "/plugins"]) == [packages, "/plugins"]


def test_the_archives_of_a_spark_of_its_own_stay(without_archives, tmp_path):
    """A downloaded Spark: its archive is all that there is of its pyspark."""
    archive = tmp_path / "spark-4.2.0" / "python" / "lib" / "pyspark.zip"
    assert without_archives([str(archive), "/plugins"]) == [str(archive), "/plugins"]


def test_importing_it_changes_the_path_itself(lib, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(lib / "pyspark.zip"), str(ROOT / "spark_jobs")])
    monkeypatch.delitem(sys.modules, "unzipped", raising=False)
    import unzipped  # noqa: F401

    assert sys.path == [str(ROOT / "spark_jobs"), str(lib.parents[2])]


def test_the_daemon_has_one_thread_when_it_forks(tmp_path):
    """pyspark/daemon.py demands it; numpy and pyarrow would start more."""
    for name in ("spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10", "kafka-clients", "commons-pool2"):
        (tmp_path / f"{name}-1.jar").touch()
    spec = spark_submit_arguments(
        pipeline(), tmp_path / "x", hours(1), "fill", "t", {"SLUICE_SPARK_JARS": str(tmp_path)}
    )
    prefix = "spark.executorEnv."
    own = {name.removeprefix(prefix): text for name, text in spec.conf.items() if name.startswith(prefix)}
    module = spec.conf["spark.python.daemon.module"]
    code = f"import os, sys, {module}; print(len(os.listdir('/proc/self/task')), 'numpy' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **spec.env_vars, **own},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.split() == ["1", "True"]
