"""The pipeline file places rows otherwise by now: an erasure, a retry and a repair leave them where they are.

Only a reload or a fill places an hour anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from local.readiness import free_port
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from sluice.crash_points import TableLoad
from sluice.errors import ShardsWait, TargetRefused
from sluice.flow.erase.erase import Eraser
from sluice.flow.erase.search import ErasureRequest, Where
from sluice.flow.steps import load_table
from sluice.flow.verify.audit import AuditScope, audit
from tests.faults.damage import Damaged
from tests.support.landing_world import START, World, hours, to_ms
from tests.support.shards_world import Shards, connection, made, point_at, shards

pytestmark = pytest.mark.integration

HOUR = hours(1)
RANGE = f"--from {HOUR.start:%Y-%m-%dT%H:%MZ} --to {HOUR.end:%Y-%m-%dT%H:%MZ}"
SENT = [(k, 200 if k == 9 else k) for k in range(20)]
"""(k, n) of each record; 200 does not fit `n Int8`."""
PERSON = 4
FITS = [(k, n) for k, n in SENT if n < 128]


def even_and_odd(rows: list[tuple[int, int]], shift: int = 0) -> list[list[tuple[int, int]]]:
    """Where `k + shift` places the rows on two shards."""
    return [[(k, n) for k, n in rows if (k + shift) % 2 == number] for number in (0, 1)]


def without(rows: list[tuple[int, int]], k: int = PERSON) -> list[tuple[int, int]]:
    return [row for row in rows if row[0] != k]


class Hour(Damaged):
    """An hour of the records SENT on two servers, by the command line."""

    two: Shards

    def place(self, clickhouse: dict[str, Any], **more: Any) -> Pipeline:
        self.configure(
            clickhouse={"lease": "1s", **clickhouse}, tables={"click": f"{self.database}.clicks"}, **more
        )
        return read(self.config)

    def load(self, mode: str) -> None:
        for target in self.pipeline.targets:
            load_table(self.pipeline, target.table, HOUR, mode, mode, lambda _: None)

    def erase(self) -> None:
        request = ErasureRequest((Where(("k",), str(PERSON)),), HOUR, "ticket 1", "me", "")
        eraser = Eraser(self.pipeline, open_lake(self.pipeline), request, lambda _: None)
        _, searched = eraser.plan()
        number, known = eraser.ask()
        eraser.erase(number, known, searched)

    def retry(self) -> tuple[int, str]:
        self.two.everywhere("ALTER TABLE {db}.clicks MODIFY COLUMN n Int16 SETTINGS mutations_sync = 2")
        return self.retry_again()

    def retry_again(self) -> tuple[int, str]:
        return self.command(f"sluice rejected ads --config {self.config} {RANGE} --retry --yes")

    def held(self, columns: str = "k, n") -> list[list[tuple]]:
        found = self.two.everywhere(f"SELECT {columns} FROM {{db}}.clicks ORDER BY ALL")
        return [[tuple(row) for row in rows] for rows in found]

    def sound(self) -> None:
        assert list(audit(self.pipeline, HOUR, AuditScope(whole=True, checksums=True)).anomalies) == []


IDENTITY = "_topic String, _partition UInt32, _offset UInt64, "
BY_K = shards("s1", "s2", shard_by="k")
BY_K_PLUS_1 = shards("s1", "s2", shard_by="k + 1")


@pytest.fixture
def hour(clickhouse_servers, tmp_path: Path, name: str, monkeypatch, capsys) -> Hour:
    two = made(tmp_path, name, clickhouse_servers, monkeypatch)
    two.everywhere(
        f"CREATE TABLE {{db}}.clicks (k UInt8, n Int8, at_load DateTime64(6) DEFAULT now64(6), {IDENTITY}"
        "_slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY k"
    )
    found = Hour(tmp_path, two.clients[0], name, monkeypatch, capsys)
    found.two = two
    return found


def begun(
    hour: Hour, clickhouse: dict[str, Any], sent: Sequence[tuple[int, int]] = SENT, **more: Any
) -> None:
    fields = ({"type": "click", "at": START.isoformat(), "k": k, "n": n} for k, n in sent)
    log = [(json.dumps(one).encode(), to_ms(START)) for one in fields]
    # Each Kafka partition has even and odd values of k.
    hour.world = World({("dc1", "bids"): [log[:7], log[7:]]}, plain=True)
    pipeline = hour.place(clickhouse, **more)
    hour.world.resolve(pipeline, open_lake(pipeline), HOUR)
    hour.world.land(pipeline, open_lake(pipeline), HOUR)
    hour.load("fill")


def by_partition(rows: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    return [[row for row in rows if row[0] < 7], [row for row in rows if row[0] >= 7]]


def all_here(rows: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    return [rows, []]


CHANGES = [
    pytest.param(BY_K, BY_K_PLUS_1, even_and_odd, lambda rows: even_and_odd(rows, 1), id="expression"),
    pytest.param(
        BY_K,
        shards("s2", "s1", shard_by="k"),
        even_and_odd,
        lambda r: even_and_odd(r, 1),
        id="list",
        marks=pytest.mark.long,
    ),
    pytest.param(
        BY_K, shards("s1", "s2"), even_and_odd, by_partition, id="to-partition", marks=pytest.mark.long
    ),
    pytest.param(
        shards("s1", "s2"), BY_K, by_partition, even_and_odd, id="from-partition", marks=pytest.mark.long
    ),
    pytest.param(
        {"connection": connection("s1")},
        BY_K,
        all_here,
        even_and_odd,
        id="shard-came",
        marks=pytest.mark.long,
    ),
]
Placed = Callable[[list[tuple[int, int]]], list[list[tuple[int, int]]]]


@pytest.mark.parametrize(("then", "now", "placed", "anew"), CHANGES)
def test_a_retry_leaves_rows_where_they_are(
    hour: Hour, then: Any, now: Any, placed: Placed, anew: Placed
) -> None:
    begun(hour, then)
    assert hour.held() == placed(FITS)
    hour.place(now)
    code, said = hour.retry()
    assert (code, hour.held()) == (0, placed(SENT)), said
    hour.load("repair")
    assert hour.held() == placed(SENT)
    hour.load("reload")
    assert hour.held() == anew(SENT)
    hour.sound()


@pytest.mark.long
@pytest.mark.parametrize(("then", "now", "placed", "anew"), CHANGES)
def test_an_erasure_leaves_rows_where_they_are(
    hour: Hour, then: Any, now: Any, placed: Placed, anew: Placed
) -> None:
    begun(hour, then)
    hour.place(now)
    hour.erase()
    assert hour.held() == placed(without(FITS))
    hour.load("fill")
    assert hour.held() == anew(without(FITS))
    hour.sound()


@pytest.mark.long
def test_an_erasure_that_was_killed_on_a_shard_goes_on_by_the_own_placement(hour: Hour, monkeypatch) -> None:
    begun(hour, BY_K)
    hour.place(BY_K_PLUS_1)

    class Killed(BaseException):
        pass

    def reached(point: Any) -> None:
        if point is TableLoad.DELETED:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("sluice.crash_points.reached", reached)
        with pytest.raises(Killed):
            hour.erase()
    hour.erase()
    assert hour.held() == even_and_odd(without(FITS))


REFUSED = [
    pytest.param(shards("s1", shard_by="k"), "shard s2 has left the pipeline file", id="shard-left"),
    pytest.param({"connection": connection("s1")}, "shard s1 has left the pipeline file", id="no-shards"),
]


@pytest.mark.long
@pytest.mark.parametrize(("now", "why"), REFUSED)
def test_what_cannot_stay_is_refused_before_a_shard_changes(hour: Hour, now: Any, why: str) -> None:
    begun(hour, BY_K)
    before = hour.held("*")
    hour.place(now)
    with pytest.raises(
        TargetRefused, match=rf"{why}; place them anew: `.* --mode reload`, then run this again"
    ):
        hour.erase()
    code, said = hour.retry()
    assert (code, said.count(why)) == (1, 1), said
    assert hour.held("k, n, at_load") == [[row[:3] for row in rows] for rows in before]
    hour.place(BY_K_PLUS_1)
    hour.load("reload")
    hour.erase()
    assert hour.held() == even_and_odd(without(SENT), 1)


def test_an_expression_that_places_otherwise_since_a_column_was_altered_is_refused(hour: Hour) -> None:
    """A retry takes today's types, and the expression reads one of them."""
    begun(hour, shards("s1", "s2", shard_by="k + length(toTypeName(n))"))
    placed = even_and_odd(FITS)  # Int8
    assert hour.held() == placed
    code, said = hour.retry()  # Int16
    assert code == 1 and "gives another shard for 10 rows that are on s1" in said, said
    assert hour.held() == placed
    hour.load("reload")
    assert hour.held() == even_and_odd(SENT, 1)
    hour.sound()


