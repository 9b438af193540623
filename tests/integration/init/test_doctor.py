"""`sluice doctor` against the real broker, a real lake and the real ClickHouse server."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from local.readiness import wait_until
from sluice.cli.commands import commands
from sluice.cli.options import load_pipeline
from sluice.clients.lake.open import open_lake
from sluice.errors import TopicRecreated
from sluice.flow.resolve.resolve import resolve
from sluice.slices import Slice, floor
from tests.integration.landed import Event as Landed
from tests.integration.landed import client_of, land, unit
from tests.support.channels import webhook

pytestmark = pytest.mark.integration

AT = datetime.now(UTC) - timedelta(hours=3)
SYSTEM = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
ORDER = "ENGINE = MergeTree ORDER BY _slice"
CLICKS = [
    {"type": "click", "id": n, "price": 1.5, "user": {"name": f"u{n}", "age": n}, "tags": ["a"], "ok": True}
    for n in range(30)
]
CLICKS[7]["price"] = "dear"
CLICKS[8]["user"]["age"] = None


class Examined:
    """One pipeline, its topic with events, and the command."""

    def __init__(self, name: str, folder: Path, kafka: str, client, capsys) -> None:
        self.name, self.folder, self.kafka, self.client, self.capsys = name, folder, kafka, client, capsys
        self.path = folder / f"{name}.yaml"
        self.write({"click": f"{name}.clicks", "*": f"{name}.other"})
        client.run(f"CREATE DATABASE {name}")
        client.run(f"CREATE TABLE {name}.other (_type String, _payload String, {SYSTEM}) {ORDER}")

    def write(self, tables: dict, **more) -> None:
        cluster = {"cluster": "dc1", "connection": "kafka_default", "topics": [self.name]}
        event = {"type": {"field": "type"}, "time": {"record": True}}
        lake = f"file://{self.folder}/lake"
        spec = {"kafka": [cluster], "event": event, "lake": lake, "tables": tables, **more}
        self.path.write_text(yaml.safe_dump(spec))

    def publish(self, lines: list[bytes], **settings: str) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.kafka)
        admin.create_topics([NewTopic(self.name, 1, 1, topic_configs={"retention.ms": "-1", **settings})])
        admin.close()
        producer = KafkaProducer(bootstrap_servers=self.kafka)
        for line in lines:
            producer.send(self.name, line, timestamp_ms=int(AT.timestamp() * 1000))
        producer.close()

    def run(self, *options: str) -> tuple[int, str]:
        arguments = ["doctor", self.name, "--config", str(self.path), *options]
        code = commands(args=arguments, standalone_mode=False) or 0
        return code, self.capsys.readouterr().out

    def said(self, *options: str) -> tuple[int, list[dict]]:
        code, out = self.run("--json", *options)
        answer = json.loads(out)
        assert answer["exit_code"] == code
        return code, answer["checks"]


def lines(checks: list[dict], level: str) -> list[str]:
    return [f"{c['place']}: {c['found']}; {c['remedy']}" for c in checks if c["level"] == level]


@pytest.fixture
def examined(name, tmp_path, stack_env, kafka_broker, clickhouse_server, monkeypatch, capsys) -> Examined:
    for key, value in stack_env.items():
        monkeypatch.setenv(key, value)
    return Examined(name, tmp_path, kafka_broker, client_of(clickhouse_server), capsys)


def test_a_pipeline_that_is_fit(examined: Examined):
    examined.write({"*": f"{examined.name}.other"})
    examined.publish([json.dumps(event).encode() for event in CLICKS])
    code, checks = examined.said("--from", AT.isoformat())
    assert (code, lines(checks, "fail"), lines(checks, "warn")) == (0, [], [])
    assert {c["area"] for c in checks} == {"kafka", "lake", "spark", "clickhouse", "schema"}
    assert any("every value of 30 events fits" in c["found"] for c in checks)
    assert not list((examined.folder / "lake").rglob("*.json")), "the probe is gone"


def test_what_no_column_takes_has_the_remedy_of_its_rejected_rows(examined: Examined):
    columns = f"id UInt8, j JSON, n Nullable(UInt8), m Map(String, String), {SYSTEM}"
    examined.client.run(f"CREATE TABLE {examined.name}.clicks ({columns}) {ORDER}")
    target = {"table": f"{examined.name}.clicks", "columns": {"n": "o.p.n"}, "missing": {"id": "reject"}}
    examined.write({"click": target})
    twice, stray = b'"id":1,"j":{"a":1,"a":2}', b'"id":2,"o":{"p":[3]}'
    null = b'"id":3,"m":{"k":null}'
    examined.publish([b'{"type":"click",%b}' % text for text in (twice, stray, b'"j":{}', null)])
    said = [line for line in lines(examined.said()[1], "warn") if "would be rejected" in line]
    cure = "correct the producer, for no column's type takes it; or let `columns` name another field"
    default = "let `missing` of the table take a default; or correct the producer"
    nullable = "make the type Nullable at that place (arrays and maps can't be); or correct the producer"
    events, place = "1 of 4 events would be rejected", f"table {examined.name}.clicks"
    assert sorted(said) == sorted(
        [
            f'{place}: {events}: j.a = \'{{"a":1,"a":2}}\', there twice; {cure}',
            f"{place}: {events}: n = '[3]', does not fit an object at o.p (its path is o.p.n); {cure}",
            f"{place}: {events}: id = '', missing; {default}",
            f"{place}: {events}: m[\"k\"] = '', missing; {nullable}",
        ]
    )
    examined.client.run(f"ALTER TABLE {examined.name}.clicks MODIFY COLUMN m Map(String, Nullable(String))")
    assert not any("m[" in line for line in lines(examined.said()[1], "warn"))


def test_each_remedy_for_the_columns_works(examined: Examined):
    """What it prints is done, statement by statement; left is the value that does not fit."""
    columns = f"id UInt8, price Float64, forgotten String, {SYSTEM}"
    examined.client.run(f"CREATE TABLE {examined.name}.clicks ({columns}) {ORDER}")
    examined.publish([*(json.dumps(event).encode() for event in CLICKS), b"no JSON"])
    code, checks = examined.said()
    assert code == 0
    said = lines(checks, "warn")
    fields = {"user.name": "user_name", "user.age": "user_age", "tags": "tags", "ok": "ok"}
    for field in fields:
        assert sum(f"field {field} has no column" in line for line in said) == 1
    assert sum("1 of 30 events would be rejected: price = 'dear'" in line for line in said) == 1
    assert sum("column forgotten has no field" in line for line in said) == 1
    assert sum("1 of 31 records are rejected: not JSON" in line for line in said) == 1
    assert len(said) == len(fields) + 3

    for check in checks:
        if check["remedy"].startswith("ALTER TABLE"):
            examined.client.run(check["remedy"].split(", and `columns")[0])
    paths = {"user_name": "user.name", "user_age": "user.age"}
    tables = {"click": {"table": f"{examined.name}.clicks", "columns": paths}, "*": f"{examined.name}.other"}
    examined.write(tables)
    code, checks = examined.said()
    assert [line for line in lines(checks, "warn") if "has no column" in line] == []


@pytest.mark.long
def test_a_table_proposed_for_a_type_takes_every_event(examined: Examined, tmp_path: Path):
    """The printed statement and the printed line of the pipeline file, then the product's own load."""
    from sluice.clients.lake.folder import FolderLake
    from sluice.config.files import read
    from sluice.flow.load.load import load

    events = [e for e in CLICKS if e["price"] != "dear"]
    examined.publish([json.dumps(event).encode() for event in events])
    code, out = examined.run("--ddl", "click")
    assert code == 0
    comments = [line[3:] for line in out.splitlines() if line.startswith("--")]
    statement = "\n".join(line for line in out.splitlines() if not line.startswith("--")).rstrip().rstrip(";")
    examined.client.run(statement)
    entry = yaml.safe_load(comments[1])
    examined.write({**entry, "*": f"{examined.name}.other"})

    spec = read(examined.path)
    lake = FolderLake(examined.folder / "lake" / examined.name)
    manifest = land(lake, unit(), [Landed("click", json.dumps(event)) for event in events])
    target = next(t for t in spec.targets if not t.catch_all)
    loaded = load(spec, target, [unit()], lake, examined.client, mode="fill")
    assert (manifest.read, loaded.summary()["rows"], loaded.summary()["rejected_rows"]) == (29, 29, 0)
    user = "toString(user.name), toInt64OrNull(toString(user.age))"
    sql = f"SELECT id, price, {user}, tags, ok FROM {examined.name}.clicks ORDER BY id"
    expected = [(e["id"], 1.5, e["user"]["name"], e["user"]["age"], ["a"], True) for e in events]
    assert [tuple(row) for row in examined.client.rows(sql)] == expected


