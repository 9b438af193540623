"""A connection that `airflow connections add` makes in the embedded stack's shell is found from any shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from local.environment import Settings, environment
from local.stack import migrate_airflow

pytestmark = pytest.mark.integration

_FIND = """
from sluice.clients.connections.find import find
found, kafka = find("registry"), find("kafka_default")
print(found.host, found.port, found.password, kafka.extra["bootstrap.servers"])
"""


def test_what_is_added_in_the_stacks_shell_is_found_in_any(tmp_path: Path):
    settings = Settings(tmp_path, kafka_port=19092)
    migrate_airflow(settings)
    add = ["airflow", "connections", "add", "registry", "--conn-uri", "http://me:a-password@h:8081"]
    inside = environment(settings)
    subprocess.run(add, env=inside, check=True, capture_output=True)
    plain = {name: text for name, text in os.environ.items() if not name.startswith(("AIRFLOW", "SLUICE"))}
    outside = {**plain, "SLUICE_HOME": str(tmp_path), "SLUICE_KAFKA_PORT": "19092"}
    for env in (inside, outside):
        done = subprocess.run(
            [sys.executable, "-c", _FIND], env=env, check=True, capture_output=True, text=True
        )
        assert done.stdout == "h 8081 a-password 127.0.0.1:19092\n"