def test_an_hour_of_two_placements_is_refused(hour: Hour, monkeypatch) -> None:
    """A fill that one shard did not answer has placed it anew on one of them."""
    begun(hour, BY_K)
    hour.place(BY_K_PLUS_1)
    with monkeypatch.context() as patch:
        point_at(patch, "s2", free_port())
        with pytest.raises(ShardsWait):
            hour.load("fill")
    before = hour.held()
    assert before == [even_and_odd(FITS)[1]] * 2
    with pytest.raises(TargetRefused, match="the shards do not hold them by one placement"):
        hour.erase()
    code, said = hour.retry()
    assert code == 1 and "the shards do not hold them by one placement" in said, said
    assert hour.held() == before
    hour.load("reload")
    assert hour.held() == even_and_odd(without(SENT), 1)


@pytest.mark.long
def test_a_retry_brings_a_row_in_where_the_others_of_its_hour_are(hour: Hour) -> None:
    """The file places all of them on the other shard by now."""
    sent = [(0, n) for n in (0, 1, 2, 3, 4, 5, 6, 7, 8, 200)]
    begun(hour, BY_K, sent)
    assert hour.held() == [sent[:9], []]
    hour.place(BY_K_PLUS_1)
    code, said = hour.retry()
    assert (code, hour.held()) == (0, [sent, []]), said
    code, said = hour.retry_again()
    assert "no rejected record matches" in said and hour.held() == [sent, []]