def test_the_command_for_a_missing_table_makes_one_that_takes_every_event(examined: Examined):
    """Two types share it, the pipeline file fills a column from a path, and the database is not there."""
    place, paths = f"{examined.name}_more", {"name": "user.name", "never": "no.such"}
    sales = [{"type": "sale", "id": n, "amount": n * 10} for n in range(5)]
    shared = {"table": f"{place}.sold", "columns": paths}
    examined.write({"click": shared, "sale": shared, "*": f"{examined.name}.other"})
    events = [*(event for event in CLICKS if event["price"] != "dear"), *sales]
    examined.publish([json.dumps(event).encode() for event in events])
    code, checks = examined.said("--from", AT.isoformat())
    places = {c["place"]: c["remedy"] for c in checks if c["found"] == "there is no such table"}
    command = f"sluice doctor {examined.name} --config {examined.path} --ddl click"
    remedy = f"CREATE DATABASE `{place}`, and create it: `{command}` prints a CREATE TABLE for its events"
    assert (code, places) == (1, {f"{place}.sold": remedy, f"table {place}.sold": remedy})

    examined.client.run(places[f"{place}.sold"].split(", and create it")[0])
    written = subprocess.run(
        [Path(sys.executable).with_name("sluice"), *shlex.split(command)[1:]], capture_output=True, check=True
    )
    _, _, statement = written.stdout.decode().rpartition("--")
    examined.client.run(statement[statement.index("CREATE TABLE") :].rstrip().rstrip(";"))
    code, checks = examined.said("--from", AT.isoformat())
    assert (code, lines(checks, "fail")) == (0, [])
    assert any("every value of 34 events fits" in c["found"] for c in checks)
    columns = examined.client.rows(f"SELECT name FROM system.columns WHERE database = '{place}'")
    assert {"id", "amount", "price", "name", "never", "ok"} <= {name for (name,) in columns}


