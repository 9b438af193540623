"""What somebody finds who opens the DAGs in Airflow's UI and has never seen Sluice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from sluice.airflow.dags import pipeline_dags
from tests.dags.pipeline_texts import TWO_TABLES
from tests.support.channels import mail, webhook

NOTIFY = [webhook("slack_ops"), mail("smtp_ops", "a@b.c")]
ALARMS = f"alarms: {{every: 10m, overdue: 1h, notify: {json.dumps(NOTIFY)}}}\n"
FLOW = [
    "plan",
    "settle",
    "resolve",
    "batch.land",
    "batch.load.",
    "batch.verify",
    "batch.publish",
    "verify_all",
    "cluster",
]


@pytest.fixture(scope="module")
def dags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, DAG]:
    folder = tmp_path_factory.mktemp("pipelines")
    (folder / "ads.yaml").write_text(TWO_TABLES + ALARMS + "keep: {lake: 400d}\n")
    return pipeline_dags(folder)


def test_each_pipeline_has_three_dags_that_say_what_they_are(dags: dict[str, DAG]):
    assert set(dags) == {"ads", "ads_backfill", "ads_watch"}
    texts = [dag.description for dag in dags.values()]
    assert all(texts) and len(set(texts)) == 3
    for dag in dags.values():
        assert "**ads**" in dag.doc_md
        assert {"sluice", "ads"} <= dag.tags
        assert {task.owner for task in dag.tasks} == {"sluice"}


def test_every_task_says_in_a_sentence_what_it_does(dags: dict[str, DAG]):
    for dag in dags.values():
        for task in dag.tasks:
            assert len(task.doc_md) > 40 and task.doc_md.strip().endswith("."), task.task_id


def test_every_param_of_the_form_is_described(dags: dict[str, DAG]):
    params = dags["ads_backfill"].params
    assert set(params) == {"from", "to", "mode", "missing_columns", "accept_loss", "dry_run", "tables"}
    for name in params:
        assert params.get_param(name).description, name
    assert set(params.get_param("mode").schema["enum"]) == {
        "fill",
        "repair",
        "reload",
        "remake",
        "reland",
    }


def test_the_graph_reads_from_left_to_right_as_the_flow(dags: dict[str, DAG]):
    """Every task lies behind all that come before it in the flow, and one group holds a batch's steps."""
    dag = dags["ads"]
    flow = [task for task in dag.tasks if task.task_id != "forget"]  # it ends the run beside `verify_all`
    place = {
        task.task_id: next(n for n, step in enumerate(FLOW) if task.task_id.startswith(step))
        for task in sorted(flow, key=lambda task: task.task_id)
    }
    assert place["cluster"] == len(FLOW) - 1 and len(place) == len(FLOW) + 1
    for task in flow:
        assert all(place[above] < place[task.task_id] for above in task.upstream_task_ids)
        reached = {t.task_id for t in task.get_flat_relatives(upstream=True)}
        expected = {name for name, at in place.items() if at < place[task.task_id]}
        assert reached == expected, task.task_id
    group = dag.task_group.get_child_by_label("batch")
    assert group.tooltip and set(group.children) == {name for name in place if name.startswith("batch.")}


def test_the_watch(dags: dict[str, DAG]):
    dag = dags["ads_watch"]
    assert dag.schedule == "*/10 * * * *"
    assert (dag.catchup, dag.max_active_runs) == (False, 1)
    assert dag.start_date < datetime.now(UTC)
    (task,) = dag.tasks
    assert (task.task_id, task.retries) == ("watch", 0)
    assert dag.dagrun_timeout >= timedelta(minutes=10)
    assert "WebhookNotifier slack_ops" in dag.doc_md and "SmtpNotifier smtp_ops" in dag.doc_md
    assert "| hour overdue, hour not committed | 1 hour 2 minutes after the hour's end" in dag.doc_md


def test_a_pipeline_named_like_anothers_watch_is_refused(tmp_path: Path):
    from sluice.airflow.pipelines import find_pipelines

    for name in ("ads", "ads_watch"):
        (tmp_path / f"{name}.yaml").write_text(TWO_TABLES)
    (broken,) = find_pipelines(tmp_path).broken
    assert "ads_watch is the name of ads's watch DAG" in str(broken)


def test_every_dag_leads_to_its_page_and_so_does_the_first_task_of_each_run(
    dags: dict[str, DAG], monkeypatch: pytest.MonkeyPatch
):
    """Airflow's UI shows a link of a task that has run; what is serialized names it."""
    page = "/plugin/sluice#/p/ads"
    assert [f"]({page}" in dag.doc_md for dag in dags.values()] == [True] * 3
    assert f"({page}/backfill)" in dags["ads_backfill"].doc_md
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/base/")
    expected = {
        ("ads", "plan"): "?tab=runs",
        ("ads_backfill", "plan"): "/backfill?run=reland__2026-11-20T10%3A00Z",
        ("ads_watch", "watch"): "",
    }
    for (dag_id, task_id), rest in expected.items():
        task = dags[dag_id].get_task(task_id)
        (link,) = task.operator_extra_links
        key = SimpleNamespace(dag_id=dag_id, run_id="reland__2026-11-20T10:00Z")
        assert link.get_link(task, ti_key=key) == f"https://airflow.example.com/base{page}{rest}"
        stored = DagSerialization.to_dict(dags[dag_id])["dag"]["tasks"]
        (kept,) = [one["__var"] for one in stored if one["__var"]["task_id"] == task_id]
        assert list(kept["_operator_extra_links"]) == ["This run in Sluice"]