@pytest.mark.long
@pytest.mark.parametrize(
    ("then", "placed"),
    [(shards("s1", "s2"), by_partition), ({"connection": connection("s1")}, all_here)],
    ids=["partition", "shard-came"],
)
def test_counts_and_rollups_stay_beside_the_rows(hour: Hour, then: Any, placed: Placed) -> None:
    keys = "_slice DateTime('UTC'), _cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY k"
    hour.two.everywhere(f"CREATE TABLE {{db}}.summed (k UInt8, c UInt64, {keys}")
    hour.two.everywhere(
        f"CREATE TABLE {{db}}.traffic (hour DateTime('UTC'), type String, k UInt8, count UInt64, {keys}"
    )
    (hour.folder / "summed.sql").write_text("SELECT k, count() AS c FROM {source} GROUP BY k")
    rollup = {"from": f"{hour.database}.clicks", "sql": str(hour.folder / "summed.sql")}
    derived = {
        "rollups": {f"{hour.database}.summed": rollup},
        "counts": [{"table": f"{hour.database}.traffic", "by": ["k"]}],
    }

    def others() -> list[list[list[int]]]:
        names = ("summed", "traffic")
        tables = [hour.two.everywhere(f"SELECT k FROM {{db}}.{name} ORDER BY k") for name in names]
        return [[[k for (k,) in rows] for rows in table] for table in tables]

    def ks(rows: list[list[tuple[int, int]]]) -> list[list[int]]:
        return [[k for k, _ in of_shard] for of_shard in rows]

    begun(hour, then, **derived)
    summed, counted = others()
    assert summed == ks(placed(FITS)) and sorted(k for shard in counted for k in shard) == [
        k for k, _ in SENT
    ]
    now = shards("s2", "s1", shard_by={f"{hour.database}.clicks": "k"})
    hour.place(now, **derived)
    hour.erase()
    assert hour.held() == placed(without(FITS))
    left = [[k for k in shard if k != PERSON] for shard in counted]
    assert others() == [ks(placed(without(FITS))), left]
    hour.load("fill")
    assert hour.held() == even_and_odd(without(FITS), 1)
    assert others()[0] == ks(hour.held())
    hour.sound()
