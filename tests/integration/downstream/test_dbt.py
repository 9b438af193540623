"""A real dbt on what `sluice dbt` writes: marts by hour, an hour that is missing, one that lands again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluice.dbt_files import loaded_at
from sluice.mart_sources import MartSource, whole_hours
from tests.integration.downstream.mart_world import HOURS, Ended, MartWorld, installed, write_dbt_project
from tests.integration.stack.test_wheel import run

pytestmark = pytest.mark.integration

DBT = ["dbt-core>=1.11,<1.12", "dbt-clickhouse~=1.10"]
MODEL = """{{ config(materialized='incremental', incremental_strategy='microbatch', event_time='_slice',
batch_size='hour', begin='%s', lookback=0, unique_key='_slice', order_by='(_slice, kind)') }}
SELECT _slice, kind, count() AS clicks, sum(n) AS total FROM {{ source('p', 'clicks') }} GROUP BY _slice, kind
"""


@pytest.fixture(scope="module")
def dbt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("dbt") / "venv", DBT) / "dbt"


@dataclass
class Marts(MartWorld):
    """A dbt project over the table."""

    dbt: Path = Path()

    def run(self, *words: str) -> Ended:
        return run(self.dbt, "--no-use-colors", *words, cwd=self.folder)

    def build(self, first: int, end: int) -> Ended:
        edges = self.at(first), self.at(end)
        span = ["--event-time-start", edges[0], "--event-time-end", edges[1]]
        return self.run("build", *span, "--vars", f"{{sluice_from: '{edges[0]}', sluice_to: '{edges[1]}'}}")

    @property
    def by_hour(self) -> Counter[tuple[int, ...]]:
        return self.mart(f"{self.world.database}.by_hour", "kind, clicks, total")


@pytest.fixture
def marts(request, clickhouse_server, tmp_path: Path, name: str, monkeypatch) -> Marts:
    made = Marts.made(clickhouse_server, tmp_path, name, monkeypatch)
    write_dbt_project(made.folder, clickhouse_server, name)
    (made.folder / "models" / "by_hour.sql").write_text(MODEL % made.at(0))
    if request.node.get_closest_marker("long"):
        made.dbt = request.getfixturevalue("dbt")
    return made


@pytest.mark.long
def test_marts_follow_the_hours_and_half_of_one_is_never_read(marts: Marts):
    for number in range(HOURS):
        if number != 3:
            marts.bring(number, ("a", number), ("a", 1), ("b", 7))
    marts.write("dbt")
    done = marts.build(0, 3)
    assert done.returncode == 0, done.stdout
    expected = Counter(row for at in range(3) for row in ((at, "a", 2, at + 1), (at, "b", 1, 7)))
    assert marts.by_hour == expected
    stale = marts.run("source", "freshness")
    assert stale.returncode == 1, stale.stdout
    missing = marts.build(3, 5)
    assert missing.returncode == 1 and "sluice_hour_complete" in missing.stdout
    assert marts.by_hour == expected, "nothing is read while an hour lacks"
    marts.bring(3, ("c", 5))
    assert marts.run("source", "freshness").returncode == 0
    assert marts.build(3, HOURS).returncode == 0
    expected += Counter([(3, "c", 1, 5)])
    expected += Counter(row for at in (4, 5) for row in ((at, "a", 2, at + 1), (at, "b", 1, 7)))
    assert marts.by_hour == expected
    marts.bring(1, ("a", 100), generation=2)  # another landing: late records, or a fix
    assert marts.build(1, 2).returncode == 0
    assert marts.by_hour == expected - Counter([(1, "a", 2, 2), (1, "b", 1, 7)]) + Counter([(1, "a", 1, 100)])


def test_hours_are_loaded_up_to_the_first_that_lacks(marts: Marts):
    pipeline = marts.world.pipeline({"click": "clicks"})
    table = pipeline.targets[0].table

    def loaded(**begins: object) -> int:
        source = MartSource(table, "", (), whole_hours(table, {"dc1": None, **begins}))
        [(at,)] = marts.world.client.rows(f"SELECT toUnixTimestamp(({loaded_at(pipeline, source)}))")
        return (at - int(marts.first.timestamp())) // 3600

    for number, until in ((2, 3), (4, 3), (3, 5), (0, 1), (1, 5)):
        marts.bring(number, ("a", number))
        assert loaded() == until, number
    late = marts.unit(4).slice.start
    assert loaded(dc2=late) == 4, "hours before it came do not wait for the second cluster, later ones do"
    marts.world.sql("DROP TABLE {db}.clicks SYNC")
    assert loaded() <= HOURS - 24


def test_a_file_of_somebody_else_stays(marts: Marts):
    file = marts.folder / "models" / "sluice_p.yml"
    file.write_text("mine")
    with pytest.raises(Exception, match="is there, and somebody else has written it"):
        marts.write("dbt")
    assert file.read_text() == "mine"
