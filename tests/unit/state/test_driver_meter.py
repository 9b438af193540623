"""What a driver counts comes to the task that waits for it, and to no other, also when the landing fails."""

from __future__ import annotations

from pathlib import Path

import pendulum
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.errors import LakeUnavailable, SparkFailed
from sluice.flow.metrics import handed_over, handing_over, key_of
from sluice.metrics import meter
from sluice.metrics.meter import Metered
from sluice.slices import SliceRange

START = pendulum.datetime(2026, 11, 20, 10)
RANGE, OTHER = (SliceRange(START, START.add(hours=n)) for n in (1, 2))


@pytest.fixture(autouse=True)
def _nothing_counted() -> None:
    meter.take()


@pytest.fixture
def lake(tmp_path: Path) -> FolderLake:
    return FolderLake(tmp_path)


def drive(lake: FolderLake, slices: SliceRange, cluster: str, stages: int) -> None:
    with handing_over(lake, slices, cluster):
        meter.add("spark_stages", stages)
        meter.add("bucket_requests", operation="PutObject")
        meter.took("spark_stage_seconds", stages / 2)


def fail(lake: FolderLake) -> None:
    with handing_over(lake, RANGE, ""):
        meter.add("bytes_discarded", 900)
        raise SparkFailed("no memory")


def test_a_task_gets_what_the_driver_of_its_range_and_cluster_has_counted(lake: FolderLake):
    began = pendulum.now("UTC")
    drive(lake, RANGE, "", 3)
    drive(lake, OTHER, "", 50)
    drive(lake, RANGE, "dc1", 70)
    drive(lake, RANGE, "", 4)
    assert meter.take() == Metered()
    found = handed_over(lake, RANGE, "", began)
    put = ("bucket_requests", {"operation": "PutObject"}, 1)
    assert found.counts == (("spark_stages", {}, 3), put, ("spark_stages", {}, 4), put)
    assert found.times == (("spark_stage_seconds", 1.5), ("spark_stage_seconds", 2.0))
    assert handed_over(lake, RANGE, "dc1", began).counts[0] == ("spark_stages", {}, 70)
    assert handed_over(lake, RANGE, "dc2", began) == Metered()


def test_an_earlier_try_is_not_counted_again(lake: FolderLake):
    drive(lake, RANGE, "", 3)
    assert handed_over(lake, RANGE, "", pendulum.now("UTC").add(seconds=1)) == Metered()


def test_a_landing_that_fails_hands_over_too(lake: FolderLake):
    began = pendulum.now("UTC")
    with pytest.raises(SparkFailed, match="no memory"):
        fail(lake)
    assert handed_over(lake, RANGE, "", began).counts == (("bytes_discarded", {}, 900),)


def test_a_lake_that_is_away_does_not_hide_why_the_landing_failed(
    lake: FolderLake, monkeypatch: pytest.MonkeyPatch
):
    def away(*_: object) -> None:
        raise LakeUnavailable("file:///lake", "gone")

    monkeypatch.setattr(FolderLake, "read", away)
    with pytest.raises(SparkFailed):
        fail(lake)
    with pytest.raises(LakeUnavailable):
        drive(lake, RANGE, "", 1)


def test_who_has_counted_nothing_writes_nothing(lake: FolderLake, tmp_path: Path):
    with handing_over(lake, RANGE, ""):
        pass
    assert list(tmp_path.rglob("*.ndjson")) == []


def test_metrics_of_another_version_are_left_out(lake: FolderLake):
    began = pendulum.now("UTC")
    with handing_over(lake, RANGE, ""):
        meter.add("spark_of_next_year", 1)
        meter.add("spark_stages", 1)
        meter.took("time_of_next_year", 1)
    assert handed_over(lake, RANGE, "", began) == Metered((("spark_stages", {}, 1),))


def test_a_driver_that_runs_over_midnight_is_found_on_the_day_it_ended(lake: FolderLake):
    drive(lake, RANGE, "", 3)
    today = pendulum.now("UTC").date()
    assert lake.read(key_of(today)) is not None
    found = handed_over(lake, RANGE, "", pendulum.now("UTC").subtract(days=2))
    assert found.counts[0] == ("spark_stages", {}, 3)


def test_a_damaged_line_is_left_out(lake: FolderLake):
    began = pendulum.now("UTC")
    range_ = f'"start": "{RANGE.start.isoformat()}", "until": "{RANGE.end.isoformat()}", "cluster": ""'
    metered = '"metered": {"counts": [["spark_stages", {}, 9]]}'
    no_zone = f'{{{range_}, "ended": "{began.naive().isoformat()}", {metered}}}'
    no_instant = f'{{{range_}, "ended": "soon", {metered}}}'
    lines = [b"{", b'{"start": 1}', b"\xff", b'{"start": "\xff"}', no_zone.encode(), no_instant.encode(), b""]
    assert lake.create(key_of(began.date()), b"\n".join(lines))
    drive(lake, RANGE, "", 3)
    assert handed_over(lake, RANGE, "", began).counts[0] == ("spark_stages", {}, 3)


def test_a_line_of_an_earlier_release_is_read(lake: FolderLake):
    line = (
        b'{"start":"2026-11-20T10:00:00+00:00","until":"2026-11-20T11:00:00+00:00","cluster":"",'
        b'"ended":"2026-11-20T11:05:00.000001+00:00","metered":{"counts":[["spark_stages",{},9]],"times":[]}}\n'
    )
    assert lake.create("_timings/2026-11-20-drivers.ndjson", line)
    assert handed_over(lake, RANGE, "", START).counts == (("spark_stages", {}, 9),)
