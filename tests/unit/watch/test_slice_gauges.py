"""Gauges of the newest landed slices, with values from counts on paper."""

from __future__ import annotations

from dataclasses import replace

import pendulum

from sluice.flow.verify.verdict import Verdict
from sluice.manifest import LandedFile, Manifest
from sluice.plan.lag import Lag, PartitionLag
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.ledger import LedgerRow
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from sluice.watch.expected import RowHistory, SliceRows
from sluice.watch.observe import Observation, ServerFacts
from sluice.watch.watch import newest_slices
from tests.support.manifests import made_manifest
from tests.unit.doctor.test_doctor_kafka import pipeline
from tests.unit.metrics.test_metrics_shape import values

TEN = pendulum.datetime(2026, 11, 20, 10)


def unit(hour: int) -> Unit:
    return Unit(Slice(TEN.add(hours=hour)), "dc1")


def manifest(hour: int, rows: int) -> Manifest:
    files = (
        LandedFile("k", "a", "click", "2026-11-20T10", rows, 1_000, ""),
        LandedFile("l", "a", None, "2026-11-20T10", 10, 50, "", {"view": 10}),
    )
    read = rows + 10 + 5
    return made_manifest(
        "p", unit(hour).slice.id, "dc1", 1, "a", (), files, (), read, {"not JSON": 5}, 0, late=20
    )


def observation() -> Observation:
    rows = [LedgerRow(unit(n), "1-a", (), 100, 60 + n, 40 - n, "", 1) for n in range(2)]
    found = [
        UnitStatus(unit(n), UnitState.COMPLETE, (), (), None, {"e.clicks": row}, (), 1)
        for n, row in enumerate(rows)
    ]
    held = PartitionLag("dc1", "bids", 0, None, 0, 9, 9, None, 0.0, held=4)
    lag = Lag("", [held, replace(held, partition=1, held=0)], [])
    slices = SliceRange(TEN, TEN.add(hours=2))
    server = ServerFacts("h:1", missing=(("e.other", "h:1"), ("e.other", "h:2")))
    return Observation(
        *(slices, Boundaries(), tuple(found), lag, {}, Verdict(), server),
        landed={unit(0): manifest(0, 900), unit(1): manifest(1, 85)},
        rows=RowHistory(
            {unit(n).slice: SliceRows(100 + n, {"click": 100 + n}) for n in (-24, 0, 1)}
            | {Slice(TEN.add(hours=-23)): SliceRows(500, {"click": 500})}
        ),
    )


def test_they_are_of_the_newest_slice():
    spec = pipeline(tables={"click": "e.clicks", "*": "e.other"})
    assert values(newest_slices(spec, observation())) == {
        ("slice_bytes",): 1_050,
        ("slice_files",): 2,
        ("slice_types",): 2,
        ("slice_rejected_share",): 0.05,
        ("slice_late_share",): 20 / 95,
        ("table_slice_rows", "e.clicks"): 61,
        ("table_rejected_share", "e.clicks"): 0.39,
        ("history_slices",): 4,
        ("rows_seen",): 101,
        ("type_rows_seen", "click"): 101,
        ("rows_expected",): 500,
        ("schema_changes",): 0,
        ("columns_added",): 0,
        ("transactions_open",): 1,
        ("records_held",): 4,
        ("tables_missing",): 1,
    }


def test_what_a_silent_source_would_say_is_not_said():
    seen = replace(observation(), server=None, lag=Lag("", [], ["dc1 is away"]))
    names = {name for name, *_ in values(newest_slices(pipeline(), seen))}
    assert names.isdisjoint({"tables_missing", "transactions_open", "records_held"})