@pytest.mark.long
def test_a_missing_table_of_which_no_event_is_known_has_a_statement_to_begin_with(examined: Examined):
    examined.publish([b'{"type": "order"}'])
    code, checks = examined.said()
    [remedy] = {c["remedy"] for c in checks if c["found"] == "there is no such table"}
    assert code == 1
    command = remedy.split("`")[1]
    asked = subprocess.run(
        [Path(sys.executable).with_name("sluice"), *shlex.split(command)[1:]], capture_output=True, text=True
    )
    assert asked.returncode == 2
    assert f"for instance: CREATE TABLE `{examined.name}`.`clicks`" in asked.stderr


def test_what_is_broken_is_told_with_its_remedy(examined: Examined):
    """A table without `_cluster`, one that is missing, expired records, a short retention."""
    examined.client.run(f"ALTER TABLE {examined.name}.other DROP COLUMN _cluster")
    examined.publish([json.dumps(event).encode() for event in CLICKS], **{"retention.ms": "86400000"})
    admin = KafkaAdminClient(bootstrap_servers=examined.kafka)
    admin.delete_records({TopicPartition(examined.name, 0): 11})
    admin.close()
    code, checks = examined.said("--from", (AT - timedelta(hours=1)).isoformat())
    assert code == 1
    said = lines(checks, "fail")
    assert any("begins at offset 11" in line and "land_rest" in line for line in said)
    assert any("ADD COLUMN `_cluster`" in line for line in said)
    assert any("there is no such table" in line and "CREATE TABLE" in line for line in said)
    assert any("an outage of 1 day loses records" in line for line in lines(checks, "warn"))
    assert all(c["remedy"] for c in checks if c["level"] != "ok")


def test_a_user_who_may_only_read(examined: Examined, start_clickhouse_server, monkeypatch):
    networks = "<networks><ip>127.0.0.1</ip></networks>"
    users = f"""<clickhouse><profiles><default/><reading><readonly>1</readonly></reading></profiles><users>
    <default><password/><profile>default</profile>{networks}</default>
    <reader><password>only-reads</password><profile>reading</profile>{networks}
    <grants><query>GRANT SELECT ON *.*</query></grants></reader></users></clickhouse>"""
    server = start_clickhouse_server(users=users)
    connection = {"conn_type": "clickhouse", "host": server.host, "port": server.port, "login": "reader"}
    monkeypatch.setenv(
        "AIRFLOW_CONN_CLICKHOUSE_DEFAULT", json.dumps({**connection, "password": "only-reads"})
    )
    examined.publish([])
    code, checks = examined.said()
    assert code == 1
    said = lines(checks, "fail")
    assert any("may only read (readonly = 1)" in line for line in said)
    assert any("GRANT CREATE DATABASE, CREATE TABLE" in line and "TO `reader`" in line for line in said)
    assert "only-reads" not in json.dumps(checks)


