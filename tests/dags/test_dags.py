"""The structure of the two DAGs of a pipeline file."""

from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.sdk import DAG, Asset, AssetAlias, Param
from airflow.sdk.definitions._internal.node import validate_key
from airflow.sdk.definitions.param import process_params
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from sluice.airflow.dags import pipeline_dags
from sluice.airflow.pipelines import load_task_id
from tests.dags.pipeline_texts import NO_TABLES, TWO_TABLES

HOURS = [Asset(f"sluice://ads/ads.{table}/hours") for table in ("clicks", "bids")]
STEPS = {
    "batch.land": {"resolve"},
    "batch.load.ads.clicks": {"resolve", "batch.land"},
    "batch.load.ads.bids": {"resolve", "batch.land"},
    "batch.verify": {"resolve", "batch.land", "batch.load.ads.clicks", "batch.load.ads.bids"},
    "batch.publish": {"resolve", "batch.verify"},
    "verify_all": {"plan", "batch.publish"},
    "cluster": {"plan", "verify_all"},
}
HOURLY = {"plan": set(), "settle": {"plan"}, "resolve": {"plan", "settle"}, **STEPS}
BACKFILL = {"plan": set(), "resolve": {"plan"}, **STEPS}


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DAG]:
    folder = tmp_path_factory.mktemp("pipelines")
    (folder / "ads.yaml").write_text(TWO_TABLES + "start: 2026-01-01T00:00Z\n")
    (folder / "plain.yaml").write_text(NO_TABLES)
    (folder / "short.yaml").write_text(TWO_TABLES + "keep: {lake: 400d}\n")
    (folder / "told.yaml").write_text(NO_TABLES + "keep: {tables: 400d}\n")
    return pipeline_dags(folder)


@pytest.mark.parametrize(("dag_id", "expected"), [("ads", HOURLY), ("ads_backfill", BACKFILL)])
def test_tasks_and_what_they_wait_for(dags: dict[str, DAG], dag_id: str, expected: dict[str, set[str]]):
    assert {task.task_id: task.upstream_task_ids for task in dags[dag_id].tasks} == expected


def test_a_pipeline_without_tables_is_landed_and_verified(dags: dict[str, DAG]):
    upstream = {task.task_id: task.upstream_task_ids for task in dags["plain"].tasks}
    assert upstream["batch.verify"] == {"resolve", "batch.land"}
    assert set(upstream) == set(HOURLY) - {"batch.load.ads.clicks", "batch.load.ads.bids", "cluster"}


def test_old_hours_are_forgotten_beside_verify_all_whatever_became_of_the_batches(dags: dict[str, DAG]):
    upstream = {task.task_id: task.upstream_task_ids for task in dags["short"].tasks}
    assert upstream == {**HOURLY, "forget": {"batch.publish"}}
    task = dags["short"].get_task("forget")
    assert (task.trigger_rule, task.downstream_task_ids) == ("all_done", set())
    assert {task.task_id for task in dags["short_backfill"].tasks} == set(BACKFILL)
    assert "forget" not in {task.task_id for task in dags["told"].tasks}  # its lake keeps everything


def test_a_task_for_each_cluster_says_which_of_several_a_run_did_without(dags: dict[str, DAG]):
    for dag_id in ("ads", "ads_backfill"):
        task = dags[dag_id].get_task("cluster")
        assert task.expand_input.value == {"cluster": ["dc1", "dc2"]}
        assert task.map_index_template == "{{ task.cluster }}"
        assert (task.trigger_rule, task.downstream_task_ids) == ("none_failed", set())
        assert task.outlets == [AssetAlias("sluice://ads"), *HOURS]
    assert "cluster" not in {task.task_id for task in dags["plain"].tasks}  # it has one


@pytest.mark.parametrize(
    ("table", "task_id"),
    [
        ("ads.clicks", "load.ads.clicks"),
        ("ads.my clicks", "load.ads.my-20-clicks"),
        ("ä.b-c", "load.-e4-.b-2d-c"),
    ],
)
def test_any_table_has_a_task_id(table: str, task_id: str):
    assert load_task_id(table) == task_id
    validate_key(task_id)


def test_the_hourly_dag(dags: dict[str, DAG]):
    dag = dags["ads"]
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    assert dag.start_date == datetime(2026, 1, 1, tzinfo=UTC)
    assert (dag.timetable.expression, str(dag.timetable.timezone)) == ("0 * * * *", "UTC")
    assert dict(dag.params) == {}
    assert dags["plain"].timetable.expression == "*/15 * * * *"


def test_the_backfill_dag_waits_for_somebody_to_ask(dags: dict[str, DAG]):
    dag = dags["ads_backfill"]
    assert dag.schedule is None
    assert dag.is_paused_upon_creation is False


def test_tags_owner_and_documentation(dags: dict[str, DAG]):
    for dag in dags.values():
        name = dag.dag_id.removesuffix("_backfill").removesuffix("_watch")
        assert dag.tags == {"sluice", name} | ({"watch"} if dag.dag_id.endswith("_watch") else set())
        assert {task.owner for task in dag.tasks} == {"sluice"}
        assert all(task.doc_md for task in dag.tasks)
    assert "| `ads.bids` | bid, * |" in dags["ads"].doc_md
    text = " ".join(dags["ads"].doc_md.split())
    assert "missing of the last 1 day. Then it takes a part of what is missing of older hours" in text
    assert "back to `start`, 2026-01-01T00:00Z: at most 240 slices and 50,000,000 rows" in text
    assert "back to the first hour that was ever resolved" in dags["plain"].doc_md
    assert "by hand" not in text
    assert "--from" in dags["ads_backfill"].doc_md


