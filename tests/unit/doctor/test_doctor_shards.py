"""What the doctor says decides the shard of a table's rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.doctor.examine import placed_by
from tests.support.landing_world import pipeline

HASH = "the hash of its key"


@pytest.mark.parametrize(
    ("shard_by", "said"),
    [
        ({}, [HASH, "partition"]),
        ({"db.counts": "toHour(hour)"}, ["toHour(hour)", "partition"]),
        ({"db.other": "cityHash64(_type)"}, [HASH, "cityHash64(_type)"]),
    ],
)
def test_counts_go_by_their_key_and_what_is_derived_with_its_source(
    tmp_path: Path, shard_by: dict[str, str], said: list[str]
):
    (tmp_path / "r.sql").write_text("SELECT count() AS n FROM {source}")
    log = {"table": "db.log", "latest": {"table": "db.new", "key": ["id"], "version": ["n"]}}
    shards = [{"name": name, "connection": name} for name in ("s1", "s2")]
    spec = pipeline(
        clickhouse={"shards": shards, "shard_by": {"db.log": "cityHash64(id)", **shard_by}},
        tables={"click": log, "*": "db.other"},
        counts=[{"table": "db.counts", "by": ["id"]}],
        rollups={"db.sums": {"from": "db.other", "sql": str(tmp_path / "r.sql")}},
    )
    found = {target.table: placed_by(spec, target) for target in spec.targets}
    assert (found["db.log"], found["db.new"]) == ("cityHash64(id)", "cityHash64(id)")
    assert [found["db.counts"], found["db.sums"]] == said
