"""Both DAGs, run by Airflow's scheduler on PostgreSQL, their tasks by Celery on two workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.stacks import WideStack
from tests.cluster.wide import Wide
from tests.integration.airflow.test_airflow import (  # noqa: F401
    publish,
    test_the_backfill_dag,
    test_the_hourly_dag_lands_its_hour_and_heals_the_ones_before,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def stack(name: str, tmp_path: Path, cluster: Wide, kafka_broker: str) -> WideStack:
    stack = WideStack(name, tmp_path, cluster)
    publish(kafka_broker, name)
    stack.prepare()
    return stack


def test_tasks_of_one_run_are_on_both_workers_and_in_the_projects_pools(cluster: Wide):
    """Of the runs before this one: nothing that a task needs can have passed through a worker's disk."""
    per_run = (
        "SELECT count(DISTINCT hostname) FROM task_instance WHERE hostname LIKE '127.0.0.%' GROUP BY run_id"
    )
    counts = [count for (count,) in cluster.sql(per_run)]
    assert counts and max(counts) == 2
    pools = dict(cluster.sql("SELECT task_id, max(pool) FROM task_instance GROUP BY task_id"))
    assert pools["batch.land"] == "sluice_land"
    assert {pool for task, pool in pools.items() if task.startswith("batch.load.")} == {"sluice_load"}
    slots = dict(cluster.sql("SELECT pool, slots FROM slot_pool"))
    assert (slots["sluice_land"], slots["sluice_load"]) == (1, 2)