def test_retries_back_off(dags: dict[str, DAG]):
    for task in dags["ads"].tasks:
        assert (task.retries, task.retry_delay) == (3, timedelta(seconds=30))
        assert task.retry_exponential_backoff == 2


def test_one_landing_at_a_time_and_one_load_per_table(dags: dict[str, DAG]):
    one = {t.task_id for t in dags["ads"].tasks if t.max_active_tis_per_dag == 1}
    assert one == {"batch.land", "batch.load.ads.clicks", "batch.load.ads.bids", "cluster"}


def test_waiting_for_the_hour_to_settle_holds_no_worker(dags: dict[str, DAG]):
    assert dags["ads"].get_task("settle").mode == "reschedule"


def test_what_has_landed_is_loaded_although_the_rest_has_not(dags: dict[str, DAG]):
    assert dags["ads"].get_task("batch.load.ads.clicks").trigger_rule == "all_done"
    assert dags["ads"].get_task("batch.verify").trigger_rule == "none_failed"


def test_publish_emits_through_the_pipelines_alias(dags: dict[str, DAG]):
    for dag_id in ("ads", "ads_backfill"):
        assert dags[dag_id].get_task("batch.publish").outlets == [AssetAlias("sluice://ads"), *HOURS]


def test_land_uses_the_spark_connection_and_shows_only_the_batch(dags: dict[str, DAG]):
    land = dags["ads"].get_task("batch.land")
    assert land._conn_id == "spark_default"
    assert land.template_fields == ("batch",)


@pytest.mark.parametrize(
    "given",
    [
        {"from": "2026-11-20"},
        {"from": "2026-11-20T10Z"},
        {"from": "2026-11-20T10:00Z", "to": "now"},
        {"from": "2026-11-20 10:00:00.123+01:00", "to": "2026-11-21"},
        {"from": "2026-11-20T10:00:00+00:00", "mode": "reload"},
        {"from": "2026-11-20", "mode": "reland", "dry_run": True},
        {"from": "2026-11-20", "tables": ["ads.bids", "ads.clicks"]},
        {"from": "2026-11-20", "tables": None},
    ],
)
def test_params_that_are_accepted(dags: dict[str, DAG], given: dict):
    params = deepcopy(dags["ads_backfill"].params)
    params.update(given)
    assert (
        params.validate()
        == {
            "to": "now",
            "mode": "fill",
            "dry_run": False,
            "missing_columns": False,
            "accept_loss": False,
            "tables": [],
        }
        | given
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("from", ""),
        ("from", "yesterday"),
        ("from", "20.11.2026"),
        ("from", 20261120),
        ("from", "1026-01-01"),
        ("from", "1969-12-31"),
        ("to", "2106-01-01"),
        ("to", "9999-12-31T23:30Z"),
        ("from", "2026-11-20T10:00:00." + "1" * 40),
        ("to", "2026-11-20T10:00Z; drop"),
        ("mode", "redo"),
        ("dry_run", "yes"),
        ("tables", ["ads.other"]),
        ("tables", "ads.bids"),
    ],
)
def test_params_that_are_refused(dags: dict[str, DAG], name: str, value: object):
    with pytest.raises(ParamValidationError):
        deepcopy(dags["ads_backfill"].params).get_param(name).resolve(value)


def test_a_pipeline_without_tables_has_none_to_choose_from(dags: dict[str, DAG]):
    assert [*dags["plain_backfill"].params] == [
        "from",
        "to",
        "mode",
        "missing_columns",
        "accept_loss",
        "dry_run",
    ]


def test_from_is_required(dags: dict[str, DAG]):
    with pytest.raises(ParamValidationError, match="no default"):
        deepcopy(dags["ads_backfill"].params).validate()


def test_params_are_the_dags_alone_and_each_task_has_their_values(dags: dict[str, DAG], monkeypatch):
    """Airflow checks what each task has of them again and again when it serializes a DAG: 0.02 s for each."""
    given = {
        "from": "2026-11-20",
        "to": "2026-11-21",
        "mode": "reload",
        "missing_columns": False,
        "accept_loss": False,
        "dry_run": True,
        "tables": ["ads.bids"],
    }
    dag, checked, resolve = dags["ads_backfill"], [], Param.resolve
    for task in dag.tasks:
        assert process_params(deepcopy(dag), task, given, suppress_exception=False) == given
    monkeypatch.setattr(
        Param, "resolve", lambda self, *a, **k: checked.append(self) or resolve(self, *a, **k)
    )
    form = DagSerialization.to_dict(dag)
    assert len(checked) <= len(given)
    assert [name for name, _ in form["dag"]["params"]] == list(given)


def test_the_folder_is_all_that_is_read(tmp_path: Path):
    assert pipeline_dags(tmp_path) == {}


def test_counts_and_rollups_are_loads_and_a_rollup_waits_for_its_source(tmp_path: Path):
    (tmp_path / "r.sql").write_text("SELECT count() AS n FROM {source}")
    (tmp_path / "ads.yaml").write_text(
        TWO_TABLES + "counts: [{table: ads.traffic, by: [country]}]\n"
        "rollups:\n  ads.hours: {from: ads.clicks, sql: r.sql}\n"
        "  ads.shares: {from: ads.traffic, sql: r.sql}\n"
    )
    upstream = {task.task_id: task.upstream_task_ids for task in pipeline_dags(tmp_path)["ads"].tasks}
    assert upstream["batch.load.ads.traffic"] == {"resolve", "batch.land"}
    assert upstream["batch.load.ads.hours"] == {"resolve", "batch.land", "batch.load.ads.clicks"}
    assert upstream["batch.load.ads.shares"] == {"resolve", "batch.land", "batch.load.ads.traffic"}
    assert {"batch.load.ads.hours", "batch.load.ads.shares"} <= upstream["batch.verify"]
