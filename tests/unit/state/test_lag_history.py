"""The lag by the hour: of each hour the highest, and writers lose nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.errors import SluiceError
from sluice.plan.lag import Lag, PartitionLag
from sluice.slices import SliceRange
from sluice.state.notes import LAG, LagSample, note_lag, read_lag
from tests.support.fakes import MemoryLake
from tests.support.page_world import START

HOUR = 3600
KEY = LAG.key("2026-11")
TEN = int(START.timestamp())
DAY = SliceRange(START, START.add(days=1))


def test_of_an_hour_the_highest_of_each_value_is_kept():
    lake = MemoryLake()
    for at, records, held, seconds in ((5, 10, 0, None), (900, 7, 3, 50), (3599, 9, 1, 40), (HOUR, 1, 0, 9)):
        note_lag(lake, LagSample(TEN + at, records, held, seconds))
    assert read_lag(lake, DAY) == (LagSample(TEN, 10, 3, 50), LagSample(TEN + HOUR, 1, 0, 9))


def test_what_is_no_higher_writes_nothing():
    lake = MemoryLake()
    note_lag(lake, LagSample(TEN, 10, 3, 50))
    before = lake.objects[KEY]
    note_lag(lake, LagSample(TEN + 60, 9, 3, None))
    assert lake.objects[KEY] == before


def test_writers_at_once_lose_no_hour(tmp_path):
    lake = FolderLake(tmp_path / "p")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: note_lag(lake, LagSample(TEN + n * HOUR, n, 0, n)), range(24)))
    assert read_lag(lake, DAY) == tuple(LagSample(TEN + n * HOUR, n, 0, n) for n in range(24))


def test_bytes_that_are_none_name_their_place():
    lake = MemoryLake()
    lake.put(KEY, b'{"a": [1,')
    with pytest.raises(
        SluiceError, match=r"memory://demo/_history/lag-2026-11.json holds no lag .*delete it"
    ):
        read_lag(lake, DAY)


def partition(records: int, seconds: int | None, held: int = 0) -> PartitionLag:
    return PartitionLag("dc1", "t", 0, None, 0, 9, records, seconds, 0.0, held)


@pytest.mark.parametrize(
    ("partitions", "errors", "sample"),
    [
        # A partition without records behind does not count with its age.
        ([partition(5, 60, 2), partition(7, 90), partition(0, 9999)], [], LagSample(TEN, 12, 2, 90)),
        ([partition(5, None)], [], LagSample(TEN, 5, 0, None)),
        ([partition(0, 30)], [], LagSample(TEN, 0, 0, None)),
        ([partition(5, 60)], ["dc2 does not answer"], None),
        ([], [], None),
    ],
)
def test_the_sample_of_a_lag(partitions: list, errors: list, sample: LagSample | None):
    assert Lag("now", partitions, errors).sample(START) == sample
