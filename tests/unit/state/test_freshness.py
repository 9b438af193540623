"""How old records were when they were verified: from times and counts on paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pendulum
import pyarrow as pa
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.flow import metrics
from sluice.flow.land.commit import summed_times
from sluice.flow.land.task.reports import RecordTimes, SeenTimes
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.ledger import LedgerRow
from sluice.state.notes import (
    FRESH,
    Delay,
    FreshMonth,
    FreshTable,
    FreshUnit,
    delays_of,
    fresh_of,
    note_fresh,
    quantile,
    tables_of,
)
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.manifests import made_manifest

TEN = pendulum.datetime(2026, 11, 30, 22)
HOUR = Slice(TEN)
TIMES = (60, *[0] * 10, 40)
"""60 records in the first five minutes of the hour, 40 in the last five."""


def test_stamps_are_counted_by_slice_and_part():
    seen = RecordTimes([Slice(TEN), Slice(TEN.add(hours=1)), Slice(TEN.add(hours=2))])
    ms = int(TEN.timestamp()) * 1000
    minute = 60_000
    stamps = np.array(
        [ms, ms + 4 * minute, ms + 5 * minute, ms + 119 * minute, ms - 7 * minute, ms + 999 * minute]
    )
    seen.add(pa.table({"slice": np.array([0, 0, 0, 1, 0, 1]), "_timestamp": stamps.view("datetime64[ms]")}))
    seen.add(pa.table({"slice": np.array([1]), "_timestamp": np.array([ms + 60 * minute], "datetime64[ms]")}))
    assert seen.report("dc1") == (
        SeenTimes("dc1", "2026-11-30T22Z", (3, 1, *[0] * 10)),
        SeenTimes("dc1", "2026-11-30T23Z", (1, *[0] * 10, 2)),
    )


def test_tasks_of_one_unit_add_up():
    parts = [SeenTimes("dc1", "x", (1, 2, 3)), SeenTimes("dc1", "x", (10, 20, 30))]
    assert summed_times(parts) == (11, 22, 33)
    assert summed_times([]) == ()


def test_ages_are_from_the_middle_of_each_part():
    """Verified 10 minutes after the hour: the first part is 67.5 minutes old, the last 12.5."""
    verified = int(HOUR.end.timestamp()) + 600
    delays = delays_of(HOUR, TIMES, verified)
    assert delays == (Delay(67.5 * 60, 60), Delay(12.5 * 60, 40))
    assert [quantile(delays, share) for share in (0.4, 0.41, 0.5, 0.99)] == [750.0, 4050.0, 4050.0, 4050.0]
    assert quantile([], 0.5) is None


def test_the_metric_has_one_sample_for_each_equal_share():
    delays = (Delay(100.0, 3), Delay(700.0, 1))
    found = list(metrics.fresh("p", [FreshTable(HOUR, "e.clicks", 0, delays)]))
    assert [one.value for one in found] == [100.0] * 15 + [700.0] * 5
    assert {tuple(one.labels.items()) for one in found} == {(("pipeline", "p"), ("table", "e.clicks"))}


def status(hour: int = 0, times: tuple[int, ...] = TIMES, **held: str) -> UnitStatus:
    unit = Unit(Slice(TEN.add(hours=hour)), "dc1")
    manifest = made_manifest("p", unit.slice.id, "dc1", 1, "a", (), (), (), 0, {}, 0, times=times)
    rows = {f"e.{table}": LedgerRow(unit, of, (), 0, 0, 0, "", 1) for table, of in held.items()}
    return UnitStatus(unit, UnitState.COMPLETE, (), (), manifest, rows, (), 1)


@pytest.mark.parametrize(
    ("found", "broken", "tables"),
    [
        (status(a="1-a", b="1-a"), set(), {"e.a", "e.b"}),
        (status(a="1-a", b="0-older"), set(), {"e.a"}),
        (status(a="1-a", b="1-a"), {("2026-11-30T22Z", "dc1", "e.b")}, {"e.a"}),
        (status(a="1-a", b="1-a"), {("2026-11-30T22Z", "", "")}, set()),
        (status(a="1-a", b="1-a"), {("2026-11-30T21Z", "dc1", "")}, {"e.a", "e.b"}),
        (status(times=(), a="1-a"), set(), set()),
        (status(-2, a="1-a"), set(), set()),
    ],
)
def test_a_table_is_fresh_when_its_unit_is_committed_and_in_order(
    found: UnitStatus, broken: set[tuple[str, str, str]], tables: set[str]
):
    units = fresh_of([found], broken, TEN, TEN.add(hours=2))
    assert {table for unit in units.values() for one in unit.values() for table in one.verified} == tables


def test_the_first_verification_counts_in_the_month_of_each_slice(tmp_path: Path):
    lake = FolderLake(tmp_path)
    first = fresh_of([status(1, a="1-a"), status(2, a="1-a")], set(), TEN, TEN.add(hours=3))
    assert note_fresh(lake, first) == first
    again = fresh_of([status(1, a="1-a", b="1-a"), status(2, a="1-a")], set(), TEN, TEN.add(hours=9))
    late = int(TEN.add(hours=9).timestamp())
    assert note_fresh(lake, again) == {"2026-11-30T23Z": {"dc1": FreshUnit(TIMES, {"e.b": late})}}
    kept = FRESH.read(lake, SliceRange(TEN, TEN.add(hours=4)))
    soon = int(TEN.add(hours=3).timestamp())
    assert kept == {
        "2026-11-30T23Z": {"dc1": FreshUnit(TIMES, {"e.a": soon, "e.b": late})},
        "2026-12-01T00Z": {"dc1": FreshUnit(TIMES, {"e.a": soon})},
    }
    (only,) = tables_of([Slice(TEN.add(hours=2))], kept)
    assert (only.table, only.verified, sum(one.records for one in only.delays)) == ("e.a", soon, 100)


class InterruptedLake(FolderLake):
    """Another run stores its units between the read and the first write."""

    def __init__(self, root: Path, other: FreshMonth) -> None:
        super().__init__(root)
        self.other: FreshMonth | None = other

    def create(self, key: str, data: bytes) -> bool:
        other, self.other = self.other, None
        if other is not None:
            note_fresh(self, other)
        return super().create(key, data)


def test_of_two_runs_at_once_one_is_the_first(tmp_path: Path):
    verified = fresh_of([status(0, a="1-a"), status(1, a="1-a")], set(), TEN, TEN.add(hours=3))
    other = fresh_of([status(0, a="1-a")], set(), TEN, TEN.add(hours=2))
    lake = InterruptedLake(tmp_path, other)
    assert note_fresh(lake, verified) == {"2026-11-30T23Z": verified["2026-11-30T23Z"]}
    assert FRESH.read(lake, SliceRange(TEN, TEN.add(hours=2))) == {**verified, **other}


def test_a_damaged_month_says_what_to_do(tmp_path: Path):
    lake = FolderLake(tmp_path)
    assert lake.create("_summary/fresh-2026-11.json", b"[]")
    with pytest.raises(Exception, match=r"fresh-2026-11.json holds no times .* delete it"):
        FRESH.read(lake, SliceRange(TEN, TEN.add(hours=1)))
