"""`--json` is for programs: standard output is one JSON document, whatever else is logged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from local.clickhouse_config import PASSWORD
from tests.faults.damage import Damaged
from tests.integration.landed import client_of

pytestmark = pytest.mark.integration

SLUICE = Path(sys.executable).with_name("sluice")
RANGE = ("--from", "2026-01-01T00:00Z", "--to", "2026-01-01T02:00Z")


@pytest.fixture(scope="module")
def world(tmp_path_factory, clickhouse_server) -> Damaged:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
        folder = tmp_path_factory.mktemp("json")
        made = Damaged(folder, client_of(clickhouse_server), "json_answers", patch, _Uncaptured())
        return made.make(2)


class _Uncaptured:
    """Stands in for a fixture that lives as long as one test."""

    def readouterr(self) -> SimpleNamespace:
        return SimpleNamespace(out="")


@pytest.fixture
def environment(tmp_path, clickhouse_server) -> dict[str, str]:
    """Airflow is set up, as on a machine that has its home: its look-up is asked, and it sets up logging."""
    (tmp_path / "airflow").mkdir()
    return {name: text for name, text in os.environ.items() if not name.startswith("AIRFLOW_CONN_")} | {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "SLUICE_CLICKHOUSE_PORT": str(clickhouse_server.port),
        PASSWORD: clickhouse_server.password,
    }


@pytest.mark.parametrize(
    "words",
    [
        ("verify", "ads", *RANGE, "--contents"),
        pytest.param(("status", "ads", *RANGE), marks=pytest.mark.long),
        pytest.param(("doctor", "ads"), marks=pytest.mark.long),
    ],
    ids=lambda words: words[0],
)
def test_standard_output_is_one_document(world: Damaged, environment: dict[str, str], words: tuple[str, ...]):
    line = [str(SLUICE), *words, "--config", str(world.config), "--json"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1, 3), done.stderr
    assert isinstance(json.loads(done.stdout), dict | list), done.stdout
