"""The main job as a user runs it: foreign events, a new pipeline file, and the `sluice` command."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import clickhouse_connect
import pyarrow.parquet as pq
import pytest
import yaml
from kafka import KafkaProducer

from tests.integration import foreign_events, s3_servers
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

HOURS = 3
START = (datetime.now(UTC) - timedelta(hours=HOURS + 2)).replace(minute=0, second=0, microsecond=0)
END = START + timedelta(hours=HOURS)
RANGE = ("--from", START.isoformat(), "--to", END.isoformat())
SYSTEM_COLUMNS = "_slice DateTime('UTC'), _cluster LowCardinality(String), _partition Int32, _offset Int64"


class User:
    """Somebody with a pipeline file of their own, who types commands."""

    def __init__(self, name: str, folder: Path, env: dict[str, str], server) -> None:
        self.name, self.folder, self.env = name, folder, env
        self.lake = folder / "lake" / name
        self.client = clickhouse_connect.get_client(**server.at.login, autogenerate_session_id=False)
        self.client.command(f"CREATE DATABASE {name}")
        self.path = folder / f"{name}.yaml"
        self.program = Path(sys.executable).with_name("sluice")

    def write(self, **changes) -> None:
        pipeline = {
            "kafka": [{"cluster": "feed", "connection": "kafka_default", "topics": [self.name]}],
            "event": {"type": {"field": "type"}, "time": {"field": "created_at"}},
            "lake": f"file://{self.folder}/lake",
            "rows_per_read": 500,
            "rejected": {"fail_above": 1},  # the hours have few records
            "tables": {"*": f"{self.name}.other"},
        }
        self.path.write_text(yaml.safe_dump({**pipeline, **changes}))

    def start(self, command: str, *arguments: str) -> subprocess.Popen:
        words = [
            self.program,
            command,
            self.name,
            *arguments,
            "--config",
            self.path,
        ]
        pipe = subprocess.PIPE
        return subprocess.Popen(words, env=self.env, stdout=pipe, stderr=pipe, text=True)

    def type(self, command: str, *arguments: str) -> subprocess.CompletedProcess:
        process = self.start(command, *arguments)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def do(self, command: str, *arguments: str) -> str:
        done = self.type(command, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, sql: str) -> list[tuple]:
        return list(self.client.query(sql.replace("DB.", f"{self.name}.")).result_rows)

    def tables(self) -> list[tuple]:
        """Every row of every table, as a fingerprint by table: the content, not only the count."""
        names = [
            row[0] for row in self.rows(f"SELECT name FROM system.tables WHERE database = '{self.name}'")
        ]
        sums = "count(), sum(cityHash64(*)), groupBitXor(cityHash64(*))"
        return [(n, *self.rows(f"SELECT {sums} FROM DB.{n}")[0]) for n in sorted(names)]


@pytest.fixture
def user(name, tmp_path, stack_env, clickhouse_server) -> User:
    return User(name, tmp_path, stack_env, clickhouse_server)


def create_tables(user: User) -> None:
    for table, columns in {
        "pushes": "id UInt64, login String, commits UInt8, score Float64, public Bool, created_at DateTime",
        "forks": "id String, repo_name String, ref Nullable(String)",
        "other": "_type String, _payload String",
    }.items():
        order = "ORDER BY (_slice, _cluster)"
        user.client.command(
            f"CREATE TABLE {user.name}.{table} ({columns}, {SYSTEM_COLUMNS}) ENGINE = MergeTree {order}"
        )


def write_foreign(user: User, **changes) -> None:
    user.write(
        **changes,
        tables={
            "PushEvent": {
                "table": f"{user.name}.pushes",
                "columns": {"login": "actor.login", "commits": "payload.size"},
            },
            "ForkEvent": {
                "table": f"{user.name}.forks",
                "columns": {"repo_name": "repo.name", "ref": "payload.ref"},
            },
            "*": f"{user.name}.other",
        },
    )


def holds_pushes_and_forks(user: User, events: list[dict]) -> None:
    pushes = [e for e in events if e["type"] == "PushEvent"]
    assert sorted(user.rows("SELECT id, login, commits, score, public FROM DB.pushes")) == sorted(
        (int(e["id"]), e["actor"]["login"], e["payload"]["size"], e["score"], e["public"]) for e in pushes
    )
    forks = [e for e in events if e["type"] == "ForkEvent"]
    assert sorted(user.rows("SELECT id, repo_name, ifNull(ref, '-') FROM DB.forks")) == sorted(
        (e["id"], e["repo"]["name"], e["payload"]["ref"] or "-") for e in forks
    )


@pytest.mark.long
def test_foreign_events_arrive_once_with_a_pipeline_file_alone(user):
    events = foreign_events.make(START, HOURS, 2_000, seed=7)
    create_tables(user)
    write_foreign(user)
    user.do("publish", str(foreign_events.write(events, user.folder / "events.ndjson")))
    user.do("run", *RANGE)

    landed: Counter = Counter()
    for unit in json.loads(user.do("status", *RANGE, "--json"))["units"]:
        assert unit["state"] == "complete"
        for hour, types in unit["rows_by_hour_and_type"].items():
            landed.update({(hour, name): rows for name, rows in types.items()})
    assert landed == foreign_events.count_by_hour_and_type(events)
    assert json.loads(user.do("verify", *RANGE, "--json"))["anomalies"] == []

    holds_pushes_and_forks(user, events)
    others = [e for e in events if e["type"] not in ("PushEvent", "ForkEvent")]
    found = user.rows("SELECT _type, _payload FROM DB.other")
    assert sorted((t, json.loads(p)["id"]) for t, p in found) == sorted((e["type"], e["id"]) for e in others)

    before = user.tables()
    user.do("run", *RANGE)
    assert user.tables() == before
    for mode in ("reload", "remake", "reland"):
        user.do("run", *RANGE, "--mode", mode)
        assert user.tables() == before, mode


@pytest.mark.long
def test_a_lake_on_s3(user):
    """The same pipeline with another address: credentials by environment, files pushed to ClickHouse."""
    events = foreign_events.make(START, HOURS, 200, seed=9)
    create_tables(user)
    with s3_servers.versitygw(user.folder) as s3:
        s3_servers.make_bucket(s3, "events")
        user.env = {
            **user.env,
            "AWS_ENDPOINT_URL": s3.endpoint_url,
            "AWS_ACCESS_KEY_ID": s3.key,
            "AWS_SECRET_ACCESS_KEY": s3.secret,
            "AWS_DEFAULT_REGION": s3.region,
        }
        write_foreign(user, lake="s3://events/landing")
        user.do("publish", str(foreign_events.write(events, user.folder / "events.ndjson")))
        user.do("run", *RANGE)
        assert ids_in_tables(user) == sorted(event["id"] for event in events)
        assert json.loads(user.do("verify", *RANGE, "--json"))["anomalies"] == []
        user.do("run", *RANGE, "--mode", "remake")
        assert ids_in_tables(user) == sorted(event["id"] for event in events)
        assert json.loads(user.do("verify", *RANGE, "--json"))["anomalies"] == []


def ids_in_tables(user: User) -> list[str]:
    found = user.rows(
        "SELECT toString(id) FROM DB.pushes UNION ALL SELECT id FROM DB.forks "
        "UNION ALL SELECT JSONExtractString(_payload, 'id') FROM DB.other"
    )
    return sorted(row[0] for row in found)


@pytest.mark.long
def test_two_runs_of_the_same_hours_at_once(user):
    events = foreign_events.make(START, HOURS, 300, seed=8)
    create_tables(user)
    write_foreign(user)
    user.do("publish", str(foreign_events.write(events, user.folder / "events.ndjson")))
    both = [user.start("run", *RANGE) for _ in range(2)]
    ends = [(process.communicate(timeout=300), process.returncode) for process in both]
    assert [code for _, code in ends] == [0, 0], [err for (_, err), _ in ends]
    assert ids_in_tables(user) == sorted(event["id"] for event in events)


MINUTE = START + timedelta(minutes=1)
AT = f'"created_at": "{MINUTE:%Y-%m-%dT%H:%M:%SZ}"'
GOOD = f'{{"type": "n", "small": 7, "ratio": 0.5, {AT}}}'
REJECTED_RECORDS = {
    b'{"type": "n", "x": "\xff\xfe", ' + AT.encode() + b"}": "not UTF-8",
    b"this is not JSON": "not JSON",
    f'["n", {{{AT}}}]'.encode(): "not an object",
    f'{{"small": 1, {AT}}}'.encode(): "no type",
    b'{"type": "n", "small": 1}': "no time",
    b'{"type": "n", "created_at": "9999-01-01T00:00:00Z"}': "time out of range",
}
REJECTED_ROWS = {
    f'{{"type": "n", "small": 70000, {AT}}}': "small",
    f'{{"type": "n", "ratio": "abc", {AT}}}': "ratio",
}
FITS = [
    f'{{"type": "n", "small": null, "ratio": 1e3, {AT}}}',
    f'{{"type": "n", "small": true, {AT}}}',
    f'{{"type": "n", "small": 1, "pad": "{"x" * 5_000_000}", {AT}}}',
]
TRAVERSAL = f'{{"type": "../../x", {AT}}}'


def publish_at(user: User, bootstrap: str, lines: list[bytes], at: datetime) -> None:
    """Records with a time of our own: `sluice publish` would give one without a time that of now."""
    (user.folder / "none.ndjson").write_bytes(b"")
    user.do("publish", str(user.folder / "none.ndjson"))
    producer = KafkaProducer(bootstrap_servers=bootstrap, max_request_size=20_000_000)
    for line in lines:
        producer.send(user.name, line, timestamp_ms=int(at.timestamp() * 1000))
    producer.close()


@pytest.mark.long
def test_bad_input_ends_where_the_contract_says(user, kafka_broker):
    columns = f"small UInt16 DEFAULT 9, ratio Float64, {SYSTEM_COLUMNS}"
    for ddl in (f"n ({columns})", f"other (_type String, _payload String, {SYSTEM_COLUMNS})"):
        user.client.command(f"CREATE TABLE {user.name}.{ddl} ENGINE = MergeTree ORDER BY _slice")
    user.write(tables={"n": f"{user.name}.n", "*": f"{user.name}.other"})
    lines = [*REJECTED_RECORDS, *(line.encode() for line in (GOOD, *REJECTED_ROWS, *FITS, TRAVERSAL))]
    publish_at(user, kafka_broker, lines, MINUTE)
    user.do("run", *RANGE)

    rows = sorted(user.rows("SELECT small, ratio FROM DB.n"))
    assert rows == sorted([(7, 0.5), (9, 1000.0), (1, 0.0), (1, 0.0)])
    rejected_records = Counter()
    for unit in json.loads(user.do("status", *RANGE, "--json"))["units"]:
        rejected_records.update(unit["rejected_records"])
    assert rejected_records == Counter(REJECTED_RECORDS.values())
    kept = pq.read_table(user.lake / "_rejected").to_pylist()
    assert {row["_payload"]: row["_reason"] for row in kept} == REJECTED_RECORDS
    rejected_rows = user.rows(f"SELECT column, payload FROM sluice.rejected WHERE target = '{user.name}.n'")
    assert {payload: column for column, payload in rejected_rows} == REJECTED_ROWS
    assert user.rows("SELECT _type FROM DB.other") == [("../../x",)]
    assert not (user.folder / "x").exists() and not (user.folder.parent / "x").exists()
    assert (user.lake / "type=..%2F..%2Fx").is_dir()
    user.do("verify", *RANGE)


@pytest.mark.long
def test_an_empty_topic_gives_complete_hours(user):
    user.client.command(
        f"CREATE TABLE {user.name}.other (_payload String, {SYSTEM_COLUMNS}) "
        "ENGINE = MergeTree ORDER BY _slice"
    )
    user.write()
    (user.folder / "none.ndjson").write_bytes(b"")
    user.do("publish", str(user.folder / "none.ndjson"))
    user.do("run", *RANGE)
    units = json.loads(user.do("status", *RANGE, "--json"))["units"]
    assert [(u["state"], u["records"]) for u in units] == [("complete", 0)] * HOURS


class TestOneClearLine:
    """Exit code, one line on stderr that names the place, and nothing half done."""

    def fail(self, user: User, code: int, *mentions: str) -> None:
        done = user.type("run", *RANGE)
        lines = [line for line in done.stderr.splitlines() if line.startswith("sluice:")]
        assert done.returncode == code, done.stderr
        assert len(lines) == 1 and "Traceback" not in done.stderr, done.stderr
        for mention in mentions:
            assert mention in lines[0]

    def publish_one(self, user: User) -> None:
        (user.folder / "one.ndjson").write_text(GOOD + "\n")
        user.do("publish", str(user.folder / "one.ndjson"))

    @pytest.mark.long
    def test_kafka_unavailable(self, user):
        user.write(kafka=[{"cluster": "feed", "bootstrap": "127.0.0.1:1", "topics": ["t"]}])
        self.fail(user, 3, "127.0.0.1:1", "feed")

    def test_unknown_topic(self, user):
        user.write()
        self.fail(user, 3, user.name, "topic")

    def test_clickhouse_unavailable(self, user):
        servers = [name for name in user.env if name.startswith("AIRFLOW_CONN_CLICKHOUSE")]
        user.env = {**user.env, **dict.fromkeys(servers, "http://127.0.0.1:1")}
        user.write()
        self.publish_one(user)
        self.fail(user, 3, "127.0.0.1:1", "ClickHouse")

    @pytest.mark.parametrize("lacking", per_commit(["_slice", "_cluster"]))
    def test_a_target_without_its_columns(self, user, lacking):
        kept = {"_slice": "_slice DateTime('UTC')", "_cluster": "_cluster LowCardinality(String)"}
        del kept[lacking]
        user.client.command(
            f"CREATE TABLE {user.name}.other (_payload String, {', '.join(kept.values())}) "
            "ENGINE = MergeTree ORDER BY tuple()"
        )
        user.write()
        self.publish_one(user)
        self.fail(user, 1, "ALTER TABLE", lacking)
        assert user.rows("SELECT count() FROM DB.other") == [(0,)]

    @pytest.mark.long
    def test_a_target_of_another_pipeline(self, user):
        user.client.command(
            f"CREATE TABLE {user.name}.other (_payload String, {SYSTEM_COLUMNS}) "
            "ENGINE = MergeTree ORDER BY tuple()"
        )
        user.write()
        self.publish_one(user)
        user.do("run", *RANGE)
        before = user.tables()
        user.write(lake=f"file://{user.folder}/another")
        self.fail(user, 1, f"{user.name}.other", "belongs to")
        assert user.tables() == before

    @pytest.mark.parametrize(
        ("change", "key"),
        per_commit(
            [
                ({"rows_per_reed": 5}, "rows_per_reed"),
                ({"slice": "7m"}, "slice"),
                ({"lake": "ftp://x"}, "lake"),
            ]
        ),
    )
    def test_a_wrong_pipeline_file(self, user, change, key):
        user.write(**change)
        self.fail(user, 2, str(user.path), key)
