"""Keys of two tasks that end in the same moment, registered by Airflow's code on PostgreSQL (its 71070)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from local.cluster.postgres import PASSWORD, USER, create_database
from local.readiness import free_port, wait_until
from tests.integration.hour_consumers import CONSUMERS, HOURLY

pytestmark = pytest.mark.integration

CLICKS, BIDS = (f"sluice://ads/ads.{table}/hours" for table in ("clicks", "bids"))
SECRET = "of-a-test"
SECONDS = 60
# Each argument is a task: its assets in order. Both have registered their first before either goes on, where
# the database lets them; a deadlock's victim tries again, as the request of a task does.
MEET = """
import sys, threading
from airflow.assets.manager import asset_manager
from airflow.serialization.definitions.assets import SerializedAssetUniqueKey
from airflow.utils.session import create_session
from sqlalchemy.exc import OperationalError
first = threading.Barrier(2)
def end(uris, meet):
    with create_session() as session:
        for number, uri in enumerate(uris):
            key = SerializedAssetUniqueKey(uri, uri)
            asset_manager.register_asset_change(asset=key, session=session, partition_key=KEY)
            if meet and number == 0:
                try:
                    first.wait(3)
                except threading.BrokenBarrierError:
                    pass  # the other waits for this one's lock
def task(uris):
    try:
        end(uris, meet=True)
    except OperationalError as error:
        assert "deadlock" in str(error)
        end(uris, meet=False)
KEY, tasks = sys.argv[1], [words.split(",") for words in sys.argv[2:]]
threads = [threading.Thread(target=task, args=(uris,)) for uris in tasks]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


class Database:
    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        address = f"postgresql+psycopg2://{USER}:{SECRET}@127.0.0.1:{self.port}/{USER}"
        options = {"CORE__DAGS_FOLDER": str(folder / "dags"), "CORE__LOAD_EXAMPLES": "False"}
        options |= {"CORE__DAGS_ARE_PAUSED_AT_CREATION": "False", "DATABASE__SQL_ALCHEMY_CONN": address}
        named = {f"AIRFLOW__{name}": value for name, value in options.items()}
        self.environment = {**os.environ, **named, PASSWORD: SECRET, "AIRFLOW_HOME": str(folder)}

    def run(self, *words: str | Path) -> None:
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]

    def airflow(self, *words: str) -> None:
        self.run(Path(sys.executable).with_name("airflow"), *words)

    def answers(self) -> bool:
        try:
            create_database(self.port, SECRET)
        except psycopg2.OperationalError:
            return False
        return True

    def pending(self, key: str) -> list[set[str]]:
        """The assets that have come, of each run that waits or could begin."""
        at = {"host": "127.0.0.1", "port": self.port, "user": USER, "password": SECRET, "dbname": USER}
        connection = psycopg2.connect(**at)
        with connection, connection.cursor() as cursor:
            cursor.execute(
                "SELECT run.id, asset.uri FROM asset_partition_dag_run run JOIN partitioned_asset_key_log "
                "ON run.id = asset_partition_dag_run_id JOIN asset ON asset.id = asset_id "
                "WHERE run.target_dag_id = %s AND source_partition_key = %s",
                (HOURLY, key),
            )
            found = cursor.fetchall()
        connection.close()
        return [{uri for one, uri in found if one == run} for run in sorted({run for run, _ in found})]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    there = Database(tmp_path_factory.mktemp("meet"))
    (there.folder / "dags").mkdir()
    for sample in CONSUMERS:
        (there.folder / sample.file).write_text(sample.text)
    command = [sys.executable, "-m", "local.cluster.postgres", "--data", there.folder / "data"]
    with (there.folder / "postgres.log").open("wb") as log:
        command += ["--port", str(there.port)]
        server = subprocess.Popen(command, env=there.environment, stdout=log, stderr=log)
    try:
        wait_until(there.answers, "PostgreSQL", SECONDS)
        there.airflow("db", "migrate")
        there.airflow("dags", "reserialize")
        yield there
    finally:
        server.terminate()
        server.wait(SECONDS)


@pytest.mark.parametrize(
    ("key", "tasks", "expected"),
    [
        ("2026-11-20T01:00:00", [[CLICKS], [BIDS]], [{CLICKS}, {BIDS}]),
        ("2026-11-20T02:00:00", [[CLICKS, BIDS], [CLICKS, BIDS]], [{CLICKS, BIDS}]),
        ("2026-11-20T03:00:00", [[CLICKS, BIDS], [BIDS, CLICKS]], [{CLICKS, BIDS}]),
    ],
    ids=["of two pipelines, halves that the guide speaks of", "of one pipeline", "in another order"],
)
def test_the_tables_of_one_pipeline_are_one_run(
    database: Database, key: str, tasks: list[list[str]], expected: list[set[str]]
):
    """The first case is Airflow's defect: when it fails, the guide's line on it can go."""
    database.run(sys.executable, "-c", MEET, key, *map(",".join, tasks))
    assert sorted(database.pending(key), key=sorted) == sorted(expected, key=sorted)
