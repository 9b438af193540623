"""Logins to a real broker by all three clients, over several tokens and by certificates."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import clickhouse_connect
import pendulum
import pyspark
import pytest
import yaml
from kafka import KafkaAdminClient

from local.readiness import wait_until
from sluice.clients.connections import Connection
from sluice.clients.kafka import producer, tokens
from sluice.clients.kafka import settings as kafka_settings
from sluice.clients.kafka.producer import open_publisher
from sluice.clients.kafka.records import BoundedReader, OffsetSpan
from sluice.clients.kafka.settings import KafkaSettings, admin, from_connection, reached, settings_of
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.config.pipeline import Cluster
from sluice.errors import KafkaLoginFails, KafkaUnavailable
from sluice.watch.observe import observe
from tests.support.certificates import Authority
from tests.support.key_forms import FORMS, files_of
from tests.support.long_form import per_commit
from tests.support.spark_world import event as made_event
from tests.support.spark_world import hours
from tests.support.token_server import CLIENT, SECRET, SecureBroker, TokenServer, secure_broker, serve

pytestmark = pytest.mark.integration

HOURS = 3
END = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
START = END - timedelta(hours=HOURS)
RANGE = ("--from", START.isoformat(), "--to", END.isoformat())
FIRST = ("--from", START.isoformat(), "--to", (START + timedelta(hours=1)).isoformat())
PROGRAM = str(Path(sys.executable).with_name("sluice"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "ca")


@pytest.fixture(scope="module")
def token_server(authority: Authority) -> Iterator[TokenServer]:
    with serve(authority) as server:
        yield server


@pytest.fixture(scope="module")
def broker(authority: Authority, token_server: TokenServer, tmp_path_factory) -> Iterator[SecureBroker]:
    with secure_broker(tmp_path_factory.mktemp("broker"), authority, token_server) as started:
        yield started


class World:
    """A pipeline of one topic that is reached with tokens only, and who types commands."""

    def __init__(self, name: str, folder: Path, extra: dict[str, str], env: dict[str, str], server: Any):
        self.name, self.folder = name, folder
        self.extra = json.dumps({"conn_type": "kafka", "extra": extra})
        self.env = {**env, "AIRFLOW_CONN_KAFKA_OAUTH": self.extra, "AIRFLOW_HOME": str(folder / "airflow")}
        self.client = clickhouse_connect.get_client(**server.at.login, autogenerate_session_id=False)
        self.client.command(f"CREATE DATABASE {name}")
        own = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
        self.client.command(
            f"CREATE TABLE {name}.events (n UInt64, {own}) ENGINE = MergeTree ORDER BY n"
        )  # fmt: skip
        self.said: list[bytes] = []
        self.exposed: list[bytes] = []
        (folder / "events").mkdir()

    def write(self, **changes: Any) -> Path:
        pipeline = {
            "kafka": [{"cluster": "dc1", "connection": "kafka_oauth", "topics": [self.name]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": f"file://{self.folder}/lake",
            "spark": {
                "spark.eventLog.enabled": "true",
                "spark.eventLog.compress": "false",
                "spark.eventLog.dir": f"file://{self.folder}/events",
            },
            "tables": {"*": f"{self.name}.events"},
        }
        path = self.folder / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump({**pipeline, **changes}))
        return path

    def type(self, command: str, *arguments: str, seconds: int = 300) -> tuple[int, str]:
        words = [PROGRAM, command, self.name, *arguments, "--config", str(self.folder / f"{self.name}.yaml")]
        done = subprocess.run(words, env=self.env, capture_output=True, timeout=seconds)
        self.said += [done.stdout, done.stderr]
        return done.returncode, (done.stdout + done.stderr).decode()

    def do(self, command: str, *arguments: str, seconds: int = 300) -> str:
        code, said = self.type(command, *arguments, seconds=seconds)
        assert code == 0, said
        return said

    def events(self, count: int) -> Path:
        """In the order of their times: 98 % in the first hour, which Spark reads; tasks read the others."""
        path, few = self.folder / "events.jsonl", count // 100
        with path.open("w") as file:
            for n in range(count):
                hour = max(0, HOURS - 1 - (count - 1 - n) // few)
                at = START + timedelta(hours=hour, seconds=3000 * n / count)
                file.write(f'{{"n":{n},"type":"click","at":"{at.isoformat()}"}}\n')
        return path

    @contextmanager
    def watched(self, server: TokenServer) -> Iterator[None]:
        """Looks at the arguments of every process."""
        stop = threading.Event()

        def look() -> None:
            while not stop.wait(0.1):
                secrets = secrets_of(server).values()
                for path in Path("/proc").glob("[0-9]*/cmdline"):
                    with suppress(OSError):
                        text = path.read_bytes()
                        self.exposed += [text] if any(secret in text for secret in secrets) else []

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@pytest.fixture
def world(
    name, tmp_path, stack_env, clickhouse_server, broker, authority, token_server, monkeypatch
) -> World:
    extra = token_server.described(broker.oauth, authority)
    found = World(name, tmp_path, extra, stack_env, clickhouse_server)
    for variable in ("AIRFLOW_CONN_KAFKA_OAUTH", "AIRFLOW_CONN_CLICKHOUSE_DEFAULT"):
        monkeypatch.setenv(variable, found.env[variable])
    tokens.source_of.cache_clear()
    token_server.mood, token_server.lifetime = "", 30
    token_server.asked.clear()
    token_server.given.clear()
    return found


def secrets_of(server: TokenServer) -> dict[str, bytes]:
    """Each in the forms in which it travels; of the tokens their signatures, which nothing else has."""
    login = base64.b64encode(f"{quote_plus(CLIENT)}:{quote_plus(SECRET)}".encode())
    fixed = {"secret": SECRET.encode(), "quoted secret": quote_plus(SECRET).encode(), "login": login}
    return fixed | {f"token {n}": text.rpartition(".")[2].encode() for n, text in enumerate([*server.given])}


def assert_no_secret_is_left(world: World, server: TokenServer) -> None:
    secrets = secrets_of(server)
    left = {str(path): path.read_bytes() for path in world.folder.rglob("*") if path.is_file()}
    assert any(b"SparkListenerApplicationStart" in content for content in left.values())
    assert any(content[:4] == b"PAR1" for content in left.values())
    left |= {f"output {n}": said for n, said in enumerate(world.said)}
    for place, content in left.items():
        for what, secret in secrets.items():
            assert secret not in content, f"{what} is in {place}"
    assert world.exposed == []


def run_all(world: World, server: TokenServer, count: int, lifetime: float, seconds: int) -> dict[str, float]:
    """Publishes, resolves, lands, loads, verifies and watches; returns seconds by step."""
    took: dict[str, float] = {}
    server.lifetime = lifetime
    config, sent = world.write(rows_per_read=count // 20), world.events(count)
    with world.watched(server):
        for what, command, *arguments in (
            ("publish", "publish", str(sent)),
            ("doctor", "doctor"),
            ("by Spark", "run", *FIRST),
            ("by tasks", "run", *RANGE),
        ):
            began = time.monotonic()
            world.do(command, *arguments, seconds=seconds)
            took[what] = round(time.monotonic() - began, 1)
    pipeline = read(config)
    seen = observe(pipeline, open_lake(pipeline), pendulum.now("UTC"))
    assert seen.silent == {} and seen.lag.errors == []
    assert sum(partition.log_end for partition in seen.lag.partitions) == count
    rows = f"SELECT count(), sum(n), uniqExact(n), min(n) FROM {world.name}.events"
    assert world.client.query(rows).result_rows == [(count, count * (count - 1) // 2, count, 0)]
    assert_no_secret_is_left(world, server)
    return took


@pytest.mark.long
def test_a_run_goes_over_several_tokens(world: World, token_server: TokenServer):
    took = run_all(world, token_server, count=150_000, lifetime=3, seconds=300)
    print(took, token_server.asked)
    assert token_server.asked["Java"] >= 3 and token_server.asked["python-httpx"] >= 6, token_server.asked


@pytest.mark.long
def test_five_million_events_over_ten_refreshes(world: World, token_server: TokenServer):
    took = run_all(world, token_server, count=5_000_000, lifetime=5, seconds=3000)
    assert token_server.asked["Java"] >= 10, token_server.asked
    print(took, token_server.asked)


@pytest.mark.long
def test_executors_of_their_own_log_in_too(world: World, token_server: TokenServer):
    """Two JVMs; what an executor logs is searched, too."""
    world.env["AIRFLOW_CONN_SPARK_DEFAULT"] = '{"conn_type": "spark", "host": "local-cluster[1,1,1024]"}'
    logs = Path(pyspark.__file__).with_name("work")  # where Spark's own cluster on one machine keeps them
    before = set(logs.glob("app-*"))
    token_server.lifetime = 4
    world.write()
    world.do("publish", str(world.events(100_000)))
    with world.watched(token_server):
        said = world.do("run", *FIRST)
    assert "tasks read them themselves" not in said and token_server.asked["Java"] >= 2
    rows = world.client.query(f"SELECT count(), uniqExact(n), max(n) FROM {world.name}.events").result_rows
    assert rows == [(98_000, 98_000, 97_999)]
    for made in set(logs.glob("app-*")) - before:
        shutil.move(made, world.folder)
    assert [*world.folder.glob("app-*/*/stderr")]
    assert_no_secret_is_left(world, token_server)


@pytest.mark.parametrize(
    ("mood", "reason"),
    [
        ("foreign", "the brokers refuse it): compare scope, audience, issuer and keys"),
        *per_commit(
            [
                ("other", "the brokers refuse it): compare scope, audience, issuer and keys"),
                ("expired", "its token has expired already): set the clocks"),
                ("500", "it answers with status 500): check that it runs"),
            ],
            keep=0,
        ),
    ],
)
def test_the_doctor_says_in_one_line_why_there_is_no_login(
    mood: str, reason: str, world: World, token_server: TokenServer, broker: SecureBroker
):
    token_server.mood = mood
    world.write()
    code, said = world.type("doctor", "--json")
    issuer = token_server.url.split("/")[2]
    assert code == 3
    (found,) = [
        check for check in json.loads(world.said[-2])["checks"]
        if check["area"] == "kafka" and check["level"] == "fail"
    ]  # fmt: skip
    told, place = f"{found['found']}: {found['remedy']}", f"127.0.0.1:{broker.oauth}"
    assert told.startswith(f"Kafka cluster 'dc1' at {place}: no login with a token of {issuer} ({reason}")
    assert "\n" not in told
    for what, secret in secrets_of(token_server).items():
        assert secret.decode() not in said, what


def test_an_outage_of_the_endpoint_lasts_no_longer_than_its_tokens(
    world: World, token_server: TokenServer, broker: SecureBroker
):
    """While the old token holds it serves; the first question after that is told."""
    token_server.lifetime = 5
    settings = settings_of(Cluster(cluster="dc1", connection="kafka_oauth", topics=["t"]))
    with reached(settings), admin(settings, KafkaAdminClient) as client:
        client.list_topics()
        token_server.mood = "500"
        wait_until(lambda: token_server.asked["python-httpx"] >= 4, "a refresh that fails", 30)
    wait_until(lambda: not answers(settings), "an end of the token", 30)
    with pytest.raises(KafkaLoginFails, match="status 500"):
        answers(settings, tell=True)
    token_server.mood = ""
    assert answers(settings, tell=True)


def answers(settings: KafkaSettings, tell: bool = False) -> bool:
    try:
        with reached(settings), admin(settings, KafkaAdminClient) as client:
            client.list_topics()
    except KafkaLoginFails:
        if tell:
            raise
        return False
    return True


def test_librdkafka_goes_on_through_refreshes_and_tells_an_outage(
    world: World, token_server: TokenServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(producer, "_DELIVERY_MS", 5_000)
    token_server.lifetime = 3
    settings = settings_of(Cluster(cluster="dc1", connection="kafka_oauth", topics=["t"]))
    acknowledged: list[int] = []
    failed: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        failed.append(error.str()) if error else acknowledged.append(message.offset())

    with open_publisher(settings, world.name, 1) as publisher:

        def sent_until(done: Any, what: str) -> None:
            def step() -> bool:
                publisher.send(b"x", None, 0, int(time.time() * 1000), None, delivered)
                publisher.serve(0.1)
                return done()

            wait_until(step, what, 60)

        sent_until(lambda: token_server.asked["python-httpx"] >= 4, "three refreshes")
        assert publisher.flush(30) == 0 and not failed
        assert sorted(acknowledged) == list(range(len(acknowledged)))
        token_server.mood = "500"
        sent_until(lambda: failed, "an event that fails")
        told = publisher.gone(failed[0])
        assert isinstance(told, KafkaLoginFails) and "(it answers with status 500): " in str(told)


@pytest.mark.long
def test_tasks_read_where_sparks_client_gets_no_token(world: World, token_server: TokenServer):
    """As with an issuer whose tokens are no JWTs."""
    token_server.mood = "500 for Java"
    world.write()
    world.do("publish", str(world.events(1000)))
    said = world.do("run", *FIRST)
    assert "Spark's client cannot log in, and brings no records: tasks read them themselves" in said
    assert token_server.asked["Java"] > 0
    rows = world.client.query(f"SELECT n FROM {world.name}.events ORDER BY n").result_rows
    assert rows == [(n,) for n in range(980)]
    assert SECRET not in said


@pytest.mark.parametrize("form", per_commit(FORMS))
def test_a_certificate_in_each_form_lets_all_clients_in(
    form: str, name, broker: SecureBroker, authority: Authority, engine
):
    extra = {key.replace("_", "."): value for key, value in files_of(form, authority).items()}
    extra |= {
        "bootstrap.servers": f"127.0.0.1:{broker.tls}",
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.pem),
    }
    settings = from_connection("dc1", "read_committed", Connection("k", "kafka", extra=extra))
    values = [b"%d" % n for n in range(100)]
    with open_publisher(settings, name, 1) as publisher:
        for value in values:
            publisher.send(value, None, 0, 1_767_225_600_000, None, lambda error, _: None)
        assert publisher.flush(30) == 0
    with BoundedReader(settings, 1 << 20) as reader:
        read = [value for part in reader.read([OffsetSpan(name, 0, 0, 100)]) for value in part.values]
    source = engine.session().read.format("kafka").options(**settings.for_spark(), subscribe=name)
    assert read == [bytes(row.value) for row in source.load().orderBy("offset").collect()] == values


def test_a_broker_lets_nobody_in_without_a_certificate(
    broker: SecureBroker, authority: Authority, monkeypatch
):
    monkeypatch.setattr(kafka_settings, "BOOTSTRAP_MS", 2_000)
    settings = KafkaSettings(
        "dc1", f"127.0.0.1:{broker.tls}", protocol="SSL", ca_file=str(authority.pem)
    )  # fmt: skip
    with pytest.raises(KafkaUnavailable), reached(settings), admin(settings, KafkaAdminClient):
        pass


def test_tasks_read_everything_where_sparks_client_has_no_login(spark_world, monkeypatch):
    """As with AWS_MSK_IAM; one large hour alone is otherwise read by Spark."""
    from engine import SparkEngine

    def by_spark(*_: object) -> None:
        raise AssertionError("Spark's own client reads")

    monkeypatch.setattr(KafkaSettings, "read_by_spark", property(lambda _: False))
    monkeypatch.setattr(SparkEngine, "_read_by_source", by_spark)
    topic = spark_world.topic("t", partitions=2)
    spark_world.send(topic, [made_event(n=n) for n in range(500)])
    table = spark_world.table("events", "n UInt64")
    pipeline = spark_world.pipeline(
        kafka=spark_world.cluster(topic),
        event={"type": {"topic": True}, "time": {"field": "at"}},
        tables={"*": table},
    )
    assert spark_world.run(pipeline, hours()) == []
    assert spark_world.rows("SELECT n FROM DB.events ORDER BY n") == [(n,) for n in range(500)]
