"""What is left of an hour whose manifest is lost, and when it may land again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake import layout
from sluice.clients.lake.folder import FolderLake
from sluice.errors import ManifestLost
from sluice.flow.land.lost_manifests import LostManifests, lost_manifests
from sluice.manifest import OffsetRange, encode
from sluice.slices import Unit
from tests.support.manifests import made_manifest
from tests.unit.flow.load.test_load_decide import unit

HOUR = layout.event_folder("click", "2026-11-20T10")


def write(lake: FolderLake, key: str, offsets: range, topic: str = "t") -> None:
    path = Path(lake.root, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {"_topic": [topic] * len(offsets), "_partition": [0] * len(offsets), "_offset": [*offsets]}
    pq.write_table(pa.table(columns), path)


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    """An erasure has rewritten one of two files: the other is of the generation before."""
    lake = FolderLake(tmp_path / "p")
    lake.create(layout.slice_success(unit().slice.id, "dc1"), b"2-a")
    write(lake, layout.data_file(HOUR, unit().slice.id, "dc1", 1, 0), range(10))
    write(lake, layout.data_file(HOUR, unit().slice.id, "dc1", 2, 0), range(10, 14))
    write(lake, layout.rejected_file(unit().slice.id, "dc1", 1, 0), range(14, 16), "gone")
    return lake


def found(lake: FolderLake, accept_loss: bool = False) -> LostManifests:
    return lost_manifests(lake, [unit(), unit(1)], accept_loss)


def left(start: int, until: int, topic: str = "t") -> OffsetRange:
    return OffsetRange(topic, "u", 0, start, until)


def test_files_of_all_generations_are_its_own(lake: FolderLake):
    lost = found(lake)
    (only,) = lost.units.values()
    assert (only.unit, only.generation, only.rows) == (unit(), 2, 14)
    assert only.spans == {("t", 0): (0, 14), ("gone", 0): (14, 16)}
    assert lost.topics(unit(), ["t"]) == ("t", "gone")
    assert lost.topics(unit(1), ["t"]) == ("t",)


@pytest.mark.parametrize(
    ("ranges", "said"),
    [
        ([left(0, 14), left(14, 16, "gone")], ""),
        ([left(0, 99), left(0, 99, "gone")], ""),
        ([left(1, 14), left(14, 16, "gone")], r"\[0, 1\) of dc1/t/0"),
        ([left(0, 13), left(14, 16, "gone")], r"\[13, 14\) of dc1/t/0"),
        ([left(20, 30), left(14, 16, "gone")], r"\[0, 14\) of dc1/t/0"),
        ([left(0, 14)], r"\[14, 16\) of dc1/gone/0"),
    ],
)
def test_every_record_of_its_files_has_to_be_there(lake: FolderLake, ranges: list[OffsetRange], said: str):
    lost = found(lake)
    if said:
        with pytest.raises(ManifestLost, match=said):
            lost.check(unit(), ranges)
    else:
        lost.check(unit(), ranges)
    lost.check(unit(1), [])
    found(lake, accept_loss=True).check(unit(), ranges)


def test_and_every_row(lake: FolderLake):
    found(lake).check_rows(unit(), 14)
    with pytest.raises(ManifestLost, match="would reject 1 of its 14 rows"):
        found(lake).check_rows(unit(), 13)
    found(lake, accept_loss=True).check_rows(unit(), 0)


def test_a_file_that_cannot_be_read_may_hold_anything(lake: FolderLake):
    key = layout.data_file(HOUR, unit().slice.id, "dc1", 1, 0)
    Path(lake.root, key).write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ManifestLost, match=rf"{key} cannot be read, so nobody knows which records it has"):
        found(lake).check(unit(), [left(0, 99), left(0, 99, "gone")])


def test_one_that_another_run_has_landed_meanwhile_is_not_lost(lake: FolderLake):
    place: Unit = unit()
    stored = made_manifest("p", place.slice.id, "dc1", 2, "a", (), (), (), 0, {}, 0)
    lake.create(layout.manifest(place.slice.id, "dc1"), encode(stored))
    assert found(lake).units == {}
