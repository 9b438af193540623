"""What the name of an engine says, in each of the families."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice.clients.clickhouse.connect import consistent
from sluice.clients.clickhouse.engine import Family, engine_of
from sluice.clients.clickhouse.tables import TargetTable, staged_engine

SOURCES = Path(__file__).parents[4] / "plugins" / "sluice"
CLOUD = "('/clickhouse/tables/{uuid}/{shard}', '{replica}'"
KEYS = " PARTITION BY d ORDER BY (a, b) SETTINGS index_granularity = 8192"


@pytest.mark.parametrize(
    ("name", "full", "family", "kind", "of_one_server"),
    [
        ("MergeTree", f"MergeTree{KEYS}", Family.PLAIN, "MergeTree", f"MergeTree{KEYS}"),
        ("MergeTree", "", Family.PLAIN, "MergeTree", ""),
        ("Null", "Null", Family.PLAIN, "Null", "Null"),
        ("SharedSet", "SharedSet", Family.PLAIN, "SharedSet", "SharedSet"),
        (
            "ReplicatedMergeTree",
            f"ReplicatedMergeTree{KEYS}",
            Family.REPLICATED,
            "MergeTree",
            f"MergeTree{KEYS}",
        ),
        (
            "ReplicatedMergeTree",
            r"ReplicatedMergeTree('/t/it\'s, (a)', '{replica}') ORDER BY n",
            Family.REPLICATED,
            "MergeTree",
            "MergeTree() ORDER BY n",
        ),
        (
            "SharedMergeTree",
            f"SharedMergeTree{CLOUD}){KEYS}",
            Family.SHARED,
            "MergeTree",
            f"MergeTree(){KEYS}",
        ),
        ("SharedMergeTree", "SharedMergeTree ORDER BY n", Family.SHARED, "MergeTree", "MergeTree ORDER BY n"),
        (
            "SharedReplacingMergeTree",
            f"SharedReplacingMergeTree{CLOUD}, _version, _deleted) ORDER BY id",
            Family.SHARED,
            "ReplacingMergeTree",
            "ReplacingMergeTree(_version, _deleted) ORDER BY id",
        ),
        (
            "SharedSummingMergeTree",
            f"SharedSummingMergeTree{CLOUD}, (a, b)) ORDER BY id",
            Family.SHARED,
            "SummingMergeTree",
            "SummingMergeTree((a, b)) ORDER BY id",
        ),
    ],
)
def test_families(name: str, full: str, family: Family, kind: str, of_one_server: str):
    engine = engine_of(name, full)
    assert (engine.family, engine.kind, engine.full) == (family, kind, of_one_server)
    assert engine.replicated is (family is not Family.PLAIN)
    assert staged_engine(TargetTable("d.t", "", name, full, (), False, ())) == of_one_server


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize(
    ("kind", "true"),
    [
        ("MergeTree", {"merge_tree", "keeps", "certain", "stores"}),
        ("ReplacingMergeTree", {"merge_tree", "merges", "certain", "stores"}),
        ("SummingMergeTree", {"merge_tree", "merges", "computes", "certain", "stores"}),
        ("AggregatingMergeTree", {"merge_tree", "merges", "computes", "certain", "stores"}),
        ("CoalescingMergeTree", {"merge_tree", "merges", "computes", "certain", "stores"}),
        ("GraphiteMergeTree", {"merge_tree", "computes", "stores"}),
        ("CollapsingMergeTree", {"merge_tree", "stores"}),
        ("VersionedCollapsingMergeTree", {"merge_tree", "stores"}),
    ],
)
def test_what_merges_do_is_the_same_in_each_family(family: Family, kind: str, true: set[str]):
    engine = engine_of(f"{family}{kind}")
    names = ("merge_tree", "keeps", "merges", "computes", "certain", "stores")
    assert {name for name in names if getattr(engine, name)} == true


def test_no_other_module_compares_engines_of_tables():
    """A name that is read back would have to be understood in each family there."""
    asking = re.compile(
        r"""(startswith|removeprefix|endswith|in|==|!=)\s*[(\[{]*\s*["'](Replicated|Shared|\w*MergeTree)["']"""
    )
    found = [
        f"{path.relative_to(SOURCES)}: {line.strip()}"
        for path in sorted(SOURCES.rglob("*.py"))
        if path.name != "engine.py"
        for line in path.read_text().splitlines()
        if asking.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("cloud", "readonly", "carried"),
    [("1", 0, {"select_sequential_consistency": 1}), ("1", 1, {}), ("0", 0, {}), (None, 0, {})],
)
def test_reads_see_what_any_server_of_a_service_has_written(cloud: str | None, readonly: int, carried: dict):
    settings = {
        "select_sequential_consistency": SimpleNamespace(
            name="select_sequential_consistency", value="0", readonly=readonly
        )
    }
    if cloud is not None:
        settings["cloud_mode"] = SimpleNamespace(name="cloud_mode", value=cloud, readonly=1)
    assert consistent(settings) == carried
