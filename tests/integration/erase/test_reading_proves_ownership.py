"""A pipeline that only names another one's tables sees none of their rows: page, commands and watch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from sluice.cli.commands import commands
from sluice.clients.clickhouse.client import Client
from sluice.clients.lake.folder import FolderLake
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.errors import TargetTaken
from sluice.flow.find.find import TableReader
from sluice.flow.find.outcome import RecordPlace
from sluice.flow.load.load import load
from sluice.slices import SliceRange
from sluice.watch import observe
from tests.dags.conftest import airflow_app  # noqa: F401 - a fixture
from tests.dags.page_app import READS, endpoints, login, path_of, query_of
from tests.integration.landed import client_of, event, land, unit

pytestmark = pytest.mark.integration
HOUR = unit(0).slice
RANGE = {"from": HOUR.start.isoformat(), "to": HOUR.end.isoformat()}
FILE = """\
kafka: [{{cluster: dc1, bootstrap: "127.0.0.1:1", topics: [{topic}]}}]
event: {{type: {{field: type}}, time: {{record: true}}}}
lake: file://{lake}
start: 2026-11-20T10:00:00Z
tables: {{click: {database}.{table}}}
page: {{payloads: {payloads}}}
"""


@dataclass
class Two:
    """`priv` has loaded 13 rows and rejected 7; `peek` has another topic, and has loaded nothing."""

    folder: Path
    client: Client
    database: str

    def write(self, name: str, payloads: str, table: str = "clicks", topic: str = "") -> Pipeline:
        given = {"lake": self.folder / "lake", "database": self.database, "table": table}
        text = FILE.format(topic=topic or f"of_{name}", payloads=payloads, **given)
        (self.folder / f"{name}.yaml").write_text(text)
        return read(self.folder / f"{name}.yaml")

    def load(self, pipeline: Pipeline) -> None:
        load(pipeline, pipeline.targets[0], [unit(0)], self.lake(pipeline), self.client, mode="reload")

    def lake(self, pipeline: Pipeline) -> FolderLake:
        return FolderLake(self.folder / "lake" / pipeline.name)

    def land(self, pipeline: Pipeline, fitting: int, secret: str) -> None:
        events = [event(n=number, who=secret) for number in (*range(fitting), *range(300, 307))]
        land(self.lake(pipeline), unit(0), events)


@pytest.fixture
def two(name, tmp_path: Path, clickhouse_server, airflow_app, monkeypatch) -> Iterator[Two]:  # noqa: F811
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    monkeypatch.setenv("SLUICE_PIPELINES", str(tmp_path))
    client = client_of(clickhouse_server)
    client.run(f"CREATE DATABASE {name}")
    columns = "n UInt8, _slice DateTime('UTC'), _cluster LowCardinality(String)"
    for table in ("clicks", "others"):
        client.run(f"CREATE TABLE {name}.{table} ({columns}) ENGINE = MergeTree ORDER BY _slice")
    world = Two(tmp_path, client, name)
    priv = world.write("priv", "masked")
    world.land(priv, 13, "hush")
    world.load(priv)
    yield world
    client.run(f"DROP DATABASE {name} SYNC")


def page(app: TestClient, pipeline: str, what: str) -> dict:
    answer = app.get(f"/sluice/api/pipelines/{pipeline}/{what}", params=RANGE, headers=login("admin"))
    assert answer.status_code == 200, answer.text
    return answer.json()


def rejected(app: TestClient, pipeline: str) -> tuple[str, int, list[str]]:
    """How payloads are shown, how many records were rejected, and the payloads."""
    found = page(app, pipeline, f"slices/{HOUR.id}/rejected")
    samples = [sample["payload"] for group in found["groups"] for sample in group["samples"]]
    return found["payloads"], sum(group["records"] for group in found["groups"]), samples


def test_the_page(two: Two, airflow_app: TestClient):  # noqa: F811
    two.write("peek", "shown")
    masked = '{"type": text, "n": number, "who": text}'
    assert rejected(airflow_app, "priv") == ("masked", 7, [masked] * 3)
    assert rejected(airflow_app, "peek") == ("masked", 0, [])
    (own,), (foreign,) = (
        page(airflow_app, "priv", "tables")["tables"],
        page(airflow_app, "peek", "tables")["tables"],
    )
    assert (own["parts"], own["rows_in_all"], own["rows"], own["rejected_rows"]) == (1, 13, 13, 7)
    assert own["bytes"] > 0
    assert (foreign["parts"], foreign["rows_in_all"], foreign["bytes"]) == (None, None, None)
    assert (foreign["rows"], foreign["rejected_rows"], foreign["last_load"]) == (0, 0, "")
    assert page(airflow_app, "peek", "tables")["errors"] == [
        f"table {two.database}.clicks is another pipeline's: nothing of it is shown, and no run loads it"
    ]


def test_no_answer_about_the_one_names_the_other(two: Two, airflow_app: TestClient):  # noqa: F811
    two.write("peek", "shown")
    for method, route in endpoints():
        if method in READS and "{pipeline}" in route.path:
            url = path_of(route, pipeline="peek", slice_id=HOUR.id)
            answer = airflow_app.get(url, params={**query_of(route), **RANGE}, headers=login("admin"))
            assert "hush" not in answer.text and "priv" not in answer.text, url


def test_the_commands(two: Two):
    peek = two.write("peek", "shown")
    words = ["rejected", "peek", "--sample", "3", "--from", RANGE["from"], "--to", RANGE["to"]]
    ran = CliRunner().invoke(commands, words)
    assert isinstance(ran.exception, TargetTaken) and "hush" not in ran.output
    assert str(ran.exception).startswith(
        f"table {two.database}.clicks: it belongs to pipeline 'priv' with lake "
    )
    manifest = land(two.lake(peek), unit(0), [event(n=1)])
    reader = TableReader(peek, two.lake(peek).url, unit(0), manifest)
    with pytest.raises(TargetTaken, match="it belongs to pipeline 'priv'"):
        reader.read(RecordPlace("dc1", "events", 0, 0), {"click": 1}, ["click"])


@pytest.mark.long
def test_the_watch(two: Two):
    tables = [f"{two.database}.clicks"]
    assert parts(two, read(two.folder / "priv.yaml")) == tables
    assert parts(two, two.write("peek", "shown")) == []


def parts(two: Two, pipeline: Pipeline) -> list[str]:
    """The tables whose fullest partition the watch knows."""
    _, facts = observe._clickhouse(pipeline, two.lake(pipeline), SliceRange(HOUR.start, HOUR.end), {})
    return [name for name, _ in facts.parts]


def test_rows_stay_those_of_the_pipeline_that_rejected_them(two: Two, airflow_app: TestClient):  # noqa: F811
    """The table is given to another pipeline, as the refusal says; its own load replaces the hour."""
    peek = two.write("peek", "shown")
    (two.folder / "priv.yaml").unlink()
    two.client.run(f"DELETE FROM sluice.targets WHERE target = '{two.database}.clicks'")
    two.client.run(
        "INSERT INTO sluice.targets (target, pipeline, lake) SELECT {t:String}, 'peek', {l:String}",
        {"t": f"{two.database}.clicks", "l": two.lake(peek).url},
    )
    assert rejected(airflow_app, "peek") == ("shown", 0, [])
    assert rejections(two) == [("priv", 7)]


def rejections(two: Two) -> list[tuple[str, int]]:
    sql = (
        "SELECT pipeline, count() FROM sluice.rejected WHERE target = {t:String} GROUP BY pipeline ORDER BY 1"
    )
    return [tuple(row) for row in two.client.rows(sql, {"t": f"{two.database}.clicks"})]


@pytest.mark.parametrize(
    ("topic", "other", "seen"),
    [("shared", "hidden", "hidden"), ("shared", "masked", "masked"), ("its_own", "hidden", "shown")],
)
def test_the_strictest_of_those_that_share_a_topic(two: Two, airflow_app, topic, other, seen):  # noqa: F811
    two.write("peek", "shown", "others", "shared")
    two.write("strict", other, "strict", topic)
    assert rejected(airflow_app, "peek")[0] == seen
