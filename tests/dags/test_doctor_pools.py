"""`sluice doctor` on pools, with an Airflow of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dags.pipeline_texts import TWO_TABLES

ASK = """
import sys
from pathlib import Path
from sluice.config.files import read
from sluice.doctor.check import Area, guarded
from sluice.doctor.examine import pool_checks
pipeline = read(Path(sys.argv[1]))
for check in guarded(Area.AIRFLOW, "pools", lambda: pool_checks(pipeline)):
    print(check.level, check.place, check.finding, check.remedy, check.unreachable, sep=" | ")
"""


@pytest.mark.long
def test_a_real_airflow_is_asked(tmp_path: Path):
    (tmp_path / "_defaults.yaml").write_text("airflow: {steps: {land: {pool: big one}}}")
    (tmp_path / "ads.yaml").write_text(TWO_TABLES + "airflow: {steps: {load: {pool: sluice_load}}}")
    home, bin_folder = tmp_path / "airflow", Path(sys.executable).parent
    environment = {**os.environ, "AIRFLOW_HOME": str(home), "PYTHONPATH": "plugins"}

    def ran(*words: str) -> str:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    ask = (sys.executable, "-c", ASK, str(tmp_path / "ads.yaml"))
    assert "Airflow is not set up here" in ran(*ask)
    home.mkdir()
    [line] = ran(*ask).splitlines()
    assert line.startswith("fail | pools | Airflow's database gives no pools (no such table: slot_pool)")
    assert line.endswith("| True")
    ran(str(bin_folder / "airflow"), "db", "migrate")
    ran(str(bin_folder / "airflow"), "pools", "set", "big one", "2", "landings")
    assert ran(*ask).splitlines() == [
        "ok | pool big one | is there |  | False",
        f"fail | pool sluice_load | is not in the Airflow of {home}: a task that names it never starts | "
        "`airflow pools set sluice_load SLOTS DESCRIPTION`; for another Airflow, AIRFLOW_HOME | False",
    ]
