"""A real dbt on what `sluice dbt` writes: marts by hour, an hour that is missing, one that lands again."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pendulum
import pytest
import yaml

from sluice.cli.commands import commands
from sluice.dbt_files import loaded_at
from sluice.slices import HOUR, Slice, Unit, floor
from tests.integration.landed import World, client_of, event, land
from tests.integration.stack.test_wheel import UV, run

pytestmark = pytest.mark.integration

DBT = ["dbt-core>=1.11,<1.12", "dbt-clickhouse~=1.10"]
MODEL = """{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='_slice',
batch_size='hour', begin='%s', lookback=0, unique_key='_slice', order_by='(_slice, kind)') }}
SELECT _slice, kind, count() AS clicks, sum(n) AS total FROM {{ source('p', 'clicks') }} GROUP BY _slice, kind
"""
HOURS = 6


@pytest.fixture(scope="module")
def dbt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("dbt") / "venv"
    assert run(UV, "-q", "venv", "--python", sys.executable, venv).returncode == 0
    done = run(UV, "-q", "pip", "install", "--python", venv / "bin/python", *DBT)
    assert done.returncode == 0, done.stderr
    return venv / "bin" / "dbt"


@dataclass
class Marts:
    """A dbt project over one table, whose newest hour is the last that is over."""

    dbt: Path
    world: World
    folder: Path
    first: pendulum.DateTime

    def unit(self, number: int) -> Unit:
        return Unit(Slice(self.first.add(hours=number)), "dc1")

    def bring(self, number: int, *rows: tuple[str, int], generation: int = 1) -> None:
        events = [event("click", n=n, kind=kind) for kind, n in rows]
        land(self.world.lake, self.unit(number), events, generation)
        self.world.load(self.world.pipeline({"click": "clicks"}), self.unit(number))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run(self.dbt, "--no-use-colors", *words, cwd=self.folder)

    def build(self, first: int, end: int) -> subprocess.CompletedProcess[str]:
        edges = [f"{self.first.add(hours=at):%Y-%m-%d %H:%M:%S}" for at in (first, end)]
        span = ["--event-time-start", edges[0], "--event-time-end", edges[1]]
        return self.run("build", *span, "--vars", f"{{sluice_from: '{edges[0]}', sluice_to: '{edges[1]}'}}")

    @property
    def mart(self) -> Counter[tuple[int, str, int, int]]:
        rows = self.world.sql("SELECT toUnixTimestamp(_slice), kind, clicks, total FROM {db}.by_hour")
        return Counter(((at - int(self.first.timestamp())) // 3600, *rest) for at, *rest in rows)


@pytest.fixture
def marts(request, clickhouse_server, tmp_path: Path, name: str, monkeypatch) -> Marts:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    world = World(tmp_path, client_of(clickhouse_server), name)
    world.sql("CREATE DATABASE {db} ENGINE = Atomic")
    world.sql(
        "CREATE TABLE {db}.clicks (n UInt32, kind LowCardinality(String), _slice DateTime('UTC'), "
        "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice"
    )
    (tmp_path / "p.yaml").write_text(
        "kafka: [{cluster: dc1, bootstrap: 'x:1', topics: [events]}]\n"
        "event: {type: {field: type}, time: {record: true}}\n"
        f"lake: file://{tmp_path}\ntables: {{click: {name}.clicks}}\n"
    )
    folder = tmp_path / "marts"
    (folder / "models").mkdir(parents=True)
    first = floor(pendulum.now("UTC"), HOUR).subtract(hours=HOURS)
    (folder / "dbt_project.yml").write_text("name: marts\nprofile: marts\nversion: '1.0'\n")
    place = clickhouse_server.at.place
    output = {
        "type": "clickhouse",
        "driver": "http",
        "schema": name,
        "host": place["host"],
        "port": place["port"],
        "user": place.get("login") or "default",
        "password": place.get("password") or "",
        "use_lw_deletes": True,
    }
    (folder / "profiles.yml").write_text(
        yaml.safe_dump({"marts": {"target": "test", "outputs": {"test": output}}})
    )
    (folder / "models" / "by_hour.sql").write_text(MODEL % f"{first:%Y-%m-%d %H:%M:%S}")
    dbt = request.getfixturevalue("dbt") if request.node.get_closest_marker("long") else Path()
    return Marts(dbt, world, folder, first)


def written(marts: Marts) -> None:
    with pytest.raises(SystemExit) as ended:
        commands(["dbt", "p", "--config", str(marts.world.root / "p.yaml"), "--into", str(marts.folder)])
    assert not ended.value.code


@pytest.mark.long
def test_marts_follow_the_hours_and_half_of_one_is_never_read(marts: Marts):
    for number in range(HOURS):
        if number != 3:
            marts.bring(number, ("a", number), ("a", 1), ("b", 7))
    written(marts)
    done = marts.build(0, 3)
    assert done.returncode == 0, done.stdout
    expected = Counter(row for at in range(3) for row in ((at, "a", 2, at + 1), (at, "b", 1, 7)))
    assert marts.mart == expected
    stale = marts.run("source", "freshness")
    assert stale.returncode == 1, stale.stdout
    missing = marts.build(3, 5)
    assert missing.returncode == 1 and "sluice_hour_complete" in missing.stdout
    assert marts.mart == expected, "nothing is read while an hour lacks"
    marts.bring(3, ("c", 5))
    assert marts.run("source", "freshness").returncode == 0
    assert marts.build(3, HOURS).returncode == 0
    expected += Counter([(3, "c", 1, 5)])
    expected += Counter(row for at in (4, 5) for row in ((at, "a", 2, at + 1), (at, "b", 1, 7)))
    assert marts.mart == expected
    marts.bring(1, ("a", 100), generation=2)  # another landing: late records, or a fix
    assert marts.build(1, 2).returncode == 0
    assert marts.mart == expected - Counter([(1, "a", 2, 2), (1, "b", 1, 7)]) + Counter([(1, "a", 1, 100)])


def test_hours_are_loaded_up_to_the_first_that_lacks(marts: Marts):
    pipeline = marts.world.pipeline({"click": "clicks"})
    query = loaded_at(pipeline, pipeline.targets[0].table, {"dc1": None})

    def loaded() -> int:
        [(at,)] = marts.world.client.rows(f"SELECT toUnixTimestamp(({query}))")
        return (at - int(marts.first.timestamp())) // 3600

    for number, until in ((2, 3), (4, 3), (3, 5), (0, 1), (1, 5)):
        marts.bring(number, ("a", number))
        assert loaded() == until, number
    late = {"dc1": None, "dc2": marts.unit(4).slice.start}
    query = loaded_at(pipeline, pipeline.targets[0].table, late)
    assert loaded() == 4, "hours before it came do not wait for the second cluster, later ones do"
    marts.world.sql("DROP TABLE {db}.clicks SYNC")
    assert loaded() <= HOURS - 24


def test_a_file_of_somebody_else_stays(marts: Marts):
    file = marts.folder / "models" / "sluice_p.yml"
    file.write_text("mine")
    with pytest.raises(Exception, match="is there, and somebody else has written it"):
        commands(
            ["dbt", "p", "--config", str(marts.world.root / "p.yaml"), "--into", str(marts.folder)],
            standalone_mode=False,
        )
    assert file.read_text() == "mine"
