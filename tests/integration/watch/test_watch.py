"""The watch on the real broker, server and lake, telling a real SMTP server and a real webhook."""

from __future__ import annotations

import html
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pendulum
import pytest
from aiosmtpd.controller import Controller
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from local import services
from local.readiness import free_port
from sluice.clients.lake.folder import FolderLake
from sluice.config.pipeline import Pipeline
from sluice.errors import NotSent
from sluice.flow.steps import load_table, resolve_range
from sluice.page.retention import read_retention, retention_of
from sluice.page.tables import tables_now
from sluice.slices import Slice, SliceRange, Unit, floor, to_ms
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.notes import read_lag
from sluice.state.system_tables import claim, create_system_tables
from sluice.watch.notify import send
from sluice.watch.problems import AlarmStore, ProblemKind
from sluice.watch.watch import Watched, watch
from tests.integration import landed
from tests.integration.landed import client_of
from tests.support.channels import mail, webhook
from tests.support.watch_world import without_look

pytestmark = pytest.mark.integration

HOUR = timedelta(hours=1)
SYSTEM = "_slice DateTime('UTC'), _cluster LowCardinality(String)"


@dataclass
class Mailbox:
    """An SMTP server's handler; `broken` makes it refuse what it is given."""

    mails: list = field(default_factory=list)
    broken: bool = False

    async def handle_DATA(self, server, session, envelope) -> str:
        if self.broken:
            return "451 try again later"
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 OK"


@pytest.fixture
def mailbox(monkeypatch) -> Iterator[Mailbox]:
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=free_port())
    controller.start()
    extra = {"disable_ssl": True, "disable_tls": True, "from_email": "sluice@example.com", "retry_limit": 1}
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": controller.port, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_OPS", json.dumps(connection))
    yield box
    controller.stop()


@dataclass
class Hook:
    posts: list[dict] = field(default_factory=list)
    headers: list[dict] = field(default_factory=list)
    answer: int = 200


