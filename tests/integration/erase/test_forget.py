"""The lake forgets hours on purpose: tables, a view, a rollup and counts keep what files no longer hold."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pendulum
import pytest
import yaml
from typer.testing import CliRunner

from sluice.cli.commands import commands
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.errors import FilesForgotten
from sluice.flow import steps
from sluice.flow.contents.compare import auditor
from sluice.flow.forget import Forgetting, due_windows, forget_due, forget_hourly
from sluice.flow.steps import note_file
from sluice.flow.verify.audit import AuditScope, audit
from sluice.slices import SliceRange
from sluice.state.manifests import read_manifests
from sluice.state.notes import read_versions
from sluice.state.survey import survey
from sluice.state.units import units_of
from tests.integration.landed import client_of
from tests.support.landing_world import GAP, World, event, hours

pytestmark = pytest.mark.integration

HOURS = hours(3)
NOW = pendulum.now("UTC").start_of("hour")
COLUMNS = (
    "label LowCardinality(String), grade String, _slice DateTime('UTC'), _cluster LowCardinality(String), "
    "_topic String, _partition Int32, _offset Int64"
)


def records() -> list[tuple]:
    """Clicks and bids, and in each hour two records that are no events; a gap, too."""
    kinds = [
        event("click", n * 3, grade=f"g{n}", label="k") if n % 3 else event("bid", n * 3) for n in range(50)
    ]
    return [
        (b"{oops", stamp) if n % 20 in (3, 4) else (GAP, stamp) if n == 9 else (value, stamp)
        for n, (value, stamp) in enumerate(kinds)
    ]


@dataclass
class Place:
    folder: Path
    client: Any
    database: str
    world: World

    def pipeline(self, **more: Any) -> Pipeline:
        db = self.database
        self.folder.joinpath("users.sql").write_text(
            "SELECT grade, count() AS events FROM {source} GROUP BY grade"
        )
        spec = {
            "kafka": [{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids"]}],
            "event": {"type": {"field": "type"}, "time": {"field": "at"}},
            "lake": f"file://{self.folder / 'lake'}",
            "tables": {"click": f"{db}.clicks", "*": f"{db}.other"},
            "counts": [{"table": f"{db}.traffic"}],
            "rollups": {f"{db}.users": {"from": f"{db}.clicks", "sql": "users.sql"}},
            "clickhouse": {"lease": "1s"},
            "keep": {"lake": "30d"},
            **more,
        }
        file = self.folder / "p.yaml"
        file.write_text(yaml.safe_dump(spec))
        return read(file)

    def create(self) -> None:
        unit = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
        for text in (
            "CREATE DATABASE {db}",
            f"CREATE TABLE {{db}}.clicks ({COLUMNS}) ENGINE = MergeTree ORDER BY _slice",
            f"CREATE TABLE {{db}}.other ({COLUMNS}) ENGINE = MergeTree ORDER BY _slice",
            "CREATE TABLE {db}.traffic (hour DateTime('UTC'), type String, count UInt64, "
            f"{unit}) ENGINE = MergeTree ORDER BY _slice",
            f"CREATE TABLE {{db}}.users (grade String, events UInt64, {unit}) "
            "ENGINE = MergeTree ORDER BY _slice",
            "CREATE MATERIALIZED VIEW {db}.kinds ENGINE = SummingMergeTree "
            "ORDER BY (label, _slice, _cluster) AS SELECT label, _slice, _cluster, "
            "toUInt64(count()) AS events FROM {db}.clicks "
            "GROUP BY label, _slice, _cluster",
        ):
            self.client.run(text.replace("{db}", self.database))

    def land(
        self, pipeline: Pipeline, mode: str = "fill", token: str = "t", until: pendulum.DateTime = HOURS.end
    ) -> None:
        lake = open_lake(pipeline)
        self.world.resolve(pipeline, lake, HOURS)
        self.world.land(pipeline, lake, SliceRange(HOURS.start, until), mode, token)

    def load(self, pipeline: Pipeline, mode: str = "fill", without: str = "", token: str = "t") -> None:
        for target in pipeline.targets:
            if target.name != without:
                steps.load_table(pipeline, target.table, HOURS, mode, token, lambda _: None)

    def tables(self) -> dict[str, list]:
        names = ("clicks", "other", "traffic", "users", "kinds")
        return {
            name: sorted(map(tuple, self.client.rows(f"SELECT * FROM {self.database}.{name}")))
            for name in names
        }

    def files(self) -> list[str]:
        lake = self.folder / "lake" / "p"
        found = (str(path.relative_to(lake)) for path in lake.rglob("*.parquet"))
        return sorted(name for name in found if not name.startswith(("_attempts", ".")))

    def marks(self) -> list[str]:
        lake = self.folder / "lake" / "p"
        return sorted(str(path.relative_to(lake)) for path in lake.glob("type=*/*/*/_SUCCESS"))


@pytest.fixture
def place(clickhouse_server, tmp_path, name: str, monkeypatch) -> Place:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    found = Place(tmp_path, client_of(clickhouse_server), name, World({("dc1", "bids"): [records()]}))
    found.create()
    return found


def forget(pipeline: Pipeline) -> Forgetting:
    lake = open_lake(pipeline)
    return forget_due(pipeline, lake, due_windows(pipeline, lake, NOW), NOW, lambda _: None)


def asked(place: Place, *words: str) -> dict[str, Any]:
    """What `sluice forget` prints."""
    ran = CliRunner().invoke(commands, ["forget", "p", "--config", str(place.folder / "p.yaml"), *words])
    assert ran.exit_code == 0, ran.output
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def seen(pipeline: Pipeline) -> list[str]:
    return [status.seen for status in survey(pipeline, HOURS)]


@pytest.mark.long
def test_hours_are_forgotten_once_every_table_has_them_and_a_reland_brings_them_back(place: Place):
    pipeline = place.pipeline()
    place.land(pipeline)
    place.load(pipeline, without="other")
    before = place.files()
    waits_for_a_table(place, pipeline)
    place.load(pipeline)
    proven(pipeline)
    whole, marked = place.tables(), place.marks()
    assert [len(rows) > 0 for rows in whole.values()] == [True] * 5 and len(marked) == 2
    # A count that does not hold: nothing is deleted either, and verify says why.
    place.client.run(f"DELETE FROM {place.database}.clicks WHERE _offset = 1")
    assert [why.split(":")[1] for why in forget(pipeline).waiting.values()] == [" rows missing"]
    assert place.files() != before  # the two other hours are forgotten: they hold
    steps.load_table(pipeline, f"{place.database}.clicks", hours(1), "reload", "again", lambda _: None)
    steps.load_table(pipeline, f"{place.database}.users", hours(1), "fill", "again", lambda _: None)
    assert place.tables() == whole

    done = forget(pipeline)
    assert [str(unit) for unit in done.units] == ["2026-01-01T00Z/dc1"] and done.waiting == {}
    assert (place.files(), place.marks(), place.tables()) == ([], [], whole)
    today = f"{NOW:%Y-%m-%d}"
    assert seen(pipeline) == [f"complete; files forgotten on {today}"] * 3
    says_what_is_not_compared(pipeline)
    # Nothing is left to do, and nothing is done by a fill.
    assert due_windows(pipeline, open_lake(pipeline), NOW) == []
    place.land(pipeline)
    place.load(pipeline)
    proven(pipeline)
    assert (place.files(), place.marks(), place.tables()) == ([], [], whole)
    files_are_not_read(place, pipeline)
    assert place.tables() == whole
    # Kafka still has the records: the hours come back, and are forgotten again.
    place.land(pipeline, "reland", "back")
    place.load(pipeline, "reland", token="back")
    steps.verify_range(pipeline, HOURS)
    assert len(place.files()) == len(before) and place.tables() == whole
    assert set(seen(pipeline)) == {"complete"}
    assert len(forget(pipeline).units) == 3
    assert (place.files(), place.tables()) == ([], whole)


def proven(pipeline: Pipeline) -> None:
    steps.verify_range(pipeline, HOURS)
    steps.publish_range(pipeline, HOURS)


def waits_for_a_table(place: Place, pipeline: Pipeline) -> None:
    """One table is behind: nothing is deleted."""
    before = place.files()
    steps.work_in(pipeline, HOURS, "fill")  # a run notes what it has seen
    waits = forget(pipeline)
    assert (waits.units, place.files()) == ([], before)
    assert set(waits.waiting.values()) == {"it is landed: a table lacks it"}


def says_what_is_not_compared(pipeline: Pipeline) -> None:
    found, anomalies, notes, _ = audit(pipeline, HOURS, AuditScope(everywhere=True, checksums=True))
    assert (len(found), anomalies) == (3, [])
    assert [note for note in notes if "forgotten" in note]
    compared = auditor(pipeline).whole(found)
    assert (compared.anomalies, compared.busy) == ([], [])
    assert "3 units (2026-01-01T00Z/dc1 to 2026-01-01T02Z/dc1) are not compared" in " ".join(compared.notes)


def files_are_not_read(place: Place, pipeline: Pipeline) -> None:
    """What would read files is refused before anything is deleted; a rollup reads its source."""
    whole = place.tables()
    with pytest.raises(FilesForgotten):
        steps.work_in(pipeline, HOURS, "reload")
    with pytest.raises(FilesForgotten):
        place.load(pipeline, "reload", token="other")
    assert place.tables() == whole
    users = f"{place.database}.users"
    steps.work_in(pipeline, HOURS, "reload", frozenset({users}))
    steps.load_table(pipeline, users, HOURS, "reload", "u", lambda _: None)


@pytest.mark.long
def test_the_bytes_of_rejected_records_are_forgotten_first(place: Place):
    pipeline = place.pipeline(keep={"lake": "3000d", "rejected": "30d"})
    place.land(pipeline)
    place.load(pipeline)
    steps.verify_range(pipeline, HOURS)
    whole, before = place.tables(), place.files()
    rejected = [key for key in before if key.startswith("_rejected/")]
    assert len(rejected) == 3
    said = asked(place, "--dry-run", "--json")
    assert (len(said["would_be_forgotten"]), said["files"], said["waiting"]) == (3, 3, [])
    assert (place.files(), place.tables()) == (before, whole)
    only = asked(place, "--yes", "--json", "--to", str(HOURS.start.add(hours=1)))
    assert (only["forgotten"], only["files"]) == (["2026-01-01T00Z/dc1"], 1)
    assert (forget(pipeline).files, place.files()) == (2, [key for key in before if key not in rejected])
    assert set(seen(pipeline)) == {"complete"}
    assert due_windows(pipeline, open_lake(pipeline), NOW) == []
    place.load(pipeline, "reload", token="again")
    steps.verify_range(pipeline, HOURS)
    assert place.tables() == whole
    # Without them the first hour is remade, and stands as before: verify misses nothing.
    [unit, *_] = units_of(pipeline, HOURS)
    old = read_manifests(open_lake(pipeline), [unit])[unit]
    place.land(pipeline, "remake", "remade", HOURS.start.add(hours=1))
    place.load(pipeline)
    steps.verify_range(pipeline, HOURS)
    found, anomalies, *_ = audit(pipeline, HOURS, AuditScope(everywhere=True, checksums=True))
    assert (anomalies, auditor(pipeline).whole(found).anomalies, place.tables()) == ([], [], whole)
    made = read_manifests(open_lake(pipeline), [unit])[unit]
    assert (made.read, made.rejected_records, made.gaps) == (old.read, old.rejected_records, old.gaps)
    assert sum(made.without_bytes[0].rejected_records.values()) == 2 and made.rejected == ()
    assert due_windows(pipeline, open_lake(pipeline), NOW) == []
    # Then the hours are old enough, too.
    later = place.pipeline(keep={"lake": "30d", "rejected": "30d"})
    first = read_manifests(open_lake(later), units_of(later, HOURS))
    assert len(forget(later).units) == 3 and place.files() == []
    found = read_manifests(open_lake(later), units_of(later, HOURS))
    for unit, manifest in found.items():
        said, before_said = manifest.forgotten, first[unit].forgotten
        assert said and said.removed and said.lake
        assert said.rejected == (before_said.rejected if before_said else "")
        assert manifest.id == first[unit].id


def test_a_run_of_the_dag_forgets_a_week_after_it_first_read_the_keep(place: Place):
    pipeline = place.pipeline()
    lake = open_lake(pipeline)
    place.land(pipeline)
    place.load(pipeline)
    steps.verify_range(pipeline, HOURS)
    said: list[str] = []
    before = place.files()
    assert forget_hourly(pipeline, lake, 0, NOW, said.append) is None
    note_file(pipeline, place.folder / "p.yaml")
    noted = pendulum.parse(read_versions(lake)[-1].at)
    assert forget_hourly(pipeline, lake, 0, noted.add(days=7, seconds=-1), said.append) is None
    assert len(said) == 2 and "hours are forgotten from" in said[-1]
    assert place.files() == before
    assert len(forget_hourly(pipeline, lake, 0, noted.add(days=7), said.append).units) == 3
    assert place.files() == []
    assert forget_hourly(pipeline, lake, 1, noted.add(days=8), said.append) is None