@pytest.mark.parametrize(
    ("profile", "said", "places"),
    [
        (
            "<constraints><max_ast_depth><max>2000</max></max_ast_depth></constraints>",
            "max_ast_depth",
            ["{address}"],
        ),
        (
            "<allow_simdjson>0</allow_simdjson><constraints><allow_simdjson><const/></allow_simdjson>"
            "</constraints>",
            "`allow_simdjson`",
            ["clickhouse_default", "sample"],  # whoever connects is refused
        ),
    ],
)
@pytest.mark.long
def test_a_profile_that_holds_back_what_a_load_sets(
    examined: Examined, start_clickhouse_server, monkeypatch, profile: str, said: str, places: list[str]
):
    users = f"""<clickhouse><profiles><default/><held>{profile}</held></profiles><users>
    <default><password/><profile>held</profile><networks><ip>127.0.0.1</ip></networks></default></users>
    </clickhouse>"""
    server = start_clickhouse_server(users=users)
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", f"http://default@{server.host}:{server.port}")
    examined.publish([])
    code, checks = examined.said()
    assert code == 1
    assert all("out of the profile" in line for line in lines(checks, "fail") if said in line)
    address = f"{server.host}:{server.port}"
    told = [c["place"] for c in checks if c["level"] == "fail" and said in c["found"] + c["remedy"]]
    assert told == [place.format(address=address) for place in places]


def test_a_channel_without_its_connection(examined: Examined, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_HOOK_OPS", '{"conn_type": "http", "host": "http://127.0.0.1:1"}')
    examined.publish([])
    notify = [webhook("hook_ops"), webhook("hook_nobody_made")]
    examined.write({"*": f"{examined.name}.other"}, alarms={"notify": notify})
    code, checks = examined.said()
    told = {c["place"]: c["level"] for c in checks if c["area"] == "alarms"}
    assert (code, told) == (1, {"WebhookNotifier hook_ops": "ok", "WebhookNotifier hook_nobody_made": "fail"})


def test_what_is_unavailable_does_not_hide_the_rest(examined: Examined, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", "http://127.0.0.1:1")
    examined.publish([json.dumps(event).encode() for event in CLICKS])
    code, checks = examined.said()
    assert code == 3
    assert any("127.0.0.1:1" in line for line in lines(checks, "fail"))
    assert any(c["area"] == "schema" and "click 30" in c["found"] for c in checks)
    code, out = examined.run()
    assert code == 3
    assert out.splitlines()[-1].endswith("fail") and "out" not in out.splitlines()[-1]


@pytest.mark.long
def test_what_a_run_would_refuse_or_leave_out_of_a_topic(examined: Examined):
    """The first boundary is that of an hour without its 30 records. Then the topic is made again."""
    examined.publish([json.dumps(event).encode() for event in CLICKS])
    spec = load_pipeline(examined.name, examined.path)
    first = floor(datetime.now(UTC), spec.slice) - spec.slice
    resolve(spec, open_lake(spec), [Slice(first)], datetime.now(UTC))
    code, checks = examined.said()
    (left_out,) = [line for line in lines(checks, "warn") if "outside" in line]
    assert left_out.startswith(f"dc1/{examined.name}: 30 offsets that Kafka holds are outside of every slice")
    assert left_out.endswith("a run from an earlier hour on reads them")

    admin = KafkaAdminClient(bootstrap_servers=examined.kafka)
    admin.delete_topics([examined.name])
    wait_until(lambda: examined.name not in admin.list_topics(), "the topic's end", 60)
    admin.close()
    examined.publish([json.dumps(event).encode() for event in CLICKS[:5]])
    code, checks = examined.said()
    (refused,) = [line for line in lines(checks, "fail") if "was recreated" in line]
    assert (code, refused.startswith(f"dc1/{examined.name}: topic dc1/{examined.name} was recreated")) == (
        1,
        True,
    )
    assert isinstance(
        resolve(spec, open_lake(spec), [Slice(first - spec.slice)], datetime.now(UTC)).unreachable["dc1"],
        TopicRecreated,
    )
