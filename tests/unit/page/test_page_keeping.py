"""What retention's card says of the lake itself: what `keep` says, and what goes next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.flow.forget import forgotten_first, keep_since
from sluice.manifest import Forgotten
from sluice.page.retention import Keeping, NextForgotten, forgets_at, read_keeping
from sluice.plan.due import NOTICE
from sluice.slices import Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.manifests import read_manifests
from sluice.state.months import SUMMARIES, UnitSummary, note
from sluice.state.notes import note_version, read_versions
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.fakes import MemoryLake
from tests.support.landing_world import START, World, event, hours, pipeline

NOW = START.add(days=20)
FILE = "keep: {{lake: 30d, rejected: {rejected}}}\n"


@pytest.fixture
def lake() -> MemoryLake:
    """Three hours that are complete; the second has an rejected record. The file is read since a day."""
    log = [event("click", n * 20) for n in range(9)]
    world, made = World({("dc1", "bids"): [[*log[:4], (b"{", log[4][1]), *log[5:]]]}), MemoryLake()
    world.resolve(pipeline(), made, hours(3))
    world.land(pipeline(), made, hours(3))
    seen(made)
    note_version(made, FILE.format(rejected="25d"), NOW.subtract(days=9))
    note_version(made, FILE.format(rejected="22d"), NOW.subtract(days=1))
    note_version(made, FILE.format(rejected="22d") + "lookback: 2d\n", NOW.subtract(hours=1))
    return made


def seen(made: MemoryLake, gone: Forgotten | None = None) -> None:
    """As a step notes it; `gone` says it of the first hour."""
    first = Unit(next(iter(hours(1))), "dc1")
    found = read_manifests(made, [Unit(slice_, "dc1") for slice_ in hours(3)])
    note(
        made,
        [
            UnitStatus(
                u,
                UnitState.COMPLETE,
                m.ranges,
                (),
                replace(m, forgotten=gone if u == first else None),
                {},
                (),
                1,
            )
            for u, m in found.items()
        ],
    )


def asked(made: MemoryLake, **keep: object) -> Keeping | None:
    return read_keeping(pipeline(keep=keep), made, BoundaryLog(made).read(), NOW)


def test_what_goes_next_and_when(lake: MemoryLake):
    assert asked(lake) is None
    found = asked(lake, lake="30d", rejected="22d", tables="90d")
    day = 86_400
    assert found is not None
    assert (found.lake_seconds, found.rejected_seconds, found.table_seconds) == (
        30 * day,
        22 * day,
        {"*": 90 * day},
    )
    assert found.following == [
        NextForgotten(what="files", slice="2026-01-01T00Z", at="2026-01-31T01:00:00+00:00"),
        # Not before a week after a run first read it.
        NextForgotten(what="rejected records", slice="2026-01-01T01Z", at="2026-01-27T00:00:00+00:00"),
    ]
    seen(lake, Forgotten(lake="2026-01-21T00:00:00Z", removed=True))
    found = asked(lake, lake="30d")
    assert found is not None and [one.slice for one in found.following] == ["2026-01-01T01Z"]
    only = asked(lake, tables="90d")
    assert only is not None and (only.lake_seconds, only.following) == (None, [])


def test_when_an_hours_files_go(lake: MemoryLake):
    first = next(iter(hours(1)))
    assert forgets_at(pipeline(), lake, first, NOW) == ""
    kept = pipeline(keep={"lake": "30d", "rejected": "22d"})
    assert forgets_at(kept, lake, first, NOW) == "2026-01-31T01:00:00+00:00"
    new = pipeline(keep={"lake": "2d"})  # no run has read it yet: a week from now
    assert forgets_at(new, lake, first, NOW) == "2026-01-28T00:00:00+00:00"


@pytest.mark.parametrize("years", [1, 3, 8])
def test_a_keep_that_is_new_begins_with_the_oldest_files(lake: MemoryLake, years: int):
    """It is younger than the files by years. At last the old ones are forgotten, and the next are far from
    them."""
    spec, now = pipeline(keep={"lake": "30d"}), START.add(years=years, days=90)
    known = BoundaryLog(lake).read()
    found = read_keeping(spec, lake, known, now)
    at = f"{now.add(days=7):%Y-%m-%dT%H:%M:%S}+00:00"
    assert found is not None
    assert found.following == [NextForgotten(what="files", slice="2026-01-01T00Z", at=at)]
    lake.put(SUMMARIES.key("2026-01"), SUMMARIES.encode({}))
    last = START.add(years=years)
    summaries = {f"{last:%Y-%m-%dT%HZ}": {"dc1": UnitSummary("complete", "s")}}
    lake.put(SUMMARIES.key(f"{last:%Y-%m}"), SUMMARIES.encode(summaries))
    found = read_keeping(spec, lake, known, now)
    assert found is not None and [one.slice for one in found.following] == [f"{last:%Y-%m-%dT%HZ}"]


def test_since_when_the_file_forgets_so(lake: MemoryLake):
    versions = read_versions(lake)
    keep = pipeline(keep={"lake": "30d", "rejected": "22d"}).keep
    assert keep_since(keep, versions) == NOW.subtract(days=1)
    assert keep_since(keep, versions[:1]) is None
    assert keep_since(pipeline(keep={"lake": "30d"}).keep, versions) is None
    odd = [
        replace(versions[-1], text=text)
        for text in (
            "keep: {lake: ${SLUICE_VAR_AGE}}",
            "keep: [",
            "a text",
            "",
            "start: 2026-01-0",
            "keep: !!bool x",
        )
    ]
    assert [keep_since(keep, [*versions, one]) for one in odd] == [None] * 6
    # Tables are not forgotten by it.
    more = replace(versions[-1], text="keep: {lake: 30d, rejected: 22d, tables: 90d}")
    assert keep_since(keep, [*versions, more]) == NOW.subtract(days=1)


def test_the_watch_asks_within_a_week_of_the_first_hour(lake: MemoryLake):
    known = BoundaryLog(lake).read()
    spec = pipeline(keep={"lake": "30d", "rejected": "22d"})
    first = forgotten_first(spec, lake, known, NOW)
    assert first is not None and (first.slice.id, first.at) == (
        "2026-01-01T01Z",
        NOW.subtract(days=1) + NOTICE,
    )
    assert forgotten_first(spec, lake, known, NOW.subtract(days=6)) is None
    assert forgotten_first(pipeline(), lake, known, NOW) is None
    assert forgotten_first(spec, MemoryLake(), BoundaryLog(MemoryLake()).read(), NOW) is None
