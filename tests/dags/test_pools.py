"""Landings and loads take the pools that the pipeline file names, and Airflow's own where it names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.airflow.dags import pipeline_dags
from tests.dags.pipeline_texts import TWO_TABLES

POOLS = "pools: {land: sluice_land, load: sluice_load}\n"


@pytest.mark.parametrize(
    ("text", "land", "load"), [("", "default_pool", "default_pool"), (POOLS, "sluice_land", "sluice_load")]
)
def test_pools(tmp_path: Path, text: str, land: str, load: str):
    (tmp_path / "ads.yaml").write_text(TWO_TABLES + text)
    for dag_id in ("ads", "ads_backfill"):
        found = {task.task_id: task.pool for task in pipeline_dags(tmp_path)[dag_id].tasks}
        assert found["batch.land"] == land
        assert {pool for task, pool in found.items() if task.startswith("batch.load.")} == {load}
        others = ("plan", "resolve", "batch.verify", "batch.publish", "verify_all")
        assert {found[task] for task in others} == {"default_pool"}
