"""What a run has to do: batches, and of each what is to land and to load."""

from __future__ import annotations

from dataclasses import replace

import pendulum
import pytest

from sluice.cli import plan as command
from sluice.errors import LakeUnavailable
from sluice.flow.resolve.resolve import Preview
from sluice.manifest import Loss, OffsetRange
from sluice.plan.plan import has_work, to_land, work_of
from sluice.plan.progress import RangeProgress, RedoneProgress, progress_line
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.ledger import LedgerRow
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.manifests import made_manifest
from tests.unit.doctor.test_doctor_kafka import pipeline

DAY = pendulum.datetime(2026, 11, 20)


def status(hour: int, state: UnitState, offsets: int = 10, read: int | None = None) -> UnitStatus:
    unit = Unit(Slice(DAY.add(hours=hour)), "dc1")
    ranges = (OffsetRange("bids", "id", 0, 0, offsets),)
    manifest = None
    if read is not None:
        manifest = made_manifest("p", unit.slice.id, "dc1", 1, "a", ranges, (), (), read, {}, 0)
    return UnitStatus(unit, state, ranges, (), manifest, {}, (), 1)


MIXED = [
    status(0, UnitState.COMPLETE, read=9),
    status(1, UnitState.LANDED, read=8),
    status(2, UnitState.MISSING),
    status(3, UnitState.STALE, read=7),
    status(4, UnitState.COMPLETE, read=6),
    status(5, UnitState.NOT_OVER),
]


@pytest.mark.parametrize(
    ("mode", "span", "land", "load"),
    [
        ("fill", (1, 4), (1, 10), (3, 25)),
        ("reload", (0, 5), (1, 10), (5, 40)),
        ("reland", (0, 5), (5, 40), (5, 40)),
    ],
)
def test_what_each_mode_has_to_do(mode, span, land, load):
    work = work_of(MIXED, mode)
    assert [(b.start.hour, b.end.hour) for b in work.batches] == [span]
    assert (work.land, work.load) == ((land,), (load,))
    assert (work.units, work.rows) == load
    assert work.check == (5, 40)


@pytest.mark.parametrize(
    ("mode", "on_expired", "hours"),
    [
        ("fill", "fail", [2]),
        ("fill", "land_rest", [2, 6]),
        ("reload", "land_rest", [2, 6]),
        ("reland", "fail", [0, 1, 2, 3, 4]),
        ("reland", "land_rest", [0, 1, 2, 3, 4, 6]),
    ],
)
def test_what_is_read_from_kafka(mode, on_expired, hours):
    found = to_land([*MIXED, status(6, UnitState.EXPIRED)], mode, on_expired)
    assert [one.unit.slice.start.hour for one in found] == hours


def test_amounts_are_counted_in_the_batch_that_holds_the_slice():
    large = [status(hour, UnitState.MISSING, offsets=30_000_000) for hour in range(4)]
    work = work_of([*large, replace(MIXED[5])], "fill")
    assert len(work.batches) == 4
    assert work.land == work.load == ((1, 30_000_000),) * 4


def test_nothing_to_do():
    work = work_of([MIXED[0], MIXED[4]], "fill")
    assert (work.batches, work.land, work.units) == ((), (), 0)
    assert not has_work(MIXED[5], "reland")


@pytest.mark.parametrize(("mode", "offsets"), [("fill", 4), ("reload", 4), ("reland", 1 + 2 + 4 + 8 + 16)])
def test_the_plan_counts_the_offsets_that_the_mode_reads(mode, offsets, monkeypatch, capsys):
    """Hours of 1, 2, 4 … offsets; a reland reads all but the open hour again."""
    found = [replace(s, ranges=(OffsetRange("bids", "id", 0, 0, 2**n),)) for n, s in enumerate(MIXED)]
    monkeypatch.setattr(command, "load_pipeline", lambda *_: pipeline())
    monkeypatch.setattr("sluice.flow.steps.preview", lambda *_: Preview(found))
    monkeypatch.setattr("sluice.flow.steps.estimated_time", lambda *_: "unknown")
    command.plan("p", "2026-11-20", "2026-11-21", mode=mode)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "offsets to land" in line]
    assert line.split()[-1] == str(offsets)


