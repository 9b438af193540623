"""Hostile texts as types, fields, keys, headers, tables and columns: what is then in lake and tables, and
every command, endpoint, metric and alarm that tells of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pendulum
import pyarrow.parquet as pq
import pytest
from airflow import plugins_manager
from airflow.api_fastapi.app import create_app, purge_cached_app
from airflow.utils.db import initdb
from fastapi.testclient import TestClient

from sluice.cli import traffic as counted
from sluice.cli.traffic import TrafficHour
from sluice.clients.clickhouse.sql import identifier, listed, literal
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.flow.verify.verdict import read_verdict
from sluice.safe_text import LABEL_CHARACTERS, label, line, visible
from sluice.slices import Slice, Unit
from sluice.state.manifests import read_manifests
from sluice.watch import rules
from sluice.watch.problems import WatchState, body, decide, decode, encode, pending, unaddressed
from tests.dags.test_page_api import login
from tests.faults.hostile import COLUMNS, TABLES, TYPES, Ran, Site, event_of, site
from tests.integration.landed import client_of
from tests.support.hostile_texts import HALVES, TEXTS, is_plain, links
from tests.support.landing_world import START
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

EVERY = {**TEXTS, **HALVES}
RANGE = ("--from", "2026-01-01T00Z", "--to", "2026-01-01T01Z")
LANDED = [kind for kind in TYPES if kind != TEXTS["300 characters"]]  # which no folder's name can hold
# Each with the exit code that is right for it.
COMMANDS = {
    ("status", *RANGE): 0,
    ("status",): 0,
    ("status", *RANGE, "--json"): 0,
    ("plan", *RANGE): 0,
    ("plan", *RANGE, "--json"): 0,
    ("verify", *RANGE): 0,
    ("verify", "--contents"): 0,
    ("verify", "--json"): 0,
    ("traffic",): 0,
    ("traffic", "--json"): 0,
    ("run", *RANGE, "--mode", "reload"): 0,
    ("doctor",): 3,  # Kafka is away
    ("doctor", "--json"): 3,
    ("run", *RANGE, "--mode", "reland", "--json"): 0,
}


@pytest.fixture(scope="module")
def loaded(clickhouse_server, tmp_path_factory) -> Iterator[tuple[Site, Ran]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
        database = f"hostile_{uuid.uuid4().hex[:8]}"  # a module may come back to its worker
        with site(tmp_path_factory.mktemp("hostile"), client_of(clickhouse_server), database) as made:
            yield made, made.sluice("run", *RANGE)


def assert_plain(ran: Ran) -> None:
    for told in (ran.out, ran.err):
        assert is_plain(told.replace("\n", "")), [line for line in told.splitlines() if not is_plain(line)]


def payload(kind: str) -> str:
    return json.dumps(event_of(kind), ensure_ascii=False)


def test_it_is_loaded(loaded: tuple[Site, Ran]):
    _, ran = loaded
    assert ran.code == 0, ran.err
    assert_plain(ran)


@pytest.mark.parametrize("kind", TYPES)
def test_rows(loaded: tuple[Site, Ran], kind: str):
    """Of each type its row is in the table that takes it, as it was sent, and in no other."""
    made, _ = loaded
    wanted = [(kind, payload(kind), kind)] if kind in LANDED else []
    home = kind if kind in TABLES else "other"
    for table in ("other", *TABLES):
        place, wanted_type = identifier(made.database, table), literal(kind)
        sql = f"SELECT _type, _payload, _key FROM {place} WHERE _type = {wanted_type}"
        assert made.client.rows(sql) == (wanted if table == home else []), table


def test_columns(loaded: tuple[Site, Ran]):
    """A column named like a hostile field holds that field's value."""
    made, _ = loaded
    names = listed(identifier(name) for name in COLUMNS)
    rows = made.client.rows(f"SELECT _type, {names} FROM {identifier(made.database, 'other')}")
    found = {kind: values for kind, *values in rows}
    assert set(found) == set(LANDED) - set(TABLES)
    for kind, values in found.items():
        assert dict(zip(COLUMNS, values, strict=True)) == {n: n if n == kind else None for n in COLUMNS}


