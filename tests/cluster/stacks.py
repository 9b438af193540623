"""The stack of tests/integration/airflow/test_airflow.py in the wide form: its runs are Airflow's own."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.wide import CLICKHOUSE, LAKE, Everywhere, Wide
from tests.integration.airflow.test_airflow import HOURS, START, Stack

SYSTEM_COLUMNS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"


class WideStack(Stack):
    def __init__(self, name: str, folder: Path, wide: Wide) -> None:
        super().__init__(name, folder, wide.env, wide.servers[0])
        self.wide = wide
        self.lake = wide.objects / name
        self.client = Everywhere(wide)
        self.runs = 0

    def prepare(self, **changes: Any) -> None:
        self.client.command(f"CREATE DATABASE {self.name}")
        for table in ("clicks", "other"):
            self.client.command(
                f"CREATE TABLE {self.name}.{table} (id String, type String, {SYSTEM_COLUMNS}) "
                "ENGINE = MergeTree ORDER BY id"
            )
        pipeline = {
            "kafka": [{"cluster": "dc1", "connection": "kafka_default", "topics": [self.name]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": LAKE,
            "clickhouse": CLICKHOUSE,
            "tables": {"click": f"{self.name}.clicks", "*": f"{self.name}.other"},
            "airflow": {"steps": {name: {"pool": f"sluice_{name}"} for name in ("land", "load")}},
            "start": START.isoformat(),
            "lookback": f"{HOURS}h",
            "rows_per_read": 25,
            **changes,
        }
        (self.wide.folder / "pipelines" / f"{self.name}.yaml").write_text(yaml.safe_dump(pipeline))

    def run(self, dag_id: str, *arguments: str, **environment: str) -> tuple[bool, str]:
        """As `airflow dags test` does it: `-c CONF`, or the end of the hour."""
        self.runs += 1
        if arguments[0] == "-c":
            body: dict[str, Any] = {"conf": json.loads(arguments[1])}
        else:
            end = datetime.fromisoformat(arguments[0])
            start = end - timedelta(hours=1)
            body = {"data_interval_start": start.isoformat(), "data_interval_end": end.isoformat()}
            # The same hour again is another run, and two of a DAG cannot have the same logical date.
            body["logical_date"] = (start + timedelta(seconds=self.runs)).isoformat()
        run = self.wide.trigger(dag_id, **body)
        state = self.wide.wait_for_run(dag_id, run)
        return state == "success", self.said(dag_id, run)

    def said(self, dag: str, run: str) -> str:
        """Every task's log, each asked for at the worker where it ran."""
        logs = []
        for task in self.wide.airflow.tasks(dag, run):
            if task["hostname"]:
                where = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task['task_id']}/logs"
                query = f"{task['try_number']}?map_index={task['map_index']}&full_content=true"
                logs.append(json.dumps(self.wide.airflow._call("GET", f"{where}/{query}")))
        return "\n".join(logs)

    def hosts(self) -> set[str]:
        """Where the tasks of the last run ran."""
        last = f"SELECT run_id FROM dag_run WHERE dag_id LIKE '{self.name}%' ORDER BY id DESC LIMIT 1"
        found = self.wide.sql(f"SELECT DISTINCT hostname FROM task_instance WHERE run_id = ({last})")
        return {host for (host,) in found if host}

    def rows(self) -> list[tuple]:
        found = []
        for table in ("clicks", "other"):
            sql = f"SELECT '{table}', id, _slice FROM {self.name}.{table}"
            found += self.client.query(sql).result_rows
        return sorted((table, key, at.replace(tzinfo=UTC)) for table, key, at in found)

    def database(self, sql: str) -> list[tuple]:
        """Of assets only this pipeline's: the database is everybody's. JSON is text, as in SQLite."""
        rows = [tuple(json.dumps(v) if isinstance(v, dict) else v for v in row) for row in self.wide.sql(sql)]
        return [row for row in rows if "asset" not in sql or row[0].startswith(f"sluice://{self.name}/")]
