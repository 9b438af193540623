"""Each broken equation is found at its place; a sound range has no finding."""

from __future__ import annotations

from dataclasses import replace

import pendulum
import pytest

from sluice.manifest import LandedFile, Loss, Manifest, OffsetRange
from sluice.pipeline import Pipeline
from sluice.slices import Slice, Unit
from sluice.state import State
from sluice.status import UnitStatus
from sluice.verify import Held, check

PIPELINE = Pipeline.model_validate(
    {
        "name": "ads",
        "kafka": [{"cluster": "dc1", "bootstrap": "h:1", "topics": ["bids"]}],
        "event": {"type": {"field": "type"}, "time": {"field": "ts"}},
        "lake": "file://lake",
        "tables": {"click": "e.clicks", "*": "e.other"},
    }
)
TEN = Unit(Slice(pendulum.datetime(2026, 11, 20, 10)), "dc1")
ELEVEN = Unit(Slice(pendulum.datetime(2026, 11, 20, 11)), "dc1")


class Row:
    """A ledger row, as far as verify reads it."""

    def __init__(self, rows: int, misfits: int) -> None:
        self.rows, self.misfits = rows, misfits


def unit_status(unit: Unit, start: int, until: int) -> UnitStatus:
    """A sound unit of 10 offsets: 6 clicks (1 misfit), 3 views, 1 unparsed."""
    files = (
        LandedFile(f"click-{unit}", "a", "click", "2026-11-20T10", 6, 600, "x"),
        LandedFile(f"view-{unit}", "a", "view", "2026-11-20T10", 3, 300, "x"),
    )
    bad = (LandedFile(f"bad-{unit}", "a", None, "", 1, 100, "x"),)
    ranges = (OffsetRange("bids", "u1", 0, start, until),)
    manifest = Manifest(
        "ads", unit.slice.id, "dc1", 1, "a", ranges, files, bad, until - start, {"not JSON": 1}, 0
    )
    tables = {"e.clicks": Row(5, 1), "e.other": Row(3, 0)}
    return UnitStatus(unit, State.COMPLETE, ranges, (), manifest, tables, (), 1)


FOUND = [unit_status(TEN, 0, 10), unit_status(ELEVEN, 10, 20)]
HELD = {
    "e.clicks": {TEN: Held(5, 1), ELEVEN: Held(5, 1)},
    "e.other": {TEN: Held(3, 0), ELEVEN: Held(3, 0)},
}
SIZES = {f"{kind}-{unit}": size for unit in (TEN, ELEVEN) for kind, size in
         (("click", 600), ("view", 300), ("bad", 100))}  # fmt: skip


def findings(found=FOUND, held=HELD, sizes=SIZES, pipeline=PIPELINE) -> list[str]:
    return [f"{f.place}: {f.message}" for f in check(pipeline, found, held, sizes)]


def with_manifest(**changes) -> list[UnitStatus]:
    return [replace(FOUND[0], manifest=replace(FOUND[0].manifest, **changes)), FOUND[1]]


def test_a_sound_range_has_no_finding():
    assert findings() == []


def test_a_row_deleted_from_a_table():
    held = {**HELD, "e.clicks": {**HELD["e.clicks"], TEN: Held(4, 1)}}
    assert findings(held=held) == [
        "table e.clicks, slice 2026-11-20T10Z/dc1: the ledger has 5 rows, the table 4"
    ]


def test_misfits_that_went_missing():
    held = {**HELD, "e.clicks": {**HELD["e.clicks"], ELEVEN: Held(5, 0)}}
    (only,) = findings(held=held)
    assert only.endswith("the ledger has 1 misfits, sluice.rejected 0")


def test_a_table_without_any_row_of_the_slice():
    held = {**HELD, "e.other": {ELEVEN: Held(3, 0)}}
    (only,) = findings(held=held)
    assert only.startswith("table e.other, slice 2026-11-20T10Z/dc1")


@pytest.mark.parametrize(("size", "message"), [(None, "is missing"), (599, "has 599 bytes, not 600")])
def test_a_file_removed_or_truncated(size, message):
    assert findings(sizes={**SIZES, f"click-{TEN}": size}) == [f"lake file click-{TEN}: {message}"]


def test_a_manifest_that_lost_a_record():
    messages = findings(with_manifest(read=9))
    assert "slice 2026-11-20T10Z/dc1: 9 records read of 10 offsets, 0 holes, 0 lost" in messages
    assert "slice 2026-11-20T10Z/dc1: 8 records parsed but 9 rows landed" in messages


def test_a_rejected_record_that_was_not_kept():
    assert findings(with_manifest(rejected=())) == [
        "slice 2026-11-20T10Z/dc1: 1 records unparsed but 0 kept in _rejected/"
    ]


@pytest.mark.parametrize(
    ("until", "kind"),
    [(9, "a gap: one ends at offset 9"), (11, "an overlap: one ends at offset 11")],
)
def test_neighbours_that_do_not_share_their_boundary(until, kind):
    ranges = (OffsetRange("bids", "u1", 0, until - 10, until),)
    found = [replace(FOUND[0], ranges=ranges, manifest=replace(FOUND[0].manifest, ranges=ranges)), FOUND[1]]
    assert findings(found) == [f"dc1/bids/0, 2026-11-20T10Z to 2026-11-20T11Z: {kind}, the next begins at 10"]


def test_a_manifest_that_is_not_of_its_boundaries():
    found = [replace(FOUND[0], ranges=(OffsetRange("bids", "u1", 0, 0, 9),)), FOUND[1]]
    assert findings(found) == [
        "slice 2026-11-20T10Z/dc1: its manifest's offsets are not those of its boundaries"
    ]


def test_an_hour_that_is_missing_and_one_that_expired():
    missing = replace(FOUND[0], state=State.MISSING, manifest=None)
    expired = replace(FOUND[1], state=State.EXPIRED, manifest=None, losses=(Loss("bids", 0, 0, 7, False),))
    assert findings([missing, expired]) == [
        "slice 2026-11-20T10Z/dc1: it is missing",
        "slice 2026-11-20T11Z/dc1: Kafka no longer has up to 7 of its offsets",
    ]


def test_a_recorded_loss_breaks_the_equation_unless_it_is_accepted():
    ranges = (OffsetRange("bids", "u1", 0, 0, 14),)
    manifest = replace(FOUND[0].manifest, lost=(Loss("bids", 0, 0, 4, True),), ranges=ranges)
    found = [replace(FOUND[0], state=State.COMPLETE_WITH_LOSS, manifest=manifest, ranges=ranges)]
    assert findings(found) == ["slice 2026-11-20T10Z/dc1, bids/0: 4 offsets [0, 4) expired in Kafka"]
    assert findings(found, pipeline=PIPELINE.model_copy(update={"on_expired": "land_rest"})) == []


def test_rows_that_a_ttl_has_taken_are_no_finding_but_too_many_are():
    fewer = {**HELD, "e.clicks": {**HELD["e.clicks"], TEN: Held(2, 1)}}
    more = {**HELD, "e.clicks": {**HELD["e.clicks"], TEN: Held(6, 1)}}
    assert check(PIPELINE, FOUND, fewer, SIZES, expiring={"e.clicks"}) == []
    assert len(check(PIPELINE, FOUND, more, SIZES, expiring={"e.clicks"})) == 1
