"""When an event hour's folders get `_SUCCESS`, and which records come too late for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from sluice.clients.lake import layout
from sluice.flow.publish import publish_event_hours
from sluice.manifest import Forgotten, encode
from sluice.slices import Slice, Unit, last_late
from sluice.state.manifests import read_manifest
from tests.support.fakes import MemoryLake
from tests.support.landing_world import START, World, event, hours, pipeline

HOUR = timedelta(hours=1)
BIDS = ("dc1", "bids")


@pytest.mark.parametrize("hour", ["0001-01-01T00", "9999-12-31T23"])
def test_hours_at_the_ends_of_time_can_be_asked_about(hour):
    assert (hour <= last_late(Slice(START), HOUR)) is (hour < "2026")


def marks(lake: MemoryLake) -> list[str]:
    return sorted(key for key in lake.objects if key.startswith("type=") and key.endswith("/_SUCCESS"))


def test_marked_for_every_configured_type_once_all_clusters_are_there():
    clusters = [{"cluster": c, "bootstrap": "nowhere:1", "topics": ["bids"]} for c in ("dc1", "dc2")]
    spec = pipeline(kafka=clusters, tables={"click": "d.click", "bid": "d.bid", "*": "d.rest"})
    world = World({BIDS: [[event("click", 30)]], ("dc2", "bids"): [[event("click", 90)]]})
    lake = MemoryLake()
    world.resolve(spec, lake, hours(3))
    alone = spec.model_copy(update={"kafka": spec.kafka[:1]})
    world.land(alone, lake, hours(3))
    assert publish_event_hours(spec, lake, hours(3)) == []
    world.land(spec, lake, hours(3))
    assert publish_event_hours(spec, lake, hours(3)) == ["2026-01-01T00", "2026-01-01T01"]
    expected = [f"type={t}/date=2026-01-01/hour={h}/_SUCCESS" for t in ("bid", "click") for h in ("00", "01")]
    assert marks(lake) == expected
    assert publish_event_hours(spec, lake, hours(3)) == ["2026-01-01T00", "2026-01-01T01"]


def test_an_hour_with_a_loss_is_never_called_complete():
    spec = pipeline(on_expired="land_rest")
    world = World({BIDS: [[event("click", m) for m in range(0, 240, 10)]]})
    lake = MemoryLake()
    world.resolve(spec, lake, hours(4))
    world.expire(*BIDS, 0, 2)
    world.land(spec, lake, hours(4))
    assert publish_event_hours(spec, lake, hours(4)) == ["2026-01-01T02"]


def test_an_hour_of_which_files_are_forgotten_is_marked_no_more():
    world, lake = World({BIDS: [[event("click", m) for m in range(0, 240, 10)]]}), MemoryLake()
    world.resolve(pipeline(), lake, hours(4))
    world.land(pipeline(), lake, hours(4))
    old = read_manifest(lake, Unit(Slice(START), "dc1"))
    assert old is not None
    gone = replace(old, forgotten=Forgotten(lake="2028-01-01T00:00:00Z"))
    lake.put(layout.manifest(old.slice, old.cluster), encode(gone))
    # Hours 0 and 1 wait for slice 0, whose files are gone; the last one waits for its grace.
    assert publish_event_hours(pipeline(), lake, hours(4)) == ["2026-01-01T02"]


def test_nothing_resolved_nothing_published():
    assert publish_event_hours(pipeline(), MemoryLake(), hours(1)) == []
