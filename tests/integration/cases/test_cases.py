"""What producers send, and what becomes of it. Each folder beside this file is a case, written by hand:

case.yaml       `title` and `says`: a line of the page "What Sluice accepts"; `format`; `partitions`, if not 1
pipeline.yaml   the pipeline file without name, kafka, lake and clickhouse, which the test adds
table.sql       statements that make the tables, divided by `;`
records.jsonl   a record a line: {"value": "text"} or {"json": {…}} or {"hex": "00ff"} or {"value": null}; and
                "key", "headers" ([["name", "text"]], or {"hex": "00ff"}), "ts" (ms; else the middle of the
                hour), "partition"
rows.jsonl      the rows of the tables, without _slice and _cluster; "_table" says which, if there are several
rejected.jsonl  {"offset", "reason"} of each rejected record, and "column" too of each rejected row
registry/N.json what a schema registry (the connection case_registry) answers for schema N

Placeholders: @DB@ the database, @H@ the hour (2026-11-20T10), @D@ its date, @T@ its two digits, @S@ its
middle in seconds. Other files, such as schemas, lie beside the pipeline file. A case is landed once, then
loaded by pull and by push into one server and into two shards; each time the rows are compared, and
`verify --contents` finds nothing.

`sluice init` then proposes a pipeline file and tables for the records, which load at least the rows of
rows.jsonl, and reject no other records than those of rejected.jsonl, and no rows. Of a case where rows are
missing `init` in case.yaml is what it says instead.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pendulum
import pyarrow.parquet as pq
import pytest
import yaml
from clickhouse_connect import get_client
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sluice.clients.clickhouse.sql import table
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.flow.land.land import land
from sluice.flow.steps import load_table, resolve_range
from sluice.flow.verify.audit import AuditScope, audit
from sluice.init.init import init
from sluice.init.questions import InitRequest, MessageForm
from sluice.manifest import TOMBSTONE
from tests.support.long_form import per_commit
from tests.support.registry_server import serve
from tests.support.shards_world import point_at, shards
from tests.support.spark_world import START, hours

pytestmark = pytest.mark.integration

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/case.yaml"))
EACH_COMMIT = (
    "avro_decimal",
    "debezium_bare",
    "json_behind_schema_ids",
    "protobuf_text_registry",
    "time_spellings",
)
OWN_FILES = {"case.yaml", "pipeline.yaml", "table.sql", "records.jsonl", "rows.jsonl", "rejected.jsonl"}
MIDDLE = START.add(minutes=30)


def chosen() -> list[Any]:
    """All cases, those of `make test` first."""
    first = [folder for folder in CASES if folder.name in EACH_COMMIT]
    return per_commit([*first, *(folder for folder in CASES if folder not in first)], len(first))


class Case:
    """A folder, and where this test puts its topic, its database and its files."""

    def __init__(self, folder: Path, name: str, home: Path, bootstrap: str):
        self.folder, self.name, self.home, self.bootstrap = folder, name, home, bootstrap
        self.about = yaml.safe_load((folder / "case.yaml").read_text())
        for path in folder.iterdir():
            if path.is_file() and path.name not in OWN_FILES:
                (home / path.name).write_bytes(path.read_bytes())

    def text(self, file: str) -> str:
        path = self.folder / file
        text = path.read_text() if path.exists() else ""
        places = {
            "@DB@": self.name,
            "@H@": f"{START:%Y-%m-%dT%H}",
            "@D@": f"{START:%Y-%m-%d}",
            "@T@": f"{START:%H}",
        }
        places["@S@"] = str(MIDDLE.int_timestamp)
        for placeholder, value in places.items():
            text = text.replace(placeholder, value)
        return text

    def lines(self, file: str) -> list[dict[str, Any]]:
        return [json.loads(line, parse_float=str) for line in self.text(file).splitlines() if line.strip()]

    def statements(self) -> list[str]:
        return [statement for statement in self.text("table.sql").split(";") if statement.strip()]

    def pipeline(self, clickhouse: dict[str, Any]) -> Pipeline:
        own = {
            "kafka": [{"cluster": "dc1", "bootstrap": self.bootstrap, "topics": [self.name]}],
            "lake": f"file://{self.home}/lake",
            "clickhouse": clickhouse,
            "rejected": {"fail_above": 1},  # a case may have no other record
        }
        path = self.home / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump({**own, **yaml.safe_load(self.text("pipeline.yaml"))}))
        return read(path)

    def send(self) -> None:
        server = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        partitions = self.about.get("partitions", 1)
        admin = AdminClient(server)
        admin.create_topics([NewTopic(self.name, partitions, 1)])[self.name].result(30)
        producer, failed = Producer(server), []
        for record in self.lines("records.jsonl"):
            producer.produce(
                self.name,
                value=_value(record),
                key=record.get("key"),
                headers=[(name, _header(value)) for name, value in record.get("headers", [])],
                timestamp=record.get("ts", MIDDLE.int_timestamp * 1_000),
                partition=record.get("partition", 0),
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert producer.flush(60) == 0 and not failed, failed


def _header(value: str | dict[str, str] | None) -> bytes | None:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    return None if value is None else value.encode()


def _value(record: dict[str, Any]) -> bytes | None:
    if "json" in record:
        return json.dumps(record["json"]).encode()
    if "hex" in record:
        return bytes.fromhex(record["hex"])
    value: str | None = record["value"]
    return None if value is None else value.encode(errors="surrogatepass")


@pytest.fixture
def case_registry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with serve() as registry:
        for path in (folder / "registry").glob("*.json"):
            registry.add(int(path.stem), json.loads(path.read_text()))
        place = {"conn_type": "http", "host": registry.url}
        monkeypatch.setenv("AIRFLOW_CONN_CASE_REGISTRY", json.dumps(place))
        yield


@pytest.mark.parametrize("folder", chosen(), ids=lambda folder: folder.name)
def test_case(
    folder, tmp_path, kafka_broker, clickhouse_server, clickhouse_servers, engine, monkeypatch, case_registry
):
    case = Case(folder, f"case_{uuid.uuid4().hex[:12]}", tmp_path, kafka_broker)
    case.send()
    monkeypatch.setenv("AIRFLOW_CONN_ONE_SERVER", clickhouse_server.at.variable)
    for number, server in enumerate(clickhouse_servers, start=1):
        point_at(monkeypatch, f"s{number}", server.port)
    one = {"connection": "one_server"}
    pipeline = case.pipeline(one)
    resolve_range(pipeline, hours())
    lake = open_lake(pipeline)
    land(pipeline, lake, hours(), "fill", uuid.uuid4().hex, engine, lambda line: None)
    rejected = list(_rejected_records(lake.root))
    for clickhouse, servers in ((one, [clickhouse_server]), (shards("s1", "s2"), clickhouse_servers)):
        with ExitStack() as opened:
            clients = [opened.enter_context(get_client(**server.at.login)) for server in servers]
            for client in clients:
                client.command(f"CREATE DATABASE `{case.name}`")
                for statement in case.statements():
                    client.command(statement)
            for way, mode in (("pull", "fill"), ("push", "reload")):
                pipeline = case.pipeline({**clickhouse, "read": way})
                where = f"{way}, {len(servers)} servers"
                for target in pipeline.targets:
                    load_table(pipeline, target.table, hours(), mode, uuid.uuid4().hex, lambda line: None)
                rows = [row for client in clients for row in _rows(case, pipeline, client)]
                assert _sorted(rows) == _sorted(case.lines("rows.jsonl")), where
                refused = [row for client in clients for row in _rejected_rows(case, client)]
                assert _sorted(rejected + refused) == _sorted(case.lines("rejected.jsonl")), where
                assert audit(pipeline, hours(), AuditScope(whole=True, contents=True)).anomalies == [], where
            for client in clients:
                client.command(f"DROP DATABASE `{case.name}`")


@pytest.mark.parametrize("folder", chosen(), ids=lambda folder: folder.name)
def test_proposed(folder, tmp_path, kafka_broker, clickhouse_server, engine, monkeypatch, case_registry):
    case = Case(folder, f"init_{uuid.uuid4().hex[:12]}", tmp_path, kafka_broker)
    case.send()
    monkeypatch.setenv("AIRFLOW_CONN_ONE_SERVER", clickhouse_server.at.variable)
    event = case.pipeline({"connection": "one_server"}).event
    registry = "case_registry" if event.format.decoded and event.registry else None
    request = InitRequest(
        name=case.name,
        topic=case.name,
        file=None,
        bootstrap=kafka_broker,
        connection="",
        clickhouse="one_server",
        folder=tmp_path / "proposed",
        lake=f"file://{tmp_path}/lake",
        apply=True,
        form=MessageForm(event.format.kind, event.format.schema_file, event.format.message, registry),
    )
    report = init(request, lambda _: "", pendulum.now("UTC"))
    path = report.files[0]
    path.write_text(path.read_text() + "rejected: {fail_above: 1}\n")  # a case may have no other record
    pipeline = read(path)
    resolve_range(pipeline, hours())
    lake = open_lake(pipeline)
    land(pipeline, lake, hours(), "fill", uuid.uuid4().hex, engine, lambda line: None)
    for target in pipeline.targets:
        load_table(pipeline, target.table, hours(), "fill", uuid.uuid4().hex, lambda line: None)
    told = f"{path.read_text()}\n{report.files[1].read_text()}\n{report.lines}"
    rejected = [one for one in _rejected_records(lake.root) if one["reason"] != TOMBSTONE]
    foreseen = {one["offset"] for one in case.lines("rejected.jsonl")}
    assert "init" in case.about or {one["offset"] for one in rejected} <= foreseen, told
    said = Counter({text: int(count) for text, count in map(_counted, report.lines) if count})
    assert Counter(one["reason"] for one in rejected) == said, told
    with closing(get_client(**clickhouse_server.at.login)) as client:
        assert _rejected_rows(case, client) == [], told
        loaded = Counter(row["_offset"] for row in _rows(case, pipeline, client))
    rows = Counter(row["_offset"] for row in case.lines("rows.jsonl") if "_offset" in row)
    if "init" in case.about:
        assert not rows <= loaded and any(case.about["init"] in line for line in report.lines), told
    else:
        assert rows <= loaded, told
    assert audit(pipeline, hours(), AuditScope(whole=True, contents=True)).anomalies == [], told


def _counted(line: str) -> tuple[str, str]:
    """Returns the reason and the count of a line such as `rejected: 2 not JSON`."""
    found = re.fullmatch(r"rejected: (\d+) (.*)", line)
    return (found[2], found[1]) if found else ("", "")


def _rejected_records(lake: Path) -> Iterator[dict[str, Any]]:
    for path in lake.glob("_rejected/**/*.parquet"):
        for row in pq.read_table(path, columns=["_offset", "_reason"]).to_pylist():
            yield {"offset": row["_offset"], "reason": row["_reason"]}


def _rejected_rows(case: Case, client: Any) -> list[dict[str, Any]]:
    sql = f"SELECT offset, column, reason FROM sluice.rejected WHERE startsWith(target, '{case.name}.')"
    return _read(client, sql)


def _rows(case: Case, pipeline: Pipeline, client: Any) -> Iterator[dict[str, Any]]:
    tables = {target.table.removeprefix(f"{case.name}.") for target in pipeline.targets}
    for name in tables:
        sql = f"SELECT * EXCEPT (_slice, _cluster) FROM {table(f'{case.name}.{name}')}"
        for row in _read(client, sql):
            yield {"_table": name, **row} if len(tables) > 1 else row


def _read(client: Any, sql: str) -> list[dict[str, Any]]:
    """As ClickHouse writes JSON, with all digits."""
    quoted = {"output_format_json_quote_64bit_integers": 0, "output_format_json_quote_denormals": 1}
    text = client.raw_query(sql, fmt="JSONEachRow", settings=quoted).decode()
    return [json.loads(line, parse_float=str) for line in text.splitlines()]


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)
