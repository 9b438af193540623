"""What Sluice deletes is Sluice's: by its name, and in a folder that is no other pipeline's."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from local.versions import ROOT
from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.clients.lake.open import check_above, check_new, delete_own
from sluice.errors import LakeTaken, SluiceError
from tests.support.fakes import MemoryLake
from tests.support.verified import pipeline

HOUR = "type=click/date=2026-11-20/hour=10/"
FILE = "2026-11-20T10Z-dc1-2-0.parquet"
OWN = [
    HOUR + FILE,
    f"{HOUR}_SUCCESS",
    f"type=_overflow/date=2026-11-20/hour=10/{FILE}",
    f"_rejected/{FILE}",
    f"_counts/e.traffic/{FILE}",
    "_attempts/2026-11-20T1015Z/manual__x/0-1-2.parquet",
    "_doctor/00112233445566778899aabbccddeeff.json",
]
FOREIGN = [
    f"type=click/b/{HOUR}{FILE}",
    "type=click/b/_slices/2026-11-20T10Z/dc1/manifest.json",
    f"type=click/{FILE}",
    f"{HOUR}events.parquet",
    f"_rejected/b/{FILE}",
    "_attempts/b/type=click/date=2026-11-20/hour=10/x.parquet",
    "b/_boundaries/0000000000.json",
]


@pytest.mark.parametrize("key", OWN)
def test_what_is_deleted_has_a_name_of_ours(key: str):
    lake = MemoryLake()
    lake.put(key, b"x")
    delete_own(lake, [key])
    assert lake.objects == {}
    assert not layout.is_foreign(key)


@pytest.mark.parametrize("key", [*FOREIGN, "_slices/2026-11-20T10Z/dc1/manifest.json", "_erasures/list.json"])
def test_what_has_another_name_stays_and_so_does_all_that_was_named_with_it(key: str):
    lake = MemoryLake()
    for each in (OWN[0], key):
        lake.put(each, b"x")
    with pytest.raises(SluiceError, match="has no name that Sluice gives"):
        delete_own(lake, [OWN[0], key])
    assert set(lake.objects) == {OWN[0], key}


@pytest.mark.parametrize("key", FOREIGN)
def test_a_new_pipelines_folder_has_nothing_foreign_in_it(key: str, tmp_path: Path):
    lake = FolderLake(tmp_path / "ads")
    for own in OWN:
        lake.put(own, b"x")
    check_new(pipeline(), lake)
    lake.put(key, b"x")
    with pytest.raises(LakeTaken, match="is not the pipeline's: give the pipeline another `lake` or name"):
        check_new(pipeline(), lake)
    lake.put(layout.boundary_entry(0), b"x")  # what has begun is found by verify
    check_new(pipeline(), lake)


@pytest.mark.parametrize("below", ["", "type=click/", "_attempts/", "_counts/", "x/y/"])
@pytest.mark.parametrize("key", [layout.boundary_entry(0), layout.manifest("2026-11-20T10Z", "dc1")])
def test_a_new_pipeline_is_in_no_other_ones_folder(below: str, key: str, tmp_path: Path):
    mine = FolderLake(tmp_path / "lake" / "a" / below / "ads")
    check_new(pipeline(), mine)
    FolderLake(tmp_path / "lake" / "a").put(key, b"x")
    for check in (check_new, check_above):
        with pytest.raises(LakeTaken, match="is in the folder of another pipeline"):
            check(pipeline(), mine)
    check_new(pipeline(), FolderLake(tmp_path / "lake" / "ads"))


def test_nothing_else_deletes_objects_of_the_lake():
    adapters = ROOT / "plugins" / "sluice" / "clients" / "lake"
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / "plugins" / "sluice").rglob("*.py"))
        if not path.is_relative_to(adapters)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "delete" and "lake" in ast.unparse(node.value)
    ]
    assert found == []
