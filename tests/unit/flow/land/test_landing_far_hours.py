"""Event hours of a slice have a bound: near ones all land, of far ones a thousand, none goes in silence."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta

import pendulum
import pyarrow.parquet as pq
import pytest

from sluice.clients.lake.folder import FolderLake
from sluice.slices import Unit, to_ms
from sluice.state.manifests import read_manifests
from tests.support.landing_world import START, World, hours, pipeline, rows_in
from tests.support.long_form import per_commit

BIDS = ("dc1", "bids")
ANY = {"max_early": None}
EDGE = START - timedelta(days=31)
MS = timedelta(milliseconds=1)
Instants = list[pendulum.DateTime]


def at(instant: pendulum.DateTime) -> str:
    return instant.isoformat(timespec="milliseconds")


def landed(tmp_path, by_slice: dict[int, Instants], **spec) -> tuple[Counter, Counter]:
    """(slice, event time) of rows that landed and of those that were rejected, which have their reason."""
    log = [
        (json.dumps({"type": "click", "at": at(instant)}).encode(), to_ms(START.add(hours=number)))
        for number, instants in by_slice.items()
        for instant in instants
    ]
    lake, own = FolderLake(tmp_path / "demo"), pipeline(**spec)
    world, range_ = World({BIDS: [log]}), hours(len(by_slice))
    world.resolve(own, lake, range_)
    world.land(own, lake, range_, rows_per_read=100_000)
    good, bad = Counter(), Counter()
    for number, piece in enumerate(range_):
        manifest = read_manifests(lake, [Unit(piece, "dc1")])[Unit(piece, "dc1")]
        for folder, *_, payload, _kind in rows_in(lake, [manifest]):
            told = json.loads(payload)["at"]
            hour = pendulum.parse(told).in_timezone("UTC")
            assert folder == f"type=click/date={hour:%Y-%m-%d}/hour={hour:%H}"
            good[number, told] += 1
        rejected = [row for f in manifest.rejected for row in pq.read_table(lake.root / f.key).to_pylist()]
        assert {row["_reason"] for row in rejected} <= {"too many event hours"}
        bad.update((number, json.loads(row["_payload"])["at"]) for row in rejected)
        assert manifest.rejected_records == ({"too many event hours": len(rejected)} if rejected else {})
        assert manifest.read == len(by_slice[number])
    return good, bad


def told(number: int, instants: Instants) -> Counter:
    return Counter((number, at(instant)) for instant in instants)


def test_far_hours_have_a_bound_and_near_ones_none(tmp_path):
    """A thousand far hours fill the bound; those that are there, and all near ones, land after it, too."""
    near = [EDGE, *(START - timedelta(hours=n) for n in range(0, 744, 7)), START.add(minutes=59)]
    far = [EDGE - MS, *(EDGE - timedelta(hours=n) for n in range(2, 1001))]
    again = [instant.add(minutes=3) for instant in far[5:9]]
    beyond = [EDGE - timedelta(hours=n) for n in (1001, 5000, 400_000)]
    good, bad = landed(tmp_path, {0: [*far, *beyond, *near, *again, *beyond]})
    assert (good, bad) == (told(0, [*far, *near, *again]), told(0, [*beyond, *beyond]))


@pytest.mark.long
def test_each_slice_has_its_own(tmp_path):
    far = [START - timedelta(days=100 + n) for n in range(1001)]
    good, bad = landed(tmp_path, {0: far, 1: far[::-1]})
    assert good == told(0, far[:1000]) + told(1, far[:0:-1])
    assert bad == told(0, far[1000:]) + told(1, far[:1])


@pytest.mark.parametrize("sign", per_commit([-1, 1]), ids=["late", "early"])
def test_a_bound_that_is_set_is_the_bound(tmp_path, sign):
    """All hours within it land, however many; the other side is bounded nonetheless."""
    far = [START + sign * timedelta(days=100 + n) for n in range(1100)]
    other = [START - sign * timedelta(days=100 + n) for n in range(1001)]
    wide = {"max_late" if sign < 0 else "max_early": "2000d"}
    open_side = {} if sign > 0 else {"max_early": None}
    good, bad = landed(tmp_path, {0: [*far, *other]}, **open_side, **wide)
    assert (good, bad) == (told(0, [*far, *other[:1000]]), told(0, other[1000:]))


@pytest.mark.long
def test_a_replay_of_eight_weeks_in_one_hour_lands(tmp_path):
    replayed = [START - timedelta(hours=n, minutes=1) for n in range(8 * 7 * 24)]
    assert landed(tmp_path, {0: replayed}) == (told(0, replayed), Counter())
