"""Does what docs/guide/production.md says after a loss: the printed commands bring all back."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from local import services
from tests.faults.damage import HOURS, Damaged
from tests.integration.landed import client_of
from tests.support.landing_world import START, World, hours
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[services.ClickHouseServer]:
    """One that these tests may lose."""
    made = services.clickhouse_server(tmp_path_factory.mktemp("clickhouse"))
    yield made
    made.kill()


@pytest.fixture
def damaged(server: services.ClickHouseServer, name, tmp_path, monkeypatch, capsys) -> Damaged:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", server.at.variable)
    return Damaged(tmp_path, client_of(server), name, monkeypatch, capsys).make()


def content(damaged: Damaged) -> list[Sequence[Any]]:
    """Every row of the targets, of a view's table and of the rejected rows."""
    clicks = damaged.sql("SELECT _slice, _partition, _offset, n FROM {db}.clicks ORDER BY ALL")
    other = damaged.sql("SELECT _slice, _type, _payload FROM {db}.other ORDER BY ALL")
    sums = damaged.sql(
        "SELECT _slice, _partition, sum(total), sum(events) FROM {db}.sums GROUP BY ALL ORDER BY ALL"
    )
    rejected_rows = damaged.sql(
        "SELECT slice, partition, offset, value FROM sluice.rejected WHERE startsWith(target, '{db}.') "
        "ORDER BY ALL"
    )
    return [*clicks, *other, *sums, *rejected_rows]


def run(damaged: Damaged, mode: str) -> tuple[int, str]:
    span = ["--from", START.isoformat(), "--to", hours(HOURS).end.isoformat(), "--mode", mode]
    return damaged.command(shlex.join(["sluice", "run", "ads", "--config", str(damaged.config), *span]))


@pytest.mark.parametrize("mode", per_commit(["fill", "reload"]))
def test_clickhouse_is_lost(damaged: Damaged, mode: str):
    """Tables, ledger and claims are gone: the lake alone brings them back, without Kafka."""
    before = content(damaged)
    # What the published records are: 3 partitions x 4 hours x 3 clicks, one of which does not fit.
    assert damaged.sql("SELECT count() FROM {db}.clicks") == [(3 * HOURS * 3 - 1,)]
    damaged.sql("DROP DATABASE {db} SYNC")
    damaged.sql("DROP DATABASE sluice SYNC")
    damaged.make_tables()
    damaged.world = World({}, plain=True)  # no record is left in Kafka either
    code, said = run(damaged, mode)
    assert code == 0, said
    assert content(damaged) == before
    assert damaged.verify() == []


@pytest.mark.parametrize("lost", per_commit(["type=click/date=2026-01-01/hour=01", "_rejected"]))
@pytest.mark.long
def test_a_folder_of_the_lake_is_lost(damaged: Damaged, lost: str):
    """verify names each file that was in it and the command; the tables stay right all the while."""
    before = content(damaged)
    files = {str(p.relative_to(damaged.root)) for p in (damaged.root / lost).rglob("*.parquet")}
    shutil.rmtree(damaged.root / lost)
    anomalies = damaged.verify()
    assert {a["file"] for a in anomalies if a["kind"] == "file missing"} == files != set()
    assert all("--mode reland" in a["command"] for a in anomalies)
    damaged.repair(anomalies)
    assert damaged.verify() == []
    assert content(damaged) == before
    assert list((damaged.root / lost).rglob("*.parquet"))


@pytest.mark.long
def test_the_whole_lake_is_lost(damaged: Damaged):
    """As long as Kafka has the records, the hours are landed anew; the tables hold each row once."""
    before = content(damaged)
    shutil.rmtree(damaged.root)
    damaged.world.resolve(damaged.pipeline, damaged.lake, hours(HOURS))
    code, said = run(damaged, "fill")
    assert code == 0, said
    assert content(damaged) == before
    assert damaged.verify() == []


@pytest.mark.long
def test_the_lake_moves_to_another_place(damaged: Damaged):
    """Copied, and the pipeline file says where: the target is another lake's until that is corrected."""
    before = content(damaged)
    moved = damaged.folder / "moved"
    shutil.copytree(damaged.folder / "lake", moved)
    damaged.configure(lake=f"file://{moved}")
    code, said = run(damaged, "fill")
    assert code == 1
    assert "DELETE FROM sluice.targets" in said
    damaged.sql(
        "ALTER TABLE sluice.targets DELETE WHERE startsWith(target, '{db}.') SETTINGS mutations_sync = 1"
    )
    assert run(damaged, "fill")[0] == 0
    assert content(damaged) == before
    code, said = damaged.command(f"sluice verify ads --config {damaged.config}")
    assert code == 0, said
