"""A run of the DAGs as an operator sees it: metrics on the wire, a log that tells a story, no secret."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword

from local import services
from local.readiness import free_port
from sluice.clients.lake.settings import S3Settings
from sluice.metrics.table import METRICS, MetricKind
from tests.integration import s3_servers
from tests.integration.airflow import test_airflow as hourly
from tests.integration.landed import client_of
from tests.integration.watch import test_watch as watching
from tests.integration.watch.test_watch import Hook, Mailbox
from tests.support.channels import mail, webhook

pytestmark = pytest.mark.integration

SECRETS = {
    "clickhouse": "s3cr3t-of-clickhouse",
    "kafka": "s3cr3t-of-kafka",
    "s3": "s3cr3t-of-s3",
    "smtp": "s3cr3t-of-smtp",
    "webhook": "hook-secret",
}
LOADER, BUCKET = "loader", "events"
USERS = f"""<clickhouse><profiles><default/></profiles><users>
<default><password/><profile>default</profile><networks><ip>127.0.0.1</ip></networks></default>
<loader><password>{SECRETS["clickhouse"]}</password><profile>default</profile>
<networks><ip>127.0.0.1</ip></networks></loader></users></clickhouse>"""
LINE = re.compile(r"airflow\.(sluice\.\w+)((?:,[^:]*)?):([^|]*)\|(\w+)")
WIRE = {MetricKind.COUNTER: "c", MetricKind.GAUGE: "g", MetricKind.TIMER: "ms"}


@dataclass
class Listener:
    """A real StatsD server's ear: samples by name, as (labels, value, kind on the wire)."""

    samples: dict[str, list[tuple[dict[str, str], float, str]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    port: int = 0

    def hear(self, datagram: bytes) -> None:
        for name, tags, value, kind in LINE.findall(datagram.decode()):
            labels = dict(tag.split("=", 1) for tag in tags.strip(",").split(",") if tag)
            self.samples[name.removeprefix("sluice.")].append((labels, float(value), kind))

    def total(self, name: str, **labels: str) -> float:
        found = self.samples[name]
        return sum(value for own, value, _ in found if labels.items() <= own.items())

    def values(self, name: str, label: str) -> dict[str, float]:
        return {own[label]: self.total(name, **{label: own[label]}) for own, _, _ in self.samples[name]}


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        found.port = server.getsockname()[1]

        def listen() -> None:
            while (datagram := server.recv(65536)) != b"end":
                found.hear(datagram)

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield found
        server.sendto(b"end", server.getsockname())
        thread.join()


@contextmanager
def command_lines() -> Iterator[list[bytes]]:
    """Those of every process that is there at some moment, in which one of the secrets is seen."""
    seen: list[bytes] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.1):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    text = path.read_bytes()
                    seen.extend([text] if any(s.encode() in text for s in SECRETS.values()) else [])

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def sasl_broker(start_kafka_broker) -> services.KafkaBroker:
    return start_kafka_broker(sasl={LOADER: SECRETS["kafka"]})


@pytest.fixture
def kafka_broker(sasl_broker: services.KafkaBroker) -> str:
    """Where the events are published; the pipeline reads from the listener that asks for a password."""
    return sasl_broker.bootstrap


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Settings]:
    folder = tmp_path / "s3"
    folder.mkdir()
    with s3_servers.versitygw(folder, SECRETS["s3"]) as settings:
        s3_servers.make_bucket(settings, BUCKET)
        yield settings


@pytest.fixture
def mailbox() -> Iterator[Controller]:
    """An SMTP server that takes mail from whoever knows the password; its handler is the Mailbox."""

    def knows(_server: object, _session: object, _envelope: object, mechanism: str, given: LoginPassword):
        right = (given.login, given.password) == (LOADER.encode(), SECRETS["smtp"].encode())
        return AuthResult(success=right)

    controller = Controller(
        Mailbox(),
        hostname="127.0.0.1",
        port=free_port(),
        ready_timeout=services.START_SECONDS,
        authenticator=knows,
        auth_required=True,
        auth_require_tls=False,
    )
    controller.start()
    yield controller
    controller.stop()


