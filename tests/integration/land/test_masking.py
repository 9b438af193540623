"""A mask, as a user runs it: a search over all bytes of lake, ClickHouse and outputs finds nothing of it."""

from __future__ import annotations

import hmac
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from tests.integration.land.test_main_job import END, RANGE, START, SYSTEM_COLUMNS, User

pytestmark = pytest.mark.integration

SECRET = "planted.secret@example.com"
KEY = "a key of more than sixteen characters"
MASK = {"email": {"hash": "${SLUICE_VAR_MASK_KEY}"}, "ip": "drop", "user.name": "keep_first"}


def token(text: str) -> str:
    own, name = (hmac.new(KEY.encode(), part, "sha256").hexdigest() for part in (text.encode(), b"\0id"))
    return f"hmac256:{name[:8]}:{own}"


def messages() -> list[bytes]:
    """Events, those that do not fit their table, and those that are none."""
    plain = {"created_at": START.isoformat(), "email": SECRET, "ip": SECRET, "user": {"name": f"x{SECRET}"}}
    rows = [json.dumps({"type": "click", "n": n, **plain}).encode() for n in range(200)]
    rejected_rows = [json.dumps({"type": "bid", "n": n, **plain}).encode() for n in range(3)]
    rejected = [
        json.dumps({**plain, "type": "click", "created_at": "never"}).encode(),
        b'{"type":"click","email":"%s"' % SECRET.encode(),
        SECRET.encode(),
    ]
    return [*rows, *rejected_rows, *rejected]


def publish(user: User, bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(user.name, 1, 1)])[user.name].result(30)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    at = int(START.timestamp() * 1000) + 1000
    headers = [("who", SECRET.encode())]
    for message in messages():
        producer.send(user.name, message, key=SECRET.encode(), headers=headers, timestamp_ms=at)
    producer.flush()
    # A record behind the range: its last hour can be resolved.
    producer.send(user.name, b"{}", timestamp_ms=int(END.timestamp() * 1000) + 1000)
    producer.close()


def holders(*folders: Path) -> set[str]:
    """Files below the folders that hold the secret, Parquet files also by what is compressed in them."""
    found = set()
    for file in (file for folder in folders for file in folder.rglob("*") if file.is_file()):
        data = file.read_bytes()
        if file.suffix == ".parquet":
            data += repr(pq.read_table(file).to_pylist()).encode()
        if SECRET.encode() in data:
            found.add(file.name)
    return found


def spec(user: User, mask: dict) -> None:
    db = user.name
    tables = {"click": f"{db}.clicks", "bid": {"table": f"{db}.bids", "columns": {"who": "email"}}}
    user.write(mask=mask, tables=tables, counts=[{"table": f"{db}.traffic", "by": ["email"]}])


def rows(user: User) -> dict[str, list[tuple]]:
    shown = {
        "clicks": "SELECT n, email, ip, _payload, _key FROM DB.clicks",
        "rejected_rows": "SELECT column, value, payload FROM sluice.rejected "
        f"WHERE target LIKE '{user.name}.%'",
        "traffic": "SELECT email, sum(count) FROM DB.traffic GROUP BY email",
    }
    return {name: sorted(map(str, user.rows(sql))) for name, sql in shown.items()}


def land_anew(user: User) -> None:
    """As if the hours had never landed."""
    for folder in ("_slices", "_rejected", "_counts", *(path.name for path in user.lake.glob("type=*"))):
        shutil.rmtree(user.lake / folder, ignore_errors=True)
    assert user.type("run", *RANGE).returncode == 0


@pytest.fixture
def user(name, tmp_path, stack_env, kafka_broker, start_clickhouse_server) -> User:
    server = start_clickhouse_server()
    spill = tmp_path / "spill"
    spill.mkdir()
    more = {
        "AIRFLOW_CONN_CLICKHOUSE_DEFAULT": server.at.variable,
        "SLUICE_VAR_MASK_KEY": KEY,
        "TMPDIR": str(spill),
    }
    user = User(name, tmp_path, {**stack_env, **more}, server)
    column = "String CODEC(NONE)"  # so that the search can see it
    for table, columns in {
        "clicks": f"n UInt32, email {column}, ip {column}, _payload {column}, _key {column}",
        "bids": "n UInt32, who UInt32",
        "traffic": "hour DateTime, type String, email String CODEC(NONE), count UInt64",
    }.items():
        own = SYSTEM_COLUMNS if table != "traffic" else "_slice DateTime('UTC'), _cluster String"
        user.client.command(
            f"CREATE TABLE {name}.{table} ({columns}, {own}) ENGINE = MergeTree ORDER BY (_slice, _cluster)"
        )
    publish(user, kafka_broker)
    return user


@pytest.mark.long
def test_a_search_over_all_bytes_finds_nothing(user: User, tmp_path: Path):
    data = next(tmp_path.glob("clickhouse*"))
    spec(user, MASK)
    outputs = [user.type("run", *RANGE)]
    assert outputs[0].returncode == 0, outputs[0].stderr
    around = ("--around", START.isoformat(), "--json")
    for words in (
        ("find", "--field", f"email={SECRET}", *around),
        ("find", "--key", SECRET, *around),
        ("doctor", *RANGE[:2]),
        ("plan", *RANGE, "--mode", "remake", "--exact"),
        ("verify", *RANGE, "--contents"),
        ("config", "show"),
    ):
        outputs.append(user.type(*words) if words[0] != "config" else user.type("status", *RANGE))
    by_field, by_key = (json.loads(one.stdout) for one in outputs[1:3])
    assert len(by_field) == len(by_key) == 20  # as many as it shows
    assert outputs[5].returncode == 0, outputs[5].stdout
    masked = rows(user)
    assert len(masked["clicks"]) == 200
    assert {row.split(", ")[1] for row in masked["clicks"]} == {f"'{token(SECRET)}'"}
    assert {row.count(token(SECRET)) for row in masked["clicks"]} == {3}  # column, payload and key
    assert [row.count(token(SECRET)) for row in masked["rejected_rows"]] == [2, 2, 2]  # value and payload
    assert len(masked["traffic"]) == 1
    assert holders(user.lake, data, tmp_path / "spill") == set()
    texts = [text for one in outputs for text in (one.stdout, one.stderr)]
    assert not [text for text in texts if SECRET in text.replace("--field email=", "") or KEY in text]

    spec(user, {})
    refused = user.type("run", *RANGE, "--mode", "reland")
    assert (refused.returncode, holders(user.lake, data)) == (1, set())
    assert "landed by `mask._headers: hash`, which the pipeline file no longer has" in refused.stderr

    land_anew(user)  # the search does find what is there
    assert {name.rpartition(".")[2] for name in holders(user.lake, data)} > {"parquet"}

    spec(user, MASK)
    assert user.type("run", *RANGE, "--mode", "remake").returncode == 0
    assert holders(user.lake) == set()
    assert rows(user) == masked