def test_the_lake(loaded: tuple[Site, Ran]):
    """Records and headers are there byte by byte, and no file is anywhere but below its type's folder."""
    made, _ = loaded
    pipeline, lake = read(made.config), open_lake(read(made.config))
    [manifest] = read_manifests(lake, [Unit(Slice(START), "dc1")]).values()
    rows = []
    for file in (*manifest.files, *manifest.rejected):
        assert ".." not in file.key.split("/") and file.key.count("/") == (3 if file.hour else 1)
        with lake.local(file.key) as path:
            assert path.resolve().is_relative_to((made.folder / "lake" / pipeline.name).resolve())
            rows += pq.read_table(path).to_pylist()
    found = {row["_offset"]: row for row in rows}
    for offset, (value, _, headers, key) in enumerate(made.world.logs["dc1", "bids"][0]):
        row = found[offset]
        content = row["_payload"]
        assert (content if isinstance(content, bytes) else content.encode()) == value
        own = row["_key"]
        assert (own if isinstance(own, bytes) else own.encode()) == key
        assert [(h["key"], h["value"]) for h in row["_headers"]] == headers


def test_counts(loaded: tuple[Site, Ran]):
    made, _ = loaded
    rows = made.client.rows(f"SELECT type, value, count FROM {identifier(made.database, 'traffic')}")
    assert sorted(rows) == sorted((kind, kind, 1) for kind in LANDED)


@pytest.mark.parametrize(("words", "code"), per_commit(COMMANDS.items(), 10), ids=map(" ".join, COMMANDS))
def test_commands(loaded: tuple[Site, Ran], words: tuple[str, ...], code: int):
    """Each ends as it should, and what it prints is plain."""
    made, _ = loaded
    ran = made.sluice(*words)
    assert ran.code == code, (ran.out[-2000:], ran.err[-2000:])
    assert_plain(ran)
    if "--json" in words:
        json.loads(ran.out)


@pytest.mark.long
def test_the_commands_name_the_types(loaded: tuple[Site, Ran]):
    """As they are in JSON, and so that one sees them elsewhere."""
    made, _ = loaded
    [unit] = json.loads(made.sluice("status", *RANGE, "--json").out)["units"]
    assert unit["rows_by_type"] == dict.fromkeys(LANDED, 1)
    told = made.sluice("doctor").out
    for kind in sorted(LANDED)[:20]:  # as many as the doctor names
        assert line(kind) in told or visible(kind) in told, kind


def test_counted_values_are_shown(loaded: tuple[Site, Ran]):
    """`traffic` shows the values of the counted field."""
    made, _ = loaded
    at = pendulum.now("UTC").int_timestamp // 3600 * 3600
    for some in (list(EVERY.values())[n : n + 10] for n in range(0, len(EVERY), 10)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                counted, "traffic_of", lambda *_, own=some: [TrafficHour(at, v, 2.0, 1) for v in own]
            )
            ran = made.sluice("traffic")
            [rows] = json.loads(made.sluice("traffic", "--json").out).values()
        assert (ran.code, [row["value"] for row in rows]) == (0, some)
        assert_plain(ran)
        for value in some:
            assert visible(value).strip() in ran.out or len(value) > 60


