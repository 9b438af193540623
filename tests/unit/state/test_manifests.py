"""A unit's manifest is its own, and names files of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.errors import SluiceError
from sluice.manifest import LandedFile, encode
from sluice.slices import HOUR, Slice, Unit
from sluice.state.manifests import read_manifest
from tests.unit.test_manifest import example

UNIT = Unit(Slice.from_id("2026-11-20T10Z", HOUR), "dc1")
KEY = layout.manifest("2026-11-20T10Z", "dc1")
FOLDER = "type=push/date=2026-11-20/hour=10/"
OWN = LandedFile(
    f"{FOLDER}2026-11-20T10Z-dc1-1-0.parquet",
    "_attempts/2026-11-20T10Z/a7/0.parquet",
    "push",
    "2026-11-20T10",
    20,
    100,
    "sha",
)
MANIFEST = replace(example(), files=(OWN,), rejected=())


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path / "github")


def test_it_is_read(lake: FolderLake):
    lake.put(KEY, encode(MANIFEST))
    assert read_manifest(lake, UNIT) == MANIFEST


@pytest.mark.parametrize(
    "change",
    [
        {"key": "../../etc/passwd"},
        {"key": "/etc/passwd"},
        {"key": f"{FOLDER}2026-11-20T11Z-dc1-1-0.parquet"},
        {"key": f"{FOLDER}2026-11-20T10Z-dc2-1-0.parquet"},
        {"key": "_boundaries/0000000001.json"},
        {"attempt_key": "../x"},
        {"attempt_key": "_slices/2026-11-20T10Z/dc1/manifest.json"},
    ],
)
@pytest.mark.parametrize("field", ["files", "rejected"])
def test_a_file_that_no_landing_names_is_told_with_its_manifest(change: dict, field: str, lake: FolderLake):
    lake.put(KEY, encode(replace(MANIFEST, **{field: (replace(OWN, **change),)})))
    with pytest.raises(SluiceError, match=r"manifest\.json names .*, not its own file: verify names what"):
        read_manifest(lake, UNIT)


@pytest.mark.parametrize("change", [{"slice": "2026-11-20T11Z"}, {"cluster": "dc2"}, {"pipeline": "other"}])
def test_another_units_manifest_is_told(change: dict, lake: FolderLake):
    lake.put(KEY, encode(replace(MANIFEST, **change)))
    with pytest.raises(SluiceError, match="is the manifest of .*: verify names what to do"):
        read_manifest(lake, UNIT)
