"""What spark-submit itself says to each kind of cluster; what we say:
tests/unit/flow/land/test_landing_cluster.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from local.java import java_home
from local.versions import ROOT

pytestmark = pytest.mark.integration

LAND = str(ROOT / "spark_jobs" / "land.py")
NOT_FOR_PYTHON = (
    "Cluster deploy mode is currently not supported for python applications on standalone clusters."
)


def spark_submit(*options: str) -> str:
    """What it complains of; nothing may listen at the addresses that it is given."""
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [programs / "spark-submit", *options, LAND],
        env={"PATH": path, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--master", "spark://127.0.0.1:1", "--deploy-mode", "cluster"), NOT_FOR_PYTHON),
        (("--master", "yarn"), "either HADOOP_CONF_DIR or YARN_CONF_DIR must be set"),
        (("--master", "k8s://ftp://127.0.0.1:1"), "Invalid Kubernetes master scheme: ftp"),
    ],
)
def test_what_spark_itself_refuses(options: tuple[str, ...], complaint: str):
    assert complaint in spark_submit(*options)


def test_kubernetes_in_client_mode_passes_validation():
    """The driver begins here, beside the Airflow worker, and has its own say about what is missing."""
    assert "the following arguments are required: --config" in spark_submit("--master", "k8s://127.0.0.1:1")
