"""A record is masked whoever reads it: Spark's source of Kafka, tasks that read it themselves, the lake."""

from __future__ import annotations

import hmac
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.spark_world import SparkWorld, event, hours

pytestmark = pytest.mark.integration

SECRET = "planted.secret@example.com"
KEY = "a key of more than sixteen characters"
MASK = {"email": {"hash": KEY}, "ip": "drop", "user.name": {"keep_first": 2}}


def masked(text: str) -> str:
    own, name = (hmac.new(KEY.encode(), part, "sha256").hexdigest() for part in (text.encode(), b"\0id"))
    return f"hmac256:{name[:8]}:{own}"


def records(n: int) -> bytes:
    return event(n * 60 + 5, n=n, email=f"{n}{SECRET}", ip=SECRET, user={"name": f"xy{SECRET}"})


def expected(n: int) -> dict[str, Any]:
    plain = json.loads(records(n))
    del plain["ip"]
    return {**plain, "email": masked(f"{n}{SECRET}"), "user": {"name": "xy***"}}


def lake(world: SparkWorld) -> Path:
    return world.folder / "lake"


def payloads(world: SparkWorld) -> list[dict[str, Any]]:
    files = [file for file in lake(world).rglob("*.parquet") if "type=" in str(file)]
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted((json.loads(row["_payload"]) for row in rows), key=lambda row: row["n"])


def holders(folder: Path) -> list[str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    parquet = {file: repr(pq.read_table(file).to_pylist()) for file in files if file.suffix == ".parquet"}
    return [
        file.name for file in files if SECRET in parquet.get(file, "") or SECRET.encode() in file.read_bytes()
    ]


@pytest.mark.parametrize("many", [1, 3], ids=["Spark's source", "tasks"])
@pytest.mark.long
def test_a_landing_and_a_remake_of_it(spark_world: SparkWorld, many: int):
    world = spark_world
    topic = world.topic("t")
    for n in range(many):
        world.send(topic, [records(n)], minute=n * 60 + 5, key=SECRET.encode())
    world.send(topic, [b"{}"], minute=(many + 1) * 60)
    table = world.table("rows", "n UInt16, email String")
    plain = {
        "kafka": world.cluster(topic),
        "event": {"type": {"topic": True}, "time": {"field": "at"}},
        "tables": {topic: table},
    }
    slices = hours(0, many)
    assert world.run(world.pipeline(**plain, mask=MASK), slices) == []
    assert payloads(world) == [expected(n) for n in range(many)]
    assert holders(lake(world)) == []
    assert world.rows("SELECT n, email FROM DB.rows ORDER BY n") == [
        (n, expected(n)["email"]) for n in range(many)
    ]
    assert world.run(world.pipeline(mask=MASK), slices, "reland") == []
    assert payloads(world) == [expected(n) for n in range(many)]
    for folder in lake(world).glob("*/type=*"):
        shutil.rmtree(folder)
    shutil.rmtree(next(lake(world).glob("*/_slices")))
    assert world.run(world.pipeline(mask={}), slices) == []
    assert len(holders(lake(world))) >= many
    assert world.run(world.pipeline(mask=MASK), slices, "remake") == []
    assert payloads(world) == [expected(n) for n in range(many)]
