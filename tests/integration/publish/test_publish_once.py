"""A batch that is in Kafka twice is once in the lake's rows and in ClickHouse, through Spark and the load."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.integration.land.test_main_job import START, SYSTEM_COLUMNS, User

pytestmark = pytest.mark.integration

LINES = 200
HOUR = ("--from", START.isoformat(), "--to", (START + timedelta(hours=1)).isoformat())


@pytest.fixture
def user(name, tmp_path: Path, stack_env, clickhouse_server) -> User:
    return User(name, tmp_path, stack_env, clickhouse_server)


@pytest.mark.long
def test_of_two_copies_of_a_line_one_arrives(user: User):
    columns = f"id String, {SYSTEM_COLUMNS}"
    user.client.command(f"CREATE TABLE {user.name}.clicks ({columns}) ENGINE = MergeTree ORDER BY _slice")
    event = {"type": {"field": "type"}, "time": {"field": "at"}, "batch": {"header": "sluice_batch"}}
    # Reads of so few records would have the copies of a line in two of them.
    user.write(event=event, tables={"click": f"{user.name}.clicks"}, rows_per_read=7)
    path, at = user.folder / "batch.ndjson", (START + timedelta(minutes=5)).isoformat()
    lines = [json.dumps({"type": "click", "id": f"e{n}", "at": at}) for n in range(LINES)]
    path.write_text(
        "\n".join([*lines, lines[0]])
    )  # the file itself has an event twice: both are its own lines
    user.do("publish", str(path))
    user.do("publish", str(path), "--again")
    user.do("run", *HOUR)
    found = user.rows("SELECT id, count() FROM DB.clicks GROUP BY id")
    assert dict(found) == {f"e{n}": 1 for n in range(1, LINES)} | {"e0": 2}
    (unit,) = json.loads(user.do("status", *HOUR, "--json"))["units"]
    assert (unit["records"], unit["parsed"]) == (2 * LINES + 2, LINES + 1)
    assert unit["rejected_records"] == {"shipped twice": LINES + 1}
    kept = pq.read_table(user.lake / "_rejected").to_pylist()
    assert sorted(row["_payload"].decode() for row in kept) == sorted([*lines, lines[0]])
    assert json.loads(user.do("verify", *HOUR, "--json"))["anomalies"] == []