def test_many_hours_of_a_plan_are_summed_up(monkeypatch, capsys):
    """21 days of 24 hours of 3 offsets, of which Kafka has lost those of the first 30 hours: [0, 90)."""
    found = []
    for number in range(504):
        lost, spans = number < 30, (OffsetRange("bids", "id", 0, 3 * number, 3 * number + 3),)
        losses = (Loss("bids", 0, 3 * number, 3 * number + 3, True),) if lost else ()
        state = UnitState.EXPIRED if lost else UnitState.MISSING
        found.append(replace(status(number, state), ranges=spans, losses=losses))
    monkeypatch.setattr(command, "load_pipeline", lambda *_: pipeline())
    monkeypatch.setattr("sluice.flow.steps.preview", lambda *_: Preview(found))
    monkeypatch.setattr("sluice.flow.steps.estimated_time", lambda *_: "unknown")
    command.plan("p", "2026-11-20", "2026-12-11")
    out = capsys.readouterr().out
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if "│ 2026-" in line
    ]
    assert "by day (--json has the 504 hours)" in out and len(rows) == 21
    assert rows[0][4:8] == ["72", "72", "24", "bids/0 [0, 72)"]
    assert rows[1][2:4] == ["6 expired, 18 missing", "6 fail: expired, 18 land and load"]
    assert rows[1][4:8] == ["72", "72", "24", "bids/0 [72, 90)"]
    assert rows[2][2:4] == ["24 missing", "24 land and load"]


def loaded(one: UnitStatus, rows: int) -> UnitStatus:
    """Of its records `rows` are in a table, and one is a rejected row; counts by minute are in another
    table."""
    assert one.manifest is not None
    row = LedgerRow(one.unit, one.manifest.id, (), rows + 1, rows, 1, "", 1)
    return replace(one, state=UnitState.COMPLETE, tables={"db.click": row, "db.traffic": row})


def test_how_far_a_backfill_is():
    """Rows are those that verify counts: of events, in tables; records that were read are more."""
    before = [loaded(MIXED[0], 7), *MIXED[1:4], loaded(MIXED[4], 5), MIXED[5]]
    surveys = iter([before, [loaded(s, 5) if s.manifest else s for s in MIXED]])
    times = iter([100.0, 130.0])
    slices = SliceRange(DAY, DAY.add(hours=6))
    reach = RangeProgress(
        pipeline(tables={"click": "db.click"}, counts=[{"table": "db.traffic"}]),
        slices,
        read=lambda *_: next(surveys),
        clock=lambda: next(times),
    )
    assert reach.line() == "2 of 5 units complete, 4 landed, 12 rows loaded"
    # two more in 30 s, one is left
    assert reach.line() == "4 of 5 units complete, 4 landed, 20 rows loaded, about 15 s left"


def test_of_chosen_tables_nothing_else_is_said():
    """What is loaded into them is not complete, and its records are not counted."""
    assert (
        progress_line(pipeline(), MIXED, 2, 0.0, 0, {"db.b", "db.a"})
        == "2 of 5 units loaded into db.a, db.b, 4 landed"
    )


def test_no_time_is_promised_for_what_is_done():
    assert "left" not in progress_line(pipeline(), [MIXED[0]], 1, 10.0, 1)


def test_how_far_a_run_is_that_does_complete_hours_again():
    """What is complete all the time is known by its manifest and its commits."""

    def unit(number: int, generation: int, commit: int):
        made = replace(status(number, UnitState.COMPLETE, read=1).manifest, generation=generation)
        row = LedgerRow(status(number, UnitState.COMPLETE).unit, made.id, (), 1, 1, 0, "t", commit)
        return replace(status(number, UnitState.COMPLETE), manifest=made, tables={"a.b": row})

    before = [unit(0, 1, 1), unit(1, 1, 1), unit(2, 1, 1)]
    reloaded = [unit(0, 1, 2), unit(1, 1, 1), replace(unit(2, 1, 1), state=UnitState.LANDED, tables={})]
    relanded = [unit(0, 2, 2), replace(unit(1, 2, 1), state=UnitState.STALE), unit(2, 1, 1)]

    def lines(mode: str, *surveys: object) -> list[str]:
        reads, times = iter(surveys), iter([100.0, 130.0, 160.0])

        def read(*_: object):
            if isinstance(found := next(reads), Exception):
                raise found
            return found

        seen = RedoneProgress(
            None, SliceRange(DAY, DAY.add(hours=3)), mode, before, read, lambda: next(times)
        )
        return [seen.line() for _ in surveys]

    assert lines("reload", before, reloaded, [unit(n, 1, 2) for n in range(3)]) == [
        "0 of 3 units loaded again",
        "1 of 3 units loaded again, about 1 min 0 s left",
        "3 of 3 units loaded again",
    ]
    assert lines("reland", relanded) == ["1 of 3 units loaded again, 2 landed, about 1 min 0 s left"]
    away = LakeUnavailable("file:///l", "no answer")
    assert lines("reload", away) == [f"how far it is cannot be seen: {away}"]