def connections(
    broker: services.KafkaBroker, s3: S3Settings, mailbox: Controller, server: services.ClickHouseServer
) -> dict[str, str]:
    """Each of a server that lets nobody in without its password."""
    kafka = {
        "bootstrap.servers": f"127.0.0.1:{broker.sasl_port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": LOADER,
        "sasl.password": SECRETS["kafka"],
    }
    mail = {"disable_ssl": True, "disable_tls": True, "from_email": "sluice@example.com", "retry_limit": 1}
    found = {
        "kafka_default": {"conn_type": "kafka", "extra": kafka},
        "clickhouse_default": server.at.place,
        "lake_s3": {"conn_type": "aws", "extra": {"endpoint_url": s3.endpoint_url, "region_name": s3.region}},
        "smtp_ops": {"conn_type": "smtp", "host": "127.0.0.1", "port": mailbox.port, "extra": mail},
    }
    found["clickhouse_default"] |= {"login": LOADER, "password": SECRETS["clickhouse"]}
    found["lake_s3"] |= {"login": s3.key, "password": s3.secret}
    found["smtp_ops"] |= {"login": LOADER, "password": SECRETS["smtp"]}
    return {f"AIRFLOW_CONN_{name.upper()}": json.dumps(known) for name, known in found.items()}


@pytest.fixture
def observed(
    stack,
    start_clickhouse_server,
    listener: Listener,
    hook: Hook,
    sasl_broker: services.KafkaBroker,
    s3: S3Settings,
    mailbox: Controller,
) -> hourly.Stack:
    """The stack of the Airflow tests, where every server asks for a password."""
    server = start_clickhouse_server(users=USERS)
    stack.environment |= connections(sasl_broker, s3, mailbox, server) | {
        "AIRFLOW_CONN_HOOK_OPS": os.environ["AIRFLOW_CONN_HOOK_OPS"],
        "AIRFLOW__METRICS__STATSD_ON": "True",
        "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
        "AIRFLOW__METRICS__STATSD_PORT": str(listener.port),
        "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
    }
    client = client_of(server)
    client.run(f"CREATE DATABASE {stack.name}")
    for table in ("clicks", "other"):
        columns = "id String, type String, _slice DateTime('UTC'), _cluster LowCardinality(String)"
        client.run(f"CREATE TABLE {stack.name}.{table} ({columns}) ENGINE = MergeTree ORDER BY id")
    path = stack.folder / "pipelines" / f"{stack.name}.yaml"
    channels = json.dumps([webhook("hook_ops"), mail("smtp_ops")])
    more = (
        f"settle: 1s\nalarms: {{overdue: 1s, disk_free: 0, notify: {channels}}}\nlake_connection: lake_s3\n"
    )
    place = re.sub(r"(?m)^lake: .*$", f"lake: s3://{BUCKET}/lake", path.read_text())
    path.write_text(place + more)
    stack.lake = stack.folder / "s3" / "objects" / BUCKET / "lake" / stack.name
    return stack


stack, hook = hourly.stack, watching.hook


@pytest.mark.long
def test_metrics_logs_and_secrets_of_a_run(
    observed: hourly.Stack, listener: Listener, hook: Hook, mailbox: Controller
):
    with command_lines() as exposed:
        done, said = observed.run(observed.name, hourly.END.isoformat())
        assert done, said
        watched, watch_said = observed.run(f"{observed.name}_watch")
        assert watched, watch_said

    assert_steps(observed, listener)
    assert_watch(listener, hook)
    assert [mail["Subject"] for mail in mailbox.handler.mails] == [hook.posts[0]["text"].splitlines()[0]]
    assert_story(observed, said)
    assert exposed == []
    assert hook.headers[0]["Authorization"] == f"Bearer {SECRETS['webhook']}"
    for place, text in texts(observed, said + watch_said):
        for name, secret in SECRETS.items():
            assert secret.encode() not in text, f"the secret of {name} is in {place}"


def assert_steps(observed: hourly.Stack, listener: Listener) -> None:
    """Counts of what was published, computed from the events."""
    for name, samples in listener.samples.items():
        for labels, _, kind in samples:
            assert set(labels) == set(METRICS[name].labels), name
            assert (kind, labels["pipeline"]) == (WIRE[METRICS[name].kind], observed.name), name
    events, clicks = len(hourly.EVENTS), sum(kind == "click" for _, kind, _ in hourly.EVENTS)
    assert listener.total("records_read") == listener.total("records_parsed") == events
    assert listener.values("rows_landed", "type") == {"click": clicks, "_others": events - clicks}
    tables = {f"{observed.name}.clicks": clicks, f"{observed.name}.other": events - clicks}
    assert listener.values("rows_loaded", "table") == tables
    assert listener.total("units_landed") == hourly.HOURS
    hours = hourly.HOURS - 1  # the last one waits for the slice after it
    # Of each table one of the publish, and one of each whole hour.
    assert listener.total("asset_events") == 2 + 2 * hours
    files = list(observed.lake.glob("type=*/**/*.parquet"))
    assert listener.total("files_landed") == len(files)
    assert listener.total("bytes_landed") == sum(path.stat().st_size for path in files)
    assert_spark(listener)
    # Each row passes the table that counts what it lacks, a temporary one, and then its own;
    # ledger and leases take some beside them.
    ratios = {labels["table"]: ratio for labels, ratio, _ in listener.samples["rows_written_per_row_kept"]}
    beside = {table: round((ratio - 3) * tables[table]) for table, ratio in ratios.items()}
    assert beside.keys() == tables.keys() and all(0 <= rows <= 10 for rows in beside.values()), beside
    assert listener.total("insert_rows") >= 2 * events  # what verify compares goes into temporary tables, too
    steps = {"plan", "settle", "resolve", "land", "load", "verify", "publish", "verify_all", "watch"}
    assert set(listener.values("step_runs", "step")) == steps
    assert listener.values("step_runs", "outcome").keys() == {"done"}
    assert len(listener.samples["lease_wait"]) == 2


