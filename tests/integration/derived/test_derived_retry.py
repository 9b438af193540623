"""`sluice rejected --retry` of a table that another is made of: what this would refuse is asked first, and a
load that came to the table alone is gone on with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.flow.erase.erase import Eraser
from sluice.flow.erase.search import ErasureRequest, Where
from sluice.flow.steps import load_table
from sluice.slices import to_ms
from sluice.state.departed_tables import creation
from tests.faults.damage import Damaged
from tests.integration.landed import client_of
from tests.support.landing_world import START, World, hours
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

RANGE = f"--from {hours(1).start:%Y-%m-%dT%H:%MZ} --to {hours(1).end:%Y-%m-%dT%H:%MZ}"
SENT = [(1, 1), (2, 5), (1, 300)]
"""(n, x) of each record; 300 does not fit `x UInt8`."""
BEFORE, AFTER = [(1, 1), (2, 5)], [(1, 300), (2, 5)]
"""What is made of those that fit."""
KINDS = {
    "latest": "its column x has type Nullable(UInt8), and in {db}.clicks Nullable(UInt16)",
    "rollup": "its SELECT gives column x as Nullable(UInt16), the table has Nullable(UInt8)",
}


class Retried(Damaged):
    kind: str

    def begin(self, kind: str) -> None:
        self.kind = kind
        lines = (
            json.dumps({"type": "click", "at": START.isoformat(), "n": n, "x": x}).encode() for n, x in SENT
        )
        self.world = World({("dc1", "bids"): [[(line, to_ms(START)) for line in lines]]}, plain=True)
        self.sql("CREATE DATABASE {db}")
        self.sql(
            "CREATE TABLE {db}.clicks (n UInt32, x Nullable(UInt8), _topic LowCardinality(String), "
            "_partition Int32, _offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)) "
            "ENGINE = MergeTree ORDER BY n"
        )
        clicks = {"table": f"{self.database}.clicks"}
        if kind == "latest":
            latest = {"table": f"{self.database}.made", "key": ["n"]}
            self.configure(tables={"click": {**clicks, "latest": latest}})
            self.client.run(creation(self.pipeline, self.pipeline.targets[-1]).partition(": ")[2])
        else:
            Path(self.config.parent / "made.sql").write_text(
                "SELECT n, max(x) AS x FROM {source} GROUP BY n\n"
            )
            made = {f"{self.database}.made": {"from": clicks["table"], "sql": "made.sql"}}
            self.configure(tables={"click": clicks}, rollups=made)
            self.sql(
                "CREATE TABLE {db}.made (n UInt32, x Nullable(UInt8), _slice DateTime('UTC'), "
                "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY n"
            )
        self.world.resolve(self.pipeline, self.lake, hours(1))
        assert self.command(f"sluice run ads --config {self.config} {RANGE}")[0] == 0
        assert self.made == BEFORE
        self.widen("clicks")

    def widen(self, table: str) -> None:
        self.sql(f"ALTER TABLE {{db}}.{table} MODIFY COLUMN x Nullable(UInt16) SETTINGS mutations_sync = 2")

    def retry(self) -> tuple[int, str]:
        return self.command(f"sluice rejected ads --config {self.config} {RANGE} --retry --yes")

    def run(self, mode: str) -> None:
        code, said = self.command(f"sluice run ads --config {self.config} {RANGE} --mode {mode} --yes")
        assert code == 0, said
        self.sound()

    def erase(self, n: int) -> None:
        request = ErasureRequest((Where(("n",), str(n)),), hours(1), "ticket 1", "me", "")
        eraser = Eraser(self.pipeline, self.lake, request, lambda _: None)
        _, searched = eraser.plan()
        number, known = eraser.ask()
        eraser.erase(number, known, searched)
        self.sound()

    @property
    def made(self) -> list[tuple]:
        final = " FINAL" if self.kind == "latest" else ""
        return sorted(map(tuple, self.sql(f"SELECT n, x FROM {{db}}.made{final}")))

    @property
    def held(self) -> list[tuple]:
        return sorted(map(tuple, self.sql("SELECT n, x FROM {db}.clicks")))

    def sound(self) -> None:
        code, said = self.command(f"sluice verify ads --config {self.config} {RANGE} --contents")
        assert code == 0, said


@pytest.fixture
def retried(clickhouse_server, tmp_path, name, monkeypatch, capsys) -> Retried:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    return Retried(tmp_path, client_of(clickhouse_server), name, monkeypatch, capsys)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_derived_table_would_refuse_is_asked_before_anything_changes(retried: Retried, kind: str):
    retried.begin(kind)
    code, said = retried.retry()
    assert code == 1, said
    reason = KINDS[kind].replace("{db}", retried.database)
    assert f"1 slice stays as it is: table {retried.database}.made: {reason}" in said
    assert "nothing would come in: nothing is done" in said
    assert (retried.held, retried.made) == (BEFORE, BEFORE)
    retried.widen("made")
    assert retried.retry()[0] == 0
    assert (retried.held, retried.made) == (sorted(SENT), AFTER)
    retried.sound()


@pytest.mark.parametrize("kind", per_commit(KINDS))
def test_a_load_that_did_not_come_to_the_derived_table_is_gone_on_with(retried: Retried, kind: str):
    """By the same command: it finds no rejected record any more."""
    retried.begin(kind)
    clicks = retried.pipeline.targets[0].table
    load_table(retried.pipeline, clicks, hours(1), "retry", "t", lambda _: None)
    assert (retried.held, retried.made) == (sorted(SENT), BEFORE)
    code, said = retried.retry()
    assert code == 1, said
    assert f"table {retried.database}.made" in said
    retried.widen("made")
    code, said = retried.retry()
    assert code == 0, said
    assert "complete 2026-01-01T00Z (3 records), which a run that was stopped has left half done" in said
    assert retried.made == AFTER
    retried.sound()
    assert "no rejected record matches" in retried.retry()[1]


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_derived_rows_follow_a_remake_a_reland_and_an_erasure(retried: Retried, kind: str):
    retried.begin(kind)
    retried.widen("made")
    retried.run("remake")
    assert retried.made == AFTER
    retried.run("reland")
    assert retried.made == AFTER
    retried.erase(1)
    assert (retried.held, retried.made) == ([(2, 5)], [(2, 5)])
