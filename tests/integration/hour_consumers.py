"""A real Airflow with the example DAGs of the guide, and a DAG that announces hours as `publish` does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.dags.pipeline_texts import TWO_TABLES
from tests.faults.kills_airflow import Airflow
from tests.support.documents import ROOT, samples

GUIDE = (ROOT / "docs/guide/airflow.md").read_text(encoding="utf-8")
CONSUMERS = [one for one in samples(GUIDE) if one.section == "Hours as partitions"]
HOURLY, DAILY = "hourly_report", "daily_report"
# The hours that are whole come from the run's conf; all else is the product's.
PRODUCER = """\
from pathlib import Path
import pendulum
from airflow.sdk import DAG, Asset, get_current_context, task
from sluice.airflow.assets import emit_events, pipeline_alias
from sluice.airflow.assets import announce_hours, hour_outlets
from sluice.config.files import read
from sluice.flow import steps

ADS = read(Path(__file__).with_name("ads.yaml"))

with DAG("announcing", schedule=None, max_active_runs=1):
    @task(outlets=[pipeline_alias("ads"), *hour_outlets(ADS)])
    def publish():
        context = get_current_context()
        conf = context["dag_run"].conf
        hours = [pendulum.parse(hour) for hour in conf["hours"]]
        steps.proven_hours = lambda pipeline, slices: hours
        row = {"slice": conf["slice"], "rows": 1}
        published = [{"table": target.table, **row} for target in ADS.targets]
        emit_events("ads", published, context["outlet_events"])
        announce_hours(ADS, published, context)
    publish()

with DAG("by_asset", schedule=[Asset("sluice://ads/ads.clicks/hours")]):
    @task
    def never():
        "An event with a key starts no DAG of a plain asset."
    never()
"""
HALVES = """\
import sys
from airflow.models.asset import AssetEvent, AssetModel, AssetPartitionDagRun, PartitionedAssetKeyLog
from airflow.models.serialized_dag import SerializedDagModel
from airflow.assets.manager import compute_rollup_fingerprint
from airflow.utils.session import create_session
from sqlalchemy import select
dag, mapped, key, *uris = sys.argv[1:]
with create_session() as session:
    seen = compute_rollup_fingerprint(SerializedDagModel.get(dag, session=session).dag.timetable)
    for uri in uris:
        asset = session.scalar(select(AssetModel.id).where(AssetModel.uri == uri))
        run = AssetPartitionDagRun(target_dag_id=dag, partition_key=mapped, rollup_fingerprint=seen)
        event = AssetEvent(asset_id=asset, partition_key=key, extra={})
        session.add_all([run, event])
        session.flush()
        told = {"asset_id": asset, "asset_event_id": event.id, "asset_partition_dag_run_id": run.id}
        told |= {"source_partition_key": key, "target_dag_id": dag, "target_partition_key": mapped}
        session.add(PartitionedAssetKeyLog(**told))
"""
# One consumer's task at a time: the tests are about runs, and the machine is everybody's.
SETTINGS = {
    "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG": "1",
    "AIRFLOW__CORE__PARALLELISM": "2",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
}


@contextmanager
def consumers(folder: Path) -> Iterator[Consumers]:
    (folder / "dags").mkdir()
    (folder / "dags" / "ads.yaml").write_text(TWO_TABLES)
    (folder / "dags" / "announcing.py").write_text(PRODUCER)
    for sample in CONSUMERS:
        (folder / sample.file).write_text(sample.text)
    there = Consumers(folder, folder / "no_pipelines", SETTINGS)
    try:
        there.start()
        for dag in (HOURLY, DAILY, "announcing", "by_asset"):
            there.wait_for_dag(dag)
        yield there
    finally:
        there.stop()


class Consumers(Airflow):
    """`runs` are the partition keys of a consumer's runs, in the order in which they were made."""

    def announce(self, run: str, hours: Sequence[str], slice_id: str = "2026-11-20T10Z") -> None:
        self.trigger("announcing", run, {"hours": [f"{hour}:00Z" for hour in hours], "slice": slice_id})
        assert self.wait_for_run(run) == "success"

    def runs(self, dag: str, day: str = "") -> list[str]:
        sql = f"SELECT partition_key FROM dag_run WHERE dag_id = '{dag}' ORDER BY id"
        return [key for (key,) in self.rows(sql) if key.startswith(day)]

    def wait_for_runs(self, dag: str, keys: Sequence[str], day: str = "") -> None:
        self.wait_for(lambda: len(self.runs(dag, day)) >= len(keys), f"{len(keys)} runs of {dag}")
        assert sorted(self.runs(dag, day)) == sorted(keys)

    def pending(self, dag: str, day: str = "") -> list[str]:
        """Keys of runs that wait for more."""
        sql = f"SELECT partition_key FROM asset_partition_dag_run WHERE target_dag_id = '{dag}'"
        found = [key for (key,) in self.rows(f"{sql} AND created_dag_run_id IS NULL")]
        return sorted(key for key in found if key.startswith(day))

    def leave_halves(self, dag: str, mapped: str, key: str, assets: Sequence[str]) -> None:
        """A pending run for each asset, as two transactions leave them that did not see each other."""
        done = subprocess.run(
            [sys.executable, "-c", HALVES, dag, mapped, key, *assets], env=self._environment, text=True
        )
        assert done.returncode == 0

    def events(self, since: int = 0) -> list[tuple[str, str | None, dict]]:
        """(asset, key, extra) of the events with a higher id."""
        sql = (
            "SELECT uri, partition_key, asset_event.extra FROM asset_event JOIN asset ON asset.id = asset_id "
            f"WHERE asset_event.id > {since}"
        )
        return sorted(((u, k, json.loads(extra)) for u, k, extra in self.rows(sql)), key=str)

    def last_event(self) -> int:
        return self.rows("SELECT coalesce(max(id), 0) FROM asset_event")[0][0]
