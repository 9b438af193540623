"""The summaries that the steps keep, and the verdict of verify: what a later step leaves and voids."""

from __future__ import annotations

from dataclasses import replace

import pendulum
import pytest

from sluice.errors import SluiceError
from sluice.flow.verify import verdict as verdicts
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.verdict import note_verified, read_verdict
from sluice.manifest import Forgotten, ForgottenRecords, LandedFile, OffsetRange
from sluice.slices import HOUR, Slice, SliceRange, Unit
from sluice.state import months
from sluice.state.notes import months_of
from tests.support.fakes import MemoryLake
from tests.support.page_world import START, complete, missing, unit

NOW = pendulum.datetime(2026, 11, 20, 20)
DAY = SliceRange(START, START.add(hours=4))


def gone(hour: int, cluster: str = "dc1") -> Anomaly:
    return Anomaly(
        AnomalyKind.ROWS_MISSING, "5 rows", "4", "sluice run …", slice=unit(hour).slice.id, cluster=cluster
    )


def read(lake: MemoryLake, slices: SliceRange, seen: months.CachedMonths | None = None) -> list[months.Month]:
    return [month.units for month in months.read_summaries(lake, slices, seen).months]


def verified(lake: MemoryLake) -> dict[str, bool]:
    (month,) = read(lake, DAY)
    return {name[11:13]: bool(units["dc1"].verified) for name, units in month.items()}


def test_a_unit_stays_verified_until_it_is_loaded_anew():
    lake = MemoryLake()
    note_verified(lake, DAY, [complete(unit(0)), complete(unit(1))], [], NOW)
    months.note(lake, [complete(unit(0), generation=2), complete(unit(1)), missing(unit(2))])
    assert verified(lake) == {"10": False, "11": True, "12": False}


def test_a_summary_of_boundaries_that_go_back_is_read_again():
    lake, broken = MemoryLake(), OffsetRange("bids", "u1", 0, 9, 4)
    whole = OffsetRange("bids", "u1", 1, 0, 3)
    months.note(lake, [replace(complete(unit(0)), ranges=(broken, whole))])
    (month,) = read(lake, DAY)
    assert [units["dc1"].offsets for units in month.values()] == [3]


def test_which_files_of_a_unit_are_forgotten():
    """A remade unit without a file of rejected records has none that are due; another one has."""
    landed = complete(unit(0))
    assert landed.manifest is not None
    gone = (ForgottenRecords("2027-01-01T00:00:00Z", {"no type": 3}),)
    bare = replace(landed.manifest, rejected=(), rejected_records={"no type": 3}, without_bytes=gone)
    bad = LandedFile("_rejected/x", "a", None, "", 2, 1, "0")
    more = replace(bare, rejected_records={"no type": 5}, rejected=(bad,))
    later = replace(more, forgotten=Forgotten(rejected="2027-02-01T00:00:00Z", removed=True))
    found = [months.summary_of(replace(landed, manifest=manifest)) for manifest in (bare, more, later)]
    assert [(one.rejected_records, one.forgotten) for one in found] == [
        (3, "rejected"),
        (5, ""),
        (5, "rejected"),
    ]


def test_a_broken_unit_is_not_verified_and_stays_open_until_it_is_verified_again():
    lake = MemoryLake()
    found = [complete(unit(0)), complete(unit(1))]
    note_verified(lake, DAY, found, [], NOW)
    note_verified(lake, DAY, found, [gone(0)], NOW.add(minutes=1))
    assert verified(lake) == {"10": False, "11": True}

    second = SliceRange(START.add(hours=1), START.add(hours=2))
    note_verified(lake, second, [found[1]], [], NOW.add(minutes=2))
    assert [one.slices for one in read_verdict(lake).anomalies] == [("2026-11-20T10Z",)]
    assert [verification.found for verification in read_verdict(lake).verifications] == [0, 1, 0]

    note_verified(lake, DAY, found, [], NOW.add(minutes=3))
    assert read_verdict(lake).anomalies == ()
    assert verified(lake) == {"10": True, "11": True}


@pytest.mark.parametrize("kind", ["2099-01-01T00Z", "x 2099-01-01T00Z/dc1, slice 2099-01-01T00Z"])
def test_a_type_that_is_called_like_an_hour_names_none(kind: str):
    """Else its anomaly would be open until that hour is verified."""
    lake = MemoryLake()
    wrong = Anomaly(
        AnomalyKind.ROW_TYPE, f"type {kind!r}, by its payload", f"_type {kind!r}", slice=unit(0).slice.id,
        cluster="dc1", type=kind, file=f"type={kind}/date=2026-11-20/hour=10/2026-11-20T10Z-dc1-1-0.parquet",
    )  # fmt: skip
    note_verified(lake, DAY, [complete(unit(0))], [wrong], NOW)
    assert [one.slices for one in read_verdict(lake).anomalies] == [("2026-11-20T10Z",)]
    note_verified(lake, DAY, [complete(unit(0))], [], NOW.add(minutes=1))
    assert read_verdict(lake).anomalies == ()


def test_an_anomaly_of_one_cluster_leaves_the_other_verified():
    lake = MemoryLake()
    note_verified(lake, DAY, [complete(unit(0)), complete(unit(0, "dc2"))], [gone(0, "dc2")], NOW)
    (month,) = read(lake, DAY)
    assert {c: bool(one.verified) for c, one in month["2026-11-20T10Z"].items()} == {
        "dc1": True,
        "dc2": False,
    }