def assert_spark(listener: Listener) -> None:
    """What the driver has counted comes by way of the lake."""
    stages, tasks = listener.total("spark_stages"), listener.total("spark_tasks")
    assert len(listener.samples["spark_stage_seconds"]) == stages >= 1
    assert tasks >= stages
    assert [
        listener.total(f"spark_{name}") for name in ("tasks_failed", "shuffle_bytes", "spilled_bytes")
    ] == [*(0, 0, 0)]
    assert listener.total("bucket_requests") > 0
    discarded, kept = listener.total("bytes_discarded"), listener.total("bytes_landed")
    ((_, ratio, _),) = listener.samples["bytes_written_per_byte_kept"]
    assert ratio == pytest.approx((kept + discarded) / kept, rel=0.01)


def assert_watch(listener: Listener, hook: Hook) -> None:
    """The hour after the run's last one is over and nobody has landed it; a second one, if an hour has ended
    since this file was imported."""
    behind = listener.total("hours_behind")
    assert behind in (1, 2)
    assert listener.values("problems_open", "kind")["hour_overdue"] == behind
    assert listener.total("problems_open") == behind
    assert listener.total("alarms_raised") == 2 * behind  # by mail and by webhook
    assert (listener.total("alarms_sent"), len(hook.posts)) == (2, 1)
    assert hook.posts[0]["text"].count("PROBLEM hour overdue") == behind
    states = listener.values("units_in_state", "state")
    assert (states["complete"], states["missing"]) == (hourly.HOURS - behind, behind)
    assert listener.total("lag_records") == 0
    ends = listener.values("partition_log_end", "partition")
    assert sum(ends.values()) == len(hourly.EVENTS) and set(ends) == {"0", "1"}
    assert listener.samples["newest_complete_timestamp"][0][1] == hourly.END.timestamp()
    sent = {name for name, samples in listener.samples.items() if samples}
    only_in_trouble = {
        *("rejected_records", "offsets_lost", "rejected_rows_by_column", "anomalies_found", "step_errors"),
        *("column_rejected_share", "bytes_discarded", "rows_failing_check"),
    }
    weeks_later = {"rows_expected", "rows_usual_least", "units_forgotten", "bytes_forgotten"}
    without_a_disk = {"lake_free_bytes"}  # a bucket has no end
    at_times = {"clickhouse_failures"}  # a ledger that is not there yet is asked for, too
    assert set(METRICS) - sent - at_times == only_in_trouble | without_a_disk | weeks_later


def assert_story(observed: hourly.Stack, said: str) -> None:
    """What happened, in the order in which it happened, with the figures that matter."""
    first, last = f"{hourly.START:%Y-%m-%dT%H:%MZ}", f"{hourly.END:%Y-%m-%dT%H:%MZ}"
    events, name = len(hourly.EVENTS), observed.name
    story = [
        *("slices of this run", f"[{first}, {last})", "resolved", "batches", f"rows={events}"),
        *(
            "landing",
            f"[{first}, {last})",
            "offsets [0, ",
            f"{events} records in",
            "loaded",
            "verified",
            "asset events",
        ),
        "verified the whole range",
    ]
    at = 0
    for part in story:
        found = said.find(part, at)
        assert found >= 0, f"{part!r} is not in the log after {said[max(0, at - 300) : at]!r}"
        at = found
    for table in ("clicks", "other"):
        steps = re.findall(rf"{name}\.{table}: (\w+) took [\d.]+ s, query id sluice-[\w-]+", said)
        assert steps[0] == "fence" and {"stage", "move", "commit", "drop"} <= set(steps)


def texts(observed: hourly.Stack, said: str) -> Iterator[tuple[str, bytes]]:
    """Everything that a run leaves behind: output, task logs, Airflow's database with its rendered fields
    and XComs, and the lake."""
    yield "the output", said.encode()
    files = [path for path in (*observed.home.rglob("*"), *observed.lake.rglob("*")) if path.is_file()]
    assert any(path.suffix == ".db" for path in files)
    for path in files:
        yield str(path), path.read_bytes()
