"""A rollup whose SELECT fails, or whose source has changed under it, holds up nothing but itself."""

from __future__ import annotations

import pytest

from tests.faults.damage import Damaged
from tests.integration.landed import client_of
from tests.support.landing_world import START, hours

pytestmark = pytest.mark.faults

WORKS = "SELECT count() AS clicks, sum(toUInt64(n)) AS total FROM {source}"
TYPO = WORKS.replace("toUInt64(n)", "toUInt64(nn)")
SUMS = "SELECT toHour(_slice), clicks, total FROM {db}.per_hour ORDER BY 1"


@pytest.fixture
def state(clickhouse_server, tmp_path, name, monkeypatch, capsys) -> Damaged:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    return Damaged(tmp_path, client_of(clickhouse_server), name, monkeypatch, capsys)


def run(state: Damaged, first: int, last: int, *words: str) -> tuple[int, str]:
    edges = f"--from {START.add(hours=first):%FT%RZ} --to {START.add(hours=last + 1):%FT%RZ}"
    return state.command(f"sluice run ads --config {state.config} {edges} {' '.join(words)}")


@pytest.mark.long
def test_the_sources_hours_are_loaded_and_the_rollups_follow_when_it_is_mended(state: Damaged):
    select = state.folder / "per_hour.sql"
    select.write_text(WORKS)
    state.make_tables()
    state.sql(
        "CREATE TABLE {db}.per_hour (clicks UInt64, total UInt64, _slice DateTime('UTC'), _cluster String) "
        "ENGINE = MergeTree ORDER BY _slice"
    )
    rollup = {"from": f"{state.database}.clicks", "sql": "per_hour.sql"}
    state.configure(rollups={f"{state.database}.per_hour": rollup})
    state.world.resolve(state.pipeline, state.lake, hours(4))
    assert run(state, 0, 0)[0] == 0
    first = state.sql(SUMS)

    select.write_text(TYPO)
    code, said = run(state, 1, 2)
    assert (code, "its SELECT fails" in said) == (1, True), said
    assert state.sql("SELECT toHour(_slice), count() FROM {db}.clicks GROUP BY 1 ORDER BY 1") == [
        (0, 9),
        (1, 8),
        (2, 9),
    ]
    assert state.sql(SUMS) == first, "what the rollup had stays"
    # Chosen alone, the source is loaded; the rollup alone is refused at once.
    assert run(state, 3, 3, "--table", "click")[0] == 1  # its rollup comes with it
    assert state.sql("SELECT count() FROM {db}.clicks WHERE toHour(_slice) = 3") == [(9,)]
    code, said = run(state, 0, 3, "--table", f"{state.database}.per_hour")
    assert (code, "its SELECT fails" in said) == (1, True), said

    select.write_text(WORKS)
    assert run(state, 0, 3)[0] == 0
    assert state.sql(SUMS) == state.sql(
        "SELECT toHour(_slice), count(), sum(toUInt64(n)) FROM {db}.clicks GROUP BY 1 ORDER BY 1"
    )
    assert state.verify("--contents") == []