@pytest.fixture
def hook(monkeypatch) -> Iterator[Hook]:
    found = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if found.answer == 200:
                found.posts.append(json.loads(body))
                found.headers.append(dict(self.headers))
            self.send_response(found.answer)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    connection = {
        "conn_type": "http",
        "host": f"http://127.0.0.1:{server.server_port}",
        "password": "hook-secret",
        "extra": {"path": "/services/T/B"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_HOOK_OPS", json.dumps(connection))
    yield found
    server.shutdown()


@dataclass
class World:
    """A pipeline whose last complete hours hold ten events each, none of them landed."""

    pipeline: Pipeline
    lake: FolderLake
    client: object
    now: pendulum.DateTime

    def watch(self) -> Watched:
        watched = watch(self.pipeline, self.lake, self.now, send)
        watched.refuse_unsent()
        return watched

    def hour(self, ago: int) -> Slice:
        return Slice(floor(self.now, HOUR) - ago * HOUR)

    def complete(self, *ago: int) -> None:
        """Lands (as landed.py does) and loads hours."""
        for number in ago:
            piece = self.hour(number)
            slices = SliceRange(piece.start, piece.end, HOUR)
            resolve_range(self.pipeline, slices)
            unit = Unit(piece, "dc1")
            events = [landed.event("click", id=n) for n in range(10)]
            landed.land(self.lake, unit, events)
            load_table(self.pipeline, self.pipeline.targets[0].table, slices, "fill", "t", lambda _: None)


@pytest.fixture(scope="module")
def own_server(tmp_path_factory) -> Iterator[services.ClickHouseServer]:
    """Of its own: the watch tells of errors that any test has provoked in a server that all use."""
    server = services.clickhouse_server(tmp_path_factory.mktemp("clickhouse"))
    yield server
    server.kill()


@pytest.fixture
def world(name, tmp_path: Path, stack_env, kafka_broker, own_server, monkeypatch) -> World:
    for key, value in stack_env.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", own_server.at.variable)
    without_look(monkeypatch)  # the offsets that it lands are not Kafka's
    now = pendulum.now("UTC")
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker)
    kept = 7 * HOUR  # the hour that ended five hours ago began six hours ago
    settings = {"retention.ms": str(int(kept.total_seconds() * 1000)), "segment.bytes": "1000000000"}
    admin.create_topics([NewTopic(name, 1, 1, topic_configs=settings)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=kafka_broker)
    for ago in (5, 4, 3, 2, 1):
        at = floor(now, HOUR) - ago * HOUR
        for number in range(10):
            stamp = int((at + timedelta(seconds=number)).timestamp() * 1000)
            producer.send(name, b'{"type": "click"}', partition=0, timestamp_ms=stamp)
    producer.close()
    client = client_of(own_server)
    client.run(f"CREATE DATABASE {name}")
    client.run(f"CREATE TABLE {name}.clicks (id UInt64, {SYSTEM}) ENGINE = MergeTree ORDER BY _slice")
    notify = [mail("smtp_ops"), webhook("hook_ops")]
    spec = Pipeline.model_validate(
        {
            "name": name,
            "kafka": [{"cluster": "dc1", "connection": "kafka_default", "topics": [name]}],
            "event": {"type": {"field": "type"}, "time": {"record": True}},
            "lake": f"file://{tmp_path}/lake",
            "tables": {"*": f"{name}.clicks"},
            "lookback": "5h",
            "alarms": {"retention": "2h", "overdue": "1s", "notify": notify, "disk_free": 0},
            "settle": "0s",
        }
    )
    return World(spec, FolderLake(tmp_path / "lake" / name), client, now)


def places(watched: Watched, kind: ProblemKind) -> list[str]:
    return sorted(problem.place for problem in watched.problems if problem.kind is kind)


def test_the_page_knows_what_kafka_deletes_next_and_how_large_a_table_is(world: World):
    """The pipeline's hours begin with the first that was resolved, four hours ago."""
    world.complete(4)
    facts = read_retention(world.pipeline, world.lake, BoundaryLog(world.lake).read(), world.now)
    found = retention_of(facts, world.now)
    assert (found.waiting, found.errors) == (3, [])
    assert [(one.slice, one.records, one.gone, one.by) for one in found.hours] == [
        (world.hour(ago).id, 10, 0, "retention.ms") for ago in (3, 2, 1)
    ]
    assert found.hours[0].at == (world.hour(3).start + 7 * HOUR).isoformat()
    (topic,) = found.topics
    assert (topic.kept_seconds, topic.records, topic.oldest) == (25_200, 50, world.hour(5).start.isoformat())

    slices = SliceRange(world.hour(5).start, world.hour(0).start, HOUR)
    asked = [(world.client, [target.table for target in world.pipeline.targets])]
    (now,) = tables_now(asked, world.pipeline, world.lake.url, slices).values()
    assert (now.parts, now.rows) == (1, 10)
    assert abs((pendulum.parse(now.last_load) - pendulum.now("UTC")).total_seconds()) < 600
    before = SliceRange(world.hour(9).start, world.hour(5).start, HOUR)
    assert (
        tables_now(asked, world.pipeline, world.lake.url, before)[world.pipeline.targets[0].table].last_load
        == ""
    )


def test_overdue_hours_and_retention_are_told_once_and_once_when_over(world: World, mailbox, hook):
    first = world.watch()
    late = [f"slice {world.hour(ago).id}/dc1" for ago in (5, 4, 3, 2, 1)]
    assert places(first, ProblemKind.OVERDUE) == late
    # Kept for seven hours: only the hour that began five to six hours ago is within two of its end.
    assert places(first, ProblemKind.RETENTION) == late[:1]
    (mail,) = mailbox.mails
    assert (
        mail["To"] == "ops@example.com" and mail["Subject"] == f"[sluice] {world.pipeline.name}: 2 problems"
    )
    text = mail.get_body().get_content()
    assert (
        f"hour overdue: 5 times, from {late[0]} to {world.hour(1).id}/dc1; of the first: not landed" in text
    )
    assert f"Kafka will delete hour {world.hour(5).id} in 1 h" in text
    assert [post["text"].splitlines()[0] for post in hook.posts] == [mail["Subject"]]
    assert hook.headers[0]["Authorization"] == "Bearer hook-secret"

    assert world.watch().problems == first.problems
    assert (len(mailbox.mails), len(hook.posts)) == (1, 1)
    # Five hours of ten events, by the hour in which the watch ran.
    assert [
        (lag.at, lag.records)
        for lag in read_lag(world.lake, SliceRange(world.hour(0).start, world.hour(0).end))
    ] == [(to_ms(world.hour(0).start) // 1000, 50)]

    world.complete(5, 4, 3)
    assert places(world.watch(), ProblemKind.OVERDUE) == late[3:]
    assert mailbox.mails[-1]["Subject"] == f"[sluice] {world.pipeline.name}: 4 over"
    assert len(mailbox.mails) == 2
    world.complete(2, 1)
    assert world.watch().problems == ()
    assert mailbox.mails[-1]["Subject"] == f"[sluice] {world.pipeline.name}: 2 over"
    world.watch()
    assert (len(mailbox.mails), len(hook.posts)) == (3, 3)
    assert AlarmStore(world.lake).read().alarms == {}


@pytest.mark.long
def test_the_hours_of_a_new_pipeline_are_one_summary(world: World, mailbox, hook):
    """A day of them, most from before its first record. What is done of them meanwhile is another."""
    alarms = world.pipeline.alarms.model_copy(update={"retention": None})
    world.pipeline = world.pipeline.model_copy(update={"lookback": 24 * HOUR, "alarms": alarms})
    assert len(places(world.watch(), ProblemKind.OVERDUE)) == 24
    (mail,) = mailbox.mails
    assert mail["Subject"] == f"[sluice] {world.pipeline.name}: 1 problem"
    span = f"24 times, from slice {world.hour(24).id}/dc1 to {world.hour(1).id}/dc1"
    text = mail.get_body().get_content()
    assert (
        text.count("PROBLEM") == 1
        and f"PROBLEM hour overdue: {span}; of the first: not landed 23 hours" in text
    )
    world.complete(5, 4, 3, 2)
    world.watch()
    assert mailbox.mails[-1]["Subject"] == f"[sluice] {world.pipeline.name}: 1 over"
    span = f"4 times, from slice {world.hour(5).id}/dc1 to {world.hour(2).id}/dc1 (open since "
    assert f"OVER hour overdue: {span}" in mailbox.mails[-1].get_body().get_content()
    assert (len(mailbox.mails), len(hook.posts)) == (2, 2)


def test_a_table_that_is_gone_is_told_with_its_statement(world: World, mailbox, hook):
    """And not that hours are late in it, or what their load task is to do with that."""
    world.complete(5, 4, 3, 2, 1)
    table = world.pipeline.targets[0].table
    world.client.run(f"RENAME TABLE {table} TO {table}_away")
    first = world.watch()
    assert places(first, ProblemKind.TABLE) == [f"table {table}"]
    assert places(first, ProblemKind.NOT_COMMITTED) == []
    said = html.unescape(mailbox.mails[-1].get_body().get_content())
    assert f"CREATE TABLE IF NOT EXISTS {table}" in said.replace("`", "")
    world.client.run(f"RENAME TABLE {table}_away TO {table}")
    assert world.watch().problems == ()


@pytest.mark.long
def test_hours_that_lookback_no_longer_reaches_are_told_until_they_are_complete(world: World, mailbox, hook):
    """Hours 5 and 1 ago are complete. `lookback` goes back two hours, and nobody lands those between."""
    world.complete(5, 1)
    assert places(world.watch(), ProblemKind.OVERDUE) == [
        f"slice {world.hour(ago).id}/dc1" for ago in (4, 3, 2)
    ]
    world.pipeline = world.pipeline.model_copy(update={"lookback": 2 * HOUR})
    seen = world.watch()
    assert places(seen, ProblemKind.OVERDUE) == [f"slice {world.hour(2).id}/dc1"]
    (older,) = [problem for problem in seen.problems if problem.kind is ProblemKind.OLDER]
    assert older.message.startswith(
        f"2 slices from {world.hour(4).id} to {world.hour(3).id} are not complete (2 missing)"
    )
    # Those that were told of as overdue are not over.
    assert mailbox.mails[-1]["Subject"] == f"[sluice] {world.pipeline.name}: 1 problem"
    world.complete(4, 3)
    assert places(world.watch(), ProblemKind.OLDER) == []
    assert mailbox.mails[-1]["Subject"] == f"[sluice] {world.pipeline.name}: 3 over"


@pytest.mark.long
def test_hours_that_kafka_will_delete_are_told_also_before_heal(world: World, mailbox, hook):
    """Kept for seven hours: of the two that are left out only the older is within two hours of its end."""
    world.complete(3, 2, 1)
    start = world.hour(5).start
    world.pipeline = world.pipeline.model_copy(update={"lookback": 2 * HOUR, "start": start})
    assert places(world.watch(), ProblemKind.RETENTION) == [f"slice {world.hour(5).id}/dc1"]


def test_a_channel_that_fails_is_tried_again_and_the_other_is_not_told_twice(world: World, mailbox, hook):
    hook.answer = 503
    with pytest.raises(NotSent) as error:
        world.watch()
    assert str(error.value) == "alarm not sent to WebhookNotifier hook_ops: HTTP 503"
    assert (len(mailbox.mails), hook.posts) == (1, [])
    hook.answer, mailbox.broken = 200, True
    world.watch()
    assert (len(mailbox.mails), len(hook.posts)) == (1, 1)
    world.complete(5)
    with pytest.raises(NotSent, match="alarm not sent to SmtpNotifier smtp_ops [0-9a-f]{8}"):
        world.watch()
    mailbox.broken = False
    world.watch()
    assert (len(mailbox.mails), len(hook.posts)) == (2, 2)


@pytest.mark.long
def test_a_silent_server_is_one_problem_and_ends_no_other(world: World, mailbox, hook, monkeypatch):
    world.complete(5, 4, 3, 2)
    world.watch()
    assert mailbox.mails[-1]["Subject"].endswith("1 problem")
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", "http://127.0.0.1:1")
    monkeypatch.setattr("sluice.clients.kafka.settings.BOOTSTRAP_MS", 1_000)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"extra": {"bootstrap.servers": "127.0.0.1:1"}}')
    watched = world.watch()
    assert places(watched, ProblemKind.UNAVAILABLE) == ["clickhouse", "kafka"]
    assert mailbox.mails[-1]["Subject"].endswith("2 problems")
    assert len(mailbox.mails) == 2


def test_errors_and_parts_that_the_server_tells_of(
    world: World, start_clickhouse_server, mailbox, hook, monkeypatch
):
    """A server of its own: system.errors counts for all who use it."""
    server = start_clickhouse_server()
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", server.at.variable)
    client = client_of(server)
    client.run(f"CREATE DATABASE {world.pipeline.name}")
    table = world.pipeline.targets[0].table
    client.run(f"CREATE TABLE {table} (id UInt64, {SYSTEM}) ENGINE = MergeTree ORDER BY _slice")
    create_system_tables(client, "sluice verify made")
    claim(client, world.pipeline, world.lake.url, world.pipeline.targets[0])
    client.run(f"SYSTEM STOP MERGES {table}")
    for number in range(4):
        client.run(f"INSERT INTO {table} (id, _slice, _cluster) VALUES ({number}, 0, '')")
    throw = "SELECT throwIf(1, 'quorum of two', toInt16(286)) SETTINGS allow_custom_error_code_in_throwif = 1"
    with pytest.raises(Exception, match="quorum of two"):
        client.rows(throw)
    bounds = world.pipeline.alarms.model_copy(update={"parts": 3, "overdue": timedelta(days=9)})
    world.pipeline = world.pipeline.model_copy(update={"alarms": bounds})
    watched = world.watch()
    assert places(watched, ProblemKind.PARTS) == [f"table {table}"]
    (error,) = [problem for problem in watched.problems if problem.kind is ProblemKind.SERVER_ERROR]
    assert "code 286" in error.place and "has not reached its quorum" in error.message
