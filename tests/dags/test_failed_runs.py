"""`airflow.on_failure`, called as Airflow's DAG processor and triggerer call it; a real server takes the
webhooks."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import structlog
from airflow._shared.module_loading import import_string
from airflow.callbacks.callback_requests import DagCallbackRequest, DagRunContext
from airflow.dag_processing.dagbag import BundleDagBag
from airflow.dag_processing.processor import _execute_dag_callbacks
from airflow.sdk.api.datamodels import _generated as datamodels
from airflow.serialization.serialized_objects import DagSerialization

from sluice.airflow.dags import pipeline_dags
from sluice.errors import NotSent
from tests.dags.pipeline_texts import NO_TABLES
from tests.support.channels import webhook
from tests.support.hostile_texts import as_sent

FILE = """
from pathlib import Path
from sluice.airflow import pipeline_dags
globals().update(pipeline_dags(Path(__file__).with_name("pipelines")))
"""
CHANNELS = f"airflow: {{on_failure: {json.dumps([webhook('away'), webhook('hook_ops')])}}}\n"
RUN = "manual__2026-11-20T10:00:00+00:00"


class Server(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.posts: list[dict] = []


class Answering(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    here = {"conn_type": "http", "host": f"http://127.0.0.1:{server.server_port}"}
    monkeypatch.setenv("AIRFLOW_CONN_HOOK_OPS", json.dumps(here))
    monkeypatch.setenv("AIRFLOW_CONN_AWAY", json.dumps({"conn_type": "http", "host": "http://127.0.0.1:1"}))
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def bag(tmp_path: Path) -> BundleDagBag:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/_defaults.yaml").write_text(CHANNELS)
    (tmp_path / "pipelines/ads.yaml").write_text(NO_TABLES)
    (tmp_path / "sluice.py").write_text(FILE)
    bag = BundleDagBag(tmp_path / "sluice.py", safe_mode=False, bundle_path=tmp_path, bundle_name="own")
    assert bag.import_errors == {}
    return bag


def request(dag_id: str, reason: str, context: DagRunContext | None = None) -> DagCallbackRequest:
    return DagCallbackRequest(
        filepath="sluice.py",
        bundle_name="own",
        bundle_version=None,
        dag_id=dag_id,
        run_id=RUN,
        msg=reason,
        context_from_server=context,
    )


def test_each_channel_is_notified_although_another_cannot_be_reached(bag: BundleDagBag, server: Server):
    _execute_dag_callbacks(bag, request("ads_backfill", "timed_out"), structlog.get_logger())
    text = f"DAG ads_backfill, run {RUN}\nreason: timed_out"
    assert server.posts == [{"text": f"[sluice] ads: run failed\n{text}"}]


@pytest.mark.parametrize(("index", "shown"), [(-1, "batch.land"), (3, "batch.land[3]")])
def test_the_task_is_named_and_no_text_is_markup(bag: BundleDagBag, server: Server, index: int, shown: str):
    task = datamodels.TaskInstance.model_construct(
        id=uuid.uuid4(), task_id="batch.land", dag_id="ads", run_id=RUN, try_number=4, map_index=index
    )
    at = datetime(2026, 11, 20, 10, tzinfo=UTC)
    run = datamodels.DagRun(
        dag_id="ads",
        run_id=RUN,
        logical_date=at,
        run_after=at,
        start_date=at,
        run_type="manual",
        state="failed",
        consumed_asset_events=[],
        partition_key=None,
        data_interval_start=None,
        data_interval_end=None,
        end_date=at,
    )
    context = DagRunContext.model_construct(dag_run=run, last_ti=task)
    called = request("ads", "<!channel> [x](http://e.example)\x1b[31m\nsecond")
    called.context_from_server = context
    _execute_dag_callbacks(bag, called, structlog.get_logger())
    [post] = server.posts
    reason = r"reason: <!channel> [x](http://e.example)\x1b[31m second"
    expected = [f"DAG ads, run {RUN}", reason, f"last task: {shown}, try 4"]
    assert as_sent(post["text"]).splitlines()[1:] == expected
    assert "<!channel>" not in post["text"]
    assert "](" not in post["text"]


def test_the_watch_has_none_and_without_channels_airflow_asks_for_nothing(bag: BundleDagBag, tmp_path: Path):
    told = {name: DagSerialization.to_dict(dag)["dag"] for name, dag in bag.dags.items()}
    has = {name: form.get("has_on_failure_callback", False) for name, form in told.items()}
    assert has == {"ads": True, "ads_backfill": True, "ads_watch": False}
    (tmp_path / "pipelines/_defaults.yaml").unlink()
    dags = pipeline_dags(tmp_path / "pipelines")
    assert not any(dag.has_on_failure_callback for dag in dags.values())


def test_a_late_run_notifies_each_channel_although_another_cannot_be_reached(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
):
    """By the callback that the DAG's serialized form names, with the arguments that it has there."""
    (tmp_path / "_defaults.yaml").write_text(CHANNELS.replace("{on_failure", "{deadline: 45m, on_failure"))
    (tmp_path / "ads.yaml").write_text(NO_TABLES)
    dags = pipeline_dags(tmp_path)
    assert [name for name, dag in dags.items() if dag.deadline] == ["ads"]
    form = json.loads(json.dumps(DagSerialization.to_dict(dags["ads"])))
    assert str(tmp_path) not in json.dumps(form)
    [alert] = form["dag"]["deadline"]
    assert alert["interval"]["__data__"] == 45 * 60
    called = alert["callback"]["__data__"]
    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path))
    context = {"dag_run": {"dag_id": "ads", "dag_run_id": RUN}, "deadline": {"id": "x"}}
    with pytest.raises(NotSent, match=r"^alarm not sent to WebhookNotifier away: ConnectError$"):
        asyncio.run(import_string(called["path"])(**called["kwargs"], context=context))
    text = f"DAG ads, run {RUN}\nit was queued more than 45 min 0 s ago, and goes on"
    assert server.posts == [{"text": f"[sluice] ads: run late\n{text}"}]
