"""Nested types beside the options that they meet, by pairs: views, shards, how files come, rows of arrays, a
reload. What is there is compared with the events, and by `verify --contents`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.anomaly import AnomalyKind
from tests.integration.landed import Event, land, unit
from tests.integration.load.test_load_rows import number
from tests.integration.verify.test_contents import compared, told
from tests.support.long_form import per_commit
from tests.support.shards_world import Shards, made, shards

pytestmark = pytest.mark.integration

COLUMNS = (
    "t Tuple(id UInt64, login Nullable(String)), "
    "at Array(Tuple(sku String, qty UInt16, tags Array(String))), m Map(String, Array(Tuple(n Int64))), "
    "v Variant(UInt64, String, Array(UInt8)), j JSON(user.id UInt64), "
    "e Tuple(k String, n UInt8) EPHEMERAL ('none', 0), x String DEFAULT concat(e.k, toString(e.n)), "
    "c Array(String) DEFAULT [toString(t.id)], _row UInt32, _offset UInt64, _partition Int32, "
    "_topic LowCardinality(String), _slice DateTime('UTC'), _cluster LowCardinality(String)"
)
SHOWN = ("t", "at", "m", "v", "j", "x", "c")
REJECTED_ROWS = {
    3: ("at[1].qty", {"at": [{"sku": "a", "qty": 1, "tags": []}, {"sku": "b", "qty": 70000, "tags": []}]}),
    7: ("t.id", {"t": {"id": "x", "login": "nobody"}}),
    11: ('m["k"][0].n', {"m": {"k": [{"n": 1.5}]}}),
    12: ("j.user.id", {"j": {"user": {"id": "me"}}}),
    13: ("e.n", {"e": {"k": "k", "n": 256}}),
}


def fields(n: int) -> dict[str, Any]:
    """What event `n` has."""
    found: dict[str, Any] = {
        "t": {"id": n, "login": None if n % 3 else f"user{n}", "more": [n]},
        "at": [{"sku": f"s{i}", "qty": n + i, "tags": [str(i)] * i} for i in range(n % 4)],
        "m": {f"k{i}": [{"n": -i}, {"n": n}] for i in range(n % 3)},
        "v": [n, f"text {n}", [n, 1]][n % 3],
        "j": {"user": {"id": n}, "free": [{"a": str(n)}]},
        "e": {"k": "k", "n": n},
        "c": [f"c{n}"],
    }
    for name in {5: ["e"], 6: ["c"], 8: ["at", "m", "v"], 9: ["c", "e"]}.get(n, []):
        del found[name]
    return found | (REJECTED_ROWS[n][1] if n in REJECTED_ROWS else {})


def row(n: int) -> dict[str, Any]:
    """What the table has to hold of it."""
    has = fields(n)
    passed = has.get("e", {"k": "none", "n": 0})
    return {
        "t": {"id": n, "login": has["t"]["login"]},
        "at": has.get("at", []),
        "m": has.get("m", {}),
        "v": has.get("v"),
        "j": has["j"],
        "x": f"{passed['k']}{passed['n']}",
        "c": has.get("c", [str(n)]),
    }


COUNT = 16
WANTED = {n: row(n) for n in range(COUNT) if n not in REJECTED_ROWS}


@dataclass(frozen=True)
class Options:
    read: str
    sharded: bool
    view: bool
    arrays: bool
    reload: bool


CASES = [
    Options("pull", sharded=True, view=True, arrays=False, reload=True),
    Options("push", sharded=False, view=True, arrays=True, reload=False),
    Options("pull", sharded=False, view=False, arrays=True, reload=True),
    Options("push", sharded=True, view=False, arrays=True, reload=True),
    Options("pull", sharded=True, view=False, arrays=False, reload=False),
    Options("push", sharded=True, view=True, arrays=False, reload=False),
    Options("push", sharded=False, view=False, arrays=False, reload=True),
]


def pipeline(two: Shards, options: Options) -> Pipeline:
    more = shards("s1", "s2", shard_by="t.id") if options.sharded else {}
    return two.world.pipeline({"click": "clicks"}, clickhouse={**more, "read": options.read})


def held(two: Shards, select: str) -> dict[int, tuple[int, list[Any]]]:
    """By partition and offset on which server a row is, and its values."""
    found = {}
    for server, rows in enumerate(two.everywhere(select)):
        for offset, partition, *texts in rows:
            place = offset * 2 + partition
            assert place not in found
            found[place] = (server, [None if text is None else json.loads(text) for text in texts])
    return found


@pytest.mark.long
@pytest.mark.parametrize("options", per_commit(CASES))
def test_nested_types_beside_other_options(
    clickhouse_servers, tmp_path, name: str, monkeypatch, options: Options
):
    two = made(tmp_path, name, clickhouse_servers, monkeypatch)
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_servers[0].at.variable)
    two.everywhere(f"CREATE TABLE {{db}}.clicks ({COLUMNS}) ENGINE = MergeTree ORDER BY (_offset, t.id)")
    if options.view:
        two.everywhere(
            "CREATE MATERIALIZED VIEW {db}.seen ENGINE = MergeTree ORDER BY _offset AS SELECT at, t.login AS "
            "login, arraySum(at.qty) AS qty, v, _offset, _partition, _slice, _cluster FROM {db}.clicks"
        )
    events = [Event("click", json.dumps({"type": "click"} | fields(n))) for n in range(COUNT)]
    landed = land(two.world.lake, unit(), events, partitions=2)
    if options.arrays:
        number(two.world, landed)
    chosen = pipeline(two, options)
    load = two.load if options.sharded else two.world.load
    for mode in ("fill", "reload") if options.reload else ("fill",):
        load(chosen, unit(), mode=mode)
        shown = ", ".join(f"toJSONString({column})" for column in SHOWN)
        found = held(two, f"SELECT _offset, _partition, {shown}, toString(_row) FROM {{db}}.clicks")
        assert found == {
            n: (n % 2 if options.sharded else 0, [*wanted.values(), 7 + n if options.arrays else 0])
            for n, wanted in WANTED.items()
        }
        if options.view:
            told_by = "toJSONString(at), toJSONString(login), toString(qty), toJSONString(v)"
            assert held(two, f"SELECT _offset, _partition, {told_by} FROM {{db}}.seen") == {
                n: (
                    n % 2 if options.sharded else 0,
                    [one["at"], one["t"]["login"], sum(item["qty"] for item in one["at"]), one["v"]],
                )
                for n, one in WANTED.items()
            }
        rejected_rows = (
            "SELECT offset * 2 + partition, column FROM sluice.rejected WHERE target = '{db}.clicks'"
        )
        servers = two.everywhere(rejected_rows) if options.sharded else [two.on(0, rejected_rows)]
        assert sorted(one for rows in servers for one in rows) == [
            (n, column) for n, (column, _) in REJECTED_ROWS.items()
        ]
    # The rows of each partition begin at 7, and nothing else is found.
    numbered = [(AnomalyKind.ROW_IDENTITY, "", "", "8 that follow on none")] * (2 if options.arrays else 0)
    assert told(compared(two.world, chosen)) == numbered
    change = "ALTER TABLE {db}.clicks UPDATE at = [] WHERE t.id = 2 SETTINGS mutations_sync = 2"
    two.on(0, change)
    [(*_, seen)] = [one for one in told(compared(two.world, chosen)) if one not in numbered]
    assert "other values in at" in seen