def test_an_anomaly_without_an_hour_goes_when_its_whole_range_is_verified_again():
    verification = verdicts.verification_of(DAY, 1, 1, 1, NOW)
    old = verdicts.after(
        verdicts.Verdict(),
        verification,
        [verdicts.opened_by(Anomaly(AnomalyKind.STALLED, "a", "b"), verification)],
    )
    part = SliceRange(START, START.add(hours=1))
    assert len(verdicts.after(old, verdicts.verification_of(part, 1, 1, 0, NOW), []).anomalies) == 1
    assert verdicts.after(old, verdicts.verification_of(DAY, 1, 1, 0, NOW), []).anomalies == ()


def test_a_table_that_is_there_again_is_missed_no_more_whatever_the_range():
    """The command that its anomaly gives is of the hours that wait, not of all that were verified."""
    look = verdicts.verification_of(DAY, 1, 1, 1, NOW)
    gone = verdicts.opened_by(Anomaly(AnomalyKind.TABLE_MISSING, "a table", "none", table="e.clicks"), look)
    old = verdicts.after(verdicts.Verdict(), look, [gone])
    part = verdicts.verification_of(SliceRange(START, START.add(hours=1)), 1, 1, 0, NOW)
    assert verdicts.after(old, part, []).anomalies == ()
    assert verdicts.after(old, part, [gone]).anomalies == (gone,)


def test_what_is_not_done_yet_is_open_but_breaks_nothing():
    verification = verdicts.verification_of(DAY, 1, 1, 1, NOW)
    kinds = (AnomalyKind.INCOMPLETE, AnomalyKind.LOSS, AnomalyKind.ROWS_EXTRA)
    opened = [verdicts.opened_by(Anomaly(kind, "a", "b"), verification) for kind in kinds]
    assert [one.breaks for one in opened] == [False, False, True]


def test_the_counts_of_a_unit():
    found = complete(unit(0), rows=7, rejected_records={"no type": 2}, late=3)
    assert months.summary_of(found, verified=True) == months.UnitSummary(
        state="complete",
        seal=months.seal_of(found),
        verified=months.seal_of(found),
        offsets=9,
        read=9,
        rejected_records=2,
        late=3,
        rows=7,
        files=1,
        bytes=70,
        topics=("t",),
    )


def test_months_are_objects_of_their_own():
    over = SliceRange(pendulum.datetime(2026, 11, 30, 22), pendulum.datetime(2026, 12, 1, 0))
    assert months_of(over) == ["2026-11"]
    assert months_of(SliceRange(over.start, over.end.add(hours=1))) == ["2026-11", "2026-12"]
    lake = MemoryLake()
    months.note(lake, [missing(unit(0)), missing(unit(24 * 20))])
    assert sorted(lake.objects) == ["_summary/2026-11.json", "_summary/2026-12.json"]


def test_a_step_that_sees_nothing_new_writes_nothing():
    lake = MemoryLake()
    months.note(lake, [complete(unit(0))])
    before = dict(lake.objects)
    months.note(lake, [complete(unit(0))])
    assert lake.objects == before


def test_two_steps_that_write_at_once_both_count():
    lake = MemoryLake()
    months.note(lake, [complete(unit(0))])
    reading = lake.read

    def read_while_another_writes(key):
        stored = reading(key)
        lake.read = reading
        months.note(lake, [complete(unit(1))])
        return stored

    lake.read = read_while_another_writes
    months.note(lake, [complete(unit(2))])
    (month,) = read(lake, DAY)
    assert sorted(month) == ["2026-11-20T10Z", "2026-11-20T11Z", "2026-11-20T12Z"]


@pytest.mark.parametrize("key", ["_summary/2026-11.json", "_verify/latest.json"])
def test_a_damaged_object_is_named_with_its_remedy(key):
    lake = MemoryLake()
    lake.put(key, b"{")
    with pytest.raises(SluiceError, match=f"{key}.*delete it"):
        note_verified(lake, DAY, [complete(unit(0))], [], NOW)


def test_a_month_is_decoded_again_when_it_has_changed(monkeypatch: pytest.MonkeyPatch):
    lake, seen, decoded = MemoryLake(), {}, []
    decode = months.SUMMARIES.decode
    monkeypatch.setattr(
        months.SUMMARIES, "decode", lambda data, place: (decoded.append(place), decode(data, place))[1]
    )
    months.note(lake, [complete(unit(0))])
    decoded.clear()
    for _ in range(2):
        assert list(*read(lake, DAY, seen)) == [unit(0).slice.id]
    assert len(decoded) == 1
    months.note(lake, [complete(unit(1))])
    assert list(*read(lake, DAY, seen)) == [unit(0).slice.id, unit(1).slice.id]

    year = SliceRange(DAY.start.subtract(years=1), DAY.end)
    for number in range(8):
        piece = Slice(START.subtract(months=number), HOUR)
        months.note(lake, [complete(Unit(piece, "dc1"))])
    assert sum(map(bool, read(lake, year, seen))) == 8
    assert sorted(seen) == ["2026-09", "2026-10", "2026-11"]
