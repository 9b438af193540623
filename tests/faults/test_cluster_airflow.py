"""Airflow's own graph of a run that one of two clusters cannot be read for, and of one that catches up."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from local.readiness import wait_until
from local.services import KafkaBroker
from tests.integration.airflow.test_airflow import (  # noqa: F401 (fixtures)
    END,
    EVENTS,
    HOURS,
    Stack,
    publish,
    stack,
)

pytestmark = [pytest.mark.faults, pytest.mark.long]  # two runs of a DAG and three of Spark


@pytest.fixture
def second(start_kafka_broker) -> KafkaBroker:
    return start_kafka_broker()


@pytest.fixture
def pair(stack: Stack, second: KafkaBroker) -> Stack:  # noqa: F811
    """The pipeline has a second cluster, which answers and has no such topic yet: no retry cures that."""
    path = Path(stack.folder / "pipelines" / f"{stack.name}.yaml")
    pipeline = yaml.safe_load(path.read_text())
    pipeline["kafka"].append({"cluster": "dc2", "bootstrap": second.bootstrap, "topics": [stack.name]})
    path.write_text(yaml.safe_dump(pipeline))
    return stack


def clusters(stack: Stack) -> dict[str, str]:  # noqa: F811
    """What became of the last run's task of each cluster, by the name that the graph shows."""
    last = "(SELECT run_id FROM dag_run ORDER BY id DESC LIMIT 1)"
    sql = f"SELECT rendered_map_index, state FROM task_instance WHERE task_id = 'cluster' AND run_id = {last}"
    return dict(stack.database(sql))


def announced(stack: Stack) -> list[dict]:  # noqa: F811
    found = stack.database("SELECT extra FROM asset_event WHERE partition_key IS NULL ORDER BY id")
    return [json.loads(extra) for (extra,) in found]


def ids(stack: Stack) -> list[tuple[str, str]]:  # noqa: F811
    """(cluster, id) of every row."""
    tables = " UNION ALL ".join(f"SELECT _cluster, id FROM {stack.name}.{t}" for t in ("clicks", "other"))
    return sorted(tuple(row) for row in stack.client.query(tables).result_rows)


def expected(*names: str) -> list[tuple[str, str]]:
    return sorted((name, key) for name in names for key, _, _ in EVENTS)


def test_only_the_task_of_the_cluster_fails_and_a_run_catches_up_by_itself(pair: Stack, second: KafkaBroker):
    done, said = pair.run(pair.name, END.isoformat())
    assert not done
    states = pair.states()
    assert clusters(pair) == {"dc1": "success", "dc2": "failed"}
    assert states.pop("cluster") == {"success", "failed"}
    assert {state for found in states.values() for state in found} == {"success"}, states
    assert f"{HOURS} hours have not landed from Kafka cluster 'dc2'" in said
    assert ids(pair) == expected("dc1")
    assert announced(pair) == []  # no hour is complete

    # The topic appears while a run is under way that has resolved without it.
    with ThreadPoolExecutor(1) as pool:
        appeared = pool.submit(appear, pair, second)
        done, said = pair.backfill()
        appeared.result(60)
    assert done, said
    assert clusters(pair) == {"dc1": "success", "dc2": "success"}
    assert pair.states()["batch.land"] == {"skipped"}  # nothing was left for the others' steps
    assert ids(pair) == expected("dc1", "dc2")
    assert len(announced(pair)) == 2 * HOURS
    assert sum(one["rows"] for one in announced(pair)) == 2 * len(EVENTS)
    assert all(set(one["manifests"]) == {"dc1", "dc2"} for one in announced(pair))


def appear(pair: Stack, second: KafkaBroker) -> None:
    """Publishes into dc2 as soon as the backfill has asked for boundaries."""
    resolved = (
        "SELECT 1 FROM task_instance "
        "WHERE dag_id LIKE '%_backfill' AND task_id = 'resolve' AND state = 'success'"
    )
    wait_until(lambda: bool(pair.database(resolved)), "the run has resolved", 400)
    publish(second.bootstrap, pair.name)
