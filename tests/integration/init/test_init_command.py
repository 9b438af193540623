"""`sluice init` against the real broker and the real ClickHouse server."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from sluice.cli.commands import commands
from sluice.clients.lake.folder import FolderLake
from sluice.config.files import read
from sluice.doctor.proposed_tables import columns_of, create_table
from sluice.errors import WrongUse
from sluice.flow.load.load import load
from sluice.infer.types import Rules
from sluice.infer.values import loads
from tests.integration.landed import Event, client_of, land, unit
from tests.support.hostile_texts import TEXTS
from tests.support.long_form import per_commit
from tests.support.public_events import SHAPES, make

pytestmark = pytest.mark.integration

AT = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=5)
LAKE = ["--lake", "file:///nowhere"]


@pytest.fixture
def client(clickhouse_server, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    return client_of(clickhouse_server)


def run(*words: str) -> None:
    assert not commands(args=["init", *words], standalone_mode=False)


def written(folder: Path, events: list) -> str:
    path = folder / "events.ndjson"
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    return str(path)


def types_of(client, table: str) -> dict[str, str]:
    database, name = table.split(".")
    place = {"d": database, "t": name}
    sql = "SELECT name, type FROM system.columns WHERE database = {d:String} AND table = {t:String}"
    return dict(client.rows(sql, place))


@pytest.mark.parametrize("shape", per_commit(SHAPES))
def test_every_type_is_one_of_the_servers(shape: str, name: str, client):
    """Also those that no load fills yet: the server makes the columns as they were written."""
    events = [loads(json.dumps(event)) for _, event in make(shape, AT, 3, 1_500, seed=3)]
    client.run(f"CREATE DATABASE {name}")
    for number, kind in enumerate(sorted({event["type"] for event in events})):
        columns = columns_of([event for event in events if event["type"] == kind], Rules()).columns
        client.run(create_table(f"{name}.t{number}", columns))
        found = types_of(client, f"{name}.t{number}")
        plain = {column: found[column].replace("`", "") for column in columns}
        assert plain == {column: one.type.replace("`", "") for column, one in columns.items()}


@pytest.mark.long
def test_hostile_names_and_values_are_loaded(name: str, tmp_path: Path, client):
    """Of each text a field of that name, with that value; 1,000 fields, 50 levels, 300 characters."""
    texts = [text for text in TEXTS.values() if text < "\ud800" or text > "\udfff"]
    event = {text: text for text in texts}
    event |= {"type": "click", "at": AT.isoformat(), "x" * 300: 1, "null": 1, "": 1, "_offset": "mine"}
    event |= {"a.b": [1], "deep": json.loads('{"a":' * 50 + "1" + "}" * 50)}
    event |= {f"f{number}": number for number in range(1_000 - len(event))}
    sample = written(tmp_path, [event] * 30)
    place = ["--into", str(tmp_path), "--lake", f"file://{tmp_path}/lake"]
    run(name, "--file", sample, "--yes", "--apply", *place)
    spec = read(tmp_path / f"{name}.yaml")
    target = next(one for one in spec.targets if not one.catch_all)
    lake = FolderLake(tmp_path / "lake" / name)
    manifest = land(lake, unit(), [Event("click", json.dumps(event))] * 30)
    told = load(spec, target, [unit()], lake, client, mode="fill").summary()
    assert (manifest.read, told["rows"], told["rejected_rows"]) == (30, 30, 0)
    found = types_of(client, target.table)
    taken = [
        text for text in texts if text in found and not text.startswith("_") and text not in event["a.b"]
    ]
    assert len(taken) > 30
    for text in taken:
        column = "`" + "".join(f"\\x{byte:02x}" for byte in text.encode()) + "`"
        [(value,)] = client.rows(f"SELECT DISTINCT toString({column}) FROM {target.table}")
        assert value == str(event[text])
    [(number, text, mine)] = client.rows(
        f"SELECT DISTINCT `{'x' * 300}`, `a.b`, `_offset_2` FROM {target.table}"
    )
    assert (number, text, mine) == (1, "[1]", "mine")


@pytest.fixture
def topic(name: str, kafka_broker: str) -> str:
    """Three partitions; the events of the last one came hours before, and are of another type."""
    topic = f"{name}-events"
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker)
    admin.create_topics([NewTopic(topic, 3, 1, topic_configs={"retention.ms": "-1"})])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=kafka_broker)
    for number in range(900):
        part, at = number % 3, AT + timedelta(hours=number % 3)
        event = {"type": f"t{part}", "at": at.isoformat(), "id": number, "user": {"name": f"u{number}"}}
        stamp = int(at.timestamp() * 1000)
        producer.send(topic, json.dumps(event).encode(), partition=part, timestamp_ms=stamp)
    producer.close()
    return topic


def test_from_a_topic(name: str, topic: str, kafka_broker: str, tmp_path: Path, client, capsys):
    client.run(f"CREATE DATABASE {name}")
    client.run(f"CREATE TABLE {name}.t1 (id UInt32, user_name String, _slice DateTime('UTC'), "
               "_cluster String) ENGINE = MergeTree ORDER BY id")  # fmt: skip
    words = [name, "--topic", topic, "--bootstrap", kafka_broker, "--sample", "90", "--yes", *LAKE]
    run(*words, "--into", str(tmp_path))
    out = capsys.readouterr().out
    assert out.startswith(f"sampled 90 records of topic {topic} (3 partitions): 90 events of 3 types\n")
    assert f"t1 -> {name}.t1: 30 events; there already" in out
    first, last = (f"{at:%Y-%m-%dT%H:00Z}" for at in (AT, AT + timedelta(hours=3)))
    file = tmp_path / f"{name}.yaml"
    assert out.splitlines()[-3:] == [
        f"  sluice init {name} --into {tmp_path} --apply",
        f"  sluice run {name} --config {file} --from {first} --to {last}",
        f"  sluice verify {name} --config {file} --contents",
    ]
    spec = read(file)
    assert spec.kafka[0].topics == [topic] and spec.kafka[0].bootstrap == kafka_broker
    assert dict(spec.tables["t1"].columns) == {"user_name": "user.name"}
    with pytest.raises(WrongUse, match="there already"):
        run(*words, "--into", str(tmp_path))

    run(name, "--into", str(tmp_path), "--apply")
    assert capsys.readouterr().out == f"4 statements of {tmp_path / f'{name}.sql'} were run\n"
    run(name, "--into", str(tmp_path), "--apply")
    assert capsys.readouterr().out.startswith("4 statements"), "what is there stays"
    assert set(types_of(client, f"{name}.t0")) >= {"type", "at", "id", "user", "_slice", "_cluster"}
    assert set(types_of(client, f"{name}.t1")) == {"id", "user_name", "_slice", "_cluster"}
    run(*words, "--into", str(tmp_path), "--force")
    assert "there already" in capsys.readouterr().out.split(f"{name}.t0")[1]


def test_a_topic_without_records(name: str, kafka_broker: str, tmp_path: Path, client):
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker)
    admin.create_topics([NewTopic(name, 1, 1)])
    admin.close()
    with pytest.raises(WrongUse, match="has no records: write some, or take a sample from `--file`"):
        run(name, "--topic", name, "--bootstrap", kafka_broker, "--yes", "--into", str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_statement_that_is_refused_is_said(name: str, tmp_path: Path, client):
    from sluice.clients.clickhouse.errors import ServerError

    (tmp_path / f"{name}.sql").write_text(f"CREATE DATABASE {name};\nCREATE NONSENSE;\nDROP DATABASE {name};")
    with pytest.raises(ServerError, match="CREATE NONSENSE: (UNKNOWN_IDENTIFIER|SYNTAX_ERROR)"):
        run(name, "--into", str(tmp_path), "--apply")
    assert client.rows("SELECT count() FROM system.databases WHERE name = {n:String}", {"n": name}) == [(1,)]