@pytest.mark.parametrize("kind", LANDED)
def test_a_proposed_table(loaded: tuple[Site, Ran], kind: str):
    """The server takes the statement, and its columns are the event's fields."""
    made, _ = loaded
    ran = made.sluice("doctor", "--ddl", kind)
    assert ran.code == 0, ran.err
    assert_plain(ran)
    statement = ran.out.partition("CREATE TABLE")
    name = identifier(made.database, "proposed")
    body = "".join(statement[1:]).rstrip().removesuffix(";")
    made.client.run(f"CREATE TABLE {name} {body[body.index(chr(10) + '(') :]}")
    fields = made.client.rows("SELECT name FROM system.columns WHERE table = 'proposed'")
    made.client.run(f"DROP TABLE {name}")
    assert {field for (field,) in fields} >= ({"at", "n"} | {kind} - {"null"})


def test_metrics(loaded: tuple[Site, Ran]):
    """Labels have no separator of StatsD's or InfluxDB's, and a bound."""
    made, _ = loaded
    values = {value for one in made.samples for value in one.labels.values()}
    assert len(values) > 3
    for value in map(label, values | set(EVERY.values())):
        assert is_plain(value) and 0 < len(value) <= 10 * LABEL_CHARACTERS
        assert not set(value) & set(" ,=:|@#\t\n")


@pytest.fixture(scope="module")
def broken(loaded: tuple[Site, Ran]) -> Ran:
    """Each type has lost its row in the table, and verify has said so."""
    made, _ = loaded
    for table in ("other", *TABLES):
        made.client.run(f"DELETE FROM {identifier(made.database, table)} WHERE 1")
    return made.sluice("verify", *RANGE)


def test_anomalies(loaded: tuple[Site, Ran], broken: Ran):
    made, _ = loaded
    assert broken.code == 1, broken.err
    assert_plain(broken)
    for table in TABLES:
        assert f"table {made.database}.{visible(table)}".strip() in broken.out
    again = made.sluice("verify", *RANGE, "--json")
    tables = {one["table"] for one in json.loads(again.out)["anomalies"]}
    assert tables >= {f"{made.database}.{table}" for table in TABLES}


def test_alarms(loaded: tuple[Site, Ran], broken: Ran):
    """What the watch would tell, and what it keeps of it."""
    made, _ = loaded
    problems = list(rules.anomalies(read_verdict(open_lake(read(made.config))).anomalies))
    assert len(problems) > len(TABLES)
    alarms = decide(problems, {}, (), "2026-01-01T00:00:00+00:00")
    assert decode(encode(WatchState(alarms)), "").alarms == alarms
    notice = pending(alarms, "nobody")
    told = body(notice)
    assert is_plain(told.replace("\n", "")) and len(told.splitlines()) == len(problems)
    assert "<script>" not in unaddressed(told)
    assert links(told) and links(unaddressed(told)) == []


PAGES = [
    "overview?from=2026-01-01",
    "pipelines/ads/series?from=2026-01-01&to=2026-01-02",
    "pipelines/ads/late?from=2026-01-01&to=2026-01-02",
    "pipelines/ads/checks",
    "pipelines/ads/lag",
    "pipelines/ads/slices/2026-01-01T00Z",
    "pipelines/ads/slices/2026-01-01T00Z/rejected",
    "pipelines/ads/slices/2026-01-01T00Z/manifests/dc1",
]


@pytest.fixture(scope="module")
def page(loaded: tuple[Site, Ran], broken: Ran) -> Iterator[TestClient]:
    folder = loaded[0].folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLUICE_PIPELINES", str(folder))
        initdb()
        plugins_manager._get_plugins.cache_clear()
        purge_cached_app()
        yield TestClient(create_app("core"))
    purge_cached_app()
    plugins_manager._get_plugins.cache_clear()


@pytest.mark.parametrize("path", PAGES)
def test_endpoints(page: TestClient, path: str):
    """JSON that says the texts as they are: the page shows them as text."""
    answer = page.get(f"/sluice/api/{path}", headers=login("viewer"))
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    told = json.dumps(answer.json(), ensure_ascii=False)
    if path.endswith(("slices/2026-01-01T00Z", "dc1")):
        for kind in LANDED:
            assert json.dumps(kind, ensure_ascii=False)[1:-1] in told, kind
