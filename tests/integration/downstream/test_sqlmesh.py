"""A real SQLMesh on what `sluice sqlmesh` writes, with the guide's model and its restatement."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from sluice.errors import WrongUse
from tests.integration.downstream.mart_world import HOURS, MartWorld, installed
from tests.integration.stack.test_wheel import run
from tests.support.documents import ROOT, samples

pytestmark = pytest.mark.integration

SQLMESH = ["sqlmesh[clickhouse]==0.236.4"]
SAMPLES = {sample.language: sample.text for sample in samples((ROOT / "docs/guide/sqlmesh.md").read_text())}
EVERY = "MODEL (name marts.every, kind VIEW); SELECT * FROM sluice.`adx.clicks`"
# SQLMesh writes the types in other ways, and cannot read the last one.
ODD = [
    "price Nullable(Decimal(18, 2))",
    "tags Array(LowCardinality(String))",
    "at DateTime64(3, 'Europe/Berlin')",
    "doc JSON",
    "size Enum8('a' = 1, 'b\\'c' = 2)",
    "counts Map(String, UInt64)",
    "pair Tuple(a UInt8, `b c` String)",
    "`two words` String",
    "bent BFloat16",
]


@pytest.fixture(scope="module")
def sqlmesh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("sqlmesh") / "venv", SQLMESH) / "sqlmesh"


@dataclass
class Marts(MartWorld):
    """A SQLMesh project over the table, whose hours come from two clusters."""

    sqlmesh: Path = Path()

    def run(self, *words: str) -> str:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "COLUMNS": "200"}
        done = run(self.sqlmesh, *words, cwd=self.folder, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def restate(self, number: int) -> None:
        """Restates one hour, by the guide's command."""
        command = self.own(SAMPLES["sh"]).replace("\\\n", "")
        edges = ("2026-11-20 10:00:00", self.at(number)), ("2026-11-20 11:00:00", self.at(number + 1))
        for theirs, ours in edges:
            command = command.replace(theirs, ours)
        self.run(*shlex.split(command)[1:])

    def own(self, text: str) -> str:
        """Returns what the guide says, of this test's databases and first hour."""
        database = self.world.database
        for theirs, ours in (("adx.clicks", f"{database}.clicks"), ("marts.", f"{database}_marts.")):
            text = text.replace(theirs, ours)
        return text.replace("sluice_adx", "sluice_p").replace("2026-11-01", self.at(0))

    @property
    def by_hour(self) -> Counter[tuple[int, ...]]:
        return self.mart(f"{self.world.database}_marts.clicks_by_hour", "kind, clicks")


@pytest.fixture
def marts(request, clickhouse_server, tmp_path: Path, name: str, monkeypatch) -> Marts:
    made = Marts.made(clickhouse_server, tmp_path, name, monkeypatch, clusters=2)
    if request.node.get_closest_marker("long"):
        made.sqlmesh = request.getfixturevalue("sqlmesh")
    state = {"type": "duckdb", "database": str(tmp_path / "state.db")}
    connection = {"type": "clickhouse", **clickhouse_server.at.login}
    config = {
        "gateways": {"clickhouse": {"connection": connection, "state_connection": state}},
        "default_gateway": "clickhouse",
        "model_defaults": {"dialect": "clickhouse"},
        "disable_anonymized_analytics": True,
    }
    (made.folder / "config.yaml").write_text(yaml.safe_dump(config))
    for file, text in (("by_hour", SAMPLES["sql"]), ("every", EVERY)):
        (made.folder / "models" / f"{file}.sql").write_text(made.own(text))
    return made


@pytest.mark.long
def test_marts_follow_the_hours_and_half_of_one_is_never_read(marts: Marts):
    for column in ODD:
        marts.world.sql(f"ALTER TABLE {{db}}.clicks ADD COLUMN {column}")
    for number in range(HOURS):
        marts.bring(number, *[("a", n) for n in range(number)], ("b", 1))
        if number not in (3, 5):
            marts.bring(number, ("c", 1), cluster="dc2")
    marts.write("sqlmesh")
    marts.run("plan", "--auto-apply", "--no-prompts")
    there = Counter(row for at in (0, 1, 2, 4) for row in ((at, "b", 1), (at, "c", 1)))
    there += Counter((at, "a", at) for at in (1, 2, 4))
    assert marts.by_hour == there, "of hours 3 and 5 one cluster's half is there"
    marts.restate(3)
    assert marts.by_hour == there, "nor does a restatement read it"
    marts.bring(3, ("c", 5), ("c", 6), cluster="dc2")
    marts.restate(3)
    there += Counter([(3, "a", 3), (3, "b", 1), (3, "c", 2)])
    assert marts.by_hour == there, "a restatement builds an hour that was never built"
    marts.bring(5, ("c", 5), cluster="dc2")
    marts.run("run", "--ignore-cron")
    there += Counter([(5, "a", 5), (5, "b", 1), (5, "c", 1)])
    assert marts.by_hour == there

    for number in (1, 2):  # they land again: late records, or a fix
        marts.bring(number, ("z", 1), generation=2)
        marts.bring(number, generation=2, cluster="dc2")
    marts.restate(1)
    there -= Counter([(1, "a", 1), (1, "b", 1), (1, "c", 1)])
    there += Counter([(1, "z", 1)])
    assert marts.by_hour == there, "hour 2 was not asked for"

    rendered = marts.run("render", marts.own("marts.every"))
    assert "two words" in rendered and "bent" not in rendered, "the columns are those of the external model"
    every = marts.world.sql(f"SELECT n, kind FROM {marts.own('marts.every')} WHERE kind = 'z'")
    assert every == [(1, "z"), (1, "z")]


def test_files_are_written_into_a_project_and_over_nobody_elses(marts: Marts):
    marts.write("sqlmesh")
    models, signal = (
        marts.folder / name for name in ("external_models/sluice_p.yaml", "signals/sluice_p.py")
    )
    [model] = yaml.safe_load(models.read_text())
    assert model["name"] == f"`sluice`.`{marts.world.database}.clicks`"
    assert list(model["columns"]) == ["n", "kind", "_slice", "_cluster"]
    assert "['dc1', 'dc2'], [0, 0]" in signal.read_text(), "it waits for both clusters"
    models.unlink()
    signal.write_text("# mine")
    with pytest.raises(WrongUse, match="sluice_p.py is there, and somebody else has written it"):
        marts.write("sqlmesh")
    assert signal.read_text() == "# mine" and not models.exists()
    (marts.folder / "config.yaml").unlink()
    with pytest.raises(WrongUse, match="is no SQLMesh project"):
        marts.write("sqlmesh")
